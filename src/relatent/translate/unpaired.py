"""Match the rows of two spaces without known pairs: what growing pairs and aligning without pairs have in common.

First a rotation, refined by one-to-one assignment of random blocks of rows; then the likelihood ratio, refined by the
rows that choose each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import linear_sum_assignment

from relatent._array import Array, as_matrices, random_generator, to_numpy
from relatent._linalg import polar, unit_norm
from relatent._terminal import progress_bar
from relatent.evaluate.neighbors import Neighbors, nearest_both_ways
from relatent.spaces.normalize import Normalizer
from relatent.spaces.space import Space
from relatent.summary import summarize
from relatent.translate.likelihood import LikelihoodPath, LikelihoodRatio
from relatent.translate.translator import Translator

# Rows of each side that are assigned at a time: an assignment takes cubic time, and fewer rows match less closely.
BLOCK = 1_000
# Weight of the past in the running mean of cross-covariances. It averages over what single blocks match wrongly.
MEMORY = 0.5
# Penalty of the likelihood ratio on matches, many of which are only near misses.
PENALTY = 1.0
# Neighbors that a match is compared with.
NEIGHBORS = 10


@dataclass(frozen=True)
class Matches:
    """Rows of two spaces that choose each other, and how clearly.

    ``confidence`` is the geometric mean of two shares of the likelihood, that of y among the ten nearest of x and
    that of x among the ten nearest of y.
    """

    rows_x: np.ndarray
    rows_y: np.ndarray
    confidence: np.ndarray


def centered_unit_rows(x: np.ndarray) -> np.ndarray:
    """Return the rows about their mean, scaled to unit norm, in float64."""
    return np.asarray(Normalizer.fit(x, "center+l2").apply(x), dtype=np.float64)


def in_principal_axes(x: np.ndarray, axes: int) -> np.ndarray:
    """Return unit rows about the mean, in the coordinates of the strongest principal axes.

    >>> np.abs(in_principal_axes(np.asarray([[3.0, 1.0], [1.0, 1.0]]), axes=1)).tolist()
    [[1.0], [1.0]]
    """
    rows = centered_unit_rows(x)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    return np.asarray(unit_norm(rows @ vectors[:, -axes:]), dtype=np.float32)


def refine_rotation(
    x: np.ndarray,
    y: np.ndarray,
    rotation: np.ndarray,
    known: np.ndarray | None = None,
    *,
    rounds: int,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> np.ndarray:
    r"""Return a rotation under which the rows of x fall onto rows of y.

    Each round draws a block of rows of each side, assigns them one to one, and solves the Procrustes problem:

    .. math:: P = \arg\max_{P \text{ permutation}} \operatorname{tr}(P^\top X W Y^\top), \qquad
              W = \operatorname{polar}(\overline{X^\top P Y} + K)

    with the running mean of the cross-covariance per pair, and K = ``known``, a cross-covariance that is certain.
    No item needs to be present on both sides: a near miss turns the rotation the right way, too.

    References: Grave et al., AISTATS 2019 (Wasserstein Procrustes); arXiv 2610.09411 (from a few pairs).
    """
    rng = random_generator(seed)
    mean = None
    for _ in range(rounds):
        block_x, block_y = (a[rng.permutation(len(a))[:BLOCK]] for a in (x, y))
        i, j = linear_sum_assignment((block_x @ rotation) @ block_y.T, maximize=True)
        cross = block_x[i].T @ block_y[j] / len(i)
        mean = cross if mean is None else MEMORY * mean + (1 - MEMORY) * cross
        rotation = polar(mean if known is None else mean + known)
        advance(1)
    return rotation


def refine_matches(
    x: np.ndarray,
    y: np.ndarray,
    start: Matches,
    known: np.ndarray,
    *,
    known_share: float,
    rounds: int,
    advance: Callable[[int], None] = lambda _: None,
) -> Matches:
    """Return the matches that remain when the likelihood ratio is fitted to the matches again and again.

    ``x`` and ``y`` are centered unit rows; ``known`` are (k, 2) certain pairs of rows, which weigh ``known_share`` as
    much as all matches together.
    """
    matches = start
    for _ in range(rounds):
        ratio = _ratio(x, y, matches, known, known_share)
        matches = mutual_matches(*(a.astype(np.float32) for a in ratio.vectors(x, y)))
        advance(1)
    return matches


def _ratio(x: np.ndarray, y: np.ndarray, matches: Matches, known: np.ndarray, known_share: float) -> LikelihoodRatio:
    rows_x, rows_y = np.concatenate([known, np.stack([matches.rows_x, matches.rows_y], axis=1)]).T
    weights = np.ones(len(rows_x))
    weights[: len(known)] = max(1.0, known_share * len(matches.rows_x) / max(len(known), 1))
    return LikelihoodPath.of(summarize(x[rows_x], y[rows_y], weights)).at(PENALTY, PENALTY)


def mutual_matches(queries: np.ndarray, targets: np.ndarray) -> Matches:
    r"""Return the rows that choose each other by the hub-corrected inner product.

    .. math:: 2 s_{ij} - r_i - r_j

    where r is the mean score of a row's ten nearest (CSLS).

    References: Conneau et al., ICLR 2018.

    >>> mutual_matches(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)[[2, 0, 1]]).rows_y.tolist()
    [1, 2, 0]
    """
    k = min(NEIGHBORS, len(queries), len(targets))
    there, back = nearest_both_ways(queries, targets, k, "inner")
    hubness_q, hubness_t = (np.mean(found.similarities, axis=1) for found in (there, back))
    best_t, share_q = _choice(there, hubness_t)
    best_q, share_t = _choice(back, hubness_q)
    rows = np.flatnonzero(best_q[best_t] == np.arange(len(queries)))
    return Matches(rows, best_t[rows], np.sqrt(share_q[rows] * share_t[best_t[rows]]))


def _choice(found: Neighbors, hubness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbor of highest hub-corrected score, and its share of the likelihood."""
    rows = np.arange(len(found.indices))
    best = np.argmax(2 * found.similarities - hubness[found.indices], axis=1)
    likelihood = np.exp(found.similarities - np.max(found.similarities, axis=1, keepdims=True))
    return found.indices[rows, best], likelihood[rows, best] / np.sum(likelihood, axis=1)


