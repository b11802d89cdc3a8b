"""A chart as a table of its numbers: for markdown, and for readers who do not see the picture."""

from __future__ import annotations

import re
from functools import singledispatch

from relatent.report.document import (
    BarChart,
    Block,
    Bullets,
    Chart,
    Document,
    Headline,
    HeatMap,
    Histogram,
    LineChart,
    Paragraph,
    Table,
    code_in,
)
from relatent.report.svg import number

# Points of a line that a table shows at most; a spectrum has hundreds.
MAX_ROWS = 24


@singledispatch
def chart_table(chart: Chart) -> Table:
    """Return the numbers of a chart."""
    raise TypeError(f"{type(chart).__name__} is no chart.")


@chart_table.register
def _line_chart(chart: LineChart) -> Table:
    header = ("", chart.x_label, chart.y_label, "low", "high")
    rows = tuple(
        (line.name, number(p.x), *(_cell(v) for v in (p.y, p.low, p.high)))
        for line in chart.lines
        for p in line.points[:: -(-len(line.points) // MAX_ROWS)]
    )
    return Table(chart.title, header, rows, (1, 2, 3, 4))


@chart_table.register
def _bar_chart(chart: BarChart) -> Table:
    rows = tuple((bar.name, *(_cell(v) for v in (bar.value, bar.low, bar.high))) for bar in chart.bars)
    return Table(chart.title, ("", chart.label, "low", "high"), rows, (1, 2, 3))


@chart_table.register
def _histogram(chart: Histogram) -> Table:
    names = tuple(name for name, _ in chart.series)
    spans = zip(chart.edges, chart.edges[1:], strict=False)
    shares = zip(*(counts for _, counts in chart.series), strict=True)
    rows = tuple(
        (f"{low:.3g} to {high:.3g}", *(f"{share:.1%}" for share in row))
        for (low, high), row in zip(spans, shares, strict=True)
        if any(row)
    )
    return Table(chart.title, (chart.label, *names), rows, tuple(range(1, len(names) + 1)))


@chart_table.register
def _heat_map(chart: HeatMap) -> Table:
    rows = tuple((name, *(f"{v:.3f}" for v in row)) for name, row in zip(chart.names, chart.values, strict=True))
    return Table(chart.title, ("", *chart.names), rows, tuple(range(1, len(chart.names) + 1)))


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


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
