"""The table of measures that :func:`relatent.compare` shows: how each is prepared, scored and read.

To add a measure, write its function in the file it belongs to and its row here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from relatent._array import as_parallel, is_space, random_generator, row_chunks, to_numpy
from relatent._terminal import Stage, Tabular, render, stages
from relatent.evaluate import linear, pairwise, shape
from relatent.evaluate.linear import Axes, as_moments, check_varies, principal_axes
from relatent.evaluate.neighbors import check_fewer
from relatent.evaluate.pairwise import sampled
from relatent.spaces.sample import sample_rows

# Rows that relative similarity uses as anchors at most.
ANCHORS = 300
# Rows that are read of two spaces at most, and those among them that are related to each other.
MAX_ROWS, MAX_PAIRWISE_ROWS = 5_000, 2_000


@dataclass(frozen=True)
class Settings:
    """What the preparation of a measure may ask for: the number of neighbors, and a seed for what is drawn."""

    k: int
    seed: int


# Prepares two parallel spaces once. What it returns takes an order of the rows of y, None as they are, to what a score
# reads.
View = Callable[[np.ndarray | None], Any]
Prepare = Callable[[np.ndarray, np.ndarray, Settings], View]


@dataclass(frozen=True)
class Measure:
    """A row of the table: how two spaces are prepared, how a pairing of them is scored, and how the score is read.

    ``prepare`` does once what all pairings of the two spaces share; measures that name the same function share it.
    ``means`` says what the ends of the scale stand for, ``unchanged_by`` what may happen to either space. The measures
    that use ``all_rows`` need memory that does not grow with them; the others use a sample.
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
    singular_values = staticmethod(shape.singular_values)

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
        squares = np.trace(self.moments.xx) * np.trace(self.moments.yy)
        return shape.angle(np.sum(self.singular_values(self.moments.xy)), squares)

    @property
    def whitened_angle(self) -> float:
        """Procrustes angle, half whitened."""
        return shape.whitened_angle(self.ax, self.ay, self.cross, values=self.singular_values)

    def svcca(self) -> float:
        """Return the mean canonical correlation of the leading axes."""
        ax, ay = linear.leading(self.ax), linear.leading(self.ay)
        cross = linear.whitened(ax, ay, self.cross[: len(ax.values), : len(ay.values)])
        return float(np.mean(np.minimum(self.singular_values(cross), 1.0)))


class ShuffledPairing(LinearPairing):
    """A pairing of which six digits suffice: eigenvalues of MᵀM are found in half the time of singular values of M."""

    @staticmethod
    def singular_values(m: np.ndarray) -> np.ndarray:
        """Return the singular values of a matrix, in ascending order, with half of the digits."""
        values = np.linalg.eigvalsh(m @ m.T if m.shape[0] < m.shape[1] else m.T @ m)
        return np.asarray(np.sqrt(np.maximum(values, 0)))

    @cached_property
    def canonical(self) -> tuple[np.ndarray, np.ndarray]:
        """Canonical directions of x, and correlations."""
        m = linear.whitened(self.ax, self.ay, self.cross)
        values, u = np.linalg.eigh(m @ m.T)
        kept = slice(-min(m.shape), None)
        return u[:, kept], np.sqrt(np.clip(values[kept], 0, 1))


def by_moments(x: np.ndarray, y: np.ndarray, _: Settings) -> View:
    """Decompose both spaces once; a pairing then costs one product and a few small decompositions."""
    m: Any = as_moments(x, y)
    ax, ay = principal_axes(m.xx), principal_axes(m.yy)
    linear.warn_few_rows(m.n, ax, ay)
    x, y = (a - np.mean(a, axis=0, dtype=np.float64).astype(a.dtype) for a in (x, y))

    def view(order: np.ndarray | None) -> LinearPairing:
        if order is None:
            return LinearPairing(m, ax, ay)
        xy = np.zeros(m.xy.shape)
        for rows in row_chunks(len(x)):
            xy += x[rows].T @ y[order[rows]]
        return ShuffledPairing(replace(m, xy=xy), ax, ay)

    return view


def by_relations(relation: Callable[[np.ndarray, int], Any]) -> Prepare:
    """Relate the rows of each space to one another once; a pairing then only reorders one side."""

    def prepare(x: np.ndarray, y: np.ndarray, settings: Settings) -> View:
        of_x, of_y = relation(x, settings.k), relation(y, settings.k)
        norms = pairwise.norms(of_x, of_y)
        return lambda order: pairwise.inner(of_x, of_y if order is None else pairwise.permuted(of_y, order)) / norms

    return prepare


