"""Measures that compare how the rows of each space relate to one another.

Each describes a space by one n × n matrix, its relation: centered kernel, ranked dissimilarities, centered distances,
or the sparse graph of neighbors. Two spaces are as similar as the cosine between their relations. The dense ones take a
seeded sample of the rows beyond ``max_rows``, because n × n numbers have to fit in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from relatent._array import Array, array_namespace, as_parallel, suggest, take_rows, to_numpy
from relatent._linalg import unit_norm
from relatent.evaluate.linear import check_varies, scalar
from relatent.evaluate.neighbors import check_fewer, nearest
from relatent.project.similarity import cosine, euclidean
from relatent.spaces.normalize import centered
from relatent.spaces.sample import sample_rows

MAX_ROWS = 4_096
DISSIMILARITIES = ("cosine", "correlation", "euclidean")
CORRELATIONS = ("spearman", "pearson", "kendall")


def alignment(a: Any, b: Any) -> Any:
    r"""Return the cosine between two relations: :math:`\langle A, B \rangle / (\lVert A \rVert \lVert B \rVert)`."""
    return inner(a, b) / norms(a, b)


def inner(a: Any, b: Any) -> Any:
    """Return the sum of products of two relations."""
    return _total(a * b)


def norms(a: Any, b: Any) -> Any:
    """Return the product of the norms of two relations, which their order does not change."""
    return (inner(a, a) * inner(b, b)) ** 0.5


def kernel_cka(x: Array, y: Array, *, bandwidth: float = 1.0, max_rows: int = MAX_ROWS, seed: int = 0) -> float:
    r"""Return the centered kernel alignment with the Gaussian kernel.

    .. math:: \frac{\langle HKH, HLH \rangle}{\lVert HKH \rVert \lVert HLH \rVert}, \quad
              K_{ij} = \exp\left(-\frac{\lVert x_i - x_j \rVert^2}{2 \sigma^2}\right)

    σ is ``bandwidth`` × the median distance, taken in each space. 1: equal up to rotation, reflection, one scale and
    an offset, none of which changes it. 0: independent (few rows: somewhat above). Small bandwidths look at
    neighborhoods, large ones at what linear CKA sees. Differentiable; the median counts as a constant.

    References: Kornblith et al., ICML 2019; Gretton et al., 2005.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(kernel_cka(x, 3 * x[:, ::-1] + 1), 6)
    1.0
    """
    x, y = sampled(x, y, max_rows, seed)
    return scalar(alignment(gaussian_relation(x, bandwidth), gaussian_relation(y, bandwidth)))


def rsa(
    x: Array,
    y: Array,
    *,
    dissimilarity: str = "cosine",
    correlation: str = "spearman",
    max_rows: int = MAX_ROWS,
    seed: int = 0,
) -> float:
    r"""Return the correlation of all pairwise dissimilarities of two spaces: representational similarity analysis.

    .. math:: \operatorname{corr}\left(\{D^x_{ij}\}_{i<j}, \{D^y_{ij}\}_{i<j}\right)

    ``dissimilarity`` is "cosine", "correlation" (center each row, then cosine) or "euclidean"; ``correlation`` is
    "spearman" (ranks), "pearson" or "kendall" (τ-b, slow). 1: the same order of all pairs; 0: unrelated. Unchanged by
    rotation and one scale; by an offset only when Euclidean.

    References: Kriegeskorte et al., 2008.

    >>> x = np.random.default_rng(0).normal(size=(30, 4))
    >>> round(rsa(x, -2 * x), 6)
    1.0
    """
    for value, known in ((dissimilarity, DISSIMILARITIES), (correlation, CORRELATIONS)):
        if value not in known:
            raise ValueError(f"There is no {value!r} here.{suggest(value, known)}")
    x, y = sampled(x, y, max_rows, seed)
    if correlation == "kendall":
        from scipy.stats import kendalltau

        return float(kendalltau(*(_upper(_dissimilarities(a, dissimilarity)) for a in (x, y))).statistic)
    ranked = correlation == "spearman"
    return float(alignment(*(rank_relation(a, dissimilarity, ranked=ranked) for a in (x, y))))


def distance_correlation(x: Array, y: Array, *, max_rows: int = MAX_ROWS, seed: int = 0) -> float:
    r"""Return the correlation of the doubly centered distances, which is 0 only for independent spaces.

    .. math:: \sqrt{\frac{\langle A, B \rangle}{\lVert A \rVert \lVert B \rVert}}, \quad A = H D^x H

    1: equal up to rotation, reflection, one scale and an offset, none of which changes it. Few rows bias it upwards:
    read it beside its null.

    References: Székely, Rizzo & Bakirov, 2007.

    >>> x = np.random.default_rng(0).normal(size=(30, 4))
    >>> round(distance_correlation(x, 1 - 2 * x), 6)
    1.0
    """
    x, y = sampled(x, y, max_rows, seed)
    return float(max(alignment(distance_relation(x), distance_relation(y)), 0.0) ** 0.5)


def mutual_knn(x: Array, y: Array, k: int = 10, metric: str = "cosine") -> float:
    r"""Return the share of the k nearest neighbors that two spaces agree on, each in its own space.

    .. math:: \frac1{nk} \sum_i |\operatorname{kNN}_X(i) \cap \operatorname{kNN}_Y(i)|

    A row is no neighbor of itself. 1: all; k/(n−1): chance. Symmetric, and the two need not have the same width.
    Unchanged by rotation and one scale of either side.

    References: Huh et al., ICML 2024, appendix A.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> mutual_knn(x, -2 * x)
    1.0
    """
    x, y = _compared(x, y)
    k = check_fewer(k, x.shape[0] - 1)
    return float(alignment(*(neighbor_relation(a, k, metric) for a in (x, y))))


def cknna(x: Array, y: Array, k: int = 10) -> float:
    r"""Return the kernel alignment restricted to shared neighbors.

    .. math:: \frac{\sum_{ij} \alpha_{ij} \bar K_{ij} \bar L_{ij}}{\sqrt{\sum a_{ij} \bar K_{ij}^2
              \sum b_{ij} \bar L_{ij}^2}}, \quad \alpha_{ij} = a_{ij} b_{ij}

    K holds the cosines of x less the mean of each row, a marks the k nearest neighbors; L and b the same for y. It is
    not linear CKA at any k: K is centered by rows only, and a row is no neighbor of itself. Unchanged by rotation and
    one scale of either side.

    References: Huh et al., ICML 2024, appendix A.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(cknna(x, -2 * x), 6)
    1.0
    """
    x, y = _compared(x, y)
    k = check_fewer(k, x.shape[0] - 1)
    return float(alignment(*(neighbor_relation(a, k, "cosine", weighted=True) for a in (x, y))))


def relative_similarity(x: Array, y: Array, anchor_rows: np.ndarray, *, center: bool = True) -> float:
    r"""Return the mean cosine between the relative representations of the same row in two spaces.

    .. math:: \frac1n \sum_i \cos\left(\cos(x_i, A_X), \cos(y_i, A_Y)\right)

    Both use the same ``anchor_rows``. 1: equal up to rotation, reflection and one scale (and an offset, as rows are
    centered by the mean of the anchors; ``center=False`` is the paper's setting, where an offset makes everything look
    alike). 0: unrelated. Differentiable.

    References: Moschella et al., ICLR 2023, section 4.2.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(relative_similarity(x, 1 - 2 * x, np.arange(10)), 6)
    1.0
    """
    x, y = _compared(x, y)
    xp = array_namespace(x, y)
    rows = np.asarray(anchor_rows)
    a, b = (relative_relation(z, take_rows(z, rows), center=center) for z in (x, y))
    return scalar(xp.mean(xp.sum(a * b, axis=1)))


def sampled(x: Array, y: Array, max_rows: int, seed: int) -> tuple[Array, Array]:
    """Check two parallel matrices and take the same seeded sample of at most ``max_rows`` rows of both."""
    x, y = _compared(x, y)
    if max_rows < 4:
        raise ValueError(f"max_rows is {max_rows}: expected at least 4.")
    if x.shape[0] <= max_rows:
        return x, y
    rows = sample_rows(x.shape[0], max_rows, seed)
    return take_rows(x, rows), take_rows(y, rows)


def gaussian_relation(x: Array, bandwidth: float = 1.0) -> Array:
    """Return the centered Gaussian kernel."""
    xp = array_namespace(x)
    distance = euclidean(x, x)
    sigma = bandwidth * float(np.median(-_upper(to_numpy(distance))))
    if not sigma > 0:
        raise ValueError(
            "More than half of the rows are equal, so the median distance is 0: drop duplicates, or use cka."
        )
    return _doubly_centered(xp.exp(-(distance**2) / (2 * sigma**2)))


def distance_relation(x: Array) -> np.ndarray:
    """Return doubly centered Euclidean distances."""
    return np.asarray(_doubly_centered(-to_numpy(euclidean(x, x)).astype(np.float64)))


def rank_relation(x: Array, dissimilarity: str = "cosine", *, ranked: bool = True) -> np.ndarray:
    """Return standardized dissimilarities, or their ranks, of all pairs i < j."""
    values = _upper(_dissimilarities(x, dissimilarity)).astype(np.float64)
    if ranked:
        values = _ranks(values)
    relation = np.zeros((x.shape[0], x.shape[0]))
    relation[np.triu_indices(x.shape[0], 1)] = values - np.mean(values)
    return relation + relation.T


def neighbor_relation(x: Array, k: int, metric: str = "cosine", *, weighted: bool = False) -> Any:
    """Return the graph of the k nearest neighbors; with weights, of their cosines less the mean cosine of the row."""
    from scipy.sparse import csr_array

    found = nearest(x, x, k, metric, exclude_self=True)
    n = x.shape[0]
    values = np.ones(found.indices.shape)
    if weighted:
        unit = to_numpy(unit_norm(x)).astype(np.float64)
        values = found.similarities - (unit @ np.mean(unit, axis=0))[:, None]
    return csr_array((values.ravel(), found.indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))


def relative_relation(x: Array, anchors: Array, *, center: bool = True) -> Array:
    """Return rows as their cosines to the anchors, scaled to unit norm."""
    if center:
        x, anchors = centered(x, anchors)
    return unit_norm(cosine(x, anchors))


def permuted(relation: Any, order: np.ndarray) -> Any:
    """Return the relation of the same rows in another order."""
    return relation[np.ix_(order, order)]


def _compared(x: Array, y: Array) -> tuple[Array, Array]:
    x, y = as_parallel(x=x, y=y)
    check_varies(x=x, y=y)
    return x, y


def _dissimilarities(x: Array, kind: str) -> np.ndarray:
    x = to_numpy(x)
    if kind == "euclidean":
        return -to_numpy(euclidean(x, x))
    if kind == "correlation":
        x = x - np.mean(x, axis=1, keepdims=True)
    return 1 - to_numpy(cosine(x, x))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of each value from 1; equal values share their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def _doubly_centered(relation: Array) -> Array:
    xp = array_namespace(relation)
    row = xp.mean(relation, axis=1, keepdims=True)
    return relation - row - xp.matrix_transpose(row) + xp.mean(row)


def _upper(relation: np.ndarray) -> np.ndarray:
    return relation[np.triu_indices(len(relation), 1)]


def _total(relation: Any) -> Any:
    return relation.sum() if hasattr(relation, "sum") else array_namespace(relation).sum(relation)
