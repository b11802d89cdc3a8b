"""Similarities: functions ``(x, anchors) → (n, k)``, larger meaning closer.

They trust their arguments; :func:`relatent.relative_projection` checks them first. Those that would need large
temporaries work through the rows of x in chunks. To add one, write the function and name it in ``SIMILARITIES``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from relatent._array import (
    Array,
    array_namespace,
    is_exported,
    is_traced,
    is_tracked,
    like,
    row_chunks,
    suggest,
    to_numpy,
)
from relatent._linalg import (
    all_moderate,
    map_rows,
    pseudo_inverse,
    row_norms,
    rows_per_chunk,
    squared_distances,
    unit_norm,
)

__all__ = [
    "SIMILARITIES",
    "Similarity",
    "angular",
    "basis",
    "combine",
    "cosine",
    "euclidean",
    "geodesic",
    "inner",
    "l1",
    "linf",
    "lp",
    "mahalanobis",
    "quantized",
    "resolve",
]

Similarity = Callable[[Array, Array], Array]
# Rows whose cosines are computed at a time: enough that a product prepares its second factor rarely.
COSINE_ROWS = 8_192


def _rowwise(similarity: Callable[..., Array]) -> Callable[..., Array]:
    """Mark a similarity that depends on each row of x alone, so that x may be given in chunks."""
    similarity.rowwise = True  # type: ignore[attr-defined]
    return similarity


def _in_chunks(similarity: Callable[..., Array]) -> Callable[..., Array]:
    """Let a row-wise similarity fill its result chunk by chunk, so that temporaries stay small."""

    @_rowwise
    @wraps(similarity)
    def chunked(x: Array, anchors: Array, **options: Any) -> Array:
        if is_tracked(x, anchors):
            return similarity(x, anchors, **options)
        return map_rows(lambda rows: similarity(rows, anchors, **options), x, anchors.shape[0])

    return chunked


def _outside_torch(similarity: Callable[..., Array]) -> Callable[..., Array]:
    """Mark a similarity that works on values, in NumPy: a compiled graph breaks there, an export is refused."""

    @wraps(similarity)
    def outside(x: Array, anchors: Array, **options: Any) -> Array:
        if is_exported(x, anchors):
            raise RuntimeError(
                f"The similarity {similarity.__name__!r} compares all samples outside of torch: it cannot be exported. "
                "Use another similarity, or leave the relative projection out of what is exported."
            )
        if is_traced(x, anchors):
            return sys.modules["torch"].compiler.disable(similarity)(x, anchors, **options)
        return similarity(x, anchors, **options)

    return outside


def _refuse_onnx(name: str, *arrays: Array) -> None:
    """Refuse an export to ONNX: the similarity decomposes the anchors."""
    if is_traced(*arrays) and sys.modules["torch"].onnx.is_in_onnx_export():
        raise RuntimeError(
            f"The similarity {name!r} inverts the anchors, for which ONNX has no operator. Invert them once and export "
            "relatent.nn.Translation(RelativeEncoder(normalize=…, ridge=0.0).fit(anchors)): with 'none' its codes are "
            "those of basis, with 'center' those of mahalanobis divided by the number of anchors less one."
        )


@_rowwise
def cosine(x: Array, anchors: Array) -> Array:
    r"""Cosine of the angle to every anchor: :math:`\hat x \cdot \hat a`. A zero vector has similarity 0.

    Unchanged by rotation, reflection and rescaling. Changed by an offset: center first.

    >>> cosine(np.asarray([[3.0, 0.0]]), np.eye(2)).tolist()
    [[1.0, 0.0]]
    """
    directions = array_namespace(x).matrix_transpose(unit_norm(anchors))
    if is_tracked(x, anchors):
        return unit_norm(x) @ directions
    r = array_namespace(x).empty((x.shape[0], anchors.shape[0]), dtype=x.dtype, device=x.device)
    for chunk in row_chunks(x.shape[0], COSINE_ROWS):
        _fill_cosines(r[chunk, :], x[chunk, :], directions)
    return r


def _fill_cosines(r: Array, x: Array, directions: Array) -> None:
    """Write cosines into r. Rows and result are still in the cache when the result is scaled, and x is not copied."""
    norms = row_norms(x)[:, None]
    moderate = all_moderate(norms)
    x = x if moderate else unit_norm(x)
    if isinstance(x, np.ndarray):
        np.matmul(x, directions, out=r)
    else:
        r[:, :] = x @ directions
    if moderate:
        r /= norms


def inner(x: Array, anchors: Array) -> Array:
    r"""Scaled inner product: :math:`x \cdot a / \sqrt d`.

    Unchanged by rotation and reflection only.

    >>> inner(np.asarray([[3.0, 0.0, 0.0, 0.0]]), np.eye(4)[:2]).tolist()
    [[1.5, 0.0]]
    """
    return x @ (array_namespace(x).matrix_transpose(anchors) / x.shape[1] ** 0.5)


@_in_chunks
def angular(x: Array, anchors: Array) -> Array:
    r"""Angle as a share of a half turn: :math:`1 - \arccos(\cos(x, a)) / \pi`.

    Unchanged by what leaves the cosine unchanged; linear in the angle where the cosine is flat.

    >>> angular(np.asarray([[1.0, 0.0]]), np.asarray([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])).tolist()
    [[1.0, 0.5, 0.0]]
    """
    xp = array_namespace(x)
    cos = cosine(x, anchors)
    # The arc cosine has no slope at ±1: keep those points out of the gradient.
    inside = xp.abs(cos) < 1
    angle = xp.acos(xp.where(inside, cos, xp.zeros_like(cos)))
    return xp.where(inside, 1 - angle / xp.pi, xp.astype(cos > 0, x.dtype))


@_in_chunks
def euclidean(x: Array, anchors: Array) -> Array:
    r"""Negative Euclidean distance: :math:`-\lVert x - a \rVert_2`.

    Unchanged by rotation, reflection and offset. Changed by rescaling.

    >>> euclidean(np.asarray([[3.0, 4.0]]), np.zeros((1, 2))).tolist()
    [[-5.0]]
    """
    xp = array_namespace(x)
    square = squared_distances(x, anchors)
    apart = square > 0
    # The root has no slope at 0: keep that point out of the gradient.
    distance = xp.sqrt(xp.where(apart, square, xp.ones_like(square)))
    return xp.astype(xp.where(apart, -distance, xp.zeros_like(distance)), x.dtype)


def l1(x: Array, anchors: Array) -> Array:
    r"""Negative city-block distance: :math:`-\lVert x - a \rVert_1`.

    Unchanged by permutation and sign flips of the coordinates and by an offset. Changed by rotation.

    >>> l1(np.asarray([[3.0, 4.0]]), np.zeros((1, 2))).tolist()
    [[-7.0]]
    """
    return lp(x, anchors, p=1)


def linf(x: Array, anchors: Array) -> Array:
    r"""Negative Chebyshev distance: :math:`-\lVert x - a \rVert_\infty`, the largest difference of a coordinate.

    Unchanged by permutation and sign flips of the coordinates and by an offset. Changed by rotation.

    >>> linf(np.asarray([[3.0, 4.0]]), np.zeros((1, 2))).tolist()
    [[-4.0]]
    """
    return lp(x, anchors, p=float("inf"))


@_in_chunks
def lp(x: Array, anchors: Array, p: float = 3) -> Array:
    r"""Negative Minkowski distance: :math:`-\lVert x - a \rVert_p` with p ≥ 1.

    Unchanged by permutation and sign flips of the coordinates and by an offset. Pass another p with
    ``functools.partial(lp, p=4)``.

    >>> lp(np.asarray([[3.0, 4.0]]), np.zeros((1, 2)), p=2).tolist()
    [[-5.0]]
    """
    if p < 1:
        raise ValueError(f"p is {p}: expected at least 1.")
    xp = array_namespace(x)
    if is_tracked(x, anchors):
        return -xp.linalg.vector_norm(x[:, None, :] - anchors[None, :, :], ord=p, axis=-1)
    rows = rows_per_chunk(anchors.shape[0] * anchors.shape[1])
    parts = [
        xp.linalg.vector_norm(x[chunk, None, :] - anchors[None, :, :], ord=p, axis=-1)
        for chunk in row_chunks(x.shape[0], rows)
    ]
    return -xp.concat(parts, axis=0)


def basis(x: Array, anchors: Array, rtol: float | None = None) -> Array:
    r"""Coefficients of x in the anchors: the c of least norm with :math:`A^\top c = x`.

    Unchanged by any invertible linear map applied to both, as long as the anchors span the space. Changed by an
    offset: center first. Singular values of the anchors below ``rtol`` × the largest count as zero.

    >>> basis(np.asarray([[2.0, 3.0]]), np.asarray([[1.0, 0.0], [0.0, 2.0]])).round(12).tolist()
    [[2.0, 1.5]]
    """
    _refuse_onnx("basis", x, anchors)
    xp = array_namespace(x)
    return x @ xp.astype(pseudo_inverse(xp.astype(anchors, xp.float64), rtol), x.dtype)


def mahalanobis(x: Array, anchors: Array, ridge: float = 0.0) -> Array:
    r"""Inner product after whitening by the anchors: :math:`(x - m)(\Sigma + \lambda I)^{-1}(a - m)^\top`.

    m and Σ are the mean and covariance of the anchors, λ is ``ridge`` × the mean eigenvalue of Σ. Without a ridge it
    is unchanged by any invertible affine map applied to both, and on few anchors it amplifies noise: real encoders
    match best with ``functools.partial(mahalanobis, ridge=0.1)``, or 1 when anchors are fewer than coordinates.

    >>> mahalanobis(np.asarray([[3.0], [1.0]]), np.asarray([[0.0], [2.0]])).round(12).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    """
    _refuse_onnx("mahalanobis", x, anchors)
    xp = array_namespace(x)
    mean = xp.mean(anchors, axis=0, keepdims=True)
    centered = xp.astype(anchors - mean, xp.float64)
    # (x−m) Σ⁻¹ (a−m)ᵀ is the pseudo-inverse of the centered anchors, up to the n−1 of the covariance.
    inverse = pseudo_inverse(centered, ridge=ridge) * max(anchors.shape[0] - 1, 1)
    return (x - mean) @ xp.astype(inverse, x.dtype)


@_outside_torch
def geodesic(x: Array, anchors: Array, n_neighbors: int = 10) -> Array:
    """Negative length of the shortest path to every anchor in the nearest-neighbor graph of samples and anchors.

    Unchanged by isometries of the manifold that the samples lie on, hence by rotation, reflection and offset. Depends
    on all samples given together and carries no gradient.

    References: Moschella et al., ICLR 2023, section 6 (named as future work).

    >>> line = np.asarray([[0.0], [1.0], [2.0], [3.0]])
    >>> geodesic(line, line[:1], n_neighbors=2).tolist()
    [[-0.0], [-1.0], [-2.0], [-3.0]]
    """
    from scipy.sparse.csgraph import connected_components, dijkstra
    from sklearn.neighbors import kneighbors_graph

    # A sample that is itself an anchor joins it at distance 0, which a sparse graph keeps as an edge.
    points = to_numpy(array_namespace(x).concat([anchors, x], axis=0)).astype(np.float64)
    k = anchors.shape[0]
    graph = kneighbors_graph(points, min(n_neighbors, len(points) - 1), mode="distance")
    parts, _ = connected_components(graph, directed=False)
    if parts > 1:
        raise ValueError(
            f"The graph of {n_neighbors} nearest neighbors falls into {parts} parts: paths between them do not exist. "
            "Give more samples or a larger n_neighbors, with functools.partial(geodesic, n_neighbors=…)."
        )
    return like(-dijkstra(graph, directed=False, indices=np.arange(k))[:, k:].T, x)


@_outside_torch
def quantized(x: Array, anchors: Array, threshold: float = 0.5) -> Array:
    """Inner product of cluster means: unit vectors closer than a threshold become one before they are compared.

    Samples and anchors are scaled to unit norm and clustered together (agglomerative, Ward, cut at ``threshold``);
    each is replaced by the mean of its cluster. Unchanged by what leaves the cosine unchanged and by any distortion
    that keeps the clusters. Depends on all samples given together, needs memory quadratic in their number, and
    carries no gradient.

    References: Moschella et al., ICLR 2023, appendix A.3.

    >>> quantized(np.asarray([[1.0, 0.01], [1.0, -0.01]]), np.asarray([[0.0, 1.0]])).round(6).tolist()
    [[0.0], [0.0]]
    """
    from sklearn.cluster import AgglomerativeClustering

    points = to_numpy(unit_norm(array_namespace(x).concat([anchors, x], axis=0))).astype(np.float64)
    labels = AgglomerativeClustering(n_clusters=None, distance_threshold=threshold).fit_predict(points)
    means = np.zeros((labels.max() + 1, points.shape[1]))
    np.add.at(means, labels, points)
    means /= np.bincount(labels)[:, None]
    k = anchors.shape[0]
    return like(means[labels[k:]] @ means[labels[:k]].T, x)


SIMILARITIES: dict[str, Similarity] = {
    f.__name__: f for f in (cosine, inner, euclidean, l1, linf, lp, angular, basis, mahalanobis, geodesic, quantized)
}


def resolve(similarity: str | Similarity) -> Similarity:
    """Find a similarity by name, or take the user's own function.

    >>> resolve("cosine") is cosine
    True
    """
    if callable(similarity):
        return similarity
    if not isinstance(similarity, str) or similarity not in SIMILARITIES:
        raise ValueError(f"There is no similarity {similarity!r}.{suggest(similarity, SIMILARITIES)}")
    return SIMILARITIES[similarity]


def combine(*similarities: str | Similarity, how: str = "concatenate") -> Similarity:
    """Join several similarities into one: side by side, or averaged.

    The result is unchanged by what leaves all of them unchanged (a product of invariances).

    >>> combine("cosine", "euclidean")(np.eye(2), np.eye(2)).shape
    (2, 4)
    """
    functions = [resolve(s) for s in similarities]
    if not functions:
        raise ValueError("No similarity was given: expected at least one.")
    if how not in ("concatenate", "mean"):
        raise ValueError(f"how is {how!r}.{suggest(how, ('concatenate', 'mean'))}")

    def combined(x: Array, anchors: Array) -> Array:
        parts = [f(x, anchors) for f in functions]
        return array_namespace(x).concat(parts, axis=1) if how == "concatenate" else sum(parts) / len(parts)

    return combined


def __dir__() -> list[str]:
    return __all__
