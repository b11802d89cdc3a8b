"""Distances that remain after the best alignment of a family: partly whitened rotations, and permutations.

With :func:`relatent.evaluate.procrustes` they are the generalized shape metrics. All are angles between centered
spaces, 0 where an alignment of the family makes the two equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relatent._array import suggest, to_numpy
from relatent.evaluate.linear import Axes, as_moments, crossed, principal_axes

ALPHA = 0.5
NORMS = ("frobenius", "nuclear")
# Returns the singular values of a matrix.
Values = Callable[[np.ndarray], np.ndarray]


def whitened_procrustes(x: Any, y: Any = None, *, alpha: float = ALPHA) -> float:
    r"""Return the angle that remains after the best rotation of two partly whitened spaces.

    .. math:: \theta = \arccos \frac{\lVert Z_x \Sigma_{xy} Z_y \rVert_*}
              {\sqrt{\operatorname{tr}(Z_x \Sigma_x Z_x) \operatorname{tr}(Z_y \Sigma_y Z_y)}}, \quad
              Z = \alpha I + (1 - \alpha) \Sigma^{-1/2}

    Σ is taken in units of its mean eigenvalue, which makes one scale irrelevant. ``alpha=1`` is the Procrustes angle;
    ``alpha=0`` compares canonical correlations, unchanged by any invertible affine map of either side. In between,
    unchanged by rotation, reflection, one scale and an offset. Obeys the triangle inequality for one fixed α.

    References: Williams et al., NeurIPS 2021, section 2.2.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(whitened_procrustes(x, 3 * x[:, ::-1] + 1), 6)
    0.0
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}: expected from 0 (whitened, as in CCA) to 1 (not whitened, Procrustes).")
    m = as_moments(x, y)
    ax, ay = principal_axes(m.xx), principal_axes(m.yy)
    return whitened_angle(ax, ay, crossed(ax, ay, m.xy), alpha)


def singular_values(m: np.ndarray) -> np.ndarray:
    """Return the singular values of a matrix."""
    return np.asarray(np.linalg.svd(m, compute_uv=False))


def whitened_angle(
    ax: Axes, ay: Axes, cross: np.ndarray, alpha: float = ALPHA, values: Values = singular_values
) -> float:
    """Return the angle of :func:`whitened_procrustes` from principal axes and the cross moments between them."""
    zx, zy = (alpha + (1 - alpha) / np.sqrt(a.values / np.mean(a.values)) for a in (ax, ay))
    norms = np.sum(zx**2 * ax.values) * np.sum(zy**2 * ay.values)
    return angle(np.sum(values(zx[:, None] * cross * zy)), norms)


def procrustes_bound(x: Any, y: Any = None, *, norm: str = "frobenius") -> float:
    r"""Return a bound on the squared Procrustes distance, from the difference of the two Gram matrices alone.

    .. math:: \min_Q \lVert X Q - Y \rVert_F^2 \le \lVert X X^\top - Y Y^\top \rVert_*
              \le \sqrt{r} \, \lVert X X^\top - Y Y^\top \rVert_F, \quad r = r_X + r_Y

    X and Y, of ranks r_X and r_Y, are centered and scaled to size 1, as in :func:`relatent.evaluate.procrustes` with
    ``distance="squared"``. If all dot products are kept, a rotation aligns the two spaces; how far they are from that
    says how well one does at worst. 0: aligned exactly; 2 and more say nothing, for 2 is the most that the distance
    can be. ``norm="nuclear"`` is the first and closer bound, ``"frobenius"`` the second, the root of the squared
    differences of dot products. The first follows from the inequality of Powers & Størmer (1970) for the roots of the
    Gram matrices, the second from that of Cauchy and Schwarz. No n × n matrix is formed. Unchanged by rotation, one
    scale and an offset.

    References: Maystre et al., 2025 (arXiv 2510.13406); Powers & Størmer, 1970.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(procrustes_bound(x, 3 * x[:, ::-1] + 1), 6)
    0.0
    """
    if norm not in NORMS:
        raise ValueError(f"norm is {norm!r}.{suggest(norm, NORMS)}")
    m = as_moments(x, y)
    ax, ay = principal_axes(m.xx), principal_axes(m.yy)
    cross = crossed(ax, ay, m.xy)
    return nuclear_bound(ax, ay, cross) if norm == "nuclear" else gram_bound(m.n, ax, ay, cross)


