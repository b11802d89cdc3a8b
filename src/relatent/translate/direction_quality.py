"""How far a moved direction is the target's own, from labeled pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import Array, as_labels, as_parallel, random_generator, to_numpy
from relatent._linalg import unit_norm
from relatent._terminal import Tabular, render
from relatent.evaluate.interval import Estimate, bootstrap

if TYPE_CHECKING:
    from relatent.translate.directions import Directions

RANDOM_DIRECTIONS, COMMON = 500, 0.95
# Divisions into halves that the target's own direction is compared over.
HALVES = 20
# Rows of a class below which a mean of it shows nothing.
MIN_ROWS = 4


@dataclass(frozen=True)
class DirectionQuality(Tabular):
    r"""How far moved class differences are the target's own, label by label: each class against all other rows.

    .. math:: \cos\bigl(J(\bar x_1 - \bar x_0),\; \bar y_1 - \bar y_0\bigr)

    ``cosines`` come with an interval: 95 % of the width of the bootstrap over pairs, about the value, as draws of a
    cosine are biased toward 0. ``random`` is what 95 % of random directions stay below in absolute value, drawn with
    the covariance of the source's rows and moved likewise. ``own`` is what a direction without any error would reach,
    given that the target's difference is itself estimated: with c the mean cosine between two halves of the target's
    rows, :math:`\sqrt{2c / (1 + c)}`. A moved difference of the same pairs may exceed it, as both share their sampling.

    Of more than two classes, ``angles`` are the principal angles, in radians, between the spans of the moved and of
    the target's own differences. Print it for a table; ask ``quality[label]``.
    """

    rows: int
    cosines: dict[Any, Estimate]
    random: dict[Any, float]
    own: dict[Any, float]
    angles: np.ndarray | None = None

    def __getitem__(self, label: Any) -> Estimate:
        """Find the cosine of a label."""
        if label not in self.cosines:
            raise KeyError(f"{label!r} has no direction. There are: {', '.join(map(str, self.cosines))}.")
        return self.cosines[label]

    def records(self) -> list[dict[str, Any]]:
        """Return one record per label, for data frames and notebooks."""
        return [
            {"label": label, **e.to_dict(), "random": self.random[label], "own": self.own[label]}
            for label, e in self.cosines.items()
        ]

    def __str__(self) -> str:
        cells = [
            (str(r["label"]), *(f"{r[name]:.3f}" for name in ("value", "low", "high", "random", "own")))
            for r in self.records()
        ]
        header = ("direction", "cosine", "low", "high", "random", "own")
        lines = [f"{self.rows:,} held-out pairs", render(header, cells, numbers=(1, 2, 3, 4, 5))]
        if self.angles is not None:
            lines.append("principal angles, degrees: " + ", ".join(f"{a:.1f}" for a in np.degrees(self.angles)))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        angles = None if self.angles is None else self.angles.tolist()
        return {"rows": self.rows, "directions": self.records(), "angles": angles}


def direction_quality(
    translator: Directions, x: Array, y: Array, labels: Array, *, at: Array | None = None, seed: int = 0
) -> DirectionQuality:
    """Compare moved class differences with the target's own, on pairs that the translator was not fitted on."""
    xs, ys = (to_numpy(a).astype(np.float64) for a in as_parallel(x=x, y=y))
    named, point = as_labels(labels), None if at is None else to_numpy(at).astype(np.float64)
    classes, jacobian = _classes(named, len(xs)), translator.direction(np.eye(xs.shape[1]), point)
    asked = classes[1:] if len(classes) == 2 else classes
    rng = random_generator(seed)
    weights = rng.normal(size=(RANDOM_DIRECTIONS, len(xs)))
    drawn = weights @ (xs - xs.mean(axis=0)) @ jacobian
    cosines, random, own, spans = {}, {}, {}, []
    for label in asked:
        inside = named == label
        mine, its = _difference(xs, inside) @ jacobian, _difference(ys, inside)
        spans.append((mine, its))
        key = label.item() if hasattr(label, "item") else label
        cosines[key] = _estimate(xs @ jacobian, ys, inside, seed)
        random[key] = float(np.quantile(np.abs(_cosines(drawn, its[None])), COMMON))
        own[key] = _attainable(ys, inside, rng)
    return DirectionQuality(len(xs), cosines, random, own, _angles(spans) if len(spans) > 1 else None)


def _classes(labels: np.ndarray, rows: int) -> np.ndarray:
    """Return the classes, each of enough rows to have a mean."""
    if len(labels) != rows:
        raise ValueError(f"There are {len(labels)} labels for {rows} pairs: expected one per pair.")
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"All {rows} labels are {classes[0]!r}: expected two classes or more, to take differences of.")
    if counts.min() < MIN_ROWS:
        raise ValueError(
            f"Class {classes[counts.argmin()]!r} has {counts.min()} pairs: expected at least {MIN_ROWS} of each, to "
            "estimate its mean from. Leave it out, or hold out more."
        )
    return np.asarray(classes)


def _difference(rows: np.ndarray, inside: np.ndarray) -> np.ndarray:
    return np.asarray(rows[inside].mean(axis=0) - rows[~inside].mean(axis=0))


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.sum(unit_norm(a) * unit_norm(b), axis=1))


def _estimate(moved: np.ndarray, y: np.ndarray, inside: np.ndarray, seed: int) -> Estimate:
    """Return the cosine with its interval. Both differences are functions of the same column means."""
    both = np.concatenate([moved, y], axis=1)
    both = both - both.mean(axis=0)  # what is subtracted cancels in a difference
    d, share = both.shape[1], inside[:, None].astype(np.float64)

    def cosine(means: np.ndarray) -> np.ndarray:
        part, weight = means[:, :d], means[:, -1:]
        differences = part / weight - (means[:, d:-1] - part) / (1 - weight)
        # A draw that misses every row of a class shows no direction.
        return _cosines(*np.split(np.where(np.isfinite(differences), differences, 0.0), [moved.shape[1]], axis=1))

    found = bootstrap(np.concatenate([both * share, both, share], axis=1), cosine, seed=seed)
    half = (found.high - found.low) / 2
    return Estimate(found.value, max(found.value - half, -1.0), min(found.value + half, 1.0))


def _attainable(y: np.ndarray, inside: np.ndarray, rng: np.random.Generator) -> float:
    found = []
    for _ in range(HALVES):
        order = rng.permutation(len(y))
        # Halves of each class, so that none is left without rows.
        halves = [np.sort(np.concatenate([order[inside[order]][i::2], order[~inside[order]][i::2]])) for i in (0, 1)]
        one, other = (_difference(y[rows], inside[rows]) for rows in halves)
        found.append(_cosines(one[None], other[None])[0])
    c = max(float(np.mean(found)), 0.0)
    return float(np.sqrt(2 * c / (1 + c)))


def _angles(spans: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the angles between the spans of both; of c classes, c − 1 differences are independent."""
    from scipy.linalg import subspace_angles

    mine, its = (np.stack(side) for side in zip(*spans, strict=True))
    rank = min(len(spans) - 1, *mine.shape[1:], *its.shape[1:])
    bases = (np.linalg.svd(side, full_matrices=False)[2][:rank] for side in (mine, its))
    return np.asarray(subspace_angles(*(basis.T for basis in bases)))
