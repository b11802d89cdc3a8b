"""What is fitted is something that adds: the second moments of a set of parallel pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from relatent._array import Array, array_namespace, as_labels, as_parallel, row_chunks, to_numpy
from relatent._saved import Saved, from_bytes, to_bytes
from relatent.spaces.normalize import Normalizer, scaled

__all__ = ["Summary", "summarize", "summarize_checked"]

# Rows that show where the others lie.
SAMPLE = 256
# Squared mean over variance up to which moments about zero lose no more than three of sixteen digits.
NEAR = 1e3


@dataclass(frozen=True)
class Summary:
    r"""Everything that a closed-form map needs to know about parallel pairs, in float64.

    ``n`` (or the sum of the weights), the two means, and the scatter about them:
    :math:`\sum w (x - \bar x)^\top (x - \bar x)` and likewise for xy and yy. ``xx`` and ``yy`` are matrices, or only
    their diagonals when no more was asked for. Holding the moments about the means, not about the origin, keeps
    their precision under any common offset.

    Summaries of parts add to the summary of the whole, in any order; a fold is left out by subtraction.

    >>> x, y = np.arange(6.0).reshape(3, 2), np.arange(3.0).reshape(3, 1)
    >>> whole = summarize(x, y)
    >>> first, rest = summarize(x[:1], y[:1]), summarize(x[1:], y[1:])
    >>> bool(np.allclose((first + rest).xy, whole.xy)), bool(np.allclose((whole - first).xy, rest.xy))
    (True, True)
    """

    n: float
    mean_x: np.ndarray
    mean_y: np.ndarray
    xx: np.ndarray
    xy: np.ndarray
    yy: np.ndarray

    @property
    def dims(self) -> tuple[int, int]:
        """Coordinates of the source and of the target."""
        return self.mean_x.shape[0], self.mean_y.shape[0]

    def __add__(self, other: Summary) -> Summary:
        """Summary of both sets of pairs together."""
        return self._joined(other, sign=1)

    def __sub__(self, other: Summary) -> Summary:
        """Summary of the pairs that remain when the others are left out."""
        if other.n >= self.n:
            raise ValueError(f"{other.n:g} pairs cannot be left out of {self.n:g}: some must remain.")
        return self._joined(other, sign=-1)

    def _joined(self, other: Summary, sign: int) -> Summary:
        if self.dims != other.dims or self.xx.ndim != other.xx.ndim or self.yy.ndim != other.yy.ndim:
            raise ValueError(f"Summaries of {self.dims} and {other.dims} coordinates were given: expected the same.")
        n = self.n + sign * other.n
        dx, dy = other.mean_x - self.mean_x, other.mean_y - self.mean_y
        pull = sign * self.n * other.n / n  # how much the distance of the two means adds to the scatter
        return Summary(
            n,
            self.mean_x + sign * other.n / n * dx,
            self.mean_y + sign * other.n / n * dy,
            self.xx + sign * other.xx + pull * _square(dx, self.xx.ndim),
            self.xy + sign * other.xy + pull * np.outer(dx, dy),
            self.yy + sign * other.yy + pull * _square(dy, self.yy.ndim),
        )

    def to_bytes(self) -> bytes:
        """Pack for another process. No pickle: reading it runs no code."""
        arrays = {name: getattr(self, name) for name in ("mean_x", "mean_y", "xx", "xy", "yy")}
        return to_bytes(Saved("summary", arrays, {"n": self.n}))

    @staticmethod
    def from_bytes(raw: bytes) -> Summary:
        """Unpack what :meth:`to_bytes` packed."""
        saved = from_bytes(raw, "the summary")
        if saved.kind != "summary":
            raise ValueError(f"The data holds a {saved.kind}, not a summary.")
        return Summary(saved.about["n"], **saved.arrays)

    def about_origin(self) -> Summary:
        """Give the same pairs with their moments about the origin, for maps that have no offset."""
        x, y, root = self.mean_x, self.mean_y, self.n**0.5
        return Summary(
            self.n,
            np.zeros_like(x),
            np.zeros_like(y),
            self.xx + _square(root * x, self.xx.ndim),
            self.xy + self.n * np.outer(x, y),
            self.yy + _square(root * y, self.yy.ndim),
        )

    def normalized(self, source: Normalizer, target: Normalizer) -> Summary:
        """Give the summary that the pairs would have after two affine normalisations."""
        x, y = source.scale, target.scale
        return Summary(
            self.n,
            scaled(self.mean_x - source.mean, x),
            scaled(self.mean_y - target.mean, y),
            _both_sides(x, self.xx),
            scaled(scaled(self.xy.T, x).T, y),
            _both_sides(y, self.yy),
        )


def summarize(x: Array, y: Array, weights: Array | None = None, *, full_x: bool = True, full_y: bool = True) -> Summary:
    """Summarise parallel pairs; ``full_x=False`` and ``full_y=False`` keep only the diagonal of xx and yy.

    >>> summarize(np.eye(2), np.eye(2)).xy.tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    x, y = as_parallel(x=x, y=y)
    return summarize_checked(x, y, weights, full_x, full_y)


