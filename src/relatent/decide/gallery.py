"""What a search will score in the index that is served, from its rankings of a smaller gallery."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relatent._array import random_generator
from relatent.evaluate.retrieval import Judgments

# Ranks that are searched per rank that counts: of a random half of the gallery, the first k are surely among them.
DEPTH = 20
# The exponents that the prior may have, and how often the interval between them is halved.
EXPONENTS, HALVINGS = (1e-3, 8.0), 25
# The relative step of numerical derivatives, and draws of half the relevant items.
STEP, DRAWS = 1.05, 8


@dataclass(frozen=True, eq=False)
class ServedIndex:
    """An index of ``rows`` items that a gallery of ``items`` was drawn from, and what is relevant in it.

    ``judged`` are the relevant items of each query in the whole index; their row numbers are not used. ``share`` of
    all relevant items, of these and other queries, are in the gallery.
    """

    rows: int
    items: int
    judged: Judgments
    share: float

    @property
    def growth(self) -> float:
        """How many times larger it is than the gallery."""
        return max(1.0, self.rows / self.items)

    def is_candidate(self, found: np.ndarray, judged: Judgments, candidates: int) -> np.ndarray:
        """Return which rows of a ranking, (n, depth), would be among the first ``candidates`` in the whole index."""
        relevant = judged.grades_of(found) > 0
        before, ahead = _before(relevant), _before(~relevant)
        copies = self.judged.counts / judged.counts
        return np.asarray(before * copies[:, None] + ahead * self.growth < candidates)


def expected_ndcg(found: np.ndarray, judged: Judgments, k: int, index: ServedIndex) -> np.ndarray:
    r"""Return for each query a number whose mean is the nDCG@k to expect in the index, and whose spread is its error.

    .. math:: a' - a \sim \operatorname{NB}(a + c,\; n/N), \qquad
              \widehat{\text{DCG}} = \sum_j g_j \sum_i \operatorname{E} \frac{[r_{ij} < k]}{\log_2(2 + r_{ij})}, \quad
              r_{ij} = b_j' + i + a_j'

    Of n items in the gallery, a irrelevant and b relevant ones are ahead of a relevant item j. In an index of N items
    the irrelevant ones are a': the predictive distribution for a share of items ahead whose prior density is a power,
    :math:`f^{c-1}`. The exponent c is the one by which a random half of the gallery predicts the score of the whole.
    Where only some relevant items are in the gallery, j stands for several, i, and so do those ahead of it, b'. This
    ignores that the better of them have less ahead; how much it loses is measured on random halves of the relevant
    items, and added. Rows of ``found``, (n, depth), that are −1 are not there.

    Unchanged where the index is the gallery. What breaks it: a gallery that is not a random part of the index, such as
    one of hard negatives only.

    References: Gelman et al., Bayesian Data Analysis, 2013, section 2.6 (gamma-Poisson); Good & Toulmin, 1956.
    """
    hits = _Hits.of(found, judged)
    measured = np.asarray(hits.total(_table(k)) / judged.ideal(k))
    if index.growth == 1:
        return measured
    c = _exponent(hits, judged, k, measured)

    def grown(exponent: float) -> np.ndarray:
        table = _table(k, index.growth, exponent)
        return np.asarray(hits.total(table, index.judged.counts / judged.counts) / index.judged.ideal(k))

    # The exponent is estimated from the same queries: each moves it a little, and with it the score of all.
    slope = np.mean(grown(c * STEP)) - np.mean(grown(c / STEP))
    above, below = (hits.total(hits.halved(k, e)) / judged.ideal(k) for e in (c * STEP, c / STEP))
    residual = (above + below) / 2 - measured
    steepness = np.mean(above) - np.mean(below)
    moved = -slope / steepness * (residual - np.mean(residual)) if steepness else 0.0
    return np.asarray(grown(c) + moved - np.log2(1 / index.share) * _lost_by_copies(hits, judged, k, measured))


@dataclass(frozen=True, eq=False)
class _Hits:
    """The relevant rows in rankings: the query of each, its grade, and how many irrelevant and relevant are before."""

    query: np.ndarray
    grade: np.ndarray
    ahead: np.ndarray
    before: np.ndarray
    queries: int

    @classmethod
    def of(cls, found: np.ndarray, judged: Judgments) -> _Hits:
        grades = judged.grades_of(found)
        relevant = grades > 0
        ahead, before = _before(~relevant & (found >= 0)), _before(relevant)
        query, place = np.nonzero(relevant)
        return cls(query, grades[query, place], ahead[query, place], before[query, place], len(found))

    def total(self, table: np.ndarray, copies: np.ndarray | None = None) -> np.ndarray:
        """Return the sum over the hits of each query of grade × table[ahead, before], each hit as several copies."""
        ahead = np.minimum(self.ahead, len(table) - 1)
        areas = np.cumsum(np.pad(table, ((0, 0), (1, 0))), axis=1)
        width = 1.0 if copies is None else copies[self.query]
        sums = _at(areas, ahead, (self.before + 1) * width) - _at(areas, ahead, self.before * width)
        return np.bincount(self.query, self.grade * sums, self.queries)

    def halved(self, k: int, exponent: float) -> np.ndarray:
        """Return the table that a random half of the irrelevant rows predicts for all of them."""
        from scipy.stats import binom

        kept, ahead = np.arange(k + 1), np.arange(max(self.ahead, default=0) + 1)
        return np.asarray(binom.pmf(kept, ahead[:, None], 0.5) @ _table(k, 2.0, exponent))


def _before(flags: np.ndarray) -> np.ndarray:
    """Count the flags before each place of a row."""
    return np.asarray(np.cumsum(flags, axis=1) - flags)


def _at(areas: np.ndarray, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Interpolate rows of a table between its columns; beyond the last it is constant."""
    last = areas.shape[1] - 1
    left = np.minimum(places, last).astype(np.intp)
    right = np.minimum(left + 1, last)
    part = np.minimum(places, last) - left
    return np.asarray(areas[rows, left] * (1 - part) + areas[rows, right] * part)


