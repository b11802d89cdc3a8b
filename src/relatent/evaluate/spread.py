"""How the rows of one space are spread; two spaces are compared by the difference of their figures.

These need no pairing of rows, so they have no place in the table of :func:`relatent.compare`: two spaces of the same
spread may share nothing. They say whether a translation, or a new model, keeps vectors as spread as they were.
"""

from __future__ import annotations

import numpy as np

from relatent._array import Array, as_matrix, row_chunks, to_numpy
from relatent._linalg import unit_norm
from relatent.evaluate.neighbors import check_fewer, nearest
from relatent.spaces.sample import sample_rows

# Rows that are related to each other at most.
MAX_ROWS = 5_000
# Times at which heat is compared: outside, the weight of a time leaves nothing.
SCALES = np.geomspace(0.05, 20, 400)


def uniformity(x: Array, *, t: float = 2.0, max_rows: int = MAX_ROWS, seed: int = 0) -> float:
    r"""Return how evenly the directions of vectors cover the sphere: the lower, the more evenly.

    .. math:: \log \frac{2}{n (n - 1)} \sum_{i < j} e^{-t \lVert u_i - u_j \rVert^2}, \quad u = x / \lVert x \rVert

    0: all vectors have one direction; about −2t for directions drawn evenly in many dimensions. Unchanged by rotation
    and by the length of every vector; changed by an offset. Of more than ``max_rows`` rows a seeded sample is used.

    References: Wang & Isola, ICML 2020; as a difference of two spaces, Klabunde et al., ICLR 2025 (ReSi).

    >>> round(uniformity(np.asarray([[1.0, 0.0], [-1.0, 0.0]])), 6)
    -8.0
    """
    u = to_numpy(unit_norm(_rows(x))).astype(np.float64)
    u = u[sample_rows(len(u), max_rows, seed)]
    # Distances of unit vectors are 2 - 2 cos; what each row has with itself is taken out.
    total = sum(float(np.sum(np.exp(-t * np.maximum(2 - 2 * u[rows] @ u.T, 0)))) for rows in row_chunks(len(u)))
    return float(np.log((total - len(u)) / (len(u) * (len(u) - 1))))


def concentricity(x: Array) -> float:
    r"""Return the mean cosine of vectors to their mean: :math:`\frac1n \sum_i \cos(x_i, \bar x)`.

    1: one direction, that is a narrow cone; 0: spread around the origin. Unchanged by rotation and one scale; changed
    by an offset, which makes it. A mean of zero has no direction, and counts 0.

    References: Wang et al., AAAI 2020; Klabunde et al., ICLR 2025 (ReSi).

    >>> round(concentricity(np.asarray([[1.0, 1.0], [1.0, -1.0]])), 6)
    0.707107
    """
    rows = to_numpy(_rows(x)).astype(np.float64)
    return float(np.mean(to_numpy(unit_norm(rows)) @ to_numpy(unit_norm(np.mean(rows, axis=0, keepdims=True)))[0]))


def magnitude(x: Array) -> float:
    r"""Return the length of the mean vector: :math:`\lVert \bar x \rVert`.

    Unchanged by rotation; doubled by doubling, and changed by an offset. Where it is large beside the norms of the
    vectors, as :func:`concentricity` says, cosines of unrelated items are far from 0.

    References: Wang et al., AAAI 2020; Klabunde et al., ICLR 2025 (ReSi).

    >>> magnitude(np.asarray([[3.0, 4.0], [3.0, 4.0]]))
    5.0
    """
    return float(np.linalg.norm(np.mean(to_numpy(_rows(x)).astype(np.float64), axis=0)))


def intrinsic_distance(x: Array, y: Array, *, k: int = 5, max_rows: int = 1_000, seed: int = 0) -> float:
    r"""Return how differently heat spreads on the neighbor graphs of two spaces, at the scale where it does most.

    .. math:: \sup_{t > 0} e^{-2 (t + 1/t)} \left| \tfrac1n \operatorname{tr} e^{-t L_x} - \tfrac1m \operatorname{tr}
              e^{-t L_y} \right|

    L is the normalized Laplacian of the graph in which each row is joined with its ``k`` nearest by Euclidean distance.
    0: graphs of the same spectrum. Rows need no order and no partner, and the numbers of rows may differ: it is the
    shape of the whole, from its clusters to its dimension, that is compared. Unchanged by rotation, offset, one scale
    and any order of the rows. Exact on at most ``max_rows`` rows of each, in O(max_rows³); the paper sums where this
    takes the mean, which is n times as much, and estimates the trace of larger graphs.

    References: Tsitsulin et al., ICLR 2020 (IMD).

    >>> x = np.random.default_rng(0).normal(size=(60, 3))
    >>> round(intrinsic_distance(x, 3 * x[::-1] + 1), 6)
    0.0
    """
    values = [_spectrum(_rows(rows), k, max_rows, seed) for rows in (x, y)]
    a, b = (np.mean(np.exp(-SCALES[:, None] * spectrum), axis=1) for spectrum in values)
    return float(np.max(np.exp(-2 * (SCALES + 1 / SCALES)) * np.abs(a - b)))


def _spectrum(x: Array, k: int, max_rows: int, seed: int) -> np.ndarray:
    """Return the eigenvalues of the normalized Laplacian of the neighbor graph."""
    rows = to_numpy(x)
    rows = rows[sample_rows(len(rows), max_rows, seed)]
    found = nearest(rows, rows, check_fewer(k, len(rows) - 1), metric="euclidean", exclude_self=True)
    graph = np.zeros((len(rows), len(rows)))
    graph[np.arange(len(rows))[:, None], to_numpy(found.indices)] = 1
    graph = np.maximum(graph, graph.T)
    roots = np.sqrt(np.sum(graph, axis=1))
    return np.asarray(np.linalg.eigvalsh(np.eye(len(rows)) - graph / np.outer(roots, roots)))


def _rows(x: Array) -> Array:
    rows = as_matrix(x, "x")
    if rows.shape[0] < 2:
        raise ValueError(f"x has {rows.shape[0]} rows: expected at least 2, and hundreds.")
    return rows
