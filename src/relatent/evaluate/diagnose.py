"""Diagnosis of anchors: whether they can be inverted, whether they cover the space, and what to do if not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relatent._array import Array, as_matrix, as_same_space, to_numpy
from relatent._linalg import Conditioning, conditioning, unit_norm
from relatent.evaluate.neighbors import nearest

__all__ = ["AnchorDiagnosis", "Coverage", "diagnose_anchors"]

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
        """Return a few lines for a person."""
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
    words = _recommendations(condition, a.shape, duplicates, collinear, zero, mean_cosine, coverage)
    return AnchorDiagnosis(condition, duplicates, collinear, zero, mean_cosine, coverage, tuple(words))


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
    return Coverage(
        float(np.mean(distance)),
        float(np.median(distance)),
        float(np.max(distance)),
        float(np.mean(distance > UNCOVERED)),
    )


def _recommendations(
    condition: Conditioning,
    shape: tuple[int, ...],
    duplicates: int,
    collinear: int,
    zero: int,
    mean_cosine: float,
    coverage: Coverage | None,
) -> list[str]:
    k, d = shape
    words = []
    if zero:
        words.append(f"{zero} of {k} anchors are zero vectors, which have no direction: drop them.")
    if mean_cosine > OFF_CENTER:
        words.append(f"The mean cosine between anchors is {mean_cosine:.2f}, the space is off center: center first.")
    if duplicates:
        words.append(f"{duplicates} of {k} anchors are within {NEAR} of another: prune or pick by farthest point.")
    if collinear > duplicates:
        words.append(f"{collinear} of {k} anchors lie within {NEAR} of another's line, some opposite: prune.")
    if condition.rank < min(k, d):
        words.append(f"The anchors span {condition.rank} of {min(k, d)} directions: add anchors from elsewhere.")
    elif condition.condition_number > ILL_CONDITIONED:
        words.append(f"The condition number is {condition.condition_number:.2g}: prune, or use a ridge to invert them.")
    if k < d:
        words.append(f"{k} anchors cannot tell {d} coordinates apart: what lies outside of their span is lost.")
    if coverage and coverage.uncovered > 0.05:
        words.append(f"{coverage.uncovered:.0%} of samples are farther than {UNCOVERED} from every anchor: add more.")
    return words or ["Nothing to mend."]
