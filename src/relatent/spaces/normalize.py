"""Normalizations: fitted on anchors, applied to samples, undone on the target side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from relatent._array import Array, array_namespace, as_matrix, like, row_chunks, suggest, to_numpy
from relatent._linalg import row_norms, spectrum, unit_norm

Normalization = Literal["none", "center", "iso", "standard", "whiten", "l2", "center+l2"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)
# Those that are not affine.
UNIT_ROWS = ("l2", "center+l2")

# A coordinate whose spread is this much below the typical one carries rounding noise, not information.
DEAD = 1e-6


def live_dimensions(std: np.ndarray) -> np.ndarray:
    """Return which coordinates carry information: those whose std exceeds 1e-6 of the median std.

    Orthogonal and whitening maps leak into the others, and a decoder that standardizes its input then amplifies that
    leak (all-MiniLM-L6-v2 has three such coordinates). Whatever writes into a space sets them to their mean instead.

    >>> live_dimensions(np.asarray([1.0, 2.0, 1e-30])).tolist()
    [True, True, False]
    """
    return np.asarray(std > DEAD * np.median(std))


@dataclass(frozen=True)
class Normalizer:
    r"""A normalization with its statistics: rows become :math:`(x - m)\,S`, then unit rows if ``unit``.

    =============  =====================================================================================
    ``none``       nothing
    ``center``     subtract the mean m
    ``iso``        subtract the mean, divide by one scalar: the root mean square distance from the mean
    ``standard``   subtract the mean, divide each coordinate by its std (ddof=1; 1 where it is dead)
    ``whiten``     subtract the mean, rotate and rescale to unit covariance (dead directions dropped)
    ``l2``         unit rows
    ``center+l2``  subtract the mean, then unit rows
    =============  =====================================================================================

    ``iso`` is the default everywhere: it keeps angles and relative norms, and one number cannot explode as a
    near-constant coordinate does under ``standard``. The inverse of a unit-row normalization multiplies by the mean
    norm of the rows it was fitted on, the best that can be done for a sample whose norm was dropped.

    >>> x = np.asarray([[0.0, 0.0], [2.0, 2.0]])
    >>> n = Normalizer.fit(x, "center")
    >>> n.apply(x).tolist(), n.undo(n.apply(x)).tolist()
    ([[-1.0, -1.0], [1.0, 1.0]], [[0.0, 0.0], [2.0, 2.0]])
    """

    name: str
    mean: np.ndarray
    scale: np.ndarray
    """What centered rows are multiplied by: (d,), one factor per coordinate, or a (d, d) matrix for ``whiten``."""
    unscale: np.ndarray
    unit: bool = False
    mean_norm: float = 1.0
    """Mean norm of the rows before they became unit rows."""

    @staticmethod
    def fit(anchors: Array, name: str = "iso") -> Normalizer:
        """Take the statistics of the anchors."""
        x = to_numpy(as_matrix(anchors, "anchors"))
        mean = np.asarray(np.mean(x, axis=0, dtype=np.float64))
        if name in UNIT_ROWS:
            found = Normalizer.from_moments(len(x), mean, np.zeros(0), name)
            norms = [row_norms(found._affine(rows)) for rows in _wide_chunks(x)]
            return replace(found, mean_norm=float(np.mean(np.concatenate(norms))))
        parts = (rows - mean for rows in _wide_chunks(x))
        full = name == "whiten"
        scatter = sum(rows.T @ rows if full else np.einsum("ij,ij->j", rows, rows) for rows in parts)
        return Normalizer.from_moments(len(x), mean, np.asarray(scatter), name)

    @staticmethod
    def from_moments(n: int, mean: np.ndarray, scatter: np.ndarray, name: str = "iso") -> Normalizer:
        """Build from the mean and the centered scatter Σ(x−m)ᵀ(x−m), or its diagonal where that is enough."""
        if name not in NORMALIZATIONS:
            raise ValueError(f"There is no normalization {name!r}.{suggest(name, NORMALIZATIONS)}")
        d = mean.shape[0]
        one = np.ones(d)
        if name in ("none", "l2", "center", "center+l2"):
            kept = mean if name.startswith("center") else np.zeros(d)
            return Normalizer(name, kept, one, one, unit=name in UNIT_ROWS)
        if name == "whiten":
            return Normalizer(name, mean, *_whitening(scatter / max(n - 1, 1)))
        diagonal = np.diagonal(scatter) if scatter.ndim == 2 else scatter
        if name == "iso":
            rms = float(np.sqrt(np.sum(diagonal) / n)) or 1.0
            return Normalizer(name, mean, one / rms, one * rms)
        # A difference of sums leaves a dead coordinate a little above or below zero.
        std = np.sqrt(np.maximum(diagonal, 0.0) / max(n - 1, 1))
        std = np.where(live_dimensions(std), std, 1.0)
        return Normalizer(name, mean, 1 / std, std)

    def centered_at(self, center: np.ndarray | None) -> Normalizer:
        """Return the same about another center; of None, as it is."""
        return self if center is None else replace(self, mean=center)

    def weighted(self, factors: np.ndarray) -> Normalizer:
        """Return the same with each coordinate multiplied by a factor before rows are scaled to unit norm."""
        scale = self.scale * factors  # the columns of a matrix
        return replace(self, name="weighted", scale=scale, unscale=(self.unscale.T / factors).T)

    def apply(self, x: Array) -> Array:
        """Normalize rows of the fitted space."""
        return self.applied(self._checked(x))

    def undo(self, x: Array) -> Array:
        """Bring normalized rows back to the fitted space."""
        return self.undone(self._checked(x))

    def applied(self, x: Array) -> Array:
        """Normalize rows that are known to fit."""
        x = self._affine(x)
        return unit_norm(x) if self.unit else x

    def undone(self, x: Array) -> Array:
        """Bring rows back that are known to fit."""
        x = x * self.mean_norm if self.unit else x
        return scaled(x, like(self.unscale, x)) + like(self.mean, x)

    def arrays(self, prefix: str = "normalizer.") -> dict[str, np.ndarray]:
        """Return the arrays to save."""
        return {f"{prefix}{name}": getattr(self, name) for name in ("mean", "scale", "unscale")}

    def about(self) -> dict[str, Any]:
        """Return what else to save."""
        return {"name": self.name, "unit": self.unit, "mean_norm": self.mean_norm}

    @staticmethod
    def from_saved(arrays: dict[str, np.ndarray], about: dict[str, Any], prefix: str = "normalizer.") -> Normalizer:
        """Rebuild from what :meth:`arrays` and :meth:`about` gave."""
        if about["name"] not in NORMALIZATIONS:
            raise ValueError(f"this version does not know the normalization {about['name']!r}")
        mean, scale, unscale = (arrays[f"{prefix}{name}"] for name in ("mean", "scale", "unscale"))
        return Normalizer(mean=mean, scale=scale, unscale=unscale, **about)

    def _checked(self, x: Array) -> Array:
        x = as_matrix(x)
        if x.shape[1] != len(self.mean):
            raise ValueError(
                f"x has shape {tuple(x.shape)}: expected {len(self.mean)} columns, as the space that was fitted has."
            )
        return x

    def _affine(self, x: Array) -> Array:
        if self.name in ("none", "l2"):
            return x
        x = x - like(self.mean, x)
        return x if self.name in ("center", "center+l2") else scaled(x, like(self.scale, x))


def _wide_chunks(x: np.ndarray) -> Iterator[np.ndarray]:
    """Go through rows in float64, a few at a time."""
    return (x[rows].astype(np.float64, copy=False) for rows in row_chunks(len(x)))


def centered(x: Array, anchors: Array) -> tuple[Array, Array]:
    """Subtract the mean of the anchors from samples and anchors, differentiably.

    >>> [a.tolist() for a in centered(np.asarray([[5.0]]), np.asarray([[1.0], [3.0]]))]
    [[[3.0]], [[-1.0], [1.0]]]
    """
    mean = array_namespace(x).mean(anchors, axis=0, keepdims=True)
    return x - mean, anchors - mean


def standardized(x: Array, anchors: Array) -> tuple[Array, Array]:
    r"""Subtract the mean of the anchors, and divide each coordinate by their standard deviation, differentiably.

    As ``standard`` does: ddof=1, and coordinates that the anchors hardly vary in are left as they are.

    >>> [a.tolist() for a in standardized(np.asarray([[5.0]]), np.asarray([[1.0], [3.0]]))][0]
    [[2.1213203435596424]]
    """
    xp = array_namespace(x)
    x, anchors = centered(x, anchors)
    variance = xp.sum(anchors**2, axis=0) / max(anchors.shape[0] - 1, 1)
    ordered, d = xp.sort(variance), anchors.shape[1]
    # The square of DEAD medians of the standard deviation, whose order is that of the variance.
    least = DEAD**2 * (ordered[(d - 1) // 2] ** 0.5 + ordered[d // 2] ** 0.5) ** 2 / 4
    # The root has no slope at 0, where dead coordinates are: keep them out of the gradient.
    std = xp.sqrt(xp.where(variance > least, variance, xp.ones_like(variance)))
    return x / std, anchors / std


def scaled(x: Array, scale: Array) -> Array:
    """Multiply rows by a matrix, or by a diagonal given as a vector."""
    return x @ scale if scale.ndim == 2 else x * scale


def _whitening(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric square roots Σ^-½ and Σ^½ on the directions that carry information."""
    values, vectors = spectrum(covariance)
    root = np.sqrt(values)
    return (vectors / root) @ vectors.T, (vectors * root) @ vectors.T
