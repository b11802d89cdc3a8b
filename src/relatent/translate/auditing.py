"""Find the pairs that do not belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from relatent._array import Array, as_parallel, random_generator, to_numpy
from relatent.translate.goals import Settings, retrieval
from relatent.translate.goals.retrieval import LikelihoodChoice
from relatent.translate.likelihood import LikelihoodPath
from relatent.translate.pairs import Pairs

__all__ = ["Audit", "audit"]

LEAST_PAIRS = 30
# Divisions into folds over which a score is averaged, and times that the doubtful are set aside for the next scoring.
AUDIT_FOLDS, DIVISIONS, RESCORED = 5, 3, 2
# A weak penalty excuses mismatched pairs as noise along the few directions that they differ in.
STRICT = 0.1
# A mismatched pair scores 0 ± 1 by construction; a pair that scores less than this could well be one.
DOUBTFUL = 1.0
# Two modes: this much better by BIC, and this far apart in pooled standard deviations (Ashman's D).
BIC_GAIN, SEPARATION = 10.0, 2.0


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
    pairs = Pairs.of(x, y, size=len(x), copy=False)
    chosen = retrieval.choose(pairs, Settings(seed=seed))
    chosen = replace(chosen, penalty_x=max(chosen.penalty_x, STRICT), penalty_y=max(chosen.penalty_y, STRICT))
    scores = _belonging(pairs, chosen, np.ones(len(x), dtype=bool), seed)
    for again in range(1, RESCORED + 1):
        # At least half of the pairs teach, however badly they score.
        scores = _belonging(pairs, chosen, scores > min(DOUBTFUL, float(np.median(scores))), seed + again * DIVISIONS)
    wrong = _lower_mode(scores)
    order = np.argsort(scores)
    return Audit(scores, order[scores[order] < DOUBTFUL], np.flatnonzero(~wrong), bool(np.any(wrong)))


def _belonging(pairs: Pairs, chosen: LikelihoodChoice, trusted: np.ndarray, seed: int) -> np.ndarray:
    """Score each pair by what the trusted pairs of the other folds teach, averaged over divisions into folds."""
    scores = np.zeros(len(pairs))
    for division in range(DIVISIONS):
        fold = random_generator(seed + division).permutation(len(pairs)) % AUDIT_FOLDS
        for i in range(AUDIT_FOLDS):
            p = pairs.only(np.flatnonzero(trusted & (fold != i))).normalized(chosen.normalize)
            ratio = LikelihoodPath.of(p.summary).at(chosen.penalty_x, chosen.penalty_y)
            queries, targets = ratio.vectors(*p.of(pairs.sample.part(np.flatnonzero(fold == i))))
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