def by_anchors(x: np.ndarray, y: np.ndarray, settings: Settings) -> View:
    """Draw rows as anchors of both spaces; a pairing decides which rows of y are theirs."""
    count = min(ANCHORS, max(2, len(x) // 2))
    anchors = random_generator(settings.seed).choice(len(x), count, replace=False)
    relative_x = pairwise.relative_relation(x, x[anchors])

    def view(order: np.ndarray | None) -> np.ndarray:
        paired = y if order is None else y[order]
        return np.asarray(np.sum(relative_x * pairwise.relative_relation(paired, paired[anchors]), axis=1))

    return view


def linear_measure(score: Callable[[Any], Any], means: str, unchanged_by: str, larger: bool = True) -> Measure:
    """Return a measure of second moments, which uses all rows."""
    return Measure(by_moments, score, means, unchanged_by, larger, all_rows=True)


SCALED = "rotation, one scale"
SIMILAR = f"{SCALED}, offset"
PERMUTED = "permutation, one scale, offset"
ANY_MAP = "any invertible affine map"

MEASURES: dict[str, Measure] = {
    "cka": linear_measure(lambda p: linear.cka(p.moments), "1 same shape, 0 uncorrelated", SIMILAR),
    "procrustes_angle": linear_measure(lambda p: p.angle, "0 same shape, π/2 = 1.571 uncorrelated", SIMILAR, False),
    "procrustes_squared": linear_measure(
        lambda p: 2 - 2 * np.cos(p.angle), "0 same shape, 2 uncorrelated", SIMILAR, False
    ),
    "whitened_procrustes": linear_measure(lambda p: p.whitened_angle, "as procrustes, half whitened", SIMILAR, False),
    "permutation_angle": linear_measure(
        lambda p: shape.permutation_angle(p.moments), "0 same neurons, reordered", PERMUTED, False
    ),
    "cca": linear_measure(lambda p: np.mean(p.canonical[1]), "1 linear map between them, 0 uncorrelated", ANY_MAP),
    "svcca": linear_measure(lambda p: p.svcca(), "as cca, on 99 % of the variance", SIMILAR),
    "pwcca": linear_measure(
        lambda p: linear.weighted(p.ax, *p.canonical), "as cca, weighted by what x uses", f"{ANY_MAP} of y"
    ),
    "predictivity": linear_measure(
        lambda p: linear.explained(p.moments.n, p.ax, p.ay, p.cross),
        "1 y linear in x, 0 x tells nothing",
        f"{ANY_MAP} of x",
    ),
    "gulp": linear_measure(
        lambda p: linear.ridge_distance(p.ax, p.ay, p.cross), "0 same ridge predictions of any task", SIMILAR, False
    ),
    "procrustes_bound": linear_measure(
        lambda p: shape.gram_bound(p.moments.n, p.ax, p.ay, p.cross),
        "procrustes_squared is at most this",
        SIMILAR,
        False,
    ),
    "kernel_cka": Measure(
        by_relations(lambda x, _: pairwise.gaussian_relation(x)), float, "1 same shape, 0 independent", SIMILAR
    ),
    "rsa": Measure(
        by_relations(lambda x, _: pairwise.rank_relation(x)), float, "1 same order of all pairs, 0 none", SCALED
    ),
    "distance_correlation": Measure(
        by_relations(lambda x, _: pairwise.distance_relation(x)),
        lambda squared: max(squared, 0.0) ** 0.5,
        "1 same distances, 0 independent",
        SIMILAR,
    ),
    "mutual_knn": Measure(by_relations(pairwise.neighbor_relation), float, "share of common neighbors", SCALED),
    "cknna": Measure(
        by_relations(partial(pairwise.neighbor_relation, weighted=True)),
        float,
        "as mutual_knn, weighted by closeness",
        SCALED,
    ),
    "relative_similarity": Measure(by_anchors, np.mean, "1 same angles to the anchors, 0 none", SIMILAR),
}


@dataclass(frozen=True)
class Score:
    """One measure of two spaces: its value, what shuffled rows give, and how to read it.

    ``null`` is the mean over shuffled pairings; ``p_value`` the share of pairings, the true one among them, that score
    at least as similar as the true one; ``rows`` how many rows entered.
    """

    name: str
    value: float
    null: float
    p_value: float
    rows: int
    measure: Measure

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        plain = {name: getattr(self, name) for name in ("name", "value", "null", "p_value", "rows")}
        return plain | {"unchanged_by": self.measure.unchanged_by, "means": self.measure.means}


@dataclass(frozen=True)
class Comparison(Tabular):
    """All measures of two spaces. Iterate for its scores, index by name, print it for a table."""

    scores: tuple[Score, ...]
    n: int
    permutations: int
    seed: int

    def __iter__(self) -> Iterator[Score]:
        return iter(self.scores)

    def __getitem__(self, name: str) -> Score:
        """Return a score by the name of its measure."""
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(f"{name!r} is not in the comparison. There are: {', '.join(s.name for s in self.scores)}.")

    @property
    def least_p_value(self) -> float:
        """The smallest p-value that this number of shuffled pairings can show."""
        return 1 / (1 + self.permutations)

    def __str__(self) -> str:
        cells = [
            (s.name, f"{s.value:.3f}", f"{s.null:.3f}", self._p(s), s.rows, s.measure.means, s.measure.unchanged_by)
            for s in self.scores
        ]
        table = render(("measure", "value", "null", "p", "rows", "means", "unchanged by"), cells, numbers=(1, 2, 3, 4))
        return f"{table}\n{self.n} parallel rows; null: {self.permutations} shuffled pairings, seed {self.seed}"

    def records(self) -> list[dict[str, Any]]:
        """Return one record of plain values per measure."""
        return [score.to_dict() for score in self.scores]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"n": self.n, "permutations": self.permutations, "seed": self.seed, "scores": self.records()}

    def _p(self, score: Score) -> str:
        # No shuffled pairing was as similar: more of them could only lower the figure.
        bound = "≤" if score.p_value <= self.least_p_value else ""
        return f"{bound}{score.p_value:.{3 if self.permutations < 1_000 else 5}f}"


def compare(
    x: Any,
    y: Any,
    *,
    k: int = 10,
    permutations: int = 20,
    max_rows: int = MAX_ROWS,
    max_pairwise_rows: int = MAX_PAIRWISE_ROWS,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """Return every measure of two parallel spaces, each beside its null and with a short reading.

    ``x`` and ``y`` are row-aligned arrays, or spaces, which are joined on their keys and may differ in dimension. Of
    spaces that share more than ``max_rows`` keys, that many rows are drawn by the seed and only these are read.

    The linear measures use all rows, in O(n d²). Those that relate rows to rows use the same seeded sample of at most
    ``max_pairwise_rows`` of them; the column ``rows`` says which. The null of each is the mean over ``permutations``
    shuffled pairings of exactly the rows it used, so that the bias of few rows shows; no p-value can fall below
    1 / (1 + ``permutations``), and is marked ≤ there. ``k`` is for the measures of neighborhoods; relative similarity
    uses up to 300 random rows as anchors.

    Warns when the true pairing scores no better than shuffled ones, and when rows are too few for the coordinates.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 5))
    >>> scores = compare(x, x @ np.linalg.qr(rng.normal(size=(5, 5)))[0])
    >>> round(scores["cka"].value, 6), scores["cka"].p_value < 0.05
    (1.0, True)
    """
    if permutations < 1:
        raise ValueError(f"permutations is {permutations}: expected at least 1. There is no score without its null.")
    with stages(progress) as stage:
        x, y = as_parallel(**_read(x, y, max_rows, seed, stage))
        check_varies(x=x, y=y)
        some = tuple(map(to_numpy, sampled(x, y, max_pairwise_rows, seed)))
        settings = Settings(check_fewer(k, len(some[0]) - 1), seed)
        rng = random_generator(seed)
        scores: list[Score] = []
        for all_rows, (a, b), kind in ((True, (to_numpy(x), to_numpy(y)), "linear"), (False, some, "pairwise")):
            stage(f"{kind} measures of {len(a):,} rows, and of {permutations:,} shuffled pairings")
            table = {name: m for name, m in MEASURES.items() if m.all_rows is all_rows}
            scores += _scored(table, a, b, settings, permutations, rng)
    result = Comparison(tuple(scores), x.shape[0], permutations, seed)
    _warn_shuffled(result)
    return result


def _read(x: Any, y: Any, max_rows: int, seed: int, stage: Stage) -> dict[str, Any]:
    """Read the rows that two spaces share, at most ``max_rows`` of them; arrays are returned as they are."""
    if not is_space(x, y):
        return {"x": x, "y": y}
    from relatent.spaces.join import match_keys

    stage("joining keys")
    matched = match_keys(x, y)
    rows = sample_rows(len(matched), max_rows, seed)
    stage(f"reading {len(rows):,} rows of both")
    return {"x": x.take(matched.x_rows[rows]), "y": y.take(matched.y_rows[rows])}


def _scored(
    table: dict[str, Measure],
    x: np.ndarray,
    y: np.ndarray,
    settings: Settings,
    permutations: int,
    rng: np.random.Generator,
) -> Iterator[Score]:
    """Score the true pairing and shuffled ones by every measure, what they share being prepared once."""
    views = {prepare: prepare(x, y, settings) for prepare in dict.fromkeys(m.prepare for m in table.values())}

    def values(order: np.ndarray | None) -> dict[str, float]:
        seen = {prepare: view(order) for prepare, view in views.items()}
        return {name: float(m.score(seen[m.prepare])) for name, m in table.items()}

    n = len(x)
    true = values(None)
    null = [values(rng.permutation(n)) for _ in range(permutations)]
    for name, measure in table.items():
        shuffled = np.asarray([draw[name] for draw in null])
        sign = 1 if measure.larger_is_closer else -1
        p = (1 + int(np.sum(sign * shuffled >= sign * true[name]))) / (1 + permutations)
        yield Score(name, true[name], float(np.mean(shuffled)), p, n, measure)


def _warn_shuffled(result: Comparison) -> None:
    unproven: Sequence[Score] = [s for s in result if s.p_value > 1.5 * result.least_p_value]
    if 2 * len(unproven) < len(result.scores):
        return
    warnings.warn(
        f"{len(unproven)} of {len(result.scores)} measures score the given pairing no better than shuffled ones: row i "
        "of x and row i of y do not seem to mean the same. The likely cause is that one side was sorted, shuffled or "
        "filtered without the other. Join the two spaces on keys. If the pairing is right, the spaces share nothing.",
        stacklevel=3,
    )
