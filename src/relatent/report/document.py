"""A report as a document: sections of text, tables and charts, which each renderer shows in its own way."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A command, or an option of one, within a sentence.
CODE = re.compile(r"(relatent [a-z]+(?: --[a-z-]+)*|--[a-z][a-z-]+)")


def code_in(text: str) -> list[tuple[str, bool]]:
    """Return a sentence in parts, and whether each is a command or an option.

    >>> code_in("Judge some (--relevant).")
    [('Judge some (', False), ('--relevant', True), (').', False)]
    """
    parts = CODE.split(text)
    return [(part, bool(i % 2)) for i, part in enumerate(parts) if part]


@dataclass(frozen=True)
class Paragraph:
    """Sentences. A ``small`` one explains how something was measured."""

    text: str
    small: bool = False


@dataclass(frozen=True)
class Bullets:
    """Sentences that stand beside one another."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Cells under a header; the columns in ``numbers`` are set to the right, the row ``best`` stands out."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()
    best: int | None = None


@dataclass(frozen=True)
class Band:
    """A point of a line, and the interval around it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """Points that are joined; ``expected`` ones were not measured."""

    name: str
    points: tuple[Band, ...]
    expected: bool = False


@dataclass(frozen=True)
class LineChart:
    """Lines over a common axis. ``description`` says in words what is to be seen."""

    title: str
    description: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Bar:
    """A named value, perhaps with its interval, and the value that chance gives; one that is ``chosen`` stands out."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    chosen: bool = False


@dataclass(frozen=True)
class BarChart:
    """Bars from zero, with their intervals."""

    title: str
    description: str
    label: str
    bars: tuple[Bar, ...]
    in_table: bool = False
    """Whether a table beside it holds the same numbers."""


@dataclass(frozen=True)
class Histogram:
    """How often values fall between consecutive ``edges``, for one or more named series of counts."""

    title: str
    description: str
    label: str
    edges: tuple[float, ...]
    series: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class HeatMap:
    """A square of values between named things, from 0 to 1."""

    title: str
    description: str
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


Chart = LineChart | BarChart | Histogram | HeatMap
Block = Paragraph | Bullets | Table | Chart


@dataclass(frozen=True)
class Section:
    """A part of the document with a title of its own; ``name`` is what links point to."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Figure:
    """One number that matters, with what it is and how sure it is."""

    value: str
    label: str
    note: str = ""


@dataclass(frozen=True)
class Headline:
    """What the reader came for: the answer in a word, what it means, and the numbers behind it.

    ``tone`` is "good", "bad" or "open".
    """

    word: str
    sentence: str
    tone: str
    figures: tuple[Figure, ...] = ()

    def __str__(self) -> str:
        return f"{self.word}. {self.sentence}"


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    headline: Headline | None
    sections: tuple[Section, ...]
    note: str
    """What the file holds and what it does not, for whoever is about to pass it on."""
