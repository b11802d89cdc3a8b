"""A chart as a table of its numbers: for markdown, and for readers who do not see the picture."""

from __future__ import annotations

from functools import singledispatch

from relatent.deliver.report.document import BarChart, Chart, HeatMap, Histogram, LineChart, Table
from relatent.deliver.report.ticks import number

__all__ = ["chart_table"]

# Points of a line that a table shows at most; a spectrum has hundreds.
MOST_ROWS = 24


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
        for p in line.points[:: -(-len(line.points) // MOST_ROWS)]
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
