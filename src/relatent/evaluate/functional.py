"""Functional maps: spaces compared by the smooth functions on them, in the eigenvectors of their neighbor graphs.

A space is described by the graph of its nearest neighbors and the leading eigenvectors of the graph's Laplacian, its
Fourier basis. A functional map C takes the coefficients of a function on one space to those of the corresponding
function on the other; where the two are equal up to an isometry, it is orthogonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._array import Array, to_numpy
from relatent._linalg import eigh
from relatent.evaluate.neighbors import check_fewer, nearest
from relatent.evaluate.pairwise import MAX_ROWS, sampled
from relatent.spaces.normalize import Normalizer

# Functions that spaces are compared by; neighbors of a row in the graph: a largest number, and a share of the rows.
SIZE, NEIGHBORS, NEAR_SHARE = 50, 300, 0.15
# Graphs of fewer rows than this many per eigenvector are decomposed as dense matrices, which takes no longer.
DENSE = 4


@dataclass(frozen=True, eq=False)
class SpectralBasis:
    r"""The eigenvectors of least eigenvalue of the Laplacian of the neighbor graph, (n, k), orthonormal.

    .. math:: L = I - D^{-1/2} W D^{-1/2}, \qquad W_{ij} = e^{-\theta_{ij}^2 / \sigma^2}

    where i or j is among the nearest neighbors of the other; θ is the angle between two rows about the mean, σ the
    median angle of neighbors, and D the diagonal of row sums. The first eigenvector is :math:`D^{1/2} 1`, which stands
    for the constant function, also where the graph is in several pieces. Unchanged by rotation, reflection, one scale
    and an offset, up to the signs of eigenvectors, and rotations among those of equal eigenvalues.
    """

    values: np.ndarray
    vectors: np.ndarray
    width: float
    """σ, of the kernel that weighs edges; 1 where most neighbors are equal."""

    @staticmethod
    def of(x: np.ndarray, size: int = SIZE, neighbors: int | None = None) -> SpectralBasis:
        """Return ``size`` eigenvectors of a space; None stands for 15 % of the rows as neighbors, at most 300."""
        n = len(x)
        neighbors = max(1, min(NEIGHBORS, int(NEAR_SHARE * n))) if neighbors is None else neighbors
        if not 1 <= size < n:
            raise ValueError(f"size is {size}, and there are {n} rows: expected from 1 to {n - 1} eigenvectors.")
        smoothing, degrees, width = _smoothing(x, check_fewer(neighbors, n))
        constant = (degrees / np.sum(degrees)) ** 0.5
        values, vectors = _leading(smoothing, constant, size - 1)
        return SpectralBasis(np.append(0.0, 1 - values), np.concatenate([constant[:, None], vectors], axis=1), width)

    def leading(self, size: int) -> SpectralBasis:
        """Return the first ``size`` of them."""
        return replace(self, values=self.values[:size], vectors=self.vectors[:, :size])


def functional_map(
    source: SpectralBasis, target: SpectralBasis, f: np.ndarray, g: np.ndarray, penalty: float
) -> np.ndarray:
    r"""Return the map from functions on the source (l of them) to functions on the target (k of them), (k, l).

    .. math:: \min_C \lVert C \hat F - \hat G \rVert^2 / u + \lambda \lVert \Lambda_y C - C \Lambda_x \rVert^2 / v

    ``f`` (n, m) and ``g`` (n', m) are corresponding functions, such as the distance to m anchors, one per column;
    F̂ = ΦᵀF are their coefficients. C should commute with the Laplacians, whose eigenvalues are Λ. The rows of C are
    independent of each other and solved in closed form, of least norm where functions are few. So that λ means the same
    for any data, u is the mean square of F̂'s singular values, and v the mean square of the differences of eigenvalues.
    (The paper has one factor per term instead, and a term for operators of the functions, which is left out here: it
    couples the rows.)

    References: Ovsjanikov et al., SIGGRAPH 2012; Fumero et al., NeurIPS 2024, equations 2 and 3.
    """
    a, b = source.vectors.T @ f, target.vectors.T @ g
    unit = np.sum(a * a) / len(a) or 1.0
    gaps = target.values[:, None] - source.values[None, :]
    weights = np.abs(gaps) * (penalty / (np.mean(gaps**2) or 1.0)) ** 0.5
    left, right = a.T / unit**0.5, b / unit**0.5
    zeros = np.zeros(len(a))
    rows = [
        np.linalg.lstsq(np.concatenate([left, np.diag(one)]), np.concatenate([wanted, zeros]), rcond=None)[0]
        for one, wanted in zip(weights, right, strict=True)
    ]
    return np.stack(rows)


def functional_similarity(
    x: Array,
    y: Array,
    *,
    size: int | None = None,
    neighbors: int | None = None,
    max_rows: int = MAX_ROWS,
    seed: int = 0,
) -> float:
    r"""Return how orthogonal the functional map between two spaces is: the similarity of latent functional maps.

    .. math:: 1 - \frac{\lVert \operatorname{off}(C^\top C) \rVert^2}{\lVert C^\top C \rVert^2}, \qquad
              C = \Phi_y^\top \Phi_x

    off sets the diagonal to zero, and Φ are the first ``size`` eigenvectors of the Laplacians of both neighbor graphs
    after the constant. Rows are parallel, so every row is an anchor and C needs no descriptors: it is what
    ``functional_map`` gives for the indicators of all rows. (The paper takes C from descriptors, and keeps the constant
    function. That one is common to any two spaces, and would bring unrelated ones near 1.) 1: neighborhoods equal up to
    an isometry. Spaces that have nothing in common score about ½, not 0, since columns of random numbers are nearly
    orthogonal: read it beside the score of shuffled rows. Unchanged by rotation, reflection, one scale and an offset of
    either side.

    ``size`` is 50, or a quarter of the rows where that is fewer, and ``neighbors`` of a row in the graph are 15 % of
    the rows, at most 300, unless given. What breaks it: fewer than some hundred rows, and eigenvalues that are close at
    the cut: a function that is the last of one basis may be beyond the last of the other.

    References: Fumero et al., NeurIPS 2024 (latent functional maps), section 3.3.

    >>> x = np.random.default_rng(0).normal(size=(300, 4))
    >>> round(functional_similarity(x, 1 - 2 * x, size=20, neighbors=30), 6)
    1.0
    """
    x, y = (to_numpy(a) for a in sampled(x, y, max_rows, seed))
    size = max(1, min(SIZE, len(x) // DENSE)) if size is None else size
    if not 1 <= size < len(x) - 1:
        raise ValueError(f"size is {size}, and there are {len(x)} rows: expected from 1 to {len(x) - 2} functions.")
    a, b = (SpectralBasis.of(side, size + 1, neighbors).vectors[:, 1:] for side in (x, y))
    return orthogonality(b.T @ a)


def orthogonality(c: np.ndarray) -> float:
    """Return the share of the squares of CᵀC that is on its diagonal."""
    gram = c.T @ c
    total = float(np.sum(gram * gram))
    return float(np.sum(np.diagonal(gram) ** 2)) / total if total else 0.0


def _smoothing(x: np.ndarray, neighbors: int) -> tuple[Any, np.ndarray, float]:
    """Return D^-½ W D^-½ of the neighbor graph, sparse, the row sums of W, and the width of its kernel."""
    from scipy.sparse import csr_array, diags_array

    n, rows = len(x), Normalizer.fit(x, "center+l2").apply(x)
    found = nearest(rows, rows, neighbors, "cosine", exclude_self=True)
    angles = np.arccos(np.clip(found.similarities.astype(np.float64), -1, 1))
    width = float(np.median(angles)) or 1.0
    weights = np.exp(-((angles / width) ** 2))
    starts = np.arange(0, angles.size + 1, neighbors)
    graph = csr_array((weights.ravel(), found.indices.ravel(), starts), shape=(n, n))
    graph = graph.maximum(graph.T)
    degrees = np.asarray(graph.sum(axis=1))
    scale = diags_array(degrees**-0.5)
    return scale @ graph @ scale, degrees, width


def _leading(matrix: Any, known: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues of a symmetric sparse matrix, falling, and their eigenvectors, but for one known.

    That one has the eigenvalue 1, and all others lie between -1 and 1.
    """
    n = len(known)
    if n <= DENSE * size:
        values, vectors = eigh(matrix.toarray() - 3 * np.outer(known, known))
    elif size:
        from scipy.sparse.linalg import LinearOperator, eigsh

        moved = LinearOperator((n, n), matvec=lambda v: matrix @ v - 3 * known * (known @ v), dtype=np.float64)
        values, vectors = eigsh(moved, size, which="LA", v0=np.random.default_rng(0).normal(size=n))
    else:
        return np.zeros(0), np.zeros((n, 0))
    order = np.argsort(-values)[:size]
    return values[order], vectors[:, order]
