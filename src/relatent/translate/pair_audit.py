"""Find the pairs that do not belong together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from relatent._array import Array, as_parallel, random_generator, to_numpy
from relatent._linalg import positive_inverse, unit_norm
from relatent._terminal import progress_bar
from relatent.spaces.sample import shuffled_rows
from relatent.steps import best_mean
from relatent.translate.goals.retrieval import NORMALIZATIONS
from relatent.translate.likelihood import LikelihoodPath
from relatent.translate.pairs import Pairs

MIN_PAIRS = 30
# Weaker penalties excuse mismatched pairs as noise along the few directions that they differ in.
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
# Maximum of pairs that a pair is compared with, and how many of the nearest tell what its two items are near to anyway.
MAX_OTHERS, NEAREST = 1_500, 10
# Divisions into folds over which a score is averaged, and times that all are scored again without the doubtful.
AUDIT_FOLDS, DIVISIONS, RESCORED = 5, 3, 2
# A mismatched pair scores 0 ± 1 by construction; a pair that scores less than this could well be one.
DOUBTFUL = 1.0
# Two modes: this much better by BIC, and this far apart in pooled standard deviations (Ashman's D).
BIC_GAIN, SEPARATION = 10.0, 2.0
# A fit checks this many of its pairs, with a ridge of this many mean squared norms.
CHECKED, CHECK_RIDGE = 400, 3.0
# It warns if at least this share, and this number, of them score below 0, as half of the mismatched ones do, and if the
# upper quarter scores so high that the two sides clearly have to do with each other.
BELOW, MIN_BELOW, UPPER, CLEAR = 0.025, 7, 0.75, 2.4


@dataclass(frozen=True)
class Audit:
    """How well each pair belongs together.

    ``scores`` (n,): by how many standard deviations a pair outscores the mismatched ones; about 0 ± 1 if it is one.
    ``suspicious``: rows that look mismatched, worst first. If the scores fall into two groups (``bimodal``) these are
    the lower group, otherwise the rows that score below 1. ``kept``: rows to fit on: all but the suspicious if
    there are two groups, else all.
    """

    scores: np.ndarray
    suspicious: np.ndarray
    kept: np.ndarray
    bimodal: bool

    def __str__(self) -> str:
        n, count = len(self.scores), len(self.suspicious)
        if self.bimodal:
            return f"{count} of {n} pairs do not belong together: their scores form a group of their own. Drop them."
        if not count:
            return f"All {n} pairs look as if they belonged together; nothing is dropped."
        return (
            f"{count} of {n} pairs look doubtful, but the scores form one group, so nothing is dropped: "
            "hard pairs and wrong ones cannot be told apart."
        )


def audit(x: Array, y: Array, *, seed: int = 0, progress: bool | None = None) -> Audit:
    r"""Find pairs that do not belong together.

    Each pair is scored by the likelihood ratio s fitted on the other folds, against the pairs that its x and its y
    form with items of other pairs, less what both reach with the nearest ten of these anyway:

    .. math:: z_i = \tfrac12 \left( \frac{t_{ii} - \operatorname{mean}_j t_{ij}}{\operatorname{std}_j t_{ij}} +
              \frac{t_{ii} - \operatorname{mean}_j t_{ji}}{\operatorname{std}_j t_{ji}} \right) \qquad
              t_{ij} = s_{ij} - \operatorname{near}_k s_{ik} - \operatorname{near}_k s_{kj}

    The normalization and the penalty are those of the highest median score. All pairs are then scored again,
    twice, by what those teach that scored well.

    Pairs are dropped only if the scores have two modes: two normal distributions fit better than one (BIC lower by
    more than 10), stand apart (Ashman's D above 2), and the lower one is where mismatched pairs are (mean below 1).
    ``progress`` shows a bar (None: on a terminal only).

    Unchanged by rotating, rescaling or shifting either side. What breaks it: too many mismatched pairs to learn
    from the rest, fewer pairs than about a tenth of the coordinates, wrong pairs that are nearly right, and
    spaces that share little: there even a map taught by clean pairs cannot tell (``experiments``: ``anchor_care``).

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
    if len(x) < MIN_PAIRS:
        raise ValueError(f"There are {len(x)} pairs: expected at least {MIN_PAIRS} to tell which do not belong.")
    pairs, everyone = Pairs.of(x, y, size=len(x), copy=False), np.ones(len(x), dtype=bool)
    fits = AUDIT_FOLDS * (len(NORMALIZATIONS) + RESCORED * DIVISIONS)
    with progress_bar(fits, "scoring pairs", progress) as advance:
        trials = {name: _belonging(pairs, name, PENALTIES, everyone, seed, 1, advance) for name in NORMALIZATIONS}
        _, name, best = max((float(np.median(z)), name, i) for name, t in trials.items() for i, z in enumerate(t))
        scores, penalty = trials[name][best], PENALTIES[best : best + 1]
        for again in range(1, RESCORED + 1):
            # At least half of the pairs teach, however badly they score.
            trusted = scores > min(DOUBTFUL, float(np.median(scores)))
            (scores,) = _belonging(pairs, name, penalty, trusted, seed + again * DIVISIONS, DIVISIONS, advance)
    wrong = _lower_mode(scores)
    bimodal, order = bool(np.any(wrong)), np.argsort(scores)
    suspicious = order[wrong[order] if bimodal else scores[order] < DOUBTFUL]
    return Audit(scores, suspicious, np.flatnonzero(~wrong), bimodal)


def mismatched(pairs: Pairs) -> Mismatched | None:
    r"""Return which pairs look mismatched, if about 5 % of a sample do; None also where that cannot be told.

    A check for every fit: it takes milliseconds. Scores are those of :func:`audit`, with dual codes for the likelihood
    ratio: the ridge weights by which the other items predict an item, on each side,

    .. math:: s_{ij} = c(x_i) \cdot c(y_j) \qquad c_{ik} = \frac{h_{ik}}{1 - h_{ii}}, \; c_{ii} = 0 \qquad
              H = K (K + \lambda I)^{-1}

    with K the cosines of centered rows. Mismatched pairs score 0 ± 1, so half of them score below 0; of clean pairs of
    words, sentences or images hardly ever 2.5 % do, unless the two sides share little. Then, or where about half of the
    pairs are wrong, it may return None although pairs are wrong.
    """
    sample = pairs.sample.part(np.sort(shuffled_rows(len(pairs.sample), CHECKED, pairs.seed)))
    if len(sample) < MIN_PAIRS:
        return None
    scores = _standings(_without_hubness(_dual_codes(sample.x) @ _dual_codes(sample.y).T))
    below = np.flatnonzero(scores < 0)
    if len(below) < max(MIN_BELOW, BELOW * len(sample)) or np.quantile(scores, UPPER) < CLEAR:
        return None
    return Mismatched(len(sample), sample.ids[below[np.argsort(scores[below])]])


@dataclass(frozen=True)
class Mismatched:
    """Pairs of a sample that look mismatched."""

    checked: int
    ids: np.ndarray
    """What those are known by that score below 0, worst first: about half of the mismatched."""

    def warning(self, named: str) -> str:
        """Return what to tell whoever fits on them, with the worst ones named."""
        share = min(1.0, 2 * len(self.ids) / self.checked)
        return (
            f"About {share:.0%} of the pairs look mismatched ({self.checked} were checked), most of all {named}. Find "
            "the others with rl.audit(x, y), and fit on the rows that it keeps, or use force=True."
        )


def _dual_codes(rows: np.ndarray) -> np.ndarray:
    """Return the weights by which a ridge of all other items predicts each one, (n, n)."""
    centered = rows - np.mean(rows, axis=0, dtype=np.float64)
    unit = unit_norm(centered).astype(np.float32)  # the ridge keeps the digits of the inverse
    products = unit @ unit.T
    products[np.diag_indices(len(products))] += np.float32(CHECK_RIDGE)
    inverse = CHECK_RIDGE * positive_inverse(products)
    # H = I − λ (K + λI)⁻¹, of which the diagonal is left out.
    codes = -inverse / np.diagonal(inverse)[:, None]
    np.fill_diagonal(codes, 0.0)
    return np.asarray(codes)


def _belonging(
    pairs: Pairs,
    name: str,
    penalties: tuple[float, ...],
    trusted: np.ndarray,
    seed: int,
    divisions: int,
    advance: Callable[[int], None],
) -> np.ndarray:
    """Score each pair, for each penalty, by what the trusted pairs of the other folds teach."""
    scores = np.zeros((len(penalties), len(pairs)))
    for division in range(divisions):
        order = random_generator(seed + division).permutation(len(pairs))
        for i in range(AUDIT_FOLDS):
            held, others = order[i::AUDIT_FOLDS], np.delete(order, np.s_[i::AUDIT_FOLDS])
            p = pairs.only(np.sort(others[trusted[others]])).normalized(name)
            path = LikelihoodPath.of(p.summary, p.spectra)
            for start in range(0, len(held), MAX_OTHERS):
                part = held[start : start + MAX_OTHERS]
                rows = pairs.sample.part(np.concatenate([part, others[: MAX_OTHERS - len(part)]]))
                sides = path.coordinates(*(side.astype(rows.x.dtype, copy=False) for side in p.of(rows)))
                for k, penalty in enumerate(penalties):
                    ratios = path.scored(penalty, penalty, *sides).ratios
                    scores[k, part] += _standings(_without_hubness(ratios))[: len(part)] / divisions
            advance(1)
    return scores


def _without_hubness(scores: np.ndarray) -> np.ndarray:
    """Take off what the row and the column of each score reach with the nearest items of other pairs."""
    return np.asarray(scores - _hubness(scores)[:, None] - _hubness(scores.T))


def _hubness(scores: np.ndarray) -> np.ndarray:
    """Return the mean of the highest scores of each row, its own, on the diagonal, left out."""
    others = scores.copy()
    np.fill_diagonal(others, -np.inf)
    return np.asarray(best_mean(others, min(NEAREST, len(others) - 1))[:, 0])


def _standings(scores: np.ndarray) -> np.ndarray:
    """Return by how many standard deviations a score on the diagonal exceeds the others of its row, and its column."""
    return np.asarray((_row_standings(scores) + _row_standings(scores.T)) / 2)


def _row_standings(scores: np.ndarray) -> np.ndarray:
    ours, n = np.diagonal(scores), len(scores) - 1
    mean = (np.sum(scores, axis=1) - ours) / n
    square = (np.sum(scores**2, axis=1) - ours**2) / n
    return np.asarray((ours - mean) / np.sqrt(np.maximum(square - mean**2, np.finfo(np.float64).tiny)))


def _lower_mode(scores: np.ndarray) -> np.ndarray:
    """Return which scores belong to a lower group of their own, if there is one."""
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