def summarize_checked(
    x: Array,
    y: Array,
    weights: Array | None,
    full_x: bool,
    full_y: bool,
    normalizers: tuple[Normalizer, Normalizer] | None = None,
) -> Summary:
    """Summarise pairs that have passed the door: looking at every entry again takes a tenth of the time.

    Where normalisers are given, rows are normalised on the way, a block at a time.
    """
    w = None if weights is None else _checked_weights(weights, x.shape[0])
    n = float(x.shape[0] if w is None else np.sum(w))
    for_x, for_y = normalizers or (None, None)
    side_x, side_y = _Side.of(x, w, for_x), _Side.of(y, w, for_y)
    # Where nothing is copied, one product of all rows is the fastest.
    blocks = [slice(None)] if w is None and side_x.is_plain and side_y.is_plain else row_chunks(x.shape[0])
    parts = (_sums(side_x.rows(b), side_y.rows(b), None if w is None else w[b], full_x, full_y) for b in blocks)
    total = reduce(_added, parts)
    dx, dy, xx, xy, yy = map(to_numpy, total)
    dx, dy = dx / n, dy / n
    return Summary(
        n,
        side_x.from_origin(dx),
        side_y.from_origin(dy),
        xx - n * _square(dx, xx.ndim),
        xy - n * np.outer(dx, dy),
        yy - n * _square(dy, yy.ndim),
    )


@dataclass(frozen=True)
class _Side:
    """Rows of one of the two spaces, as they are summed: in float64, normalised where asked, about an origin."""

    array: Array
    normalizer: Normalizer | None
    origin: Array | None = None
    """A point amid the rows; None where zero is near enough to cost no digits."""

    @staticmethod
    def of(array: Array, weights: np.ndarray | None, normalizer: Normalizer | None) -> _Side:
        xp, bare = array_namespace(array), _Side(array, normalizer)
        if weights is None:
            some = bare.rows(slice(None, None, max(1, array.shape[0] // SAMPLE)))
            mean = xp.mean(some, axis=0)
            near = bool(xp.all(mean**2 <= NEAR * xp.mean((some - mean) ** 2, axis=0)))
            return bare if near else replace(bare, origin=mean)
        total = np.sum([weights[b] @ to_numpy(bare.rows(b)) for b in row_chunks(array.shape[0])], axis=0)
        return replace(bare, origin=xp.asarray(total / np.sum(weights), dtype=xp.float64, device=array.device))

    @property
    def is_plain(self) -> bool:
        """Tell whether the rows are summed just as they are given."""
        return (
            self.normalizer is None and self.origin is None and self.array.dtype == array_namespace(self.array).float64
        )

    def rows(self, block: slice) -> Array:
        """Give some rows."""
        xp = array_namespace(self.array)
        rows = xp.astype(self.array[block, :], xp.float64, copy=False)
        rows = rows if self.normalizer is None else self.normalizer.applied(rows)
        return rows if self.origin is None else rows - self.origin

    def from_origin(self, shift: np.ndarray) -> np.ndarray:
        """Give the point that lies so far from the origin."""
        return shift if self.origin is None else np.asarray(to_numpy(self.origin) + shift)


def _sums(x: Array, y: Array, weights: np.ndarray | None, full_x: bool, full_y: bool) -> list[Array]:
    """Σx, Σy, Σxᵀx, Σxᵀy and Σyᵀy, each row counted by its weight."""
    xp = array_namespace(x)
    if weights is None:
        root = xp.ones(x.shape[0], dtype=xp.float64, device=x.device)
    else:
        root = xp.sqrt(xp.asarray(weights, dtype=xp.float64, device=x.device))
        x, y = root[:, None] * x, root[:, None] * y
    return [root @ x, root @ y, _square(x, 1 + full_x), xp.matrix_transpose(x) @ y, _square(y, 1 + full_y)]


def _added(total: list[Array], part: list[Array]) -> list[Array]:
    for a, b in zip(total, part, strict=True):
        a += b
    return total


def _both_sides(scale: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """S M S for a symmetric S given as a matrix or a diagonal, and M given likewise."""
    if moments.ndim == 1:
        return np.asarray(moments * scale**2)
    return np.asarray(scaled(scaled(moments, scale).T, scale))


def _checked_weights(weights: Array, n: int) -> np.ndarray:
    w = as_labels(weights, "weights").astype(np.float64)
    if len(w) != n:
        raise ValueError(f"There are {len(w)} weights for {n} pairs: expected one per pair.")
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        row = int(np.argmin(np.where(np.isfinite(w), w, -np.inf)))
        raise ValueError(f"Weight {row} is {w[row]}: expected finite weights of 0 or more.")
    if not np.any(w > 0):
        raise ValueError("Every weight is zero: at least one pair must count.")
    return w


def _square(x: Array, ndim: int) -> Array:
    """XᵀX of rows (or of one row), or only its diagonal."""
    xp = array_namespace(x)
    rows = x if x.ndim == 2 else x[None, :]
    # Spelt with one and the same operand, so that BLAS computes only half of the symmetric product.
    if ndim == 2:
        return xp.matrix_transpose(rows) @ rows
    return np.einsum("ij,ij->j", rows, rows) if isinstance(rows, np.ndarray) else xp.sum(rows * rows, axis=0)
