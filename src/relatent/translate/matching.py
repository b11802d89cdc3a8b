"""Match the rows of two spaces that nobody has paired: what growing pairs and aligning without pairs have in common.

First a rotation, refined by one-to-one assignment of random blocks of rows; then the likelihood ratio, refined by the
rows that choose each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from relatent._array import random_generator
from relatent._linalg import polar, unit_norm
from relatent.evaluate.neighbors import Neighbors, nearest
from relatent.spaces.normalize import Normalizer
from relatent.summary import summarize
from relatent.translate.likelihood import LikelihoodPath, LikelihoodRatio

__all__ = ["Matches", "centered_unit_rows", "in_principal_axes", "mutual_matches", "refine_matches", "refine_rotation"]

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
    there, back = (nearest(a, b, k, "inner") for a, b in ((queries, targets), (targets, queries)))
    crowd_q, crowd_t = (np.mean(found.similarities, axis=1) for found in (there, back))
    best_t, share_q = _choice(there, crowd_t)
    best_q, share_t = _choice(back, crowd_q)
    rows = np.flatnonzero(best_q[best_t] == np.arange(len(queries)))
    return Matches(rows, best_t[rows], np.sqrt(share_q[rows] * share_t[best_t[rows]]))


def _choice(found: Neighbors, crowd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbor of highest hub-corrected score, and its share of the likelihood."""
    rows = np.arange(len(found.indices))
    best = np.argmax(2 * found.similarities - crowd[found.indices], axis=1)
    likelihood = np.exp(found.similarities - np.max(found.similarities, axis=1, keepdims=True))
    return found.indices[rows, best], likelihood[rows, best] / np.sum(likelihood, axis=1)
