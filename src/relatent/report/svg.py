"""Charts as SVG elements, and markup that is safe by its type: whatever is not markup yet is escaped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from html import escape
from math import ceil, floor, isfinite, log10

from relatent.report.document import Bar, BarChart, Chart, HeatMap, Histogram, Line, LineChart, number

VOID = ("br", "hr", "meta")
# Steps between ticks that are easy to read, in units of a power of ten.
STEPS = (1, 2, 2.5, 5, 10)
WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 34, 52
# Of a bar chart: the height of a bar, the gap below it, and about the width of a letter, for names.
BAR, GAP, LETTER = 22, 14, 7.5
# Of a heat map: the side of a cell, and the margin for names.
CELL, MARGIN = 64, 150
# Colors of a heat map at 0 and 1, and the luminance at which black and white text have the same contrast, 4.58.
PALE, DEEP = (240, 246, 252), (8, 48, 107)
BLACK_SHOWS = 0.179


class Markup(str):
    """Text that is markup: made by :func:`tag`, or a file of this package."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element. Children that are not :class:`Markup` are escaped, and so is every attribute.

    Underscores in names of attributes become hyphens, except the last (``class_``). None omits an attribute.

    >>> tag("td", "<script>", class_="key")
    '<td class="key">&lt;script&gt;</td>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    start = f"<{name}" + "".join(f' {key}="{escape(str(value))}"' for key, value in given.items()) + ">"
    return Markup(start if name in VOID else f"{start}{joined(*children)}</{name}>")


def joined(*children: object) -> Markup:
    """Concatenate children, and escape those that are not markup.

    >>> joined(tag("b", "a"), " & ", 3)
    '<b>a</b> &amp; 3'
    """
    return Markup("".join(child if isinstance(child, Markup) else escape(str(child)) for child in children))