def _table(k: int, growth: float = 1.0, exponent: float = 1.0) -> np.ndarray:
    """Return the expected discount of a relevant row, (ahead, before), each up to k, in an index so much larger."""
    from scipy.stats import nbinom

    place = np.arange(k + 1)
    rank = place[:, None] + place
    discounts = np.where(rank < k, 1 / np.log2(2 + rank), 0.0)
    return np.asarray(nbinom.pmf(place - place[:, None], place[:, None] + exponent, 1 / growth) @ discounts)


def _exponent(hits: _Hits, judged: Judgments, k: int, measured: np.ndarray) -> float:
    """Return the exponent by which half of the gallery predicts the score of the whole; the larger, the lower it is."""
    low, high = EXPONENTS
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        if np.mean(hits.total(hits.halved(k, middle)) / judged.ideal(k)) > np.mean(measured):
            low = middle
        else:
            high = middle
    return float(np.sqrt(low * high))


def _lost_by_copies(hits: _Hits, judged: Judgments, k: int, measured: np.ndarray) -> np.ndarray:
    """Return how the score changes where half of the relevant items, drawn at random, stand for all of them."""
    rng = random_generator(0)
    change, drawn = np.zeros(hits.queries), np.zeros(hits.queries)
    missed = judged.counts - np.bincount(hits.query, minlength=hits.queries)
    for _ in range(DRAWS):
        half, found = _half(hits, rng)
        left = found + rng.binomial(missed, 0.5)
        copies = judged.counts / np.maximum(left, 1)
        score = half.total(_table(k), copies) / judged.ideal(k)
        change += np.where(left > 0, score - measured, 0)
        drawn += left > 0
    return np.asarray(change / np.maximum(np.mean(drawn), 1e-9))


def _half(hits: _Hits, rng: np.random.Generator) -> tuple[_Hits, np.ndarray]:
    """Return a random half of the hits, and how many of each query are left."""
    kept = rng.random(len(hits.query)) < 0.5
    found = np.bincount(hits.query[kept], minlength=hits.queries)
    query = hits.query[kept]
    before = np.arange(len(query)) - (np.cumsum(found) - found)[query]
    return _Hits(query, hits.grade[kept], hits.ahead[kept], before, hits.queries), found
