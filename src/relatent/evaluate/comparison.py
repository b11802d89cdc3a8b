"""Every measure of similarity between two spaces in one table, each beside what chance would give."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._array import Array, as_parallel, random_generator, row_chunks, to_numpy
from relatent._terminal import render
from relatent.evaluate import linear, pairwise
from relatent.evaluate.checks import check_fewer, check_varies
from relatent.evaluate.moments import Axes, as_moments, principal_axes
from relatent.evaluate.readings import READINGS, Reading
from relatent.summary import Summary

__all__ = ["Comparison", "Score", "compare"]

# What scores a pairing: rows of y in a given order against rows of x in theirs.
Scorer = Callable[[np.ndarray], dict[str, float]]

NEIGHBORS = 10
ANCHORS = 300


@dataclass(frozen=True)
class Score:
    """One measure of two spaces: its value, what shuffled rows give, and how to read it.

    ``null`` is the mean over shuffled pairings; ``p_value`` the share of pairings, the true one among them, that look
    at least as similar as the true one; ``rows`` how many rows entered.
    """

    name: str
    value: float
    null: float
    p_value: float
    rows: int
    reading: Reading

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, for JSON."""
        plain = {name: getattr(self, name) for name in ("name", "value", "null", "p_value", "rows")}
        return plain | {"unchanged_by": self.reading.unchanged_by, "means": self.reading.means}


@dataclass(frozen=True)
class Comparison:
    """All measures of two spaces. Iterate for its scores, index by name, print it for a table."""

    scores: tuple[Score, ...]
    n: int
    permutations: int
    seed: int

    def __iter__(self) -> Iterator[Score]:
        """Go through the scores."""
        return iter(self.scores)

    def __getitem__(self, name: str) -> Score:
        """Find a score by the name of its measure."""
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(f"{name!r} is not in the comparison. There are: {', '.join(s.name for s in self.scores)}.")

    def __str__(self) -> str:
        """Lay the table out for a person."""
        cells = []
        for s in self.scores:
            figures = [f"{value:.3f}" for value in (s.value, s.null, s.p_value)]
            cells.append((s.name, *figures, s.rows, s.reading.means, s.reading.unchanged_by))
        table = render(("measure", "value", "null", "p", "rows", "means", "unchanged by"), cells, numbers=(1, 2, 3, 4))
        return f"{table}\n{self.n} parallel rows; null: {self.permutations} shuffled pairings, seed {self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, for JSON."""
        return {
            "n": self.n,
            "permutations": self.permutations,
            "seed": self.seed,
            "scores": [score.to_dict() for score in self.scores],
        }


def compare(
    x: Array, y: Array, *, k: int = NEIGHBORS, permutations: int = 20, max_rows: int = 2_000, seed: int = 0
) -> Comparison:
    """Compare two parallel spaces by every measure, each beside its null and with a short reading.

    The linear measures use all rows, in O(n d²). Those that relate rows to rows use the same seeded sample of at most
    ``max_rows`` of them; the column ``rows`` says which. The null of each is the mean over ``permutations`` shuffled
    pairings of exactly the rows it used, so that the bias that few rows give it shows. ``k`` is for the measures of
    neighbourhoods; relative similarity uses up to 300 random rows as anchors.

    Warns when the true pairing looks no better than shuffled ones, and when rows are too few for the coordinates.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 5))
    >>> scores = compare(x, x @ np.linalg.qr(rng.normal(size=(5, 5)))[0])
    >>> round(scores["cka"].value, 6), scores["cka"].p_value < 0.05
    (1.0, True)
    """
    x, y = as_parallel(x=x, y=y)
    check_varies(x=x, y=y)
    if permutations < 1:
        raise ValueError(f"permutations is {permutations}: expected at least 1. There is no score without its null.")
    sample_x, sample_y = map(to_numpy, pairwise.sampled(x, y, max_rows, seed))
    rng = random_generator(seed)
    x, y = to_numpy(x), to_numpy(y)
    scores = [
        *_scored(_linear_scorer(x, y), len(x), permutations, rng),
        *_scored(_pairwise_scorer(sample_x, sample_y, k, rng), len(sample_x), permutations, rng),
    ]
    result = Comparison(tuple(scores), len(x), permutations, seed)
    _warn_shuffled(result)
    return result


