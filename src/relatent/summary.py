"""What adds: the second moments of parallel rows, accumulated in one place for translators and measures alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._array import Array, array_namespace, as_labels, as_parallel, row_chunks, to_numpy
from relatent._saved import Saved, from_bytes, to_bytes
from relatent.spaces.normalize import Normalizer, scaled

__all__ = ["Prepare", "Summary", "accumulate", "centered_chunks", "check_weights", "needs_double", "reach", "summarize"]

# Rows that show where the others lie.
ORIGIN_ROWS = 256
# Squared mean over variance up to which moments about zero are good enough. In float64 they lose three of sixteen
# digits there; products of float32 rows have none to lose.
NEAR, NEAR_SINGLE = 1e3, 4.0
# Reciprocal condition number of a sample's scatter above which products in float32 change no prediction visibly: they
# err by about 1e-7, a solution by that over the root of this. A sample of twice as many rows as coordinates shows it.
SAFE_SINGLE, SHOWN = 1e-6, 2
# The same of xᵀy itself. Its polar factor errs most where rows hardly reach, which changes predictions little.
SAFE_CROSS = 1e-6
# Rows whose products are summed in float32 where they are summed as they are: nothing is copied, so more is faster.
SINGLE_ROWS = 4_096

MOMENTS = ("mean_x", "mean_y", "xx", "xy", "yy")

Prepare = Callable[[Array], Array]


@dataclass(frozen=True)
class Summary:
    r"""Everything that a closed-form map or a linear measure needs to know about parallel rows.

    ``n`` (or the sum of the weights), the two means, and the scatter about them:
    :math:`\sum w (x - \bar x)^\top (x - \bar x)` and likewise for xy and yy, in float64. ``xx`` and ``yy`` are
    matrices, or only their diagonals when no more was asked for. Holding the moments about the means, not about the
    origin, keeps their precision under any common offset.

    Summaries of parts add to the summary of the whole, in any order; a fold is left out by subtraction.

    >>> x, y = np.arange(6.0).reshape(3, 2), np.arange(3.0).reshape(3, 1)
    >>> whole = summarize(x, y)
    >>> first, rest = summarize(x[:1], y[:1]), summarize(x[1:], y[1:])
    >>> bool(np.allclose((first + rest).xy, whole.xy)), bool(np.allclose((whole - first).xy, rest.xy))
    (True, True)
    """

    n: float
    mean_x: Array
    mean_y: Array
    xx: Array
    xy: Array
    yy: Array
    ambient: tuple[int, int] | None = None
    """Coordinates of the two spaces, where the rows are given in the fewer coordinates of their span."""

    @property
    def dims(self) -> tuple[int, int]:
        """Coordinates of the source and of the target."""
        return self.ambient or (self.mean_x.shape[0], self.mean_y.shape[0])

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of both sets of pairs together."""
        return self._joined(other, sign=1)

    def __sub__(self, other: Summary) -> Summary:
        """Return the summary of the pairs that remain when the others are left out."""
        if other.n >= self.n:
            raise ValueError(f"{other.n:g} pairs cannot be left out of {self.n:g}: some must remain.")
        return self._joined(other, sign=-1)

    def _joined(self, other: Summary, sign: int) -> Summary:
        if self.dims != other.dims or self.xx.ndim != other.xx.ndim or self.yy.ndim != other.yy.ndim:
            raise ValueError(f"Summaries of {self.dims} and {other.dims} coordinates were given: expected the same.")
        n = self.n + sign * other.n
        dx, dy = other.mean_x - self.mean_x, other.mean_y - self.mean_y
        between = sign * self.n * other.n / n  # how much the distance of the two means adds to the scatter
        return replace(
            self,
            n=n,
            mean_x=self.mean_x + sign * other.n / n * dx,
            mean_y=self.mean_y + sign * other.n / n * dy,
            xx=self.xx + sign * other.xx + between * _square(dx, self.xx.ndim),
            xy=self.xy + sign * other.xy + between * np.outer(dx, dy),
            yy=self.yy + sign * other.yy + between * _square(dy, self.yy.ndim),
        )

    def to_bytes(self) -> bytes:
        """Return bytes for another process. No pickle: reading them runs no code."""
        return to_bytes(Saved("summary", self.arrays(), {"n": self.n}))

    @staticmethod
    def from_bytes(raw: bytes) -> Summary:
        """Return what :meth:`to_bytes` packed."""
        saved = from_bytes(raw, "the summary")
        if saved.kind != "summary":
            raise ValueError(f"The data holds a {saved.kind}, not a summary.")
        return Summary.from_arrays(saved.about["n"], saved.arrays)

    @staticmethod
    def from_arrays(n: float, arrays: Mapping[str, Array], prefix: str = "") -> Summary:
        """Return the summary of n pairs whose moments are given by name."""
        mean_x, mean_y, xx, xy, yy = (arrays[prefix + name] for name in MOMENTS)
        return Summary(n, mean_x, mean_y, xx, xy, yy)

    def arrays(self) -> dict[str, Array]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in MOMENTS}

    def to_numpy(self) -> Summary:
        """Return the same with its arrays in NumPy."""
        found = Summary.from_arrays(self.n, {name: to_numpy(array) for name, array in self.arrays().items()})
        return replace(found, ambient=self.ambient)

    def about_origin(self) -> Summary:
        """Return the same pairs with their moments about the origin, for maps that have no offset."""
        x, y, root = self.mean_x, self.mean_y, self.n**0.5
        return replace(
            self,
            mean_x=np.zeros_like(x),
            mean_y=np.zeros_like(y),
            xx=self.xx + _square(root * x, self.xx.ndim),
            xy=self.xy + self.n * np.outer(x, y),
            yy=self.yy + _square(root * y, self.yy.ndim),
        )

    def block(self, x: np.ndarray, y: np.ndarray) -> Summary:
        """Return the same pairs in some of the coordinates of each side."""
        xx, yy = (m[np.ix_(part, part)] if m.ndim == 2 else m[part] for m, part in ((self.xx, x), (self.yy, y)))
        return replace(self, mean_x=self.mean_x[x], mean_y=self.mean_y[y], xx=xx, xy=self.xy[np.ix_(x, y)], yy=yy)

    def normalized(self, source: Normalizer, target: Normalizer) -> Summary:
        """Return the summary that the pairs have after two affine normalizations."""
        x, y = source.scale, target.scale
        return replace(
            self,
            mean_x=scaled(self.mean_x - source.mean, x),
            mean_y=scaled(self.mean_y - target.mean, y),
            xx=_both_sides(x, self.xx),
            xy=scaled(scaled(self.xy.T, x).T, y),
            yy=_both_sides(y, self.yy),
        )


