"""Maps: rules that turn the summary of parallel pairs into a matrix and an offset.

Each is a plain function of a :class:`~relatent.summary.Summary` (of normalised pairs) and solves the problem
in its docstring, with rows x and y, so that y ≈ x W + b. Where the anchors do not determine the answer, it is the one
of least norm: directions that no anchor reaches map to nothing. To add one, write the function and name it in ``MAPS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from relatent._array import suggest
from relatent._linalg import polar
from relatent.summary import Summary

__all__ = [
    "MAPS",
    "Affine",
    "RidgePath",
    "affine",
    "first_valley",
    "identity",
    "least_squares",
    "low_rank",
    "orthogonal",
    "orthogonal_least_squares",
    "ridge",
    "scaled_orthogonal",
    "spectrum",
    "whitened",
]


# Reciprocal condition number of XᵀX above which a Cholesky factor keeps six digits of the solution.
SAFE_REACH = 1e-10


@dataclass(frozen=True)
class Affine:
    """x ↦ x @ matrix + offset."""

    matrix: np.ndarray
    offset: np.ndarray

    @staticmethod
    def linear(matrix: np.ndarray) -> Affine:
        """Give a map without an offset."""
        return Affine(matrix, np.zeros(matrix.shape[1]))

    @staticmethod
    def through_means(matrix: np.ndarray, summary: Summary) -> Affine:
        """Give the map that takes the mean of the source to the mean of the target."""
        return Affine(matrix, summary.mean_y - summary.mean_x @ matrix)


def identity(summary: Summary) -> Affine:
    """W = I: no translation, the baseline that the papers call absolute."""
    dx, dy = summary.dims
    if dx != dy:
        raise ValueError(f"The spaces have {dx} and {dy} coordinates: the identity is not available between them.")
    return Affine.linear(np.eye(dx))


def least_squares(summary: Summary) -> Affine:
    r""":math:`\min_W \lVert Y - XW \rVert^2`, of least norm where several W reach it."""
    return Affine.linear(_solution(summary.about_origin()))


def affine(summary: Summary) -> Affine:
    r""":math:`\min_{W,b} \lVert Y - XW - b \rVert^2`, in closed form."""
    return Affine.through_means(_solution(summary), summary)


def orthogonal(summary: Summary) -> Affine:
    r""":math:`\min_Q \lVert Y - XQ \rVert^2` over semi-orthogonal Q (Procrustes): the polar factor of XᵀY."""
    return Affine.linear(polar(summary.about_origin().xy))


def scaled_orthogonal(summary: Summary) -> Affine:
    r""":math:`\min_{c,Q} \lVert Y - cXQ \rVert^2` over semi-orthogonal Q and a scalar c."""
    s = summary.about_origin()
    q = polar(s.xy)
    return Affine.linear(q * (np.sum(q * s.xy) / _trace(s.xx)))


def orthogonal_least_squares(summary: Summary) -> Affine:
    r""":math:`\min_Q \lVert W - Q \rVert^2` over semi-orthogonal Q, W being the least-squares matrix."""
    return Affine.linear(polar(least_squares(summary).matrix))


def ridge(summary: Summary, penalty: float | None = None) -> Affine:
    r""":math:`\min_{W,b} \lVert Y - XW - b \rVert^2 + \lambda \lVert W \rVert^2`.

    λ is ``penalty`` × the mean eigenvalue of the centred XᵀX, or the one of least generalised cross-validation error.
    """
    path = RidgePath.of(summary)
    return Affine.through_means(path.matrix(path.best() if penalty is None else penalty), summary)


def low_rank(summary: Summary, rank: int | None = None, penalty: float | None = None) -> Affine:
    r"""Give the ridge problem's answer among matrices of a given rank.

    :math:`\min \lVert Y - XW - b \rVert^2 + \lambda \lVert W \rVert^2` with rank(W) ≤ r: the ridge matrix projected
    onto the r leading directions of its own predictions. The default is half the smaller dimension.
    """
    rank = max(1, min(summary.dims) // 2) if rank is None else rank
    path = RidgePath.of(summary)
    w = path.matrix(path.best() if penalty is None else penalty)
    # ‖Y−XW‖² + λ‖W‖² falls by what the kept directions of (Ŷ, √λW) explain: eigenvectors of WᵀXᵀY.
    _, vectors = np.linalg.eigh(w.T @ summary.xy + summary.xy.T @ w)
    lead = vectors[:, -rank:]
    return Affine.through_means(w @ lead @ lead.T, summary)


def whitened(summary: Summary, power: float = 0.0, penalty: float = 0.1) -> Affine:
    r""":math:`W = \Sigma_x^{-1/2}\, U S^p V^\top\, \Sigma_y^{1/2}` with :math:`USV^\top` the whitened cross-covariance.

    ``power`` 0 rotates one whitened space onto the other (the map of canonical correlations), 1 is ridge-like
    regression. ``penalty`` × the mean eigenvalue is added to both covariances before their roots are taken.
    """
    root_x, root_y = _roots(summary.xx, penalty), _roots(summary.yy, penalty)
    u, s, vt = np.linalg.svd(root_x.inverse @ summary.xy @ root_y.inverse, full_matrices=False)
    kept = s > len(s) * np.finfo(np.float64).eps * s[0]
    middle = (u[:, kept] * s[kept] ** power) @ vt[kept]
    return Affine.through_means(root_x.inverse @ middle @ root_y.root, summary)


def _solution(summary: Summary) -> np.ndarray:
    """(XᵀX)⁺XᵀY: by Cholesky, or where some direction is hardly reached, by the eigenvectors of those that are."""
    factor, failed = lapack.dpotrf(summary.xx)
    if not failed:
        reach, _ = lapack.dpocon(factor, np.linalg.norm(summary.xx, 1))
        if reach > SAFE_REACH:
            return np.asarray(lapack.dpotrs(factor, summary.xy)[0])
    return RidgePath.of(summary).matrix(0.0)


@dataclass(frozen=True)
class RidgePath:
    """All ridge solutions at once: one eigen-decomposition serves every penalty.

    Penalties are in units of the mean eigenvalue of XᵀX, so that 1 means the same in every space.
    """

    n: float
    values: np.ndarray
    vectors: np.ndarray
    rotated: np.ndarray
    """Vᵀ XᵀY."""
    power: np.ndarray
    """Squared length of each row of it."""
    unreached: float
    """Sum of squares of Y that no matrix explains."""
    unit: float

    @staticmethod
    def of(summary: Summary) -> RidgePath:
        """Decompose XᵀX, dropping the directions that no anchor reaches."""
        values, vectors = spectrum(summary.xx)
        unit = _trace(summary.xx) / summary.dims[0] or 1.0
        rotated = vectors.T @ summary.xy
        power, total = np.sum(rotated**2, axis=1), _trace(summary.yy)
        rest = total - float(np.sum(power / values))
        return RidgePath(summary.n, values, vectors, rotated, power, rest if rest > 1e-10 * total else 0.0, unit)

    def matrix(self, penalty: float) -> np.ndarray:
        """Give W for a penalty."""
        return np.asarray(self.vectors @ (self.rotated / (self.values + penalty * self.unit)[:, None]))

    def residual(self, penalty: float) -> float:
        """Sum of squared residuals on the anchors themselves."""
        # What no matrix explains, plus what the penalty leaves unexplained: neither cancels as the penalty vanishes.
        weight = penalty * self.unit
        return self.unreached + float(np.sum(self.power / self.values * (weight / (self.values + weight)) ** 2))

    def freedom(self, penalty: float) -> float:
        """Degrees of freedom that the residuals keep: n, less the mean, less those that the matrix uses."""
        weight = penalty * self.unit
        return max(self.n - 1 - len(self.values), 0.0) + float(np.sum(weight / (self.values + weight)))

    def gcv(self, penalty: float) -> float:
        """Generalised cross-validation error: (RSS/n) / (freedom/n)²."""
        freedom = self.freedom(penalty) / self.n
        return self.residual(penalty) / self.n / freedom**2 if freedom > 0 else np.inf

    def best(self) -> float:
        """Penalty of least generalised cross-validation error."""
        return first_valley(self.gcv, PENALTIES)


PENALTIES: tuple[float, ...] = tuple(float(p) for p in np.logspace(-9, 3, 97))


def first_valley(error: Callable[[float], float], penalties: Sequence[float]) -> float:
    """Give the penalty of least error, coming from strong penalties.

    The first valley counts: repeated anchors make an error collapse again where the penalty vanishes.
    """
    best, least = penalties[-1], np.inf
    for penalty in reversed(penalties):
        found = error(penalty)
        if found > 1.02 * least:
            break
        if found < least:
            best, least = penalty, found
    return best


@dataclass(frozen=True)
class _Roots:
    root: np.ndarray
    inverse: np.ndarray


def _roots(scatter: np.ndarray, penalty: float) -> _Roots:
    """Symmetric square root and its inverse of a regularised scatter, on the directions that it has."""
    values, vectors = spectrum(scatter)
    values = values + penalty * _trace(scatter) / len(scatter)
    return _Roots((vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T)


def spectrum(scatter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of the directions that the anchors reach, the others being rounding noise."""
    values, vectors = np.linalg.eigh(scatter)
    live = values > len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0)
    return values[live], vectors[:, live]