def _scored(score: Scorer, n: int, permutations: int, rng: np.random.Generator) -> Iterator[Score]:
    values = score(np.arange(n))
    null = [score(rng.permutation(n)) for _ in range(permutations)]
    for name, value in values.items():
        shuffled = np.asarray([draw[name] for draw in null])
        sign = 1 if READINGS[name].larger_is_closer else -1
        beaten = int(np.sum(sign * shuffled >= sign * value))
        p = (1 + beaten) / (1 + permutations)
        yield Score(name, value, float(np.mean(shuffled)), p, n, READINGS[name])


def _linear_scorer(x: np.ndarray, y: np.ndarray) -> Scorer:
    """Decompose both spaces once; a pairing then costs one product and three small decompositions."""
    moments = as_moments(x, y)
    ax, ay = principal_axes(moments.xx), principal_axes(moments.yy)
    linear.warn_few_rows(moments.n, ax, ay)
    mean_x, mean_y = (np.mean(a, axis=0, dtype=np.float64) for a in (x, y))

    def score(order: np.ndarray) -> dict[str, float]:
        xy = np.zeros(moments.xy.shape)
        for rows in row_chunks(len(x)):
            xy += (x[rows] - mean_x).T @ (y[order[rows]] - mean_y)
        return _linear_values(replace(moments, xy=xy), ax, ay)

    return score


def _linear_values(m: Summary, ax: Axes, ay: Axes) -> dict[str, float]:
    cross = linear.crossed(ax, ay, m.xy)
    short_x, short_y = linear.leading(ax, 0.99), linear.leading(ay, 0.99)
    short = cross[: len(short_x.values), : len(short_y.values)]
    angle = float(linear.procrustes(m))
    u, rho = linear.canonical(ax, ay, cross)
    return {
        "cka": float(linear.cka(m)),
        "procrustes_angle": angle,
        "procrustes_squared": 2 - 2 * float(np.cos(angle)),
        "cca": float(np.mean(rho)),
        "svcca": float(np.mean(linear.canonical(short_x, short_y, short)[1])),
        "pwcca": linear.weighted(ax, u, rho),
        "predictivity": linear.explained(m.n, ax, ay, cross),
    }


def _pairwise_scorer(x: np.ndarray, y: np.ndarray, k: int, rng: np.random.Generator) -> Scorer:
    """Relate the rows of each space once; a pairing then only reorders one side."""
    n = len(x)
    check_fewer(k, n - 1)
    of_x, of_y = (_relations(a, k) for a in (x, y))
    anchors = rng.choice(n, min(ANCHORS, max(2, n // 2)), replace=False)
    relative_x = pairwise.relative_relation(x, x[anchors])

    def score(order: np.ndarray) -> dict[str, float]:
        values = {name: float(pairwise.alignment(of_x[name], pairwise.permuted(of_y[name], order))) for name in of_x}
        values["distance_correlation"] = max(values["distance_correlation"], 0.0) ** 0.5
        relative_y = pairwise.relative_relation(y[order], y[order[anchors]])
        values["relative_similarity"] = float(np.mean(np.sum(relative_x * relative_y, axis=1)))
        return values

    return score


def _relations(x: np.ndarray, k: int) -> dict[str, Any]:
    return {
        "kernel_cka": pairwise.gaussian_relation(x),
        "rsa": pairwise.rank_relation(x),
        "distance_correlation": pairwise.distance_relation(x),
        "mutual_knn": pairwise.neighbor_relation(x, k),
        "cknna": pairwise.neighbor_relation(x, k, weighted=True),
    }


def _warn_shuffled(result: Comparison) -> None:
    unproven: Sequence[Score] = [s for s in result if s.p_value > 1.5 / (1 + result.permutations)]
    if 2 * len(unproven) < len(result.scores):
        return
    warnings.warn(
        f"{len(unproven)} of {len(result.scores)} measures score the given pairing no better than shuffled ones: row i "
        "of x and row i of y do not seem to mean the same. The likely cause is that one side was sorted, shuffled or "
        "filtered without the other. Join the two spaces on keys. If the pairing is right, the spaces share nothing.",
        stacklevel=3,
    )
