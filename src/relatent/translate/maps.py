"""Maps: rules that turn the summary of parallel pairs into a matrix and an offset.

Each is a plain function of a :class:`~relatent.summary.Summary` (of normalized pairs) and solves the problem
in its docstring, with rows x and y, so that y ≈ x W + b. Where the anchors do not determine the answer, it is the one
of least norm: directions that no anchor reaches map to nothing. To add one, write the function and name it in ``MAPS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from relatent._array import suggest
from relatent._linalg import eigh, polar, spectrum
from relatent.spaces.normalize import Normalizer, scaled
from relatent.steps import Bank, Features, Map, rows_scaled
from relatent.summary import Summary, reach
from relatent.translate.pairs import Frame
from relatent.translate.ridge import RidgePath, trace

# Reciprocal condition number of XᵀX above which solving keeps six digits of the solution.
SAFE_REACH = 1e-10
# Folding a mean this many times the spread into the offset would cost a float32 product its digits.
FAR = 100.0
# A product of two matrices is kept as two where that takes less than this share of the work.
FACTORED = 0.5


Spectrum = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Affine:
    """x ↦ x @ matrix + offset."""

    matrix: np.ndarray
    offset: np.ndarray

    @staticmethod
    def linear(matrix: np.ndarray) -> Affine:
        """Return a map without an offset."""
        return Affine(matrix, np.zeros(matrix.shape[1]))

    @staticmethod
    def through_means(matrix: np.ndarray, summary: Summary) -> Affine:
        """Return the map that takes the mean of the source to the mean of the target."""
        return Affine(matrix, summary.mean_y - summary.mean_x @ matrix)


def identity(summary: Summary) -> Affine:
    """W = I: no translation, the baseline that the papers call absolute."""
    dx, dy = summary.dims
    if dx != dy:
        raise ValueError(
            f"The spaces have {dx} and {dy} coordinates: they can only be kept as they are where both have as many. "
            "Name another map."
        )
    return Affine.linear(np.eye(dx))


def offset(summary: Summary) -> Affine:
    r""":math:`\min_b \lVert Y - X - b \rVert^2`: the difference of the means, and nothing else.

    Exact between copies that were shifted, which no other baseline of one vector is; a rotation or a scale breaks it.
    It is of the vectors as they are, whatever ``normalize`` is by default.
    """
    return Affine.through_means(identity(summary).matrix, summary)


def least_squares(summary: Summary) -> Affine:
    r""":math:`\min_W \lVert Y - XW \rVert^2`, of least norm where several W reach it."""
    return Affine.linear(_solution(summary.about_origin()))


def affine(summary: Summary) -> Affine:
    r""":math:`\min_{W,b} \lVert Y - XW - b \rVert^2`, in closed form."""
    return Affine.through_means(_solution(summary), summary)


def orthogonal(summary: Summary, rtol: float = 0.0) -> Affine:
    r""":math:`\min_Q \lVert Y - XQ \rVert^2` over semi-orthogonal Q (Procrustes): the polar factor of XᵀY."""
    return Affine.linear(polar(summary.about_origin().xy, rtol))


def scaled_orthogonal(summary: Summary) -> Affine:
    r""":math:`\min_{c,Q} \lVert Y - cXQ \rVert^2` over semi-orthogonal Q and a scalar c."""
    s = summary.about_origin()
    q = polar(s.xy)
    return Affine.linear(q * (np.sum(q * s.xy) / trace(s.xx)))


def orthogonal_least_squares(summary: Summary) -> Affine:
    r""":math:`\min_Q \lVert W - Q \rVert^2` over semi-orthogonal Q, W being the least-squares matrix."""
    return Affine.linear(polar(least_squares(summary).matrix))


def ridge(summary: Summary, penalty: float | None = None, decomposed: Spectrum | None = None) -> Affine:
    r""":math:`\min_{W,b} \lVert Y - XW - b \rVert^2 + \lambda \lVert W \rVert^2`.

    λ is ``penalty`` × the mean eigenvalue of the centered XᵀX, or the one of least generalized cross-validation error.
    """
    path = RidgePath.of(summary, decomposed)
    return Affine.through_means(path.matrix(path.best() if penalty is None else penalty), summary)


def low_rank(summary: Summary, rank: int | None = None, penalty: float | None = None) -> Affine:
    r"""Return the ridge problem's answer among matrices of a given rank.

    :math:`\min \lVert Y - XW - b \rVert^2 + \lambda \lVert W \rVert^2` with rank(W) ≤ r: the ridge matrix projected
    onto the r leading directions of its own predictions. The default is half the smaller dimension.
    """
    rank = max(1, min(summary.dims) // 2) if rank is None else rank
    path = RidgePath.of(summary)
    w = path.matrix(path.best() if penalty is None else penalty)
    # ‖Y−XW‖² + λ‖W‖² falls by what the kept directions of (Ŷ, √λW) explain: eigenvectors of WᵀXᵀY.
    _, vectors = eigh(w.T @ summary.xy + summary.xy.T @ w)
    lead = vectors[:, -rank:]
    return Affine.through_means(w @ lead @ lead.T, summary)


def whitened(
    summary: Summary,
    power: float = 0.0,
    penalty: float = 0.1,
    decomposed: tuple[Spectrum, Spectrum] | None = None,
) -> Affine:
    r""":math:`W = \Sigma_x^{-1/2}\, U S^p V^\top\, \Sigma_y^{1/2}` with :math:`USV^\top` the whitened cross-covariance.

    ``power`` 0 rotates one whitened space onto the other (the map of canonical correlations), 1 is ridge-like
    regression. ``penalty`` × the mean eigenvalue is added to both covariances before their roots are taken.
    """
    spectra = decomposed or (spectrum(summary.xx), spectrum(summary.yy))
    sides = zip(spectra, (summary.xx, summary.yy), summary.dims, strict=True)
    (root_x, vectors_x), (root_y, vectors_y) = (
        (np.sqrt(values + penalty * trace(scatter) / dim), vectors) for (values, vectors), scatter, dim in sides
    )
    cross = (vectors_x / root_x).T @ summary.xy @ (vectors_y / root_y)
    turn = polar(cross)
    if power:  # (CCᵀ)^½ = CQᵀ
        values, vectors = spectrum(cross @ turn.T)
        turn = (vectors * values**power) @ vectors.T @ turn
    return Affine.through_means((vectors_x / root_x) @ turn @ (vectors_y * root_y).T, summary)


def _solution(summary: Summary) -> np.ndarray:
    """(XᵀX)⁺XᵀY: as it is, or where some direction is hardly reached, by the eigenvectors of those that are."""
    if reach(summary.xx) > SAFE_REACH:
        return np.asarray(np.linalg.solve(summary.xx, summary.xy))
    return RidgePath.of(summary).matrix(0.0)


@dataclass(frozen=True)
class MapRule:
    """A rule and how much of the summary it needs beyond the cross moments."""

    rule: Callable[..., Affine]
    full_x: bool = False
    full_y: bool = False
    options: tuple[str, ...] = ()
    shrinks: bool = False
    """Whether its penalty is chosen from the anchors when none is given."""
    keeps_coordinates: bool = False
    """Whether it speaks of the coordinates themselves, so that rows must be given in those of their space."""
    normalize: str | None = None
    """The only normalization it can have, where another would make it another map."""


MAPS: dict[str, MapRule] = {
    "identity": MapRule(identity, keeps_coordinates=True),
    "offset": MapRule(offset, keeps_coordinates=True, normalize="none"),
    "least_squares": MapRule(least_squares, full_x=True),
    "orthogonal": MapRule(orthogonal),
    "orthogonal_least_squares": MapRule(orthogonal_least_squares, full_x=True),
    "scaled_orthogonal": MapRule(scaled_orthogonal),
    "affine": MapRule(affine, full_x=True),
    "ridge": MapRule(ridge, full_x=True, options=("penalty",), shrinks=True),
    "low_rank": MapRule(low_rank, full_x=True, options=("penalty", "rank"), shrinks=True),
    "whitened": MapRule(whitened, full_x=True, full_y=True, options=("penalty",)),
}


def find_map(name: str) -> MapRule:
    """Look a map up by name."""
    if name == "functional":
        raise ValueError(
            "A functional map needs all rows of both spaces, not only pairs: grow the pairs with "
            'grow_pairs(x, y, known, method="functional"), and fit a map on these.'
        )
    if name not in MAPS:
        raise ValueError(f"There is no map {name!r}.{suggest(name, MAPS)}")
    return MAPS[name]


def fold(
    solved: Affine,
    source: Frame,
    target: Frame | None,
    *,
    dtype: np.dtype,
    features: Features | None = None,
    bias: np.ndarray | None = None,
    bank: Bank | None = None,
) -> Map:
    """Fold the coordinates that a map was solved in into it, as far as they are affine.

    Without a target the output stays in the coordinates of the solved map.
    """
    matrix, offset = (solved.matrix, solved.offset) if target is None else _in_space(solved, target)
    normalizer, basis = source.normalizer, source.basis
    if normalizer.unit or features is not None:
        before: Normalizer | None = normalizer
    else:
        far = np.linalg.norm(normalizer.mean) > FAR * np.linalg.norm(normalizer.unscale) / len(normalizer.mean) ** 0.5
        one = np.ones(len(normalizer.mean))
        before = replace(normalizer, name="center", scale=one, unscale=one) if far else None
        if basis is None:
            matrix = rows_scaled(normalizer.scale, matrix)
            shift = normalizer.mean @ matrix
        else:
            basis = rows_scaled(normalizer.scale, basis)
            shift = normalizer.mean @ basis @ matrix
        offset = offset if far else offset - shift
    if basis is not None and basis.size + matrix.size >= FACTORED * len(basis) * matrix.shape[1]:
        matrix, basis = basis @ matrix, None
    return Map(matrix, offset, before, features, bias, basis, bank).astype(dtype)


def _in_space(solved: Affine, target: Frame) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and offset that lead into the target space itself."""
    normalizer = target.normalizer
    matrix, offset = (
        scaled((a if target.basis is None else a @ target.basis.T) * normalizer.mean_norm, normalizer.unscale)
        for a in (solved.matrix, solved.offset)
    )
    return matrix, offset + normalizer.mean
