"""A document as markdown: for a ticket, a pull request or a wiki."""

from __future__ import annotations

import re
from functools import singledispatch

from relatent.deliver.report.document import (
    BarChart,
    Block,
    Bullets,
    Document,
    Headline,
    HeatMap,
    Histogram,
    LineChart,
    Paragraph,
    Table,
    code_in,
)
from relatent.deliver.report.to_table import chart_table

__all__ = ["to_markdown"]

# What markdown or the HTML in it would read as an instruction.
SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def to_markdown(document: Document) -> str:
    """Return a document as markdown; charts become tables."""
    parts = [f"# {_plain(document.title)}", _plain(document.subtitle)]
    parts += [] if document.headline is None else _headline(document.headline)
    for section in document.sections:
        parts += [f"## {_plain(section.title)}", *map(_block, section.blocks)]
    return "\n\n".join([*parts, "---", f"*{_plain(document.note)}*"]) + "\n"


def _headline(headline: Headline) -> list[str]:
    figures = "\n".join(
        f"- {_plain(f.label)}: **{_plain(f.value)}**" + (f" ({_plain(f.note)})" if f.note else "")
        for f in headline.figures
    )
    return [f"> **{_plain(headline.word)}** {_prose(headline.sentence)}", *([figures] if figures else [])]


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(f"{type(block).__name__} cannot be written as markdown.")


@_block.register
def _paragraph(block: Paragraph) -> str:
    return _prose(block.text)


@_block.register
def _bullets(block: Bullets) -> str:
    return "\n".join(f"- {_prose(item)}" for item in block.items)


@_block.register
def _table(block: Table) -> str:
    marks = "|".join("--:" if i in block.numbers else ":--" for i in range(len(block.header)))
    head, *rows = (f"| {' | '.join(map(_plain, row))} |" for row in (block.header, *block.rows))
    return "\n".join([f"**{_plain(block.title)}**", "", head, f"|{marks}|", *rows])


@_block.register(LineChart)
@_block.register(BarChart)
@_block.register(Histogram)
@_block.register(HeatMap)
def _chart(block: LineChart | BarChart | Histogram | HeatMap) -> str:
    if isinstance(block, BarChart) and block.in_table:
        return _plain(block.description)
    return f"{_plain(block.description)}\n\n{_table(chart_table(block))}"


def _prose(text: str) -> str:
    return "".join(f"`{part}`" if is_code else _escaped(part) for part, is_code in code_in(" ".join(text.split())))


def _plain(text: str) -> str:
    r"""Return text that markdown shows as it is, on one line.

    >>> print(_plain("<b> a|b"))
    \<b\> a\|b
    """
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)
