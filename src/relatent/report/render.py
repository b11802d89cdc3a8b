"""A report as one HTML page, as Markdown or as JSON, by the suffix of the file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import singledispatch
from importlib.resources import files
from pathlib import Path

from relatent._files import FileError, atomic_write
from relatent.report import document as doc
from relatent.report.data import Findings
from relatent.report.sections import document_of
from relatent.report.svg import Markup, draw, joined, tag

# No script runs and nothing is loaded, whatever a file name or a key contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# Tables with at most this many columns are not stretched to the width of the page.
FEW_COLUMNS = 3
# Characters with a meaning in Markdown, or in HTML within it.
SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def write_report(findings: Findings, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write findings to a file, atomically: ``.html`` (one page that needs no other file), ``.md`` or ``.json``.

    Markdown has tables in place of charts; only JSON has every number.
    """
    render = RENDERERS[check_report_path(path)]
    with atomic_write(path, overwrite=overwrite) as tmp:
        tmp.write_text(render(findings), encoding="utf8")


def check_report_path(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a path, and refuse one that is not a format of reports.

    >>> check_report_path("report.html")
    '.html'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in RENDERERS:
        raise FileError(f"{path} is not the name of a report: expected a name that ends in {', '.join(RENDERERS)}.")
    return suffix


def to_html(document: doc.Document) -> str:
    """Return a document as a self-contained page."""
    style = Markup(files("relatent.report").joinpath("style.css").read_text("utf8"))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", document.title),
        tag("style", style),
    )
    main, footer = tag("main", *map(_section, document.sections)), tag("footer", tag("p", document.note))
    return f"<!doctype html>\n{tag('html', head, tag('body', _header(document), main, footer), lang='en')}\n"


def _header(document: doc.Document) -> Markup:
    links = [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in document.sections]
    return tag(
        "header",
        tag("p", "relatent report", class_="kicker"),
        tag("h1", document.title),
        tag("p", document.subtitle, class_="subtitle"),
        Markup("") if document.headline is None else _headline(document.headline),
        tag("nav", tag("ul", *links), aria_label="Contents"),
    )


def _headline(headline: doc.Headline) -> Markup:
    answer = tag("div", tag("p", headline.word, class_="word"), tag("p", headline.sentence, class_="sentence"))
    figures = tag("dl", *map(_figure, headline.figures)) if headline.figures else Markup("")
    return tag("section", answer, figures, class_=f"headline {headline.tone}", aria_label="The answer")


def _figure(figure: doc.Figure) -> Markup:
    note = tag("dd", figure.note, class_="note") if figure.note else Markup("")
    return tag("div", tag("dt", figure.label), tag("dd", figure.value, class_="figure"), note)


def _section(section: doc.Section) -> Markup:
    blocks = [_html(block, f"{section.name}-{i}") for i, block in enumerate(section.blocks)]
    return tag("section", tag("h2", section.title), *blocks, id=section.name, class_="card")


def _prose(text: doc.Text) -> Markup:
    return joined(*(tag("code", part) if isinstance(part, doc.Code) else part for part in _parts(text)))


def _parts(text: doc.Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


@singledispatch
def _html(block: doc.Block, name: str) -> Markup:
    raise TypeError(f"{type(block).__name__} cannot be shown in a page.")


@_html.register
def _(block: doc.Paragraph, name: str) -> Markup:
    return tag("p", _prose(block.text), class_="small" if block.small else None)


@_html.register
def _(block: doc.Bullets, name: str) -> Markup:
    return tag("ul", *(tag("li", _prose(item)) for item in block.items))


@_html.register
def _html_table(block: doc.Table, name: str) -> Markup:
    sides = ["number" if i in block.numbers else None for i in range(len(block.header))]
    head = tag(
        "tr", *(tag("th", cell, scope="col", class_=side) for cell, side in zip(block.header, sides, strict=True))
    )
    rows = [
        tag(
            "tr",
            tag("th", row[0], scope="row", class_=sides[0]),
            *(tag("td", cell, class_=side) for cell, side in zip(row[1:], sides[1:], strict=True)),
            class_="best" if i == block.best else None,
        )
        for i, row in enumerate(block.rows)
    ]
    narrow = "narrow" if len(block.header) <= FEW_COLUMNS else None
    table = tag("table", tag("caption", block.title), tag("thead", head), tag("tbody", *rows), class_=narrow)
    # A wide table scrolls in a region of its own, which the keyboard can reach.
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=block.title)


@_html.register
def _(block: doc.Chart, name: str) -> Markup:
    """Return a chart, its description, and its numbers in a closed element."""
    caption = tag("figcaption", tag("strong", block.title), " ", block.description)
    parts = [caption, tag("div", draw(block, name), class_="chart", tabindex=0, role="group", aria_label=block.title)]
    if not (isinstance(block, doc.BarChart) and block.in_table):
        parts.append(tag("details", tag("summary", "The numbers"), _html_table(block.table(), f"{name}-data")))
    return tag("figure", *parts)


def to_markdown(document: doc.Document) -> str:
    """Return a document as Markdown, with tables in place of charts."""
    parts = [f"# {_plain(document.title)}", _plain(document.subtitle)]
    if (headline := document.headline) is not None:
        parts.append(f"> **{_plain(headline.word)}** {_plain(headline.sentence)}")
        parts += ["\n".join(map(_bullet, headline.figures))] if headline.figures else []
    for section in document.sections:
        parts += [f"## {_plain(section.title)}", *map(_markdown, section.blocks)]
    return "\n\n".join([*parts, "---", f"*{_plain(document.note)}*"]) + "\n"


def _bullet(figure: doc.Figure) -> str:
    note = f" ({_plain(figure.note)})" if figure.note else ""
    return f"- {_plain(figure.label)}: **{_plain(figure.value)}**{note}"


def _plain(text: doc.Text) -> str:
    r"""Return text that Markdown shows as it is, on one line, with code in backticks.

    >>> print(_plain(("<b> a|b, ", doc.Code("a_b"))))
    \<b\> a\|b, `a_b`
    """
    escaped = (f"`{part}`" if isinstance(part, doc.Code) else SPECIAL.sub(r"\\\1", part) for part in _parts(text))
    return " ".join("".join(escaped).split())


@singledispatch
def _markdown(block: doc.Block) -> str:
    raise TypeError(f"{type(block).__name__} cannot be written as Markdown.")


@_markdown.register
def _(block: doc.Paragraph) -> str:
    return _plain(block.text)


@_markdown.register
def _(block: doc.Bullets) -> str:
    return "\n".join(f"- {_plain(item)}" for item in block.items)


@_markdown.register
def _markdown_table(block: doc.Table) -> str:
    marks = "|".join("--:" if i in block.numbers else ":--" for i in range(len(block.header)))
    head, *rows = (f"| {' | '.join(map(_plain, row))} |" for row in (block.header, *block.rows))
    return "\n".join([f"**{_plain(block.title)}**", "", head, f"|{marks}|", *rows])


@_markdown.register
def _(block: doc.Chart) -> str:
    if isinstance(block, doc.BarChart) and block.in_table:
        return _plain(block.description)
    return f"{_plain(block.description)}\n\n{_markdown_table(block.table())}"


RENDERERS: dict[str, Callable[[Findings], str]] = {
    ".html": lambda found: to_html(document_of(found)),
    ".md": lambda found: to_markdown(document_of(found)),
    ".json": lambda found: json.dumps(found.to_dict(), ensure_ascii=False, indent=2, allow_nan=False) + "\n",
}