MIN_ROWS = 100
# Rows that are assigned by profiles, at most: an assignment takes cubic time. Similarities that a profile tells.
PROFILED, QUANTILES = 2_500, 200
# Restarts, each from this part of the rows: their agreement is what success is told by.
RESTARTS, PART = 3, 0.8
ROUNDS, RATIO_ROUNDS = 120, 6
ROTATION_AXES, RATIO_AXES = 200, 512
# Mean cosine between what two restarts make of a row. Unrelated rotations are at 0 ± .1.
AGREEMENT = 0.6
# Share of the rows that choose each other: .98 where sentences were aligned right, .37 to .58 where restarts failed.
# There, two of them may agree by .7 because they have put the same classes onto each other (CIFAR-10).
MUTUAL = 0.75


@dataclass(frozen=True)
class UnpairedAlignment(Matches):
    """Two spaces aligned without a pair: row ``rows_x[i]`` of x is matched with row ``rows_y[i]`` of y.

    ``confidence``: as in :class:`relatent.translate.few_pairs.GrownPairs`. ``agreement``: mean cosine between the
    translations of the two restarts that agree best; near 1 if they found the same, near 0 if each found its own.
    ``mutual``: share of the rows of the smaller side whose choice on the other side chooses them (cycle consistency).
    ``succeeded``: whether both are high. ``translator`` is None where they are not, and the matches mean nothing.
    """

    agreement: float
    mutual: float
    succeeded: bool
    translator: Translator | None

    def __str__(self) -> str:
        seen = f"restarts agree by {self.agreement:.2f}, {self.mutual:.0%} of the rows choose each other"
        if self.succeeded:
            return f"Aligned: {seen}; {len(self.rows_x)} rows are matched."
        return f"Not aligned: {seen}. Find ten known pairs and use grow_pairs."