def summarize(x: Array, y: Array, weights: Array | None = None, *, full_x: bool = True, full_y: bool = True) -> Summary:
    """Summarize parallel pairs in NumPy; ``full_x=False`` and ``full_y=False`` keep only the diagonal of xx and yy.

    >>> summarize(np.eye(2), np.eye(2)).xy.tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    x, y = as_parallel(x=x, y=y)
    return accumulate(x, y, weights, full_x=full_x, full_y=full_y).to_numpy()


def accumulate(
    x: Array,
    y: Array,
    weights: Array | None = None,
    *,
    full_x: bool = True,
    full_y: bool = True,
    wide: bool = True,
    prepare: tuple[Prepare, Prepare] | None = None,
) -> Summary:
    """Summarize checked parallel rows in their own namespace and on their device, differentiably.

    Sums over blocks of rows are held in float64. ``wide`` also forms the products of a block in float64, which whatever
    inverts them needs and what merely compares them does not. ``prepare`` is applied to both sides, block by block.
    """
    w = None if weights is None else check_weights(weights, x.shape[0])
    n = float(x.shape[0] if w is None else np.sum(w))
    for_x, for_y = prepare or (None, None)
    dtype = _sum_dtype(x, y, wide)
    sides = _Rows.of(x, w, for_x, dtype), _Rows.of(y, w, for_y, dtype)
    total: list[Array] | None = None
    for block in _blocks(x, y, w, sides):
        # Passed on at once: a block that had a name would still be held while the next is prepared.
        part = _sums(sides[0].block(block), sides[1].block(block), None if w is None else w[block], full_x, full_y)
        total = part if total is None else _added(total, part)
    assert total is not None
    xp = array_namespace(x)
    dx, dy, xx, xy, yy = (xp.astype(a, xp.float64, copy=False) for a in total)
    dx, dy = dx / n, dy / n
    return Summary(
        n,
        sides[0].from_origin(dx),
        sides[1].from_origin(dy),
        xx - n * _square(dx, xx.ndim),
        xy - n * dx[:, None] * dy[None, :],
        yy - n * _square(dy, yy.ndim),
    )


def needs_double(x: Array, y: Array, *, full_x: bool = True, full_y: bool = True) -> bool:
    """Return whether the products of these rows must be formed in float64, because of what is solved from them.

    Float32 rows have seven digits, and so has a product of blocks of them. That is enough where what is solved from is
    well conditioned: a scatter that is inverted, or where neither is wanted in full, the product of both sides, of
    which an orthogonal map is the polar factor. Predictions then agree to 1e-4 of their norm and the residual to 1e-6
    (see the tests). It is not where some direction is hardly reached, which a sample of the rows shows.

    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> needs_double(x, x), needs_double(x.astype(np.float32), x.astype(np.float32))
    (True, False)
    >>> flat = (x * [1, 1, 0]).astype(np.float32)
    >>> needs_double(flat, flat)
    True
    """
    single = array_namespace(x).float32
    if x.dtype != single or y.dtype != single or (full_y and not full_x):
        return True
    # What overflows in float32, or vanishes there, has no reach.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if not full_x:
            return _sampled_cross_reach(x, y) < SAFE_CROSS
        inverted = [x, y] if full_y else [x]
        return any(_sampled_reach(a) < SAFE_SINGLE for a in inverted)


def _sampled_reach(x: Array) -> float:
    """Return the reciprocal condition number of the scatter of some rows; 0 where they are too few to tell."""
    some = _sampled(x, SHOWN * x.shape[1] + ORIGIN_ROWS)
    return 0.0 if len(some) <= x.shape[1] else reach(_square(some, 2).astype(np.float64))


def _sampled_cross_reach(x: Array, y: Array) -> float:
    """Return the reciprocal condition number of xᵀy of some rows; 0 where they are too few to tell."""
    widest = max(x.shape[1], y.shape[1])
    rows = SHOWN * widest + ORIGIN_ROWS
    if x.shape[0] <= widest:
        return 0.0
    cross = _sampled(x, rows).T @ _sampled(y, rows)
    if not np.all(np.isfinite(cross)):
        return 0.0
    wide = cross.astype(np.float64)  # whose squares keep the digits
    return float(np.sqrt(reach(wide.T @ wide if len(wide) >= len(wide.T) else wide @ wide.T)))


def _sampled(x: Array, rows: int) -> np.ndarray:
    """Return at least ``rows`` rows, if there are, spread evenly, about their mean."""
    some = to_numpy(x[:: max(1, x.shape[0] // rows), :])
    some = some - some[0]  # first, so that a mean far from zero costs no digits
    some -= np.mean(some, axis=0)
    return np.asarray(some)


def reach(scatter: np.ndarray) -> float:
    """Return the reciprocal condition number of a scatter, 0 where it has no Cholesky factor.

    NumPy factors it: SciPy brings threads of its own, which those of a product just formed are slow to make room for.

    >>> reach(np.eye(2)), reach(np.zeros((2, 2)))
    (1.0, 0.0)
    """
    try:
        factor = np.linalg.cholesky(scatter)
    except np.linalg.LinAlgError:
        return 0.0
    from scipy.linalg import lapack

    return float(lapack.dpocon(factor.T, np.linalg.norm(scatter, 1))[0])


def centered_chunks(x: Array, y: Array, *, wide: bool) -> Iterator[tuple[Array, Array]]:
    """Go through two parallel matrices in chunks of rows, the means of all rows subtracted."""
    xp, dtype = array_namespace(x, y), _sum_dtype(x, y, wide)
    sides = [_Rows.of(a, None, None, dtype) for a in (x, y)]
    blocks = list(_blocks(x, y, None, sides, whole=False))
    shifts = []
    for side in sides:
        total: Any = 0.0
        for block in blocks:
            total = total + xp.astype(xp.sum(side.block(block), axis=0), xp.float64)
        shifts.append(xp.astype(total / x.shape[0], dtype))
    for block in blocks:
        a, b = (side.block(block) - shift for side, shift in zip(sides, shifts, strict=True))
        yield a, b


@dataclass(frozen=True)
class _Rows:
    """Rows of one of the two spaces as they are summed: of one dtype, prepared where asked, about an origin."""

    array: Array
    prepare: Prepare | None
    dtype: Any
    origin: Array | None = None
    """A point amid the rows; None where zero is near enough to cost no digits."""

    @staticmethod
    def of(array: Array, weights: np.ndarray | None, prepare: Prepare | None, dtype: Any) -> _Rows:
        xp, rows = array_namespace(array), _Rows(array, prepare, dtype)
        if weights is not None:
            total = np.sum([weights[b] @ to_numpy(rows.block(b)) for b in row_chunks(array.shape[0])], axis=0)
            return replace(rows, origin=xp.asarray(total / np.sum(weights), dtype=dtype, device=array.device))
        some = rows.block(slice(None, None, max(1, array.shape[0] // ORIGIN_ROWS)))
        around = some - some[:1, :]
        mean = xp.mean(around, axis=0)
        origin = some[0, :] + mean
        near = NEAR if dtype == xp.float64 else NEAR_SINGLE
        is_near = bool(xp.all(origin**2 <= near * xp.mean((around - mean) ** 2, axis=0)))
        return rows if is_near else replace(rows, origin=origin)

    @property
    def untouched(self) -> bool:
        """Whether the rows are summed just as they are given."""
        return self.prepare is None and self.origin is None and self.array.dtype == self.dtype

    def block(self, rows: slice) -> Array:
        """Return some rows."""
        block = array_namespace(self.array).astype(self.array[rows, :], self.dtype, copy=False)
        block = block if self.prepare is None else self.prepare(block)
        return block if self.origin is None else block - self.origin

    def from_origin(self, shift: Array) -> Array:
        """Return the point that lies so far from the origin."""
        return shift if self.origin is None else self.origin + shift


def _sum_dtype(x: Array, y: Array, wide: bool) -> Any:
    return array_namespace(x, y).float64 if wide or x.dtype != y.dtype else x.dtype


def _blocks(
    x: Array, y: Array, weights: np.ndarray | None, sides: Any, *, whole: bool = True
) -> Iterator[slice] | list[slice]:
    """Return the slices of rows to go through. Where nothing is copied, few large products are the fastest."""
    n, untouched = x.shape[0], whole and weights is None and all(side.untouched for side in sides)
    in_double = sides[0].dtype == array_namespace(x).float64
    # Autograd would keep every block anyway.
    tracked = any(getattr(a, "requires_grad", False) for a in (x, y))
    if tracked or (untouched and in_double):
        return [slice(0, n)]
    return row_chunks(n, SINGLE_ROWS) if untouched else row_chunks(n)


def _sums(x: Array, y: Array, weights: np.ndarray | None, full_x: bool, full_y: bool) -> list[Array]:
    """Σx, Σy, Σxᵀx, Σxᵀy and Σyᵀy, each row counted by its weight."""
    xp = array_namespace(x)
    if weights is None:
        root = xp.ones(x.shape[0], dtype=x.dtype, device=x.device)
    else:
        root = xp.sqrt(xp.asarray(weights, dtype=x.dtype, device=x.device))
        x, y = root[:, None] * x, root[:, None] * y
    return [root @ x, root @ y, _square(x, 1 + full_x), xp.matrix_transpose(x) @ y, _square(y, 1 + full_y)]


def _added(total: list[Array], part: list[Array]) -> list[Array]:
    """Add in float64, in place where the sums are in it already."""
    xp = array_namespace(*total)
    for i, new in enumerate(part):
        if total[i].dtype == xp.float64:
            total[i] += new  # casts on the way, without a copy
        else:
            total[i] = xp.astype(total[i], xp.float64) + xp.astype(new, xp.float64)
    return total


def _both_sides(scale: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """S M S for a symmetric S given as a matrix or a diagonal, and M given likewise."""
    if moments.ndim == 1:
        return np.asarray(moments * scale**2)
    return np.asarray(scaled(scaled(moments, scale).T, scale))


def check_weights(weights: Array, n: int) -> np.ndarray:
    """Check that there is one finite weight of 0 or more per pair, and that some pair counts."""
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
    # Written with one and the same operand, so that BLAS computes only half of the symmetric product.
    if ndim == 2:
        return xp.matrix_transpose(rows) @ rows
    return np.einsum("ij,ij->j", rows, rows) if isinstance(rows, np.ndarray) else xp.sum(rows * rows, axis=0)
