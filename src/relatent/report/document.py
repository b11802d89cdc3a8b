"""A report as a document: sections of text, tables and charts, which each renderer shows in its own way."""

from __future__ import annotations

from dataclasses import dataclass


class Code(str):
    """A part of a sentence that is shown as code, such as a command."""

    __slots__ = ()


# A sentence, or its parts in order, of which those of type Code are shown as code.
Text = str | tuple[str, ...]


@dataclass(frozen=True)
class Paragraph:
    """Sentences. A ``small`` one explains how something was measured."""

    text: Text
    small: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[Text, ...]


@dataclass(frozen=True)
class Table:
    """Cells under a header; the columns in ``numbers`` are right-aligned, the row ``best`` is highlighted."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()
    best: int | None = None


@dataclass(frozen=True)
class Chart:
    """A picture of numbers. ``description`` says in words what it shows."""

    title: str
    description: str

    def table(self) -> Table:
        """Return the numbers, for Markdown and for readers who do not see the picture."""
        raise NotImplementedError


@dataclass(frozen=True)
class Point:
    """A point of a line, with its interval if it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """Connected points; ``expected`` ones are extrapolated, not measured."""

    name: str
    points: tuple[Point, ...]
    expected: bool = False


# Points per line in a table; a spectrum has hundreds.
MAX_POINTS = 24


@dataclass(frozen=True)
class LineChart(Chart):
    """Lines over common axes."""

    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False

    def table(self) -> Table:
        """Return the points, at most 24 of each line."""
        rows = tuple(
            (line.name, number(p.x), *map(_cell, (p.y, p.low, p.high)))
            for line in self.lines
            for p in line.points[:: -(-len(line.points) // MAX_POINTS)]
        )
        return Table(self.title, ("", self.x_label, self.y_label, "low", "high"), rows, (1, 2, 3, 4))


@dataclass(frozen=True)
class Bar:
    """A named value, with its interval and the value of a random pairing if known; a ``chosen`` bar is highlighted."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    chosen: bool = False


@dataclass(frozen=True)
class BarChart(Chart):
    """Horizontal bars from zero. ``in_table``: a table beside the chart has the same numbers."""

    label: str
    bars: tuple[Bar, ...]
    in_table: bool = False

    def table(self) -> Table:
        """Return the values and their intervals."""
        rows = tuple((bar.name, *map(_cell, (bar.value, bar.low, bar.high))) for bar in self.bars)
        return Table(self.title, ("", self.label, "low", "high"), rows, (1, 2, 3))


@dataclass(frozen=True)
class Histogram(Chart):
    """The share of values between consecutive ``edges``, for one or more named series."""

    label: str
    edges: tuple[float, ...]
    series: tuple[tuple[str, tuple[float, ...]], ...]

    def table(self) -> Table:
        """Return the share of each bin that is not empty."""
        names, shares = zip(*self.series, strict=True)
        bins = zip(self.edges, self.edges[1:], zip(*shares, strict=True), strict=False)
        rows = tuple(
            (f"{low:.3g} to {high:.3g}", *(f"{share:.1%}" for share in row)) for low, high, row in bins if any(row)
        )
        return Table(self.title, (self.label, *names), rows, tuple(range(1, len(names) + 1)))


@dataclass(frozen=True)
class HeatMap(Chart):
    """A square matrix of values from 0 to 1, with the same names along both sides."""

    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    def table(self) -> Table:
        """Return the matrix."""
        rows = tuple((name, *(f"{v:.3f}" for v in row)) for name, row in zip(self.names, self.values, strict=True))
        return Table(self.title, ("", *self.names), rows, tuple(range(1, len(self.names) + 1)))


Block = Paragraph | Bullets | Table | Chart


@dataclass(frozen=True)
class Section:
    """A titled part of the document; ``name`` is the target of links."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Figure:
    """One number that matters, with its meaning and its interval."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True)
class Headline:
    """The answer: a word, what it means, and the numbers behind it. ``tone`` is "good", "bad" or "open"."""

    word: str
    sentence: str
    tone: str
    figures: tuple[Figure, ...] = ()

    def __str__(self) -> str:
        return f"{self.word}. {self.sentence}"


@dataclass(frozen=True)
class Document:
    """A whole report. ``note`` says what the file reveals, for whoever passes it on."""

    title: str
    subtitle: str
    headline: Headline | None
    sections: tuple[Section, ...]
    note: str


def number(value: float) -> str:
    """Return a number as short text.

    >>> number(0.25), number(20_000), number(1e-5)
    ('0.25', '20,000', '1e-05')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