def align_unpaired(
    x: Array | Space, y: Array | Space, *, seed: int = 0, progress: bool | None = None
) -> UnpairedAlignment:
    r"""Align two spaces with no known pair. Experimental: it fails on most pairs of spaces, and reports it.

    A row is known by the company it keeps: its *profile* holds the quantiles of its similarities to all rows of its own
    side, which no rotation changes. Rows of x and y are assigned one to one by their profiles,

    .. math:: P = \arg\min_{P \text{ permutation}} \lVert Q_x - P Q_y \rVert,
              \qquad Q_{ik} = \operatorname{quantile}_k \{ x_i \cdot x_j \}_j

    and the Procrustes rotation of these mostly wrong pairs is refined 120 times by
    ``relatent.translate.unpaired.refine_rotation``. This is done three times, each from four fifths of the rows of
    each side. ``succeeded`` is true if two of the three agree on where rows go, and three quarters of the rows choose
    each other; it then refines the matches by the likelihood ratio, as :func:`relatent.grow_pairs` does.

    Unchanged by rotating, rescaling or shifting either side, up to rounding. What breaks it: items that are on one side
    only (they cannot choose each other), sides of different content, symmetric clouds (a Gaussian has no right
    rotation), few rows, one narrow domain.

    References: Artetxe et al., ACL 2018 (similarity profiles); arXiv 2610.09411 (Wasserstein Procrustes); VecLinking,
    ICML 2026.

    >>> rng = np.random.default_rng(0)
    >>> found = align_unpaired(rng.normal(size=(200, 12)), rng.normal(size=(200, 12)))
    >>> found.succeeded
    False
    """
    x, y = (to_numpy(a) for a in as_matrices(x=x, y=y))
    if min(len(x), len(y)) < MIN_ROWS:
        raise ValueError(
            f"x has {len(x)} rows and y has {len(y)}: expected at least {MIN_ROWS} each, better thousands. "
            "Give more rows, or known pairs to grow_pairs."
        )
    a, b = (in_principal_axes(side, ROTATION_AXES) for side in (x, y))
    with progress_bar(RESTARTS * ROUNDS, "aligning", progress) as advance:
        rotations = [_restart(a, b, seed + i, advance) for i in range(RESTARTS)]
    agreement, rotation = max(
        ((float(np.mean(np.sum((a @ p) * (a @ q), axis=1))), p) for p, q in combinations(rotations, 2)),
        key=lambda pair: pair[0],
    )
    matches = mutual_matches(a @ rotation, b)
    mutual = len(matches.rows_x) / min(len(x), len(y))
    succeeded, translator = agreement >= AGREEMENT and mutual >= MUTUAL, None
    if succeeded:
        wide_x, wide_y = (in_principal_axes(side, RATIO_AXES).astype(np.float64) for side in (x, y))
        nothing = np.zeros((0, 2), dtype=np.int64)
        matches = refine_matches(wide_x, wide_y, matches, nothing, known_share=0.0, rounds=RATIO_ROUNDS)
        translator = Translator("retrieval").fit(x[matches.rows_x], y[matches.rows_y])
    found = matches.rows_x, matches.rows_y, matches.confidence
    return UnpairedAlignment(*found, agreement, mutual, succeeded, translator)


def _restart(a: np.ndarray, b: np.ndarray, seed: int, advance: Callable[[int], None]) -> np.ndarray:
    """Return the rotation that a part of the rows leads to."""
    rng = random_generator(seed)
    part_a, part_b = (side[rng.permutation(len(side))[: round(PART * len(side))]] for side in (a, b))
    i, j = linear_sum_assignment(_profiles(part_a[:PROFILED]) @ _profiles(part_b[:PROFILED]).T, maximize=True)
    rotation = polar(part_a[i].T @ part_b[j])
    return refine_rotation(part_a, part_b, rotation, rounds=ROUNDS, seed=seed, advance=advance)


def _profiles(rows: np.ndarray) -> np.ndarray:
    """Return quantiles of each row's similarities to all rows, standardized, one row each."""
    values, vectors = np.linalg.eigh(rows.T.astype(np.float64) @ rows)
    live = values > len(values) * np.finfo(np.float32).eps * values[-1]
    # A fourth root evens out the spectrum, so that a profile is not ruled by a few axes.
    even = unit_norm(rows @ (vectors[:, live] * values[live] ** -0.25).astype(np.float32))
    found = np.quantile(even @ even.T, np.linspace(0, 1, QUANTILES), axis=1).T
    spread = np.std(found, axis=0)
    # The largest similarity is that of a row to itself, and tells nothing.
    return np.asarray(((found - np.mean(found, axis=0)) / np.where(spread > 1e-6, spread, np.inf)), dtype=np.float64)