@dataclass(frozen=True)
class Axis:
    """A range of values over a range of pixels, with ticks every ``step``; None: logarithmic."""

    low: float
    high: float
    start: float
    end: float
    step: float | None = None

    @staticmethod
    def over(values: list[float], start: float, end: float, *, log: bool = False, zero: bool = False) -> Axis:
        """Return an axis that holds all values between its ticks; with ``zero``, zero too.

        >>> Axis.over([0.12, 0.87], 0, 100).ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        low, high = min(values, default=0.0), max(values, default=1.0)
        if log:
            return Axis(low, high if high > low else 10 * low, start, end)
        low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
        step = _step(low, high)
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        return Axis(step * first, step * max(last, first + 1), start, end, step)

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, value = (v if self.step else log10(v) for v in (self.low, self.high, value))
        return round(self.start + (self.end - self.start) * (value - low) / (high - low), 2)

    def ticks(self) -> list[float]:
        """Return the values of the ticks."""
        if self.step is None:
            powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            marks = [m * 10.0**p for p in powers for m in ((1,) if len(powers) > 4 else (1, 2, 5))]
            return [mark for mark in marks if self.low * 0.999 <= mark <= self.high * 1.001]
        first, last = round(self.low / self.step), round(self.high / self.step)
        return [round(i * self.step, 12) for i in range(first, last + 1)]


def _step(low: float, high: float) -> float:
    """Return the step that divides a range into about five."""
    rough = ((high - low) or abs(high) or 1.0) / 5
    power = 10.0 ** floor(log10(rough))
    return next(step for step in STEPS if step * power >= rough * 0.999) * power


def draw(chart: Chart, name: str) -> Markup:
    """Return a chart as an SVG element; ``name`` makes its ids unique in the page."""
    width, height, shapes = _shapes(chart)
    return tag(
        "svg",
        tag("title", chart.title, id=f"{name}-title"),
        tag("desc", chart.description, id=f"{name}-description"),
        shapes,
        role="img",
        viewBox=f"0 0 {width} {height}",
        style=f"max-width: {width}px",
        aria_labelledby=f"{name}-title {name}-description",
    )


@singledispatch
def _shapes(chart: Chart) -> tuple[float, float, Markup]:
    """Return the width and the height of a chart, and its shapes."""
    raise TypeError(f"{type(chart).__name__} cannot be drawn.")


@_shapes.register
def _line_chart(chart: LineChart) -> tuple[float, float, Markup]:
    points = [p for line in chart.lines for p in line.points]
    heights = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    x = Axis.over([p.x for p in points], LEFT, WIDTH - RIGHT, log=chart.log_x)
    y = Axis.over(heights, HEIGHT - BOTTOM, TOP, log=chart.log_y)
    # The first line is drawn last, over the others.
    lines = [_line(line, i, x, y) for i, line in reversed(list(enumerate(chart.lines)))]
    legend = _legend([line.name for line in chart.lines])
    return WIDTH, HEIGHT, joined(_grid(x, y, chart.x_label, chart.y_label), *lines, legend)


def _line(line: Line, i: int, x: Axis, y: Axis) -> Markup:
    """Return the interval of a line as a band, the line, and its points if they are few."""
    kind = f"series s{i}" + (" expected" if line.expected else "")
    banded = [p for p in line.points if p.low is not None and p.high is not None]
    edge = [(p.x, p.high) for p in banded] + [(p.x, p.low) for p in reversed(banded)]
    parts = [tag("path", d=f"{_path(edge, x, y)} Z", class_=f"band s{i}")] if len(banded) > 1 else []
    parts.append(tag("path", d=_path([(p.x, p.y) for p in line.points], x, y), class_=kind))
    if len(line.points) <= 12:
        parts += [tag("circle", cx=x.at(p.x), cy=y.at(p.y), r=4, class_=f"point s{i}") for p in line.points]
    return joined(*parts)


def _path(points: list[tuple[float, float | None]], x: Axis, y: Axis) -> str:
    return "M" + " L".join(f"{x.at(a)} {y.at(b)}" for a, b in points if b is not None)


def _grid(x: Axis, y: Axis, x_label: str, y_label: str) -> Markup:
    """Return both axes: ticks with their numbers, grid lines and labels."""
    across = [
        joined(
            tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y.at(v), y2=y.at(v), class_="grid"),
            tag("text", number(v), x=LEFT - 8, y=y.at(v) + 4, text_anchor="end", class_="tick"),
        )
        for v in y.ticks()
    ]
    foot = HEIGHT - BOTTOM
    along = [tag("text", number(v), x=x.at(v), y=foot + 18, text_anchor="middle", class_="tick") for v in x.ticks()]
    labels = [
        tag("text", x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 8, text_anchor="middle", class_="label"),
        tag("text", y_label, x=8, y=14, class_="label"),
    ]
    return joined(*across, *along, *labels)


def _legend(names: list[str]) -> Markup:
    """Return the names of the colors, right-aligned above the chart, if there are several."""
    if len(names) < 2:
        return Markup("")
    parts, right = [], float(WIDTH - RIGHT)
    for i, name in reversed(list(enumerate(_short(name, 22) for name in names))):
        left = right - LETTER * len(name) - 15
        parts.append(tag("rect", x=left, y=6, width=10, height=10, class_=f"bar s{i}"))
        parts.append(tag("text", name, x=left + 15, y=15, class_="tick"))
        right = left - 12
    return joined(*parts)


@_shapes.register
def _bar_chart(chart: BarChart) -> tuple[float, float, Markup]:
    values = [v for bar in chart.bars for v in (bar.value, bar.low, bar.high) if v is not None and isfinite(v)]
    names = 16 + LETTER * max(len(bar.name) for bar in chart.bars)
    x = Axis.over(values, names, WIDTH - 60, zero=True)
    foot = TOP + (BAR + GAP) * len(chart.bars)
    marks = [
        joined(
            tag("line", x1=x.at(v), x2=x.at(v), y1=TOP - 6, y2=foot, class_="grid"),
            tag("text", number(v), x=x.at(v), y=foot + 16, text_anchor="middle", class_="tick"),
        )
        for v in x.ticks()
    ]
    bars = [_bar(bar, TOP + i * (BAR + GAP), x) for i, bar in enumerate(chart.bars)]
    label = tag("text", chart.label, x=names, y=16, class_="label")
    return WIDTH, foot + 28, joined(*marks, *bars, label)


def _bar(bar: Bar, top: float, x: Axis) -> Markup:
    """Return a bar with its name, its interval and its value."""
    ends, color = sorted((x.at(0.0), x.at(bar.value))), "bar s0" if bar.chosen else "bar other"
    middle, behind = top + BAR / 2, max(x.at(v) for v in (bar.value, bar.high, 0.0) if v is not None)
    parts = [
        tag("text", bar.name, x=x.start - 12, y=middle + 4, text_anchor="end", class_="name"),
        tag("rect", x=ends[0], y=top, width=round(ends[1] - ends[0], 2), height=BAR, rx=2, class_=color),
        tag("text", f"{bar.value:.3f}", x=behind + 8, y=middle + 4, class_="value"),
    ]
    if bar.chance is not None:
        parts.append(tag("path", d=f"M{x.at(bar.chance)} {top - 3} V{top + BAR + 3}", class_="whisker"))
    if bar.low is not None and bar.high is not None:
        low, high = x.at(bar.low), x.at(bar.high)
        d = f"M{low} {middle} H{high} M{low} {middle - 5} v10 M{high} {middle - 5} v10"
        parts.append(tag("path", d=d, class_="whisker"))
    return joined(*parts)


@_shapes.register
def _histogram(chart: Histogram) -> tuple[float, float, Markup]:
    x = Axis.over(list(chart.edges), LEFT, WIDTH - RIGHT)
    y = Axis.over([count for _, counts in chart.series for count in counts], HEIGHT - BOTTOM, TOP, zero=True)
    steps = [_steps(chart.edges, counts, i, x, y) for i, (_, counts) in enumerate(chart.series)]
    legend = _legend([name for name, _ in chart.series])
    return WIDTH, HEIGHT, joined(_grid(x, y, chart.label, "share of items"), *steps, legend)


def _steps(edges: tuple[float, ...], counts: tuple[float, ...], i: int, x: Axis, y: Axis) -> Markup:
    """Return the outline of a histogram and its transparent area: several can overlap."""
    filled = [j for j, count in enumerate(counts) if count]
    inside = range(filled[0], filled[-1] + 1)
    tops = "".join(f" V{y.at(counts[j])} H{x.at(edges[j + 1])}" for j in inside)
    outline = f"M{x.at(edges[filled[0]])} {y.at(0.0)}{tops} V{y.at(0.0)}"
    return joined(tag("path", d=f"{outline} Z", class_=f"band s{i}"), tag("path", d=outline, class_=f"series s{i}"))


@_shapes.register
def _heat_map(chart: HeatMap) -> tuple[float, float, Markup]:
    size = CELL * len(chart.names)
    cells = [
        _cell(value, MARGIN + j * CELL, 34 + i * CELL)
        for i, row in enumerate(chart.values)
        for j, value in enumerate(row)
    ]
    rows = [
        tag("text", _short(n), x=MARGIN - 10, y=34 + (i + 0.5) * CELL + 4, text_anchor="end", class_="name")
        for i, n in enumerate(chart.names)
    ]
    columns = [
        tag("text", _short(n, 9), x=MARGIN + (i + 0.5) * CELL, y=24, text_anchor="middle", class_="tick")
        for i, n in enumerate(chart.names)
    ]
    return MARGIN + size + 10, size + 44, joined(*cells, *rows, *columns)


def _cell(value: float, left: float, top: float) -> Markup:
    """Return a cell that is darker for a larger value; the colors are the same on a light and on a dark page."""
    share = min(max(value, 0.0), 1.0)
    fill = [round(pale + share * (deep - pale)) for pale, deep in zip(PALE, DEEP, strict=True)]
    ink = "#000" if luminance(fill) > BLACK_SHOWS else "#fff"
    middle, side = CELL / 2 - 1, CELL - 2
    color, shown = f"rgb({', '.join(map(str, fill))})", f"{value:.2f}"
    return joined(
        tag("rect", x=left, y=top, width=side, height=side, rx=3, fill=color),
        tag("text", shown, x=left + middle, y=top + middle + 5, text_anchor="middle", style=f"fill: {ink}"),
    )


def luminance(color: list[int]) -> float:
    """Return the relative luminance of an RGB color in bytes, from 0 to 1 (WCAG 2.2).

    >>> luminance([0, 0, 0]), luminance([255, 255, 255])
    (0.0, 1.0)
    """
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
    return float(sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))


def _short(name: str, length: int = 18) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"