def _trace(moments: np.ndarray) -> float:
    return float(np.sum(np.diagonal(moments) if moments.ndim == 2 else moments))


@dataclass(frozen=True)
class Map:
    """A rule and how much of the summary it needs beyond the cross moments."""

    rule: Callable[..., Affine]
    full_x: bool = False
    full_y: bool = False
    options: tuple[str, ...] = ()
    shrinks: bool = False
    """Whether its penalty is chosen from the anchors when none is given."""


MAPS: dict[str, Map] = {
    "identity": Map(identity),
    "least_squares": Map(least_squares, full_x=True),
    "orthogonal": Map(orthogonal),
    "orthogonal_least_squares": Map(orthogonal_least_squares, full_x=True),
    "scaled_orthogonal": Map(scaled_orthogonal),
    "affine": Map(affine, full_x=True),
    "ridge": Map(ridge, full_x=True, options=("penalty",), shrinks=True),
    "low_rank": Map(low_rank, full_x=True, options=("penalty", "rank"), shrinks=True),
    "whitened": Map(whitened, full_x=True, full_y=True, options=("penalty",)),
}


def find_map(name: str) -> Map:
    """Look a map up by name."""
    if name not in MAPS:
        raise ValueError(f"There is no map {name!r}.{suggest(name, MAPS)}")
    return MAPS[name]
