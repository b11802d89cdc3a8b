"""Grow a few known pairs into many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import Array, as_matrices, random_generator, take_rows, to_numpy
from relatent.evaluate.interval import Estimate
from relatent.evaluate.interval import bootstrap as interval
from relatent.evaluate.neighbors import Neighbors, nearest
from relatent.translate.likelihood import LikelihoodPath, LikelihoodRatio
from relatent.translate.pairs import Pairs

__all__ = ["Grown", "grow_pairs"]

GATE_FOLDS = 5
# Shares of the mutual neighbours that are believed, round by round, until the pairs settle.
ROUNDS = (*np.linspace(0.25, 1, 6).tolist(), *[1.0] * 6)
# Few seeds cannot choose a preparation and a penalty; these served every pair of spaces tried.
PREPARATION, PENALTY, RELIEF = "center+l2", 10.0, 0.75
NEIGHBOURS = 10


@dataclass(frozen=True)
class Grown:
    """Pairs grown from seeds: row ``rows_x[i]`` of x means the same as row ``rows_y[i]`` of y, the seeds first.

    ``before`` and ``after`` are the mean reciprocal ranks (at 10) of seeds that were held out, without and with
    growing. Where growing did not help (``succeeded`` is False) the pairs are the seeds alone.
    """

    rows_x: np.ndarray
    rows_y: np.ndarray
    before: Estimate
    after: Estimate
    succeeded: bool

    def __str__(self) -> str:
        """One sentence for a person."""
        change = f"held-out seeds' MRR {self.before.value:.3f} → {self.after.value:.3f}"
        if self.succeeded:
            return f"Grown to {len(self.rows_x)} pairs: {change}."
        return f"Growing failed to help ({change}), so the {len(self.rows_x)} seeds are returned: find more seeds."


def grow_pairs(
    x: Array, y: Array, known: tuple[Sequence[int] | Array, Sequence[int] | Array], *, seed: int = 0
) -> Grown:
    r"""Grow a few known pairs into many, where the same items are present on both sides in unknown order.

    ``known`` = (rows of x, rows of y) of 50–100 pairs known to mean the same. Each round fits the likelihood ratio on
    the pairs so far, looks every item up on the other side by the hub-corrected score
    :math:`2 s_{ij} - r_i - r_j` (r: mean score of the ten nearest), and pairs those that choose each other. The
    clearest quarter, by margin over the second choice, is believed at first, all of them after six rounds; six more
    let the pairs settle.

    The gate: all of this is done five times with a fifth of the seeds held out. Only if these are found better than
    without growing, by more than two standard errors, are the grown pairs returned.

    What breaks it: fewer than about 50 seeds, items present on one side only, spaces that share little.

    References: Artetxe et al., ACL 2018 (self-learning); Conneau et al., ICLR 2018 (CSLS).

    >>> rng = np.random.default_rng(0)
    >>> x, order = rng.normal(size=(400, 30)), rng.permutation(400)
    >>> y = x @ np.linalg.qr(rng.normal(size=(30, 30)))[0] + 0.8 * rng.normal(size=x.shape)
    >>> grown = grow_pairs(x, y[order], known=(order[:50], np.arange(50)))
    >>> grown.succeeded, float(np.mean(order[grown.rows_y] == grown.rows_x)) > 0.95
    (True, True)
    """
    x, y = (to_numpy(a) for a in as_matrices(x=x, y=y))
    seeds = _checked_known(known, len(x), len(y))
    fold = random_generator(seed).permutation(len(seeds)) % GATE_FOLDS
    before, after = np.zeros(len(seeds)), np.zeros(len(seeds))
    for i in range(GATE_FOLDS):
        rest, held = seeds[fold != i], seeds[fold == i]
        before[fold == i] = _found(x, y, rest, rest, held)
        after[fold == i] = _found(x, y, _grow(x, y, rest), rest, held)
    gain = after - before
    succeeded = bool(np.mean(gain) > 2 * np.std(gain, ddof=1) / len(gain) ** 0.5)
    pairs = _grow(x, y, seeds) if succeeded else seeds
    return Grown(pairs[:, 0], pairs[:, 1], interval(before, seed=seed), interval(after, seed=seed), succeeded)


def _checked_known(known: Any, n: int, m: int) -> np.ndarray:
    """Return the known pairs as (k, 2) row numbers."""
    rows = [to_numpy(side) for side in known] if len(known) == 2 else []
    if len(rows) != 2 or any(r.ndim != 1 or r.dtype.kind not in "iu" for r in rows) or len(rows[0]) != len(rows[1]):
        raise ValueError("known must be (rows of x, rows of y): two equally long sequences of row numbers.")
    for r, count, name in ((rows[0], n, "x"), (rows[1], m, "y")):
        if len(r) and not (np.min(r) >= 0 and np.max(r) < count):
            raise ValueError(f"known names rows {np.min(r)}…{np.max(r)} of {name}, which has rows 0…{count - 1}.")
        if len(np.unique(r)) < len(r):
            raise ValueError(f"known names a row of {name} twice: give each row one partner.")
    if len(rows[0]) < 2 * GATE_FOLDS:
        raise ValueError(f"There are {len(rows[0])} known pairs: expected at least {2 * GATE_FOLDS}, better 50 to 100.")
    return np.stack(rows, axis=1)


def _grow(x: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Give the seeds and the pairs they lead to."""
    pairs = known
    for share in ROUNDS:
        found, margin = _mutual(*_sides(x, y, pairs, len(known)))
        new = ~(np.isin(found[:, 0], known[:, 0]) | np.isin(found[:, 1], known[:, 1]))
        found, margin = found[new], margin[new]
        clearest = np.argsort(-margin)[: round(share * len(margin))]
        pairs = np.concatenate([known, found[clearest]])
    return pairs


