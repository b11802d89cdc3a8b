"""Anchor care: find the pairs that do not belong together, and grow few pairs into many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import Array, as_matrices, as_parallel, random_generator, take_rows, to_numpy
from relatent.evaluate.interval import Estimate
from relatent.evaluate.interval import bootstrap as interval
from relatent.evaluate.neighbors import Neighbors, nearest
from relatent.translate.retrieval import LikelihoodPath, LikelihoodRatio
from relatent.translate.sample import Sample
from relatent.translate.selection import Prepared, for_retrieval, likelihood_choice
from relatent.translate.stream import PairStream

__all__ = ["Audit", "Grown", "audit", "bootstrap"]

LEAST_PAIRS = 30
# Divisions into folds over which a score is averaged, and times that the doubtful are set aside for the next scoring.
AUDIT_FOLDS, DIVISIONS, RESCORED = 5, 3, 2
# A weak penalty excuses mismatched pairs as noise along the few directions that they differ in.
STRICT = 0.1
# A mismatched pair scores 0 ± 1 by construction; a pair that scores less than this could well be one.
DOUBTFUL = 1.0
# Two modes: this much better by BIC, and this far apart in pooled standard deviations (Ashman's D).
BIC_GAIN, SEPARATION = 10.0, 2.0

GATE_FOLDS = 5
# Shares of the mutual neighbours that are believed, round by round, until the pairs settle.
ROUNDS = (*np.linspace(0.25, 1, 6).tolist(), *[1.0] * 6)
# Few seeds cannot choose a preparation and a penalty; these served every pair of spaces tried.
PREPARATION, PENALTY, RELIEF = "center+l2", 10.0, 0.75
NEIGHBOURS = 10


@dataclass(frozen=True)
class Audit:
    """How well each pair belongs together.

    ``scores`` (n,): by how many standard deviations a pair outscores the mismatched ones; about 0 ± 1 if it is one.
    ``suspicious``: rows that score below 1, worst first. ``kept``: rows to go on with — all of them, unless the scores
    fall into two groups (``bimodal``); then those of the upper group.
    """

    scores: np.ndarray
    suspicious: np.ndarray
    kept: np.ndarray
    bimodal: bool

    def __str__(self) -> str:
        """One sentence for a person."""
        n, dropped = len(self.scores), len(self.scores) - len(self.kept)
        if self.bimodal:
            return f"{dropped} of {n} pairs do not belong together: their scores form a group of their own. Drop them."
        if not len(self.suspicious):
            return f"All {n} pairs look as if they belonged together; nothing is dropped."
        return (
            f"{len(self.suspicious)} of {n} pairs look doubtful, but the scores form one group, so nothing is dropped: "
            "hard pairs and wrong ones cannot be told apart."
        )


def audit(x: Array, y: Array, *, seed: int = 0) -> Audit:
    r"""Find pairs that do not belong together.

    Each pair is scored by the likelihood ratio s fitted on the other folds, against the pairs that its x and its y
    form with strangers:

    .. math:: z_i = \tfrac12 \left( \frac{s_{ii} - \operatorname{mean}_j s_{ij}}{\operatorname{std}_j s_{ij}} +
              \frac{s_{ii} - \operatorname{mean}_j s_{ji}}{\operatorname{std}_j s_{ji}} \right)

    All pairs are then scored again, twice, by what those teach that scored well.

    Pairs are dropped only if the scores have two modes: two normal distributions fit better than one (BIC lower by
    more than 10), stand apart (Ashman's D above 2), and the lower one is where mismatched pairs are (mean below 1).

    Unchanged by rotating, rescaling or shifting either side. What breaks it: so many mismatched pairs that nothing is
    learned from the rest, fewer pairs than about a tenth of the coordinates, wrong pairs that are nearly right.

    References: Ashman, Bird & Zepf, Astronomical Journal 108, 1994 (D).

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 30))
    >>> y = x @ rng.normal(size=(30, 30))
    >>> y[:30] = y[29::-1]
    >>> found = audit(x, y)
    >>> found.bimodal, bool(np.isin(found.suspicious, np.arange(30)).all()), len(found.kept)
    (True, True, 270)
    """
    x, y = (to_numpy(a) for a in as_parallel(x=x, y=y))
    if len(x) < LEAST_PAIRS:
        raise ValueError(f"There are {len(x)} pairs: expected at least {LEAST_PAIRS} to tell which do not belong.")
    candidates = {name: _prepared(x, y, name) for name in ("iso", "center+l2")}
    _, name, selection = for_retrieval(candidates, seed)
    p, penalties = candidates[name], [max(chosen, STRICT) for chosen in likelihood_choice(selection)[1:]]
    scores = _belonging(p, penalties, np.ones(len(x), dtype=bool), seed)
    for again in range(1, RESCORED + 1):
        # At least half of the pairs teach, however badly they score.
        scores = _belonging(p, penalties, scores > min(DOUBTFUL, float(np.median(scores))), seed + again * DIVISIONS)
    wrong = _lower_mode(scores)
    order = np.argsort(scores)
    return Audit(scores, order[scores[order] < DOUBTFUL], np.flatnonzero(~wrong), bool(np.any(wrong)))


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


def bootstrap(
    x: Array, y: Array, seeds: tuple[Sequence[int] | Array, Sequence[int] | Array], *, seed: int = 0
) -> Grown:
    r"""Grow a few known pairs into many, where the same items are present on both sides in unknown order.

    ``seeds`` = (rows of x, rows of y) of 50–100 pairs known to mean the same. Each round fits the likelihood ratio on
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
    >>> grown = bootstrap(x, y[order], seeds=(order[:50], np.arange(50)))
    >>> grown.succeeded, float(np.mean(order[grown.rows_y] == grown.rows_x)) > 0.95
    (True, True)
    """
    x, y = (to_numpy(a) for a in as_matrices(x=x, y=y))
    known = _checked_seeds(seeds, len(x), len(y))
    fold = random_generator(seed).permutation(len(known)) % GATE_FOLDS
    before, after = np.zeros(len(known)), np.zeros(len(known))
    for i in range(GATE_FOLDS):
        rest, held = known[fold != i], known[fold == i]
        before[fold == i] = _found(x, y, rest, rest, held)
        after[fold == i] = _found(x, y, _grow(x, y, rest), rest, held)
    gain = after - before
    succeeded = bool(np.mean(gain) > 2 * np.std(gain, ddof=1) / len(gain) ** 0.5)
    pairs = _grow(x, y, known) if succeeded else known
    return Grown(pairs[:, 0], pairs[:, 1], interval(before, seed=seed), interval(after, seed=seed), succeeded)


def _prepared(x: np.ndarray, y: np.ndarray, name: str) -> Prepared:
    stream = PairStream(name)
    stream.take(x, y, None, True, True)
    return stream.prepared(Sample(x, y))


def _belonging(p: Prepared, penalties: list[float], trusted: np.ndarray, seed: int) -> np.ndarray:
    """Score each pair by what the trusted pairs of the other folds teach, averaged over divisions into folds."""
    scores = np.zeros(len(p.sample))
    for division in range(DIVISIONS):
        fold = random_generator(seed + division).permutation(len(p.sample)) % AUDIT_FOLDS
        for i in range(AUDIT_FOLDS):
            ratio = LikelihoodPath.of(p.part(np.flatnonzero(trusted & (fold != i)))).at(*penalties)
            queries, targets = ratio.vectors(p.x[fold == i], p.y[fold == i])
            table = queries @ targets.T
            scores[fold == i] += (_standings(table) + _standings(table.T)) / 2 / DIVISIONS
    return scores


def _standings(scores: np.ndarray) -> np.ndarray:
    """Tell by how many standard deviations each row's own score exceeds its scores of all others."""
    own, n = np.diagonal(scores), len(scores)
    mean = (np.sum(scores, axis=1) - own) / (n - 1)
    square = (np.sum(scores**2, axis=1) - own**2) / (n - 1)
    return np.asarray((own - mean) / np.sqrt(np.maximum(square - mean**2, np.finfo(np.float64).tiny)))


