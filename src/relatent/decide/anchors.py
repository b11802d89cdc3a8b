"""Diagnosis of anchors: whether they can be inverted, whether they cover the space, and what to do if not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent import anchors as choose
from relatent._array import Array, as_matrix, as_same_space, to_numpy
from relatent._linalg import Conditioning, conditioning, unit_norm
from relatent._terminal import doing, duration
from relatent.evaluate.interval import Estimate
from relatent.evaluate.neighbors import nearest
from relatent.spaces.io.files import AnyPath, check_new, write_space
from relatent.spaces.join import Matched, match_keys
from relatent.spaces.sample import shuffled_rows
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.goals import GoalName

# 1 − |cos| below which two anchors say the same.
NEAR = 0.02
# Condition number beyond which inverting the anchors amplifies float32 rounding to visible size.
ILL_CONDITIONED = 1e4
OFF_CENTER = 0.25
# Distance to the nearest anchor, as 1 − cos, beyond which a sample has no anchor on its side of the space.
UNCOVERED = 0.75


@dataclass(frozen=True)
class Coverage:
    """How far samples are from their nearest anchor, as 1 − cos; ``uncovered`` is the share beyond 0.75."""

    mean: float
    median: float
    worst: float
    uncovered: float


@dataclass(frozen=True)
class AnchorDiagnosis:
    """What is known about a set of anchors before using them.

    ``duplicates`` anchors point within 0.02 (1 − cos) of another, ``collinear`` ones within 0.02 of another's line,
    either way along it. ``mean_cosine`` is over all pairs; ``coverage`` is None when no samples were given.
    """

    conditioning: Conditioning
    duplicates: int
    collinear: int
    zero: int
    mean_cosine: float
    coverage: Coverage | None
    recommendations: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([str(self.conditioning), *(f"- {line}" for line in self.recommendations)])


def diagnose_anchors(anchors: Array, x: Array | None = None) -> AnchorDiagnosis:
    r"""Return what can be measured of anchors, and in words what to do about them.

    Condition number and effective rank are of the anchors as given; give them centered if they are used centered. With
    samples x, coverage is :math:`\min_j 1 - \cos(x_i, a_j)`.

    >>> print(diagnose_anchors(np.asarray([[1.0, 0.0], [1.0, 0.001], [-1.0, 1.0]])))
    3 anchors, rank 2, effective rank 1.8, condition number 2.41
    - 2 of 3 anchors are within 0.02 of another: prune or pick by farthest point.
    """
    a = to_numpy(as_matrix(anchors, "anchors")).astype(np.float64, copy=False)
    condition = conditioning(a)
    duplicates, collinear, mean_cosine = _pairs(a)
    zero = int(np.sum(~np.any(a, axis=1)))
    coverage = None if x is None else _coverage(*as_same_space(x=x, anchors=anchors))
    found = AnchorDiagnosis(condition, duplicates, collinear, zero, mean_cosine, coverage, ())
    return replace(found, recommendations=tuple(_recommendations(found, *a.shape)))


def _pairs(a: np.ndarray) -> tuple[int, int, float]:
    """Count the anchors near another, near another's line, and average the cosine over pairs."""
    if len(a) < 2:
        return 0, 0, 0.0
    unit = unit_norm(a)
    same = nearest(unit, unit, 1, exclude_self=True).similarities[:, 0]
    opposite = nearest(unit, -unit, 1).similarities[:, 0]
    total = np.sum(unit, axis=0)
    mean = (total @ total - np.sum(unit * unit)) / (len(a) * (len(a) - 1))
    near = same > 1 - NEAR
    return int(np.sum(near)), int(np.sum(near | (opposite > 1 - NEAR))), float(mean)


def _coverage(x: Array, anchors: Array) -> Coverage:
    distance = 1 - nearest(x, anchors, 1).similarities[:, 0].astype(np.float64)
    figures = np.mean(distance), np.median(distance), np.max(distance), np.mean(distance > UNCOVERED)
    return Coverage(*map(float, figures))


def _recommendations(found: AnchorDiagnosis, k: int, d: int) -> list[str]:
    condition, coverage, near = found.conditioning, found.coverage, found.duplicates
    words = []
    if found.zero:
        words.append(f"{found.zero} of {k} anchors are zero vectors, which have no direction: drop them.")
    if (mean := found.mean_cosine) > OFF_CENTER:
        words.append(f"The mean cosine between anchors is {mean:.2f}, the space is off center: center first.")
    if found.duplicates:
        words.append(
            f"{found.duplicates} of {k} anchors are within {NEAR} of another: prune or pick by farthest point."
        )
    if found.collinear > near:
        words.append(f"{found.collinear} of {k} anchors lie within {NEAR} of another's line, some opposite: prune.")
    if condition.rank < min(k, d):
        words.append(f"The anchors span {condition.rank} of {min(k, d)} directions: add anchors from elsewhere.")
    elif condition.condition_number > ILL_CONDITIONED:
        words.append(f"The condition number is {condition.condition_number:.2g}: prune, or use a ridge to invert them.")
    if k < d:
        words.append(f"{k} anchors cannot tell {d} coordinates apart: what lies outside of their span is lost.")
    if coverage and coverage.uncovered > 0.05:
        words.append(f"{coverage.uncovered:.0%} of samples are farther than {UNCOVERED} from every anchor: add more.")
    return words or ["Nothing to fix."]


