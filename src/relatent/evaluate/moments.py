"""What the linear measures need of two parallel spaces: their centred second moments.

Anything with ``n``, ``xx``, ``xy`` and ``yy`` will do, so that chunks, workers and folds that were summed up elsewhere
are compared without their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from relatent._array import Array, array_namespace, as_parallel, row_chunks, to_numpy
from relatent.evaluate.door import check_varies

__all__ = ["Axes", "Centred", "Moments", "as_moments", "centred_chunks", "principal_axes"]

CHUNK_ROWS = 8_192
# Directions with less than this share of the largest variance are rounding noise (a share 1e-6 of its spread).
NOISE = 1e-12


class Moments(Protocol):
    """Centred second moments of n parallel rows: xᵀx, xᵀy and yᵀy after subtracting the means."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def xx(self) -> Array:
        """(d_x, d_x)."""

    @property
    def xy(self) -> Array:
        """(d_x, d_y)."""

    @property
    def yy(self) -> Array:
        """(d_y, d_y)."""


@dataclass(frozen=True)
class Centred:
    """Moments taken from rows."""

    n: int
    xx: Array
    xy: Array
    yy: Array


def as_moments(x: Any, y: Any = None, *, wide: bool = True) -> Moments:
    """Take moments as they are, or make them from two parallel matrices.

    The sums over chunks are held in float64. ``wide`` also forms the products in float64, which whatever inverts them
    needs and what merely compares them does not.
    """
    if y is None:
        return _given(x)
    x, y = as_parallel(x=x, y=y)
    check_varies(x=x, y=y)
    xx, xy, yy = 0.0, 0.0, 0.0
    xp = array_namespace(x, y)
    for a, b in centred_chunks(x, y, wide=wide):
        xx = xx + xp.astype(xp.matrix_transpose(a) @ a, xp.float64)
        xy = xy + xp.astype(xp.matrix_transpose(a) @ b, xp.float64)
        yy = yy + xp.astype(xp.matrix_transpose(b) @ b, xp.float64)
    return Centred(x.shape[0], xx, xy, yy)


def centred_chunks(x: Array, y: Array, *, wide: bool) -> Iterator[tuple[Array, Array]]:
    """Go through two parallel matrices in chunks of rows, the means of all rows subtracted."""
    xp = array_namespace(x, y)
    dtype = xp.float64 if wide or x.dtype != y.dtype else x.dtype
    first, mean = zip(*(_mean(a) for a in (x, y)), strict=True)
    for rows in _chunks(x):
        yield tuple(
            xp.astype(a[rows, :] - f, dtype, copy=False) - xp.astype(m, dtype, copy=False)
            for a, f, m in zip((x, y), first, mean, strict=True)
        )


@dataclass(frozen=True)
class Axes:
    """The principal axes of a space: ``values`` fall, and column i of ``vectors`` is the axis of ``values[i]``."""

    values: np.ndarray
    vectors: np.ndarray


def principal_axes(scatter: Array) -> Axes:
    """Decompose a scatter matrix; axes that hold rounding noise are dropped."""
    values, vectors = np.linalg.eigh(to_numpy(scatter).astype(np.float64, copy=False))
    live = values > NOISE * values[-1]
    return Axes(values[live][::-1], vectors[:, live][:, ::-1])


def _given(moments: Any) -> Moments:
    if not all(hasattr(moments, name) for name in ("n", "xx", "xy", "yy")):
        raise TypeError(
            f"One argument of type {type(moments).__name__} was given: expected two parallel matrices x and y, "
            "or a summary with n, xx, xy and yy."
        )
    return cast(Moments, moments)


def _mean(x: Array) -> tuple[Array, Array]:
    """Give the first row, and the mean of the rest around it.

    The sum of many float32 numbers around 10,000 is off by more than their spread. Around the first row it is not.
    """
    xp = array_namespace(x)
    total = 0.0
    for rows in _chunks(x):
        total = total + xp.astype(xp.sum(x[rows, :] - x[:1, :], axis=0), xp.float64)
    return x[:1, :], xp.astype(total / x.shape[0], x.dtype, copy=False)


def _chunks(x: Array) -> Iterator[slice]:
    # Autograd would keep every chunk anyway.
    size = x.shape[0] if getattr(x, "requires_grad", False) else CHUNK_ROWS
    return row_chunks(x.shape[0], size)
