"""Markup that is safe by its type: whatever is not markup already is escaped when it is put into markup."""

from __future__ import annotations

from functools import singledispatch
from importlib.resources import files

from relatent.report.document import (
    BarChart,
    Block,
    Bullets,
    Document,
    Figure,
    Headline,
    HeatMap,
    Histogram,
    LineChart,
    Paragraph,
    Section,
    Table,
    code_in,
)
from relatent.report.markdown import chart_table
from relatent.report.svg import Markup, draw, joined, tag

# Nothing is loaded from anywhere and no script runs, whatever a file name or a key may hold.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# A table of so few columns would fall apart if it were as wide as the page.
FEW_COLUMNS = 3


def to_html(document: Document) -> str:
    """Return a document as a page that stands alone."""
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
    body = tag("body", _header(document), tag("main", *map(_section, document.sections)), _footer(document))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(document: Document) -> Markup:
    links = [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in document.sections]
    return tag(
        "header",
        tag("p", "relatent report", class_="kicker"),
        tag("h1", document.title),
        tag("p", document.subtitle, class_="subtitle"),
        Markup("") if document.headline is None else _headline(document.headline),
        tag("nav", tag("ul", *links), aria_label="Contents"),
    )


def _headline(headline: Headline) -> Markup:
    said = [tag("p", headline.word, class_="word"), tag("p", _prose(headline.sentence), class_="sentence")]
    figures = tag("dl", *map(_figure, headline.figures)) if headline.figures else Markup("")
    return tag("section", tag("div", *said), figures, class_=f"headline {headline.tone}", aria_label="The answer")


def _figure(figure: Figure) -> Markup:
    note = tag("dd", figure.note, class_="note") if figure.note else Markup("")
    return tag("div", tag("dt", figure.label), tag("dd", figure.value, class_="figure"), note)


def _section(section: Section) -> Markup:
    blocks = [_block(block, f"{section.name}-{i}") for i, block in enumerate(section.blocks)]
    return tag("section", tag("h2", section.title), *blocks, id=section.name, class_="card")


def _footer(document: Document) -> Markup:
    return tag("footer", tag("p", document.note))


@singledispatch
def _block(block: Block, name: str) -> Markup:
    raise TypeError(f"{type(block).__name__} cannot be shown in a page.")


@_block.register
def _paragraph(block: Paragraph, name: str) -> Markup:
    return tag("p", _prose(block.text), class_="small" if block.small else None)


@_block.register
def _bullets(block: Bullets, name: str) -> Markup:
    return tag("ul", *(tag("li", _prose(item)) for item in block.items))


@_block.register
def _table(block: Table, name: str) -> Markup:
    head = tag("tr", *(tag("th", c, scope="col", class_=_side(block, i)) for i, c in enumerate(block.header)))
    rows = [
        tag("tr", *_cells(block, row), class_="best" if number == block.best else None)
        for number, row in enumerate(block.rows)
    ]
    narrow = "narrow" if len(block.header) <= FEW_COLUMNS else None
    table = tag("table", tag("caption", block.title), tag("thead", head), tag("tbody", *rows), class_=narrow)
    # A wide table scrolls in a box of its own, which the keyboard can reach.
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=block.title)


def _cells(table: Table, row: tuple[str, ...]) -> list[Markup]:
    first = tag("th", row[0], scope="row", class_=_side(table, 0))
    return [first, *(tag("td", cell, class_=_side(table, i)) for i, cell in enumerate(row[1:], start=1))]


def _side(table: Table, column: int) -> str | None:
    return "number" if column in table.numbers else None


@_block.register(LineChart)
@_block.register(BarChart)
@_block.register(Histogram)
@_block.register(HeatMap)
def _chart(block: LineChart | BarChart | Histogram | HeatMap, name: str) -> Markup:
    """Return a chart, what is to be seen in it, and its numbers folded away."""
    said = tag("figcaption", tag("strong", block.title), " ", block.description)
    parts = [said, tag("div", draw(block, name), class_="chart", tabindex=0, role="group", aria_label=block.title)]
    if not (isinstance(block, BarChart) and block.in_table):
        parts.append(tag("details", tag("summary", "The numbers"), _table(chart_table(block), f"{name}-data")))
    return tag("figure", *parts)


def _prose(text: str) -> Markup:
    """Return a sentence in which commands and options stand out, and are not broken at their hyphens."""
    return joined(*(tag("code", part) if is_code else part for part, is_code in code_in(text)))
