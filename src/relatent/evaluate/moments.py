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
from relatent.evaluate.checks import check_varies

__all__ = ["Axes", "Centred", "Moments", "as_moments", "centred_chunks", "principal_axes"]

CHUNK_ROWS = 16_384
ORIGIN_ROWS = 256
# A mean whose square is within this many variances costs no digits that matter, and shifting costs a copy.
NEAR = 4.0
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
    xp = array_namespace(x, y)
    total = [0.0, 0.0, 0.0, 0.0, 0.0]
    for a, b in _shifted_chunks(x, y, wide=wide):
        at, bt = xp.matrix_transpose(a), xp.matrix_transpose(b)
        parts = (at @ a, at @ b, bt @ b, xp.sum(a, axis=0), xp.sum(b, axis=0))
        total = [t + xp.astype(part, xp.float64) for t, part in zip(total, parts, strict=True)]
    xx, xy, yy, sx, sy = total
    n = x.shape[0]
    return Centred(n, xx - _outer(sx, sx) / n, xy - _outer(sx, sy) / n, yy - _outer(sy, sy) / n)


def centred_chunks(x: Array, y: Array, *, wide: bool) -> Iterator[tuple[Array, Array]]:
    """Go through two parallel matrices in chunks of rows, the means of all rows subtracted."""
    xp = array_namespace(x, y)
    sums = [0.0, 0.0]
    for pair in _shifted_chunks(x, y, wide=wide):
        sums = [t + xp.astype(xp.sum(a, axis=0), xp.float64) for t, a in zip(sums, pair, strict=True)]
    mean_x, mean_y = (s / x.shape[0] for s in sums)
    for a, b in _shifted_chunks(x, y, wide=wide):
        yield a - xp.astype(mean_x, a.dtype), b - xp.astype(mean_y, b.dtype)


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


def _shifted_chunks(x: Array, y: Array, *, wide: bool) -> Iterator[tuple[Array, Array]]:
    """Go through the rows around an origin in their midst.

    Sums of float32 numbers around 10,000 are off by more than the spread of the numbers. Around a nearby origin they
    are not, and what is left to subtract afterwards is small.
    """
    xp = array_namespace(x, y)
    dtype = xp.float64 if wide or x.dtype != y.dtype else x.dtype
    from_x, from_y = _origin(x), _origin(y)
    for rows in _chunks(x):
        a = x[rows, :] if from_x is None else x[rows, :] - from_x
        b = y[rows, :] if from_y is None else y[rows, :] - from_y
        yield xp.astype(a, dtype, copy=False), xp.astype(b, dtype, copy=False)


def _origin(x: Array) -> Array | None:
    """Give the mean of a few rows from everywhere, or nothing when zero is near enough."""
    xp = array_namespace(x)
    some = x[:: max(1, x.shape[0] // ORIGIN_ROWS), :]
    around = some - some[:1, :]
    mean = xp.mean(around, axis=0, keepdims=True)
    origin = some[:1, :] + mean
    spread = xp.sum((around - mean) ** 2) / some.shape[0]
    return None if bool(xp.sum(origin**2) <= NEAR * spread) else origin


def _outer(a: Array, b: Array) -> Array:
    return a[:, None] * b[None, :]


def _chunks(x: Array) -> Iterator[slice]:
    # Autograd would keep every chunk anyway.
    size = x.shape[0] if getattr(x, "requires_grad", False) else CHUNK_ROWS
    return row_chunks(x.shape[0], size)