# Pairs that the learning curve is drawn from.
MAX_PAIRS = 5_000
# A gain whose best case is smaller than this is not worth an embedding.
WORTH = 0.005
SMALLEST_PRICE = 0.01


@dataclass(frozen=True)
class NextAnchors:
    """The rows to embed next, and what they are expected to add.

    ``gain`` is what the learning curve of the known pairs predicts for them (None without known pairs); ``hours``
    and ``cost`` are what embedding them takes, where the speed and the price are known.
    """

    rows: np.ndarray
    known: int
    measure: str
    now: Estimate | None
    gain: Estimate | None
    hours: float | None
    cost: float | None

    @property
    def stop(self) -> bool:
        """Whether even the best case of the gain is not worth it."""
        return self.gain is not None and self.gain.high < WORTH

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        told = {name: None if e is None else e.to_dict() for name, e in (("now", self.now), ("gain", self.gain))}
        plain = {"next": len(self.rows), "known": self.known, "measure": self.measure, "stop": self.stop}
        return {**plain, **told, "hours": self.hours, "cost": self.cost}

    def __str__(self) -> str:
        if self.now is None or self.gain is None:
            return f"{len(self.rows):,} items to embed first: no pair is known yet, so that no gain can be predicted."
        half = (self.gain.high - self.gain.low) / 2
        effort = [duration(3_600 * self.hours) if self.hours is not None else "", _price(self.cost)]
        spent = ", ".join(part for part in effort if part)
        lines = [
            f"{self.measure} is {self.now.value:.3f} with {self.known:,} pairs.",
            f"{len(self.rows):,} more: {self.gain.value:+.3f} ± {half:.3f}" + (f", {spent}." if spent else "."),
        ]
        return "\n".join([*lines, "More pairs will hardly help: stop here."] if self.stop else lines)


def plan_anchors(
    source: Space,
    target: Space | None,
    path: AnyPath,
    budget: int,
    *,
    goal: GoalName = "vectors",
    rows_per_second: float | None = None,
    price_per_million: float | None = None,
    overwrite: bool = False,
    seed: int = 0,
) -> NextAnchors:
    """Choose which items of the source to embed with the target's model next (:func:`relatent.anchors.plan`).

    ``target`` holds those embedded already; their pairs give the learning curve. The items are written to ``path``, in
    the order in which to embed them.
    """
    check_new(path, source, target, overwrite=overwrite)
    matched = None if target is None else match_keys(source, target)
    known = np.empty(0, dtype=np.intp) if matched is None else matched.x_rows
    with doing(f"choosing {budget:,} items"):
        rows = choose.plan(source, budget, known, seed)
    now = gain = None
    if matched is not None and target is not None:
        with doing("measuring what more pairs add"):
            now, gain = _outlook(source, target, matched, Translator(goal, seed=seed), budget)
    write_space(source.subset(rows), path, overwrite=overwrite)
    hours = None if rows_per_second is None else budget / rows_per_second / 3_600
    cost = None if price_per_million is None else budget * price_per_million / 1_000_000
    return NextAnchors(rows, len(known), "MRR", now, gain, hours, cost)


def _outlook(
    source: Space, target: Space, matched: Matched, translator: Translator, budget: int
) -> tuple[Estimate, Estimate]:
    """Return the MRR to expect with the known pairs, and what ``budget`` more would add."""
    x, y = drawn_pairs(source, target, matched, translator.seed)
    if np.array_equal(x, y):
        raise ValueError(
            f"{target.name} holds the vectors of {source.name} itself: expected what the new model gave for the items "
            "that it embedded already."
        )
    quality = translator.fit(x, y).expected_quality()
    return quality["mrr"], quality.more(budget)


def drawn_pairs(source: Space, target: Space, matched: Matched, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Read the vectors of at most ``MAX_PAIRS`` matched rows, drawn by the seed."""
    kept = shuffled_rows(len(matched), MAX_PAIRS, seed)
    return source.take(matched.x_rows[kept]), target.take(matched.y_rows[kept])


def _price(cost: float | None) -> str:
    if cost is None:
        return ""
    return f"at a price of {cost:,.2f}" if cost >= SMALLEST_PRICE else f"at a price below {SMALLEST_PRICE}"
