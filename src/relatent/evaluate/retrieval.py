"""Which rows a search should find and how much each is worth; ranked lists scored against that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import Array, as_parallel, as_same_space, check_same_width, row_chunks, suggest, to_numpy
from relatent._linalg import unit_norm
from relatent.evaluate.interval import Report, column, report
from relatent.evaluate.linear import check_varies
from relatent.evaluate.neighbors import check_fewer, nearest, score_blocks

if TYPE_CHECKING:
    from relatent.spaces.multi_vectors import MultiVectors

# One entry per query: a row number, several, or a mapping from row numbers to grades.
Relevant = Sequence[Any] | np.ndarray


@dataclass(frozen=True, eq=False)
class Judgments:
    """The rows that are relevant to each query, (n, r), and their grades; filled up with −1 and 0.

    Found rows, (n, k), are scored query by query. What is not named here is not relevant.
    """

    rows: np.ndarray
    grades: np.ndarray

    @staticmethod
    def of(relevant: Relevant, n: int, m: int) -> Judgments:
        """Return the judgments of n queries over m rows. A grade of 0 or less is not relevant; rows alone have 1.

        >>> Judgments.of([{3: 2.0, 5: 0.0}, [4, 4, 1]], 2, 9).rows.tolist()
        [[3, -1], [1, 4]]
        """
        if len(relevant) != n:
            raise ValueError(f"relevant has {len(relevant)} entries and x {n} rows: expected one entry per row of x.")
        graded = [graded_rows(entry) for entry in relevant]
        widest = max(map(len, graded), default=0)
        rows, grades = np.full((n, widest), -1, dtype=np.int64), np.zeros((n, widest))
        for query, entry in enumerate(graded):
            if not entry:
                raise ValueError(f"Query {query} has no relevant row: leave it out.")
            if min(entry) < 0 or max(entry) >= m:
                raise ValueError(f"relevant holds row numbers outside 0…{m - 1}, the rows of y.")
            rows[query, : len(entry)], grades[query, : len(entry)] = zip(*sorted(entry.items()), strict=True)
        return Judgments(rows, grades)

    @staticmethod
    def own(n: int) -> Judgments:
        """Return the judgments of n queries that should each find the row of their own number."""
        return Judgments(np.arange(n)[:, None], np.ones((n, 1)))

    @property
    def counts(self) -> np.ndarray:
        """How many rows are relevant to each query."""
        return np.asarray(np.sum(self.grades > 0, axis=1))

    def grades_of(self, found: np.ndarray) -> np.ndarray:
        """Return the grade of each found row, (n, k)."""
        graded = np.zeros(found.shape)
        for rows, grades in zip(self.rows.T, self.grades.T, strict=True):
            graded += np.where(found == rows[:, None], grades[:, None], 0)
        return graded

    def recall(self, found: np.ndarray) -> np.ndarray:
        r"""Return the share of the relevant rows that are found: :math:`|N_i \cap R_i| / |R_i|`."""
        return np.asarray(np.sum(self.grades_of(found) > 0, axis=1) / self.counts)

    def reciprocal_rank(self, found: np.ndarray) -> np.ndarray:
        """Return 1 / the place of the first relevant row, 0 where none is found."""
        return first_hit(self.grades_of(found) > 0)

    def ndcg(self, found: np.ndarray) -> np.ndarray:
        r"""Return the normalized discounted cumulative gain of the k found rows.

        .. math:: \frac{\sum_{j \le k} g_{(j)} / \log_2(1 + j)}{\max \sum_{j \le k} g_{(j)} / \log_2(1 + j)}

        g are the grades in the order found. 1: the most valuable rows first. The gain is linear in the grade, as in
        trec_eval and scikit-learn.

        References: Järvelin & Kekäläinen, ACM TOIS 2002.
        """
        return np.asarray(_discounted(self.grades_of(found)) / self.ideal(found.shape[1]))

    def ideal(self, k: int) -> np.ndarray:
        """Return the largest discounted cumulative gain that k rows can have, query by query."""
        return _discounted(-np.sort(-self.grades, axis=1)[:, :k])


# Measures of judged rows, query by query.
JUDGED: dict[str, Callable[[Judgments, np.ndarray], np.ndarray]] = {
    "recall": Judgments.recall,
    "mrr": Judgments.reciprocal_rank,
    "ndcg": Judgments.ndcg,
}


def first_hit(hits: np.ndarray) -> np.ndarray:
    """Return 1 / the place of the first hit of each row of (n, k) truth values, 0 where there is none.

    >>> first_hit(np.asarray([[False, True], [False, False]])).tolist()
    [0.5, 0.0]
    """
    return np.asarray(np.where(np.any(hits, axis=1), 1 / (np.argmax(hits, axis=1) + 1), 0.0))


def graded_rows(entry: Any) -> dict[int, float]:
    """Return the relevant rows of one query with their grades."""
    pairs = entry.items() if isinstance(entry, Mapping) else ((row, 1.0) for row in np.atleast_1d(entry))
    return {int(row): float(grade) for row, grade in pairs if grade > 0}


def _discounted(grades: np.ndarray) -> np.ndarray:
    return np.asarray(grades @ (1 / np.log2(np.arange(2, grades.shape[1] + 2))))


def jaccard(x: Array, y: Array, k: int = 10, metric: str = "cosine") -> float:
    r"""Return the overlap of the neighbors of each x with those of its y, both searched in y, themselves included.

    .. math:: \frac1n \sum_i \frac{|N_i \cap T_i|}{|N_i \cup T_i|}, \quad
              N_i = \operatorname{kNN}_Y(x_i),\; T_i = \operatorname{kNN}_Y(y_i)

    1: translation keeps every neighborhood. About k/2n: none, which is what untranslated spaces score. Not symmetric.
    Unchanged when one rotation and rescaling is applied to both; changed when it is applied to one: that is the point.
    For the symmetric variant, each space in its own neighbors, see :func:`relatent.evaluate.mutual_knn`.

    References: Moschella et al., ICLR 2023, table 1.

    >>> y = np.eye(4)
    >>> jaccard(y, y, k=1), jaccard(y[[1, 0, 3, 2]], y, k=1)
    (1.0, 0.0)
    """
    x, y = _checked(x, y, k)
    return float(np.mean(_overlap(*(nearest(a, y, k, metric).indices for a in (x, y)))))


def mrr(x: Array, y: Array, k: int = 10, metric: str = "cosine") -> float:
    r"""Return the mean reciprocal rank of the own row among the k nearest, 0 where it is not among them.

    .. math:: \frac1n \sum_i \frac{1}{\operatorname{rank}_i}\,[\operatorname{rank}_i \le k]

    1: each x is nearest to its own y. Invariances as for :func:`jaccard`.

    References: Moschella et al., ICLR 2023, table 1.

    >>> y = np.asarray([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> mrr(y[[1, 0, 2]], y, k=2)
    0.666...
    """
    x, y = _checked(x, y, k)
    return float(np.mean(_own_reciprocal(nearest(x, y, k, metric).indices)))


def reciprocal_ranks(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    r"""Return 1 / the rank of one column for each row of a matrix of scores, larger being better.

    .. math:: \frac{1}{1 + |\{j : s_{ij} > s_{i,own_i}\}| + \frac12 |\{j \ne own_i : s_{ij} = s_{i,own_i}\}|}

    ``own`` gives the column of each row. Ties share their places half, so that a constant score earns no credit.

    >>> reciprocal_ranks(np.asarray([[0.9, 0.1, 0.5], [0.3, 0.3, 0.3]]), np.asarray([2, 0])).tolist()
    [0.5, 0.5]
    """
    # The own column ties with itself, which counts half: its rank is half a place more.
    return np.asarray(1 / (0.5 + _ahead(scores, scores[np.arange(len(scores)), own])))


def mean_reciprocal_rank(queries: np.ndarray, gallery: np.ndarray) -> float:
    """Return the mean over all rows of 1 / the rank of row i for query i, by inner product; ties share their places."""
    return float(np.mean(reciprocal_ranks(queries @ gallery.T, np.arange(len(queries)))))


def recall(x: Array, y: Array, k: int = 10, metric: str = "cosine", relevant: Relevant | None = None) -> float:
    r"""Return the share of the relevant rows of y that are among the k nearest.

    .. math:: \frac1n \sum_i \frac{|N_i \cap R_i|}{|R_i|}

    ``relevant`` gives for each row of x the row number of y that should be found, or several; by default row i itself,
    and then recall is the share of queries that find their own row.

    >>> recall(np.asarray([[1.0, 0.1]]), np.eye(3)[:, :2] + 0.1, k=2, relevant=[[0, 2]])
    1.0
    """
    return float(np.mean(query_scores(x, y, k, metric, relevant, "recall")))


def precision(x: Array, y: Array, k: int = 10, metric: str = "cosine", relevant: Relevant | None = None) -> float:
    r"""Return the share of the k nearest rows of y that are relevant: :math:`\frac1n \sum_i |N_i \cap R_i| / k`.

    ``relevant`` as in :func:`recall`. With one relevant row per query it cannot exceed 1/k.

    >>> precision(np.asarray([[1.0, 0.1]]), np.eye(3)[:, :2] + 0.1, k=2, relevant=[[0]])
    0.5
    """
    found, judged = _found(x, y, k, metric, relevant)
    return float(np.mean(judged.grades_of(found) > 0))


def ndcg(x: Array, y: Array, k: int = 10, metric: str = "cosine", relevant: Relevant | None = None) -> float:
    r"""Return the mean normalized discounted cumulative gain of the k nearest rows of y.

    .. math:: \frac1n \sum_i \frac{\text{DCG}_i}{\max \text{DCG}_i}, \quad
              \text{DCG}_i = \sum_{j \le k} \frac{g_{i(j)}}{\log_2(1 + j)}

    ``relevant`` as in :func:`recall`, or for each row of x a mapping from rows of y to grades g.

    References: Järvelin & Kekäläinen, ACM TOIS 2002.

    >>> ndcg(np.asarray([[1.0, 0.1]]), np.eye(3)[:, :2] + 0.1, k=2, relevant=[{0: 2.0, 2: 1.0}])
    1.0
    """
    return float(np.mean(query_scores(x, y, k, metric, relevant, "ndcg")))


def top1(x: Array, y: Array, metric: str = "cosine", relevant: Relevant | None = None) -> float:
    """Return the share of queries whose nearest row of y is relevant, by default the own row.

    >>> top1(np.eye(3), np.eye(3)[[0, 2, 1]])
    0.333...
    """
    return precision(x, y, 1, metric, relevant)


def mean_rank(x: Array, y: Array, metric: str = "cosine") -> float:
    """Return the mean rank of the own row among all rows of y, from 1; ties share their ranks: chance is (n + 1)/2.

    >>> y = np.asarray([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> mean_rank(y[[1, 0, 2]], y)
    1.666...
    """
    if metric == "csls":
        raise ValueError('mean_rank has no metric "csls": use "cosine", or mrr with metric="csls".')
    x, y = as_parallel(x=x, y=y)
    x, y = (a.detach() if hasattr(a, "detach") else to_numpy(a) for a in as_same_space(x=x, y=y))
    own = np.full(len(x), np.nan)
    for rows, columns, block in score_blocks(x, y, metric, wanted=_holds_own):
        inside = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
        own[inside] = to_numpy(block[inside - rows.start, inside - columns.start])
    ahead = np.zeros(len(x))
    for rows, _, block in score_blocks(x, y, metric):
        ahead[rows] += _ahead(to_numpy(block), own[rows])
    return float(np.mean(ahead)) + 0.5  # the own row ties with itself


def _holds_own(rows: slice, columns: slice) -> bool:
    return bool(max(rows.start, columns.start) < min(rows.stop, columns.stop))


def hubness(x: Array, y: Array | None = None, k: int = 10, metric: str = "cosine") -> float:
    r"""Return the skew of how often each row of y is among the k nearest of a row of x (or of another row of x).

    .. math:: \operatorname{E}[(N - \mu)^3] / \sigma^3

    Near 0: every row is found about equally often. Above about 1 a few rows, the hubs, are among the neighbors of
    most; the metric ``csls`` corrects for them.

    References: Radovanović et al., JMLR 2010.

    >>> hubness(np.eye(8)[:, :4] + 0.1, k=2) >= 0
    True
    """
    if y is None:
        found, m = nearest(x, x, k, metric, exclude_self=True), x.shape[0]
    else:
        found, m = nearest(x, y, k, metric), y.shape[0]
    count = np.bincount(found.indices.ravel(), minlength=m).astype(np.float64)
    apart = count - np.mean(count)
    std = np.sqrt(np.mean(apart**2))
    return float(np.mean(apart**3) / std**3) if std > 0 else 0.0


def retrieval_report(
    x: Array, y: Array, k: int = 10, metric: str = "cosine", slices: Any = None, *, seed: int = 0
) -> Report:
    """Return Jaccard, MRR, recall and top-1 with bootstrap intervals, from one search of each side.

    ``slices`` gives each row a label, and the report one line per label. The gallery is the whole of y throughout.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(200, 8))
    >>> r = retrieval_report(y + 0.1 * rng.normal(size=y.shape), y)
    >>> r["mrr"].value > 0.9, [line.measure for line in r]
    (True, ['jaccard', 'mrr', 'recall', 'top1'])
    """
    x, y = _checked(x, y, k)
    found = nearest(x, y, k, metric).indices
    reciprocal = _own_reciprocal(found)
    true = found if x is y else nearest(y, y, k, metric).indices
    columns = [_overlap(found, true), reciprocal, reciprocal > 0, reciprocal == 1]
    measures = {name: column(i) for i, name in enumerate(("jaccard", "mrr", "recall", "top1"))}
    return report(np.stack(columns, axis=1), measures, slices, seed=seed)


def query_scores(x: Array, y: Array, k: int, metric: str, relevant: Relevant | None, measure: str) -> np.ndarray:
    """Return the score of every query by one of ``JUDGED``."""
    if measure not in JUDGED:
        raise ValueError(f"There is no measure {measure!r} of judged rows.{suggest(measure, JUDGED)}")
    found, judged = _found(x, y, k, metric, relevant)
    return JUDGED[measure](judged, found)


def _checked(x: Array, y: Array, k: int) -> tuple[Array, Array]:
    x, y = as_parallel(x=x, y=y)
    check_fewer(k, y.shape[0])
    x, y = as_same_space(x=x, y=y)
    check_varies(y=y)
    return x, y


def _found(x: Array, y: Array, k: int, metric: str, relevant: Relevant | None) -> tuple[np.ndarray, Judgments]:
    x, y = as_same_space(x=x, y=y) if relevant is not None else _checked(x, y, k)
    check_varies(y=y)
    n, m = x.shape[0], y.shape[0]
    judged = Judgments.own(n) if relevant is None else Judgments.of(relevant, n, m)
    return nearest(x, y, check_fewer(k, m), metric).indices, judged


def _overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the Jaccard overlap of two sets of k rows per query."""
    shared = np.sum([np.any(a == row[:, None], axis=1) for row in b.T], axis=0)
    return np.asarray(shared / (2 * a.shape[1] - shared))


def _own_reciprocal(found: np.ndarray) -> np.ndarray:
    return first_hit(found == np.arange(len(found))[:, None])


def _ahead(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Count the scores above the own, and half of those that equal it."""
    mine = own[:, None].astype(scores.dtype)
    return np.asarray(np.sum(scores > mine, axis=1) + 0.5 * np.sum(scores == mine, axis=1))


# Vectors of queries that are compared with all vectors of the documents at a time.
BLOCK = 2_048


def maxsim(queries: MultiVectors, documents: MultiVectors, *, normalize: bool = True) -> np.ndarray:
    r"""Return the late-interaction score of every query and document, (queries, documents).

    .. math:: S_{qd} = \sum_{i \in q} \max_{j \in d} \langle u_i, v_j \rangle

    Vectors are scaled to unit norm first, unless ``normalize=False``. Unchanged when both sides are rotated; the sum
    is not divided by the number of the query's vectors, so that only scores of one query can be compared.

    References: Khattab & Zaharia, SIGIR 2020 (ColBERT).

    >>> from relatent.spaces import MultiVectors
    >>> a, b = MultiVectors.of([np.eye(2)]), MultiVectors.of([np.eye(2)[:1], np.eye(2)])
    >>> maxsim(a, b).tolist()
    [[1.0, 2.0]]
    """
    check_same_width(queries=queries.vectors, documents=documents.vectors)
    u, v = (unit_norm(side.vectors) if normalize else side.vectors for side in (queries, documents))
    best = np.empty((len(u), len(documents)), dtype=np.result_type(u, v))
    for rows in row_chunks(len(u), BLOCK):
        best[rows] = np.maximum.reduceat(u[rows] @ v.T, documents.offsets[:-1], axis=1)
    return np.asarray(np.add.reduceat(best, queries.offsets[:-1], axis=0))
