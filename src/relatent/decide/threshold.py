"""Thresholds on similarity after a change of model: which new one does what an old one did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from relatent._array import as_parallel, is_space, random_generator, suggest, to_numpy
from relatent._linalg import unit_norm
from relatent._terminal import Tabular, doing, render, wrap
from relatent.decide.relevance import Relevance
from relatent.evaluate.interval import LEVEL, Estimate
from relatent.evaluate.neighbors import nearest
from relatent.spaces.sample import sample_rows, shuffled_rows

# What is compared with the threshold: the similarity of every two items, or of each item and its nearest.
PURPOSES = {"link": "pairs", "dedup": "nearest", "cache": "nearest"}
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
MAX_ROWS = 5_000
# Similarities are counted in bins of this many per unit; within a bin, lines are drawn.
EDGES = np.linspace(-1, 1, 4_097)
# Random groups of rows that are drawn together, and how often.
GROUPS, DRAWS = 30, 400
# With fewer similarities above a threshold than this, its interval cannot be trusted.
FEW = 20


@dataclass(frozen=True)
class Threshold:
    """An old threshold, the new one that does the same, and what passes.

    ``rate`` is the share of similarities that pass the old threshold and ``passing`` their number; ``agreement`` is the
    share of them that pass the new one too. ``precision`` is known where it was judged what belongs together.
    """

    old: float
    new: Estimate
    rate: float
    passing: int
    agreement: float
    precision: float | None = None

    @property
    def few(self) -> bool:
        """Whether too little passes for the interval to be trusted."""
        return self.passing < FEW


@dataclass(frozen=True)
class Thresholds(Tabular):
    """New thresholds for old ones. Iterate for its lines, print it for a table."""

    purpose: str
    at: Literal["rate", "precision"]
    rows: int
    lines: tuple[Threshold, ...]

    def __iter__(self) -> Iterator[Threshold]:
        return iter(self.lines)

    def records(self) -> list[dict[str, Any]]:
        """Return one record of plain values per threshold."""
        return [
            {"old": c.old, **{f"new_{k}" if k != "value" else "new": v for k, v in c.new.to_dict().items()}}
            | {k: v for k, v in asdict(c).items() if k not in ("old", "new")}
            for c in self.lines
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"purpose": self.purpose, "at": self.at, "rows": self.rows, "thresholds": self.records()}

    def __str__(self) -> str:
        judged = any(c.precision is not None for c in self.lines)
        header = ("old", "new", "95 % interval", "passing", "share", "agreement", *(["precision"] if judged else []))
        cells = [(f"{c.old:g}", *_new(c), f"{c.passing:,}", f"{c.rate:.3%}", *_shares(c, judged)) for c in self.lines]
        compared = "all pairs" if PURPOSES[self.purpose] == "pairs" else "the nearest neighbors"
        notes = [
            f"Over {compared} of {self.rows:,} items. The new threshold has the same {self.at}; agreement "
            "is the share of what passed the old threshold that passes the new one."
        ]
        if any(c.few and c.passing for c in self.lines):
            notes.append(f"* fewer than {FEW} pass the old threshold: give more rows before you rely on it.")
        return "\n".join([render(header, cells, range(len(header))), *map(wrap, notes)])


def thresholds(
    source: Any,
    target: Any,
    old: Sequence[float] = THRESHOLDS,
    *,
    purpose: str = "link",
    same: Any = None,
    max_rows: int = MAX_ROWS,
    seed: int = 0,
) -> Thresholds:
    r"""Return the threshold on the new cosine similarity that does what an old threshold did.

    ``source`` and ``target`` (or translated) are vectors of the same items, as row-aligned arrays or as spaces, which
    are joined on keys; at most ``max_rows`` of them, drawn by the seed, are read. ``old`` are thresholds on cosines of
    the source. What passes follows from the ``purpose``: ``link`` compares every two items; ``dedup`` and ``cache``
    each item and its nearest other. At equal rate, as many pass as before:

    .. math:: t_{new} = S_{new}^{-1}(S_{old}(t_{old})), \qquad S(t) = P(\text{similarity} \ge t)

    With ``same``, the pairs that belong together, the new threshold has the precision of the old one instead: row
    numbers (n, 2), or keys of spaces (:class:`relatent.decide.Relevance`), whose rows are drawn first. The chance that
    two items belong together is taken to rise with their similarity (isotonic regression), so that precision does too.
    Pairs that are not named do not belong together.

    A larger threshold never becomes a smaller one. Unchanged by rotations and rescalings of either side. Intervals are
    drawn over random groups of items. Where no similarity lies near, the middle of the gap is taken. Nothing can be
    said of a threshold that nothing passes: then the value is NaN.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 8))
    >>> [round(line.new.value, 2) for line in thresholds(x, 3 * x[:, ::-1], [0.3, 0.5])]
    [0.3, 0.5]
    """
    if purpose not in PURPOSES:
        raise ValueError(f"There is no purpose {purpose!r}.{suggest(purpose, PURPOSES)}")
    given = _checked_thresholds(old)
    if is_space(source, target) and (same is None or isinstance(same, Relevance)):
        source, target, same = _read(source, target, same, max_rows, seed)
    sides = [to_numpy(unit_norm(a)).astype(np.float32) for a in as_parallel(source=source, target=target)]
    rows = np.arange(len(sides[0]))
    if len(rows) < GROUPS:
        raise ValueError(f"{len(rows)} items were given: expected at least {GROUPS}, and hundreds to learn something.")
    pairs = None if same is None else _checked_pairs(same, len(rows))
    rng = random_generator(seed)
    if len(rows) > max_rows:
        rows, pairs = _drawn(rows, pairs, max_rows, rng)
    with doing(f"relating {len(rows):,} items to one another"):
        sample = _Sample.of([side[rows] for side in sides], pairs, purpose, rng)
    return Thresholds(purpose, "rate" if same is None else "precision", len(rows), tuple(sample.lines(given, rng)))


@dataclass(frozen=True, eq=False)
class _Sample:
    """Row-aligned similarities of both sides, the two groups of the items of each, and which belong together."""

    old: np.ndarray
    new: np.ndarray
    groups: tuple[np.ndarray, np.ndarray]
    same: np.ndarray | None

    @staticmethod
    def of(sides: list[np.ndarray], same: np.ndarray | None, purpose: str, rng: np.random.Generator) -> _Sample:
        n = len(sides[0])
        group = rng.permutation(n) % GROUPS
        if PURPOSES[purpose] == "pairs":
            i, j = np.triu_indices(n, 1)
            old, new = ((side @ side.T)[i, j] for side in sides)
            return _Sample(old, new, (group[i], group[j]), None if same is None else _are_same(i, j, same, n))
        # Each side has its own nearest items, so each has its own hits; what they share is the item that asks.
        found = [nearest(side, side, 1, exclude_self=True) for side in sides]
        hits = None if same is None else [_are_same(np.arange(n), f.indices[:, 0], same, n) for f in found]
        old, new = (f.similarities[:, 0] for f in found)
        return _Sample(old, new, (group, group), None if hits is None else np.stack(hits))

    def lines(self, thresholds: list[float], rng: np.random.Generator) -> Iterator[Threshold]:
        codes, unit = np.unique(np.minimum(*self.groups) * GROUPS + np.maximum(*self.groups), return_inverse=True)
        weights = _weights(rng)[:, codes]
        curves = [_Curve.of(values, unit, self._hits(side)) for side, values in enumerate((self.old, self.new))]
        before, after = (curve.drawn(weights) for curve in curves)
        for threshold in thresholds:
            found = np.asarray([_matched(a, b, threshold) for a, b in zip(before, after, strict=True)])
            yield self._line(threshold, found, before[0])

    def _line(self, threshold: float, found: np.ndarray, curve: np.ndarray) -> Threshold:
        passes = self.old >= threshold
        passing = int(np.sum(passes))
        drawn, tail = found[1:][np.isfinite(found[1:])], (1 - LEVEL) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail]) if passing and len(drawn) else (np.nan, np.nan)
        new = Estimate(float(found[0]) if passing else np.nan, float(low), float(high))
        agreement = float(np.mean(self.new[passes] >= new.value)) if passing else np.nan
        precision = None if self.same is None else float(np.interp(threshold, EDGES, curve))
        return Threshold(threshold, new, float(np.mean(passes)), passing, agreement, precision)

    def _hits(self, side: int) -> np.ndarray | None:
        return None if self.same is None else self.same if self.same.ndim == 1 else self.same[side]


@dataclass(frozen=True, eq=False)
class _Curve:
    """Counts of similarities per pair of groups and bin, and of those among them that belong together."""

    counts: np.ndarray
    hits: np.ndarray | None

    @staticmethod
    def of(values: np.ndarray, unit: np.ndarray, hits: np.ndarray | None) -> _Curve:
        bins, units = len(EDGES) - 1, int(unit.max()) + 1
        place = np.clip(((values + 1) / 2 * bins).astype(np.int64), 0, bins - 1) + bins * unit

        def counted(places: np.ndarray) -> np.ndarray:
            return np.bincount(places, minlength=units * bins).reshape(units, bins).astype(np.float32)

        return _Curve(counted(place), None if hits is None else counted(place[hits]))

    def drawn(self, weights: np.ndarray) -> list[np.ndarray]:
        """Return what rises or falls with the threshold, at each edge, for each draw of groups: rate or precision."""
        counts = weights.astype(np.float32) @ self.counts
        if self.hits is None:
            return [_above(c) / max(c.sum(), 1) for c in counts]
        return [_precision(c, h) for c, h in zip(counts, weights.astype(np.float32) @ self.hits, strict=True)]


def _precision(counts: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """Return the precision at each edge, when the chance of belonging together rises with similarity."""
    from sklearn.isotonic import IsotonicRegression

    centers, filled = (EDGES[1:] + EDGES[:-1]) / 2, counts > 0
    chance = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    chance.fit(centers[filled], hits[filled] / counts[filled], sample_weight=counts[filled])
    above = _above(counts)
    precision = _above(counts * chance.predict(centers)) / np.maximum(above, 1e-9)
    # Beyond the last similarity nothing passes, and precision stays as it was.
    return np.maximum.accumulate(np.where(above > 0, precision, 0.0))


def _above(counts: np.ndarray) -> np.ndarray:
    """Return how many lie above each edge."""
    return np.append(np.cumsum(counts[::-1], dtype=np.float64)[::-1], 0.0)


def _matched(before: np.ndarray, after: np.ndarray, threshold: float) -> float:
    """Return where the new curve has the value that the old one has at the threshold."""
    wanted = float(np.interp(threshold, EDGES, before))
    rising = after[-1] >= after[0]
    values, edges = (after, EDGES) if rising else (after[::-1], EDGES[::-1])
    # Where a curve is level, the middle of the level part.
    first, last = np.searchsorted(values, wanted, side="left"), np.searchsorted(values, wanted, side="right")
    if first < last:
        return float((edges[first] + edges[last - 1]) / 2)
    return float(np.interp(wanted, values, edges))


def _weights(rng: np.random.Generator) -> np.ndarray:
    """Return how often each pair of groups counts, (1 + draws, groups²): once, then groups drawn with replacement.

    Pairs within a group count as often as it was drawn; items of two copies of a group are no pairs.
    """
    times = rng.multinomial(GROUPS, np.full(GROUPS, 1 / GROUPS), size=DRAWS).astype(np.float64)
    weights = times[:, :, None] * times[:, None, :]
    own = np.arange(GROUPS)
    weights[:, own, own] = times
    return np.concatenate([np.ones((1, GROUPS * GROUPS)), weights.reshape(DRAWS, -1)])


def _are_same(i: np.ndarray, j: np.ndarray, same: np.ndarray, n: int) -> np.ndarray:
    low, high = np.minimum(i, j).astype(np.int64), np.maximum(i, j).astype(np.int64)
    return np.asarray(np.isin(low * n + high, np.min(same, axis=1) * n + np.max(same, axis=1)))


def _drawn(
    rows: np.ndarray, pairs: np.ndarray | None, max_rows: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray | None]:
    """Draw some of the rows, and keep the pairs whose rows are both among them, by their new numbers."""
    kept = sample_rows(rows, max_rows, rng)
    if pairs is None:
        return kept, None
    inside = np.isin(pairs, kept).all(axis=1)
    return kept, np.searchsorted(kept, pairs[inside])


def _checked_thresholds(thresholds: Sequence[float]) -> list[float]:
    given = sorted(float(c) for c in np.atleast_1d(np.asarray(thresholds, dtype=np.float64)))
    if not given or not all(-1 < c < 1 for c in given):
        raise ValueError(f"The thresholds are {given}: expected cosines between -1 and 1, such as 0.7.")
    return given


def _checked_pairs(same: Any, n: int) -> np.ndarray:
    pairs = np.asarray(same)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or not len(pairs):
        raise ValueError(f"same has shape {pairs.shape}: expected (n, 2) row numbers of items that belong together.")
    if pairs.min() < 0 or pairs.max() >= n:
        raise ValueError(f"same holds row numbers outside 0…{n - 1}, the rows of old and new.")
    return np.asarray(pairs[pairs[:, 0] != pairs[:, 1]], dtype=np.int64)


def _new(c: Threshold) -> tuple[str, str]:
    if not c.passing:
        return "–", "nothing passes"
    return f"{c.new.value:.3f}", f"{c.new.low:.3f} – {c.new.high:.3f}" + ("*" if c.few else "")


def _shares(c: Threshold, judged: bool) -> list[str]:
    shown = [f"{c.agreement:.3f}" if c.passing else "–"]
    return [*shown, f"{c.precision:.3f}"] if judged and c.precision is not None else shown


def _read(source: Any, target: Any, same: Relevance | None, max_rows: int, seed: int) -> tuple[Any, Any, Any]:
    """Read at most ``max_rows`` rows that two spaces share, those that ``same`` names first, and its row pairs."""
    from relatent.spaces.join import match_keys
    from relatent.spaces.keys import key_hashes

    matched = match_keys(source, target)
    hashes = key_hashes(matched.keys)
    named = np.zeros(len(matched), bool) if same is None else np.isin(hashes, key_hashes([*same.queries, *same.items]))
    order = shuffled_rows(len(matched), len(matched), seed)
    rows = np.sort(order[np.argsort(~named[order], kind="stable")][:max_rows])
    pairs = None if same is None else [(query, item) for query, item, _ in same.rows(hashes[rows])]
    if same is not None and not pairs:
        raise ValueError(f"None of {same.name} has both keys in both spaces: check the keys.")
    return source.take(matched.x_rows[rows]), target.take(matched.y_rows[rows]), pairs