def gram_bound(n: float, ax: Axes, ay: Axes, cross: np.ndarray) -> float:
    """Return the bound of :func:`procrustes_bound` by the Frobenius norm, from principal axes and cross moments."""
    a, b = np.sum(ax.values), np.sum(ay.values)
    squared = np.sum((ax.values / a) ** 2) + np.sum((ay.values / b) ** 2) - 2 * np.sum(cross**2) / (a * b)
    rank = min(len(ax.values) + len(ay.values), n - 1)
    return float(np.sqrt(rank * max(squared, 0.0)))


def nuclear_bound(ax: Axes, ay: Axes, cross: np.ndarray) -> float:
    """Return the bound by the nuclear norm: X Xᵀ - Y Yᵀ has the eigenvalues of a matrix of rank X + rank Y columns."""
    a, b = np.sum(ax.values), np.sum(ay.values)
    gram = np.block(
        [[np.diag(ax.values / a), cross / np.sqrt(a * b)], [cross.T / np.sqrt(a * b), np.diag(ay.values / b)]]
    )
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0))
    signs = np.concatenate([np.ones(len(ax.values)), -np.ones(len(ay.values))])
    return float(np.sum(np.abs(np.linalg.eigvalsh(root.T @ (signs[:, None] * root)))))


def permutation_angle(x: Any, y: Any = None) -> float:
    r"""Angle that remains after the best one-to-one matching of coordinates.

    .. math:: \theta = \arccos \max_\Pi \frac{\operatorname{tr}(\Pi^\top \Sigma_{xy})}
              {\sqrt{\operatorname{tr} \Sigma_x \operatorname{tr} \Sigma_y}}

    0: the same neurons in another order, up to one scale and an offset. Changed by rotation, which is what tells it
    from Procrustes: it sees whether single coordinates carry meaning. Of spaces of different width, each coordinate
    of the wider one that has no partner is matched with zero.

    References: Li et al., ICLR 2016; Williams et al., NeurIPS 2021, section 2.3.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(permutation_angle(x, 3 * x[:, ::-1] + 1), 6)
    0.0
    """
    from scipy.optimize import linear_sum_assignment

    m = as_moments(x, y)
    xy = to_numpy(m.xy)
    matched = xy[linear_sum_assignment(xy, maximize=True)]
    return angle(np.sum(matched), np.trace(to_numpy(m.xx)) * np.trace(to_numpy(m.yy)))


def soft_matching(x: Any, y: Any = None) -> float:
    r"""Angle that remains after the best soft matching of coordinates, which serves spaces of any two widths.

    .. math:: \theta = \arccos \max_{P \in \mathcal T} \frac{\sqrt{d_x d_y} \sum_{ij} P_{ij} (\Sigma_{xy})_{ij}}
              {\sqrt{\operatorname{tr} \Sigma_x \operatorname{tr} \Sigma_y}}

    𝒯 holds the transport plans with row sums 1/d_x and column sums 1/d_y: every coordinate is matched with shares of
    several. Of equal widths the best plan is a permutation, and this is :func:`permutation_angle`. Solved as a linear
    program: seconds for hundreds of coordinates.

    References: Khosla & Williams, NeurReps 2023.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(soft_matching(x, np.repeat(x, 2, axis=1)), 6)
    0.0
    """
    m = as_moments(x, y)
    xy = to_numpy(m.xy)
    if xy.shape[0] == xy.shape[1]:
        return permutation_angle(m)
    return angle(np.sqrt(xy.size) * _best_transport(xy), np.trace(to_numpy(m.xx)) * np.trace(to_numpy(m.yy)))


def _best_transport(gain: np.ndarray) -> float:
    """Return the largest total gain of a transport plan between uniform weights."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    rows, columns = gain.shape
    sums = vstack([kron(eye_array(rows), np.ones((1, columns))), kron(np.ones((1, rows)), eye_array(columns))])
    weights = np.concatenate([np.full(rows, 1 / rows), np.full(columns, 1 / columns)])
    return float(-linprog(-gain.ravel(), A_eq=sums.tocsr(), b_eq=weights, method="highs").fun)


def angle(product: float, squares: float) -> float:
    """Return the angle whose cosine is a product over the root of a product of squares."""
    return float(np.arccos(np.clip(product / np.sqrt(squares), -1, 1)))