def _lower_mode(scores: np.ndarray) -> np.ndarray:
    """Tell which scores belong to a lower group of their own, if there is one."""
    from sklearn.mixture import GaussianMixture

    column = scores[:, None]
    one = GaussianMixture(1, random_state=0).fit(column)
    two = GaussianMixture(2, n_init=3, random_state=0).fit(column)
    low, high = np.argsort(two.means_[:, 0])
    apart = two.means_[high, 0] - two.means_[low, 0]
    pooled = np.sqrt(np.mean(two.covariances_))
    separate = apart > SEPARATION * pooled and one.bic(column) - two.bic(column) > BIC_GAIN
    if not separate or two.means_[low, 0] > DOUBTFUL:
        return np.zeros(len(scores), dtype=bool)
    # A wide group also claims what lies beyond the narrow one: nothing above the upper mean is low.
    return np.asarray((two.predict(column) == low) & (scores < two.means_[high, 0]))


def _checked_seeds(seeds: Any, n: int, m: int) -> np.ndarray:
    """Give the seeds as (k, 2) row numbers."""
    rows = [to_numpy(side) for side in seeds] if len(seeds) == 2 else []
    if len(rows) != 2 or any(r.ndim != 1 or r.dtype.kind not in "iu" for r in rows) or len(rows[0]) != len(rows[1]):
        raise ValueError("seeds must be (rows of x, rows of y): two equally long sequences of row numbers.")
    for r, count, name in ((rows[0], n, "x"), (rows[1], m, "y")):
        if len(r) and not (np.min(r) >= 0 and np.max(r) < count):
            raise ValueError(f"seeds name rows {np.min(r)}…{np.max(r)} of {name}, which has rows 0…{count - 1}.")
        if len(np.unique(r)) < len(r):
            raise ValueError(f"seeds name a row of {name} twice: give each row one partner.")
    if len(rows[0]) < 2 * GATE_FOLDS:
        raise ValueError(f"There are {len(rows[0])} seeds: expected at least {2 * GATE_FOLDS}, better 50 to 100.")
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
    p = _prepared(x[pairs[:, 0]], y[pairs[:, 1]], PREPARATION)
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