def _sides(x: np.ndarray, y: np.ndarray, pairs: np.ndarray, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Give all items as queries and as targets of the likelihood ratio that the pairs teach."""
    p = Pairs.of(x[pairs[:, 0]], y[pairs[:, 1]]).normalized(PREPARATION)
    # Grown pairs count for less than their number: some are wrong.
    penalty = PENALTY * (seeds / len(pairs)) ** RELIEF
    ratio: LikelihoodRatio = LikelihoodPath.of(p.summary).at(penalty, penalty)
    return ratio.query_vectors(p.source.apply(x)), ratio.target_vectors(p.target.apply(y))


def _mutual(queries: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the pairs (rows of both sides) that choose each other, and by what margin over the second choice."""
    there, back = (nearest(a, b, NEIGHBOURS, "inner") for a, b in ((queries, targets), (targets, queries)))
    crowd_q, crowd_t = (np.mean(found.similarities, axis=1) for found in (there, back))
    best_t, margin_q = _choice(there, crowd_t)
    best_q, margin_t = _choice(back, crowd_q)
    rows = np.flatnonzero(best_q[best_t] == np.arange(len(queries)))
    pairs = np.stack([rows, best_t[rows]], axis=1)
    return pairs, np.minimum(margin_q[rows], margin_t[best_t[rows]])


def _choice(found: Neighbors, crowd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the neighbour of highest hub-corrected score, and its margin over the second."""
    scores = 2 * found.similarities - crowd[found.indices]
    rows, (second, first) = np.arange(len(scores)), np.argsort(scores, axis=1)[:, -2:].T
    return found.indices[rows, first], scores[rows, first] - scores[rows, second]


def _found(x: np.ndarray, y: np.ndarray, pairs: np.ndarray, seeds: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Reciprocal rank of each held-out seed's target among all targets that are no seeds."""
    queries, targets = _sides(x, y, pairs, len(seeds))
    others = np.setdiff1d(np.arange(len(y)), np.concatenate([seeds[:, 1], held[:, 1]]))
    gallery = take_rows(targets, np.concatenate([held[:, 1], others]))
    found = nearest(queries[held[:, 0]], gallery, min(10, len(gallery)), "inner")
    own = found.indices == np.arange(len(held))[:, None]
    return np.where(np.any(own, axis=1), 1 / (np.argmax(own, axis=1) + 1), 0.0)
