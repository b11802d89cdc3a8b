"""Estimates with their uncertainty: bootstrap intervals, for all rows and per slice, and the table that shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import as_labels, random_generator
from relatent._terminal import Tabular, render

DRAWS = 1_000
LEVEL = 0.95
# Beyond this many rows, random groups of rows are drawn instead of rows: the interval is the same, the work bounded.
GROUPS = 8_192
# Entries of the matrix of draws that is held at a time.
BLOCK_ENTRIES = 2**22

Statistic = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A number and the interval that holds it with 95 % confidence.

    >>> print(Estimate(0.5, 0.4, 0.6))
    0.5000 [0.4000, 0.6000]
    >>> float(Estimate(0.5, 0.4, 0.6))
    0.5
    """

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers, for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Measured:
    """One line of a report: a measure over one slice of ``rows`` rows."""

    slice: str
    measure: str
    estimate: Estimate
    rows: int


@dataclass(frozen=True)
class Report(Tabular):
    """Measures with their intervals, over all rows and per slice. Iterate for its lines, print it for a table."""

    lines: tuple[Measured, ...]

    def __iter__(self) -> Iterator[Measured]:
        return iter(self.lines)

    def __getitem__(self, key: str | tuple[str, str]) -> Estimate:
        """Return a measure over all rows by its name, or over a slice by (slice, name)."""
        wanted = ("all", key) if isinstance(key, str) else key
        for line in self.lines:
            if (line.slice, line.measure) == wanted:
                return line.estimate
        known = ", ".join(f"{line.slice}/{line.measure}" for line in self.lines)
        raise KeyError(f"{key!r} is not in the report. There are: {known}.")

    def __str__(self) -> str:
        cells = [
            (m.slice, m.measure, f"{m.estimate.value:.4f}", f"{m.estimate.low:.4f}", f"{m.estimate.high:.4f}", m.rows)
            for m in self.lines
        ]
        return render(("slice", "measure", "value", "low", "high", "rows"), cells, numbers=(2, 3, 4, 5))

    def records(self) -> list[dict[str, Any]]:
        """Return one record of plain values per line, for JSON and tables."""
        return [{"slice": m.slice, "measure": m.measure, **m.estimate.to_dict(), "rows": m.rows} for m in self.lines]


def bootstrap(columns: np.ndarray, statistic: Statistic | None = None, *, seed: int = 0) -> Estimate:
    r"""Return an estimate of a function of column means, with a percentile interval from 1,000 draws of the rows.

    .. math:: \theta = g(\bar c_1, \dots, \bar c_m)

    ``columns`` is (n,) or (n, m); ``statistic`` takes means (draws, m) to values (draws,), by default the first
    column. Columns are drawn together, so that a ratio of two scores of the same rows has the narrow interval that
    pairing earns it. All draws are one matrix product. Beyond 8,192 rows, random groups are drawn.

    References: Efron & Tibshirani, 1993, chapter 13.

    >>> e = bootstrap(np.asarray([0.0, 1.0] * 50))
    >>> e.value, e.low < 0.5 < e.high
    (0.5, True)
    """
    columns = np.asarray(columns, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    return _estimates(columns, [column(0) if statistic is None else statistic], seed)[0]


def column(i: int) -> Statistic:
    """Return the statistic that is the mean of one column."""
    return lambda means: means[:, i]


def difference(i: int, j: int) -> Statistic:
    """Return the statistic column i − column j."""
    return lambda means: means[:, i] - means[:, j]


def ratio(i: int, j: int) -> Statistic:
    """Return the statistic column i / column j, undefined (NaN) where column j is 0."""
    return lambda means: means[:, i] / _nonzero(means[:, j])


def share_of_gain(i: int, low: int, high: int) -> Statistic:
    r"""Return the statistic :math:`(c_i - c_{low}) / (c_{high} - c_{low})`, undefined (NaN) without a gain."""
    return lambda means: (means[:, i] - means[:, low]) / _nonzero(means[:, high] - means[:, low])


def report(columns: np.ndarray, measures: Mapping[str, Statistic], slices: Any = None, *, seed: int = 0) -> Report:
    """Return estimates of several measures of the same columns, over all rows and over each slice."""
    columns = np.asarray(columns, dtype=np.float64)
    lines = []
    for name, rows in _slices(len(columns), slices):
        estimates = _estimates(columns[rows], list(measures.values()), seed)
        count = len(columns[rows])
        lines += [Measured(name, measure, e, count) for measure, e in zip(measures, estimates, strict=True)]
    return Report(tuple(lines))


def _estimates(columns: np.ndarray, statistics: list[Statistic], seed: int) -> list[Estimate]:
    """Return estimates of several statistics from the same draws."""
    rng = random_generator(seed)
    drawn = _drawn_means(*_grouped(columns, rng), rng)
    mean = np.mean(columns, axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw may miss every row that a ratio divides by
        return [_interval(float(statistic(mean)[0]), statistic(drawn)) for statistic in statistics]


def _interval(value: float, drawn: np.ndarray) -> Estimate:
    drawn = drawn[np.isfinite(drawn)]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]) if len(drawn) else (np.nan, np.nan)
    return Estimate(value, float(low), float(high))


def _slices(n: int, slices: Any) -> Iterator[tuple[str, Any]]:
    yield "all", slice(None)
    if slices is None:
        return
    labels = as_labels(slices, "slices")
    if len(labels) != n:
        raise ValueError(f"slices has {len(labels)} entries and there are {n} rows: expected one entry per row.")
    for name in np.unique(labels):
        yield str(name), labels == name


def _nonzero(values: np.ndarray) -> np.ndarray:
    return np.where(values == 0, np.nan, values)


def _grouped(columns: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of the rows in at most GROUPS random groups, and how many rows each holds."""
    n = len(columns)
    if n <= GROUPS:
        return columns, np.ones(n)
    group = rng.permutation(n) % GROUPS
    sums = [np.bincount(group, weights=column, minlength=GROUPS) for column in columns.T]
    return np.stack(sums, axis=1), np.bincount(group, minlength=GROUPS).astype(np.float64)


def _drawn_means(sums: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = len(sums)
    weighted = np.concatenate([sums, sizes[:, None]], axis=1)
    parts = []
    per_block = max(1, BLOCK_ENTRIES // n)
    for start in range(0, DRAWS, per_block):
        draws = min(per_block, DRAWS - start)
        rows = rng.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
        counts = np.bincount(rows.ravel(), minlength=draws * n).reshape(draws, n)
        parts.append(counts @ weighted)
    totals = np.concatenate(parts)
    return np.asarray(totals[:, :-1] / totals[:, -1:])
