"""Retrieval measures: look vectors up in a space and see whether the right rows come back.

Throughout, x are vectors in (or translated into) the space of y, and both are looked up among the rows of y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relatent._array import Array, as_parallel, as_same_space, to_numpy
from relatent.evaluate.checks import check_fewer, check_varies
from relatent.evaluate.interval import Report, report
from relatent.evaluate.neighbors import Neighbors, nearest, score_blocks

__all__ = ["hubness", "jaccard", "mean_rank", "mrr", "precision", "recall", "retrieval", "top1", "wanted_rows"]

Relevant = Sequence[Any] | np.ndarray | None


def jaccard(x: Array, y: Array, k: int = 10, metric: str = "cosine") -> float:
    r"""Overlap of the neighbours of each x with those of its y, both looked up in y, themselves included.

    .. math:: \frac1n \sum_i \frac{|N_i \cap T_i|}{|N_i \cup T_i|}, \quad
              N_i = \operatorname{kNN}_Y(x_i),\; T_i = \operatorname{kNN}_Y(y_i)

    1: translation keeps every neighbourhood. About k/2n: none, which is what untranslated spaces score. Not symmetric.
    Unchanged when one rotation and rescaling is applied to both; changed when it is applied to one: that is the point.
    For the symmetric variant, each space in its own neighbours, see :func:`relatent.evaluate.mutual_knn`.

    References: Moschella et al., ICLR 2023, table 1.

    >>> y = np.eye(4)
    >>> jaccard(y, y, k=1), jaccard(y[[1, 0, 3, 2]], y, k=1)
    (1.0, 0.0)
    """
    x, y = _checked(x, y, k)
    return float(np.mean(_overlap(nearest(x, y, k, metric), nearest(y, y, k, metric))))


def mrr(x: Array, y: Array, k: int = 10, metric: str = "cosine") -> float:
    r"""Mean reciprocal rank of the own row among the k nearest, 0 where it is not among them.

    .. math:: \frac1n \sum_i \frac{1}{\operatorname{rank}_i}\,[\operatorname{rank}_i \le k]

    1: each x is nearest to its own y. Invariances as for :func:`jaccard`.

    References: Moschella et al., ICLR 2023, table 1.

    >>> y = np.asarray([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> mrr(y[[1, 0, 2]], y, k=2)
    0.666...
    """
    x, y = _checked(x, y, k)
    return float(np.mean(_reciprocal_rank(nearest(x, y, k, metric))))


def reciprocal_ranks(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return 1 / the rank of one column for each row of a matrix of scores; ties share their places half."""
    mine = scores[np.arange(len(scores)), own][:, None]
    return np.asarray(1 / (0.5 + np.sum(scores > mine, axis=1) + 0.5 * np.sum(scores == mine, axis=1)))


def recall(x: Array, y: Array, k: int = 10, metric: str = "cosine", relevant: Relevant = None) -> float:
    r"""Share of the relevant rows of y that are among the k nearest.

    .. math:: \frac1n \sum_i \frac{|N_i \cap R_i|}{|R_i|}

    ``relevant`` gives for each row of x the row number of y that should be found, or several; by default row i itself,
    and then recall is the share of queries that find their own row.

    >>> recall(np.asarray([[1.0, 0.1]]), np.eye(3)[:, :2] + 0.1, k=2, relevant=[[0, 2]])
    1.0
    """
    return float(np.mean(recall_rows(x, y, k, metric, relevant)))


def precision(x: Array, y: Array, k: int = 10, metric: str = "cosine", relevant: Relevant = None) -> float:
    r"""Share of the k nearest rows of y that are relevant: :math:`\frac1n \sum_i |N_i \cap R_i| / k`.

    ``relevant`` as in :func:`recall`. With one relevant row per query it cannot exceed 1/k.

    >>> precision(np.asarray([[1.0, 0.1]]), np.eye(3)[:, :2] + 0.1, k=2, relevant=[[0]])
    0.5
    """
    found, wanted = _found(x, y, k, metric, relevant)
    return float(np.mean(np.sum(_hits(found, wanted), axis=1) / k))


def top1(x: Array, y: Array, metric: str = "cosine", relevant: Relevant = None) -> float:
    """Share of queries whose nearest row of y is relevant, by default the own row.

    >>> top1(np.eye(3), np.eye(3)[[0, 2, 1]])
    0.333...
    """
    found, wanted = _found(x, y, 1, metric, relevant)
    return float(np.mean(_hits(found, wanted)))


def mean_rank(x: Array, y: Array, metric: str = "cosine") -> float:
    """Mean place of the own row among all rows of y, from 1; equals share their places, so chance is (n + 1)/2.

    >>> y = np.asarray([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> mean_rank(y[[1, 0, 2]], y)
    1.666...
    """
    if metric == "csls":
        raise ValueError('mean_rank has no metric "csls": use "cosine", or mrr with metric="csls".')
    x, y = as_parallel(x=x, y=y)
    x, y = (a.detach() if hasattr(a, "detach") else to_numpy(a) for a in as_same_space(x=x, y=y))
    own = np.full(len(x), np.nan)
    for rows, columns, block in score_blocks(x, y, metric):
        inside = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
        own[inside] = to_numpy(block[inside - rows.start, inside - columns.start])
    place = np.ones(len(x))
    for rows, _, block in score_blocks(x, y, metric):
        scores = to_numpy(block)
        mine = own[rows, None].astype(scores.dtype)
        place[rows] += np.sum(scores > mine, axis=1) + 0.5 * np.sum(scores == mine, axis=1)
    return float(np.mean(place - 0.5))  # the own row equals itself


def hubness(x: Array, y: Array | None = None, k: int = 10, metric: str = "cosine") -> float:
    r"""Skew of how often each row of y is among the k nearest of a row of x (or of another y, without x's twin).

    .. math:: \operatorname{E}[(N - \mu)^3] / \sigma^3

    Near 0: every row is found about equally often. Above about 1 a few rows, the hubs, crowd out the rest; the metric
    ``csls`` corrects for them.

    References: Radovanović et al., JMLR 2010.

    >>> hubness(np.eye(8)[:, :4] + 0.1, k=2) >= 0
    True
    """
    if y is None:
        found, m = nearest(x, x, k, metric, exclude_self=True), len(x)
    else:
        found, m = nearest(x, y, k, metric), len(y)
    count = np.bincount(found.indices.ravel(), minlength=m).astype(np.float64)
    apart = count - np.mean(count)
    std = np.sqrt(np.mean(apart**2))
    return float(np.mean(apart**3) / std**3) if std > 0 else 0.0


def retrieval(x: Array, y: Array, k: int = 10, metric: str = "cosine", slices: Any = None, *, seed: int = 0) -> Report:
    """Report Jaccard, MRR, recall and top-1 with bootstrap intervals, from one search of each side.

    ``slices`` gives each row a label, and the report one line per label. The gallery is the whole of y throughout.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(200, 8))
    >>> r = retrieval(y + 0.1 * rng.normal(size=y.shape), y)
    >>> r["mrr"].value > 0.9, [line.measure for line in r]
    (True, ['jaccard', 'mrr', 'recall', 'top1'])
    """
    x, y = _checked(x, y, k)
    found = nearest(x, y, k, metric)
    reciprocal = _reciprocal_rank(found)
    true = found if x is y else nearest(y, y, k, metric)
    columns = [_overlap(found, true), reciprocal, reciprocal > 0, reciprocal == 1]
    measures = {name: _column(i) for i, name in enumerate(("jaccard", "mrr", "recall", "top1"))}
    return report(np.stack(columns, axis=1), measures, slices, seed=seed)


def recall_rows(x: Array, y: Array, k: int, metric: str, relevant: Relevant) -> np.ndarray:
    """Recall of every query."""
    found, wanted = _found(x, y, k, metric, relevant)
    return np.asarray(np.sum(_hits(found, wanted), axis=1) / np.sum(wanted >= 0, axis=1))


def _checked(x: Array, y: Array, k: int) -> tuple[Array, Array]:
    x, y = as_parallel(x=x, y=y)
    check_fewer(k, y.shape[0])
    x, y = as_same_space(x=x, y=y)
    check_varies(y=y)
    return x, y


def _found(x: Array, y: Array, k: int, metric: str, relevant: Relevant) -> tuple[Neighbors, np.ndarray]:
    x, y = as_same_space(x=x, y=y) if relevant is not None else _checked(x, y, k)
    check_varies(y=y)
    k = check_fewer(k, y.shape[0])
    return nearest(x, y, k, metric), wanted_rows(relevant, x.shape[0], y.shape[0])


def wanted_rows(relevant: Relevant, n: int, m: int) -> np.ndarray:
    """Row numbers to be found, (n, r), filled up with −1 where a query has fewer than others."""
    if relevant is None:
        return np.arange(n)[:, None]
    if len(relevant) != n:
        raise ValueError(f"relevant has {len(relevant)} entries and x {n} rows: expected one entry per row of x.")
    wanted = np.sort(_padded(relevant), axis=1)
    if np.max(wanted) >= m or np.min(wanted) < -1:
        raise ValueError(f"relevant holds row numbers outside 0…{m - 1}, the rows of y.")
    if np.any(wanted[:, -1] < 0):
        raise ValueError(f"Query {int(np.argmin(wanted[:, -1]))} has no relevant row: leave it out.")
    wanted[:, 1:][wanted[:, 1:] == wanted[:, :-1]] = -1  # a row that is named twice counts once
    return wanted


def _padded(relevant: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Row numbers as (n, r), filled up with −1."""
    if isinstance(relevant, np.ndarray) or np.ndim(relevant[0]) == 0:
        array = np.asarray(relevant, dtype=np.int64)
        return array[:, None] if array.ndim == 1 else array
    lists = [np.asarray(rows, dtype=np.int64) for rows in relevant]
    padded = np.full((len(lists), max(map(len, lists))), -1, dtype=np.int64)
    for i, rows in enumerate(lists):
        padded[i, : len(rows)] = rows
    return padded


def _hits(found: Neighbors, wanted: np.ndarray) -> np.ndarray:
    """Tell of each neighbour whether it is wanted, (n, k)."""
    hits = np.zeros(found.indices.shape, dtype=bool)
    for column in wanted.T:
        hits |= found.indices == column[:, None]
    return hits


def _overlap(a: Neighbors, b: Neighbors) -> np.ndarray:
    shared = np.sum(_hits(a, b.indices), axis=1)
    return np.asarray(shared / (2 * a.indices.shape[1] - shared))


def _reciprocal_rank(found: Neighbors) -> np.ndarray:
    own = found.indices == np.arange(len(found.indices))[:, None]
    return np.asarray(np.where(np.any(own, axis=1), 1 / (np.argmax(own, axis=1) + 1), 0.0))


def _column(i: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda means: means[:, i]


def mean_reciprocal_rank(queries: np.ndarray, gallery: np.ndarray) -> float:
    """Return the mean over all rows of 1 / the rank of row i for query i, by inner product; ties share their places."""
    return float(np.mean(reciprocal_ranks(queries @ gallery.T, np.arange(len(queries)))))
