"""Relative projection and its inverse: the bare formulas, on arrays. Imports nothing but the array code."""

from __future__ import annotations

from relatent._array import Array, array_namespace, as_matrices, as_same_space
from relatent._linalg import pseudo_inverse, unit_norm
from relatent.project.similarity import Similarity, resolve


def relative_projection(x: Array, anchors: Array, similarity: str | Similarity = "cosine") -> Array:
    r"""Describe each vector by its similarity to every anchor.

    .. math:: R_{ij} = \operatorname{sim}(x_i, a_j)

    ``similarity`` is a name (see :data:`relatent.project.similarity.SIMILARITIES`) or any function
    ``(x, anchors) → (n, k)``. With the cosine, the result is unchanged when both arguments are rotated, reflected or
    rescaled, and changed by an offset: center first, or use :class:`relatent.RelativeProjection`, which does.

    References: Moschella et al., ICLR 2023, section 3.1.

    >>> import numpy as np
    >>> relative_projection(np.asarray([[3.0, 0.0]]), np.eye(2)).tolist()
    [[1.0, 0.0]]
    """
    function = resolve(similarity)
    x, anchors = as_same_space(x=x, anchors=anchors)
    return function(x, anchors)


def inverse_relative_projection(r: Array, anchors: Array, rtol: float | None = None, ridge: float = 0.0) -> Array:
    r"""Decode cosine relative representations with the anchors of any space.

    .. math:: \hat Y = R\,(\hat A^\top)^+

    where :math:`\hat A` are the anchors at unit norm. Returns unit vectors exactly when r are cosines to these
    very anchors and the anchors span the space. Singular values below ``rtol`` × the largest count as zero; ``ridge``
    (× the mean squared singular value) damps the rest, which noise needs. This is the bare formula:
    :class:`relatent.RelativeTranslator` adds centering, pruning, subspaces and rescaling, and by default
    uses dual codes.

    References: Maiorca et al., 2024 (inverse relative projection).

    >>> import numpy as np
    >>> inverse_relative_projection(np.asarray([[0.6, 0.8]]), np.asarray([[2.0, 0.0], [0.0, 5.0]])).round(12).tolist()
    [[0.6, 0.8]]
    """
    r, anchors = as_matrices(r=r, anchors=anchors)
    check_width(r, anchors.shape[0])
    xp = array_namespace(r)
    matrix = pseudo_inverse(xp.matrix_transpose(unit_norm(xp.astype(anchors, xp.float64))), rtol, ridge)
    return r @ xp.astype(matrix, r.dtype)


def check_width(codes: Array, k: int) -> None:
    """Check that codes have one column per anchor."""
    if codes.shape[1] != k:
        raise ValueError(f"codes has shape {tuple(codes.shape)}: expected {k} columns, one column per anchor.")
