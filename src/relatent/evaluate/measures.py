"""The table of measures that :func:`relatent.compare` shows: how each is prepared, scored and read.

To add a measure, write its function in the file it belongs to and its row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from relatent._array import random_generator, row_chunks
from relatent.evaluate import linear, pairwise, shape
from relatent.evaluate.moments import Axes, as_moments, principal_axes

__all__ = ["ANCHORS", "MEASURES", "Measure", "Settings"]

# Rows that relative similarity uses as anchors at most.
ANCHORS = 300


@dataclass(frozen=True)
class Settings:
    """What the preparation of a measure may ask for: the number of neighbors, and a seed for what is drawn."""

    k: int
    seed: int


# Looks at two parallel spaces once. What it returns takes an order of the rows of y to what a score reads.
View = Callable[[np.ndarray], Any]
Prepare = Callable[[np.ndarray, np.ndarray, Settings], View]


@dataclass(frozen=True)
class Measure:
    """A row of the table: how two spaces are prepared, how a pairing of them is scored, and how the score is read.

    ``prepare`` does once what all pairings of the two spaces share; measures that name the same function share it.
    ``means`` says what the ends of the scale stand for, ``unchanged_by`` what may happen to either space. The measures
    that use ``all_rows`` need memory that does not grow with them; the others look at a sample.
    """

    prepare: Prepare
    score: Callable[[Any], Any]
    means: str
    unchanged_by: str
    larger_is_closer: bool = True
    all_rows: bool = False


@dataclass(frozen=True)
class LinearPairing:
    """The moments of one pairing, with what several linear measures compute from them."""

    moments: Any
    ax: Axes
    ay: Axes

    @cached_property
    def cross(self) -> np.ndarray:
        """Cross moments in the principal axes of both sides."""
        return linear.crossed(self.ax, self.ay, self.moments.xy)

    @cached_property
    def canonical(self) -> tuple[np.ndarray, np.ndarray]:
        """Canonical directions of x, and correlations."""
        return linear.canonical(self.ax, self.ay, self.cross)

    @cached_property
    def angle(self) -> float:
        """Procrustes angle."""
        return float(linear.procrustes(self.moments))

    def svcca(self) -> float:
        """Return the mean canonical correlation of the leading axes."""
        ax, ay = linear.leading(self.ax), linear.leading(self.ay)
        return float(np.mean(linear.canonical(ax, ay, self.cross[: len(ax.values), : len(ay.values)])[1]))


def by_moments(x: np.ndarray, y: np.ndarray, _: Settings) -> View:
    """Decompose both spaces once; a pairing then costs one product and a few small decompositions."""
    m: Any = as_moments(x, y)
    ax, ay = principal_axes(m.xx), principal_axes(m.yy)
    linear.warn_few_rows(m.n, ax, ay)
    mean_x, mean_y = (np.mean(a, axis=0, dtype=np.float64) for a in (x, y))

    def view(order: np.ndarray) -> LinearPairing:
        xy = np.zeros(m.xy.shape)
        for rows in row_chunks(len(x)):
            xy += (x[rows] - mean_x).T @ (y[order[rows]] - mean_y)
        return LinearPairing(replace(m, xy=xy), ax, ay)

    return view


def by_relations(relation: Callable[[np.ndarray, int], Any]) -> Prepare:
    """Relate the rows of each space to one another once; a pairing then only reorders one side."""

    def prepare(x: np.ndarray, y: np.ndarray, settings: Settings) -> View:
        of_x, of_y = relation(x, settings.k), relation(y, settings.k)
        return lambda order: pairwise.alignment(of_x, pairwise.permuted(of_y, order))

    return prepare


def by_anchors(x: np.ndarray, y: np.ndarray, settings: Settings) -> View:
    """Draw rows as anchors of both spaces; a pairing decides which rows of y are theirs."""
    count = min(ANCHORS, max(2, len(x) // 2))
    anchors = random_generator(settings.seed).choice(len(x), count, replace=False)
    relative_x = pairwise.relative_relation(x, x[anchors])
    return lambda order: np.sum(relative_x * pairwise.relative_relation(y[order], y[order[anchors]]), axis=1)


SIMILAR = "rotation, one scale, offset"
ANY_MAP = "any invertible affine map"

MEASURES: dict[str, Measure] = {
    "cka": Measure(by_moments, lambda p: linear.cka(p.moments), "1 same shape, 0 uncorrelated", SIMILAR, all_rows=True),
    "procrustes_angle": Measure(
        by_moments, lambda p: p.angle, "0 same shape, π/2 = 1.571 uncorrelated", SIMILAR, False, all_rows=True
    ),
    "procrustes_squared": Measure(
        by_moments, lambda p: 2 - 2 * np.cos(p.angle), "0 same shape, 2 uncorrelated", SIMILAR, False, all_rows=True
    ),
    "whitened_procrustes": Measure(
        by_moments,
        lambda p: shape.whitened_angle(p.ax, p.ay, p.cross),
        "as procrustes, half whitened",
        SIMILAR,
        False,
        all_rows=True,
    ),
    "permutation_angle": Measure(
        by_moments,
        lambda p: shape.permutation_angle(p.moments),
        "0 same neurons, reordered",
        "permutation, one scale, offset",
        False,
        all_rows=True,
    ),
    "cca": Measure(
        by_moments,
        lambda p: np.mean(p.canonical[1]),
        "1 linear map between them, 0 uncorrelated",
        ANY_MAP,
        all_rows=True,
    ),
    "svcca": Measure(by_moments, lambda p: p.svcca(), "as cca, on 99 % of the variance", SIMILAR, all_rows=True),
    "pwcca": Measure(
        by_moments,
        lambda p: linear.weighted(p.ax, *p.canonical),
        "as cca, weighted by what x uses",
        f"{ANY_MAP} of y",
        all_rows=True,
    ),
    "predictivity": Measure(
        by_moments,
        lambda p: linear.explained(p.moments.n, p.ax, p.ay, p.cross),
        "1 y linear in x, 0 x tells nothing",
        f"{ANY_MAP} of x",
        all_rows=True,
    ),
    "kernel_cka": Measure(
        by_relations(lambda x, _: pairwise.gaussian_relation(x)), float, "1 same shape, 0 independent", SIMILAR
    ),
    "rsa": Measure(
        by_relations(lambda x, _: pairwise.rank_relation(x)),
        float,
        "1 same order of all pairs, 0 none",
        "rotation, one scale",
    ),
    "distance_correlation": Measure(
        by_relations(lambda x, _: pairwise.distance_relation(x)),
        lambda squared: max(squared, 0.0) ** 0.5,
        "1 same distances, 0 independent",
        SIMILAR,
    ),
    "mutual_knn": Measure(
        by_relations(pairwise.neighbor_relation), float, "share of common neighbors", "rotation, one scale"
    ),
    "cknna": Measure(
        by_relations(lambda x, k: pairwise.neighbor_relation(x, k, weighted=True)),
        float,
        "as mutual_knn, weighted by closeness",
        "rotation, one scale",
    ),
    "relative_similarity": Measure(by_anchors, np.mean, "1 same angles to the anchors, 0 none", SIMILAR),
}
