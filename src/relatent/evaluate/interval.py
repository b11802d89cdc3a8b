"""Estimates with their uncertainty: bootstrap intervals, for all rows and per slice, and the table that shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from relatent._array import as_labels, random_generator, row_chunks
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
    drawn = _drawn_means(columns, seed)
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


def _drawn_means(columns: np.ndarray, seed: Any) -> np.ndarray:
    known = isinstance(seed, int | np.integer)
    draws = _seeded_draws(len(columns), int(seed)) if known else _draws(len(columns), random_generator(seed))
    weighted = np.concatenate([draws.sums(columns), draws.sizes[:, None]], axis=1)
    blocks = row_chunks(DRAWS, max(1, BLOCK_ENTRIES // len(weighted)))
    totals = np.concatenate([draws.counts[block] @ weighted for block in blocks])
    return np.asarray(totals[:, :-1] / totals[:, -1:])


@dataclass(frozen=True, eq=False)
class _Draws:
    """How often each draw has each row, or each of at most GROUPS random groups of rows."""

    counts: np.ndarray
    sizes: np.ndarray
    group: np.ndarray | None

    def sums(self, columns: np.ndarray) -> np.ndarray:
        """Return the sums of the rows of each group."""
        if self.group is None:
            return columns
        return np.stack([np.bincount(self.group, weights=c, minlength=GROUPS) for c in columns.T], axis=1)


def _draws(n: int, rng: np.random.Generator) -> _Draws:
    group = rng.permutation(n) % GROUPS if n > GROUPS else None
    sizes = np.ones(n) if group is None else np.bincount(group, minlength=GROUPS).astype(np.float64)
    counts = np.empty((DRAWS, len(sizes)), dtype=np.uint16)
    for block in row_chunks(DRAWS, max(1, BLOCK_ENTRIES // len(sizes))):
        shape = block.stop - block.start, len(sizes)
        rows = rng.integers(shape[1], size=shape) + shape[1] * np.arange(shape[0])[:, None]
        counts[block] = np.bincount(rows.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    return _Draws(counts, sizes, group)


@lru_cache(maxsize=1)
def _seeded_draws(n: int, seed: int) -> _Draws:
    """Return the same draws as last time: a verdict has many estimates over the same rows, by the same seed."""
    return _draws(n, np.random.default_rng(seed))
