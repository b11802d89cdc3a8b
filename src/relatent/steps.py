"""A fitted map: a list of named steps, which ``transform`` applies and which every export reads.

A new kind of step needs a function here, one of the same name in ``relatent.exports.translate_with_numpy``, an entry in
the table of each export that can express it, and its derivative in ``relatent.translate.directions``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from relatent._array import BLOCK_ROWS, Array, array_namespace, as_float, is_tracked, like, row_chunks
from relatent._linalg import unit_norm
from relatent._similarities import Bank as Bank
from relatent._similarities import Gaussians
from relatent._similarities import best_mean as best_mean
from relatent._similarities import gaussian_kernel as gaussian_kernel
from relatent.spaces.normalize import Normalizer, live_dimensions, scaled

# Rows whose similarities to a thousand centers stay in the cache; fewer would slow the products down.
KERNEL_ROWS = 512


def linear(x: Array, matrix: Array | None = None, offset: Array | None = None) -> Array:
    """Multiply rows by a matrix, or by a diagonal given as a vector, and add an offset."""
    if matrix is None:
        return x + like(offset, x)
    y = scaled(x, like(matrix, x))
    if offset is not None:
        y += like(offset, y)  # in place: the product is ours, and a second result of that size is not needed
    return y


def gaussian(x: Array, centers: Array, width: float | Array) -> Array:
    """Append the Gaussian similarity of each row to each center."""
    if isinstance(x, np.ndarray):
        return Gaussians.of(like(centers, x), width)(x)
    return array_namespace(x).concat([x, gaussian_kernel(x, like(centers, x), width)], axis=1)


def squares(x: Array, weights: Array) -> Array:
    """Append one coordinate: a weighted sum of the squares of the others."""
    return array_namespace(x).concat([x, _bias(x, weights)], axis=1)


def hubness(x: Array, weights: Array, queries: Array, offsets: Array, weight: float, neighbors: int) -> Array:
    """Append one coordinate: squares as above, less what items lose that score high with a bank of queries."""
    bias = _bias(x, weights)
    lost = Bank(queries, offsets, weight, neighbors).correction(x, bias)
    return array_namespace(x).concat([x, bias - lost], axis=1)


def length(x: Array, length: float | Array, power: float | Array) -> Array:
    r"""Bring the length of rows toward a common one: :math:`x\,(L / \lVert x \rVert)^p`; a zero row stays zero."""
    unit = unit_norm(x)
    norm = array_namespace(x).sum(x * unit, axis=1, keepdims=True)  # x · x/‖x‖, which no square overflows
    return unit * (length**power * norm ** (1 - power))


STEPS: dict[str, Callable[..., Array]] = {
    "linear": linear,
    "unit": unit_norm,
    "length": length,
    "gaussian": gaussian,
    "squares": squares,
    "hubness": hubness,
}


@dataclass(frozen=True)
class Step:
    """One step: the name of a function of rows (``STEPS``), and the arrays and numbers that it takes."""

    kind: str
    arrays: dict[str, Any] = field(default_factory=dict)

    def __call__(self, x: Array) -> Array:
        """Take rows through it."""
        if self.kind == "gaussian" and isinstance(x, np.ndarray) and x.dtype == self.arrays["centers"].dtype:
            return self._gaussians(x)
        return STEPS[self.kind](x, **self.arrays)

    def _fill(self, out: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Take rows of NumPy through it, into an array."""
        matrix, offset = self.arrays.get("matrix"), self.arrays.get("offset")
        if self.kind != "linear" or matrix is None or matrix.ndim != 2:
            out[:] = self(x)
            return out
        np.matmul(x, like(matrix, x), out=out)
        if offset is not None:
            out += like(offset, x)
        return out

    @cached_property
    def _gaussians(self) -> Gaussians:
        """What is made of the centers, once for all blocks of rows."""
        return Gaussians.of(**self.arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        return Step, (self.kind, self.arrays)  # without what is cached


def _bias(x: Array, weights: Array) -> Array:
    return (x * x) @ like(weights, x)[:, None]


@dataclass(frozen=True)
class Features:
    r"""Vectors beside their similarities to centers: :math:`[x,\, e^{-\lVert x - C \rVert^2 / 2\sigma^2}]`."""

    centers: np.ndarray
    width: float
    """2σ²."""
    mixed: bool = False
    """Whether each center is mixed from two anchors; else it is one."""

    @property
    def step(self) -> Step:
        """What computes them from normalized rows."""
        return Step("gaussian", {"centers": self.centers, "width": self.width})


@dataclass(frozen=True, eq=False)
class Lengths:
    r"""The lengths of translated rows about a center m: :math:`m + d\,(L / \lVert d \rVert)^p`, perhaps as unit rows.

    A map shrinks rows that it is unsure of, and what lies near the center is near to every query. The power 0 leaves
    lengths as they are, 1 makes them equal.
    """

    center: np.ndarray
    length: float
    power: float
    unit: bool

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is done, in order."""
        brought = Step("length", {"length": self.length, "power": self.power})
        if isinstance(self.power, float) and (self.length, self.power) == (1.0, 1.0):
            brought = Step("unit")  # which every export has
        return brought, Step("linear", {"offset": self.center}), *([Step("unit")] if self.unit else [])


def bias_step(weights: np.ndarray, bank: Bank | None = None) -> Step:
    """Return the step that appends the bias of mapped targets: weighted squares, less what a bank takes off."""
    return Step("squares" if bank is None else "hubness", {"weights": weights} | ({} if bank is None else vars(bank)))


def _prepared(normalizer: Normalizer) -> Iterator[Step]:
    # The mean goes first: far from it, a float32 product has no digits left.
    if normalizer.name not in ("none", "l2"):
        yield Step("linear", {"offset": -normalizer.mean})
    if normalizer.name not in ("none", "l2", "center", "center+l2"):
        yield Step("linear", {"matrix": normalizer.scale})
    if normalizer.unit:
        yield Step("unit")


@dataclass(frozen=True, eq=False)
class Map:
    """x ↦ after(before(x) @ basis @ matrix + offset), with each part only where the map has it.

    ``steps`` are what it does, in order. Everything that applies or exports a map goes through them.
    """

    matrix: np.ndarray
    offset: np.ndarray | None = None
    before: Normalizer | None = None
    """Kept apart only if it scales rows to unit norm, feeds features, or subtracts a far mean; absent for codes."""
    features: Features | None = None
    bias: np.ndarray | None = None
    """Weights of the squared outputs in an appended coordinate (the target side of a likelihood ratio)."""
    basis: np.ndarray | None = None
    """A first factor, (d, r), where two thin products take less than one wide one."""
    bank: Bank | None = None
    """What hubs lose in the appended coordinate."""
    after: Normalizer | None = None
    """Of the target of relative codes, undone."""
    lengths: Lengths | None = None
    """What is done to the lengths of translated rows."""
    rescale: bool = False
    """Whether decoded rows get the mean norm of the target's anchors, where ``after`` drops norms."""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """What is done to rows, in order."""
        return self._listed()

    def _listed(self) -> tuple[Step, ...]:
        found = [] if self.before is None else [*_prepared(self.before)]
        if self.basis is not None:
            found.append(Step("linear", {"matrix": self.basis}))
        if self.features is not None:
            found.append(self.features.step)
        offset = {} if self.offset is None else {"offset": self.offset}
        found.append(Step("linear", {"matrix": self.matrix, **offset}))
        if self.bias is not None:
            found.append(bias_step(self.bias, self.bank))
        if self.lengths is not None:
            found += self.lengths.steps
        if self.after is None:
            return tuple(found)
        if self.rescale and self.after.unit:
            found.append(Step("unit"))
        scale = self.after.unscale * self.after.mean_norm if self.after.unit else self.after.unscale
        return *found, Step("linear", {"matrix": scale, "offset": self.after.mean})

    def __call__(self, x: Array) -> Array:
        """Map checked rows. NumPy's float16 becomes float32; it, and what has steps in between, goes in blocks."""
        rows = self._rows_at_once
        if not isinstance(x, np.ndarray):
            # Autograd keeps the temporaries anyway.
            if is_tracked(x) or self.is_affine or x.shape[0] <= rows:
                return self._mapped(x)
            return array_namespace(x).concat(
                [self._mapped(x[part, :]) for part in row_chunks(x.shape[0], rows)], axis=0
            )
        # One product of all rows takes no longer than its blocks.
        if x.dtype != np.float16 and (len(x) <= rows or self.is_affine):
            return self._mapped(x)
        out = np.empty((len(x), self.width), dtype=np.result_type(x.dtype, np.float32))
        for part in row_chunks(len(x), rows):
            self._mapped(as_float(x[part]), out[part])
        return out

    def one(self, x: np.ndarray) -> np.ndarray:
        """Map one checked vector, 1-D, of the dtype of the matrix."""
        if not self.is_affine or self.offset is None:
            return np.asarray(self._mapped(x[None])[0])
        y: np.ndarray = x.dot(self.matrix)
        y += self.offset
        return y

    def _mapped(self, x: Array, out: np.ndarray | None = None) -> Array:
        # What is cached takes a lock, which torch.compile cannot trace.
        *first, last = self.steps if isinstance(x, np.ndarray) else self._listed()
        for step in first:
            x = step(x)
        return last(x) if out is None else last._fill(out, x)

    @property
    def is_affine(self) -> bool:
        """Whether one matrix and one offset are all of it."""
        bare = self.before is None and self.basis is None and self.features is None
        return bare and self.bias is None and self.after is None and self.lengths is None

    @property
    def _rows_at_once(self) -> int:
        """How many rows take little memory on their way."""
        return BLOCK_ROWS if self.features is None else KERNEL_ROWS

    @property
    def dims_in(self) -> int:
        """Coordinates of the input."""
        if self.before is not None:
            return len(self.before.mean)
        return len(self.matrix if self.basis is None else self.basis)

    @property
    def width(self) -> int:
        """Coordinates of the output."""
        return int(self.matrix.shape[1]) + (self.bias is not None)

    @property
    def cost(self) -> float:
        """Multiplications per row, over those of one matrix between the two spaces."""
        centers = 0 if self.features is None else self.features.centers.size
        basis = 0 if self.basis is None else self.basis.size
        return float((self.matrix.size + centers + basis) / (self.dims_in * self.matrix.shape[1]))

    @property
    def product(self) -> np.ndarray:
        """The matrix that prepared rows are multiplied by, as one; of features where there are any."""
        return self.matrix if self.basis is None else self.basis @ self.matrix

    @staticmethod
    def of_blocks(maps: Sequence[Map], x: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> Map:
        """Return affine maps of some coordinates each as one: a matrix that is zero between them."""
        rows, columns = (sum(map(len, parts)) for parts in (x, y))
        matrix = np.zeros((rows, columns), dtype=maps[0].matrix.dtype)
        offset, mean = np.zeros(columns, dtype=matrix.dtype), np.zeros(rows)
        for one, from_x, to_y in zip(maps, x, y, strict=True):
            matrix[np.ix_(from_x, to_y)] = one.product
            offset[to_y] = one.offset
            if one.before is not None:  # a mean that is far from zero
                mean[from_x] = one.before.mean
        ones = np.ones(rows)
        return Map(matrix, offset, Normalizer("center", mean, ones, ones) if np.any(mean) else None)

    def blended(self, other: Map, share: float) -> Map:
        """Return (1 − share) × this map + share × an affine one: of bare rows, or of rows prepared as this one's."""
        left, right = share * other.product if other.basis is None else other.basis, None
        if other.basis is not None and self.basis is not None and self.features is None:
            right = share * other.matrix  # both stay thin
        elif other.basis is not None:
            left = share * other.product
        moved = np.zeros(1)
        if not (other.before is not None and other.before.unit):
            if other.before is not None:
                moved = moved - other.before.mean @ left
            if self.before is not None:
                moved, left = moved + self.before.mean @ left, rows_scaled(self.before.unscale, left)
        assert self.offset is not None
        assert other.offset is not None
        offset = (1 - share) * self.offset + share * other.offset
        if right is not None:
            basis = np.concatenate([self.basis, left], axis=1)
            matrix = np.concatenate([(1 - share) * self.matrix, right])
            return replace(self, matrix=matrix, offset=offset + np.broadcast_to(moved, len(right)) @ right, basis=basis)
        matrix = (1 - share) * self.product
        matrix[: self.dims_in] += left
        return replace(self, matrix=matrix, offset=offset + moved, basis=None)

    def guarded(self, mean: np.ndarray, std: np.ndarray) -> Map:
        """Set target coordinates that do not vary among the anchors to their mean there, whatever the map says."""
        live = live_dimensions(std)
        if np.all(live):
            return self
        assert self.offset is not None
        matrix, offset = np.where(live, self.matrix, 0), np.where(live, self.offset, mean)
        return replace(self, matrix=matrix.astype(self.matrix.dtype), offset=offset.astype(self.matrix.dtype))

    def astype(self, dtype: np.dtype) -> Map:
        """Return the map in another precision; what prepares rows keeps its own."""
        changed: dict[str, Any] = {
            name: np.ascontiguousarray(getattr(self, name), dtype=dtype)
            for name in ("matrix", "offset", "bias", "basis")
            if getattr(self, name) is not None
        }
        if self.features is not None:
            centers = np.ascontiguousarray(self.features.centers, dtype=dtype)
            changed["features"] = replace(self.features, centers=centers)
        if self.bank is not None:
            changed["bank"] = self.bank.astype(dtype)
        if self.lengths is not None:
            changed["lengths"] = replace(self.lengths, center=self.lengths.center.astype(dtype))
        return replace(self, **changed)

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the arrays to save."""
        named = {"matrix": self.matrix, "offset": self.offset, "bias": self.bias, "basis": self.basis}
        if self.features is not None:
            named["centers"] = self.features.centers
        if self.bank is not None:
            named |= {"bank.queries": self.bank.queries, "bank.offsets": self.bank.offsets}
        if self.lengths is not None:
            named["center"] = self.lengths.center
        before = {} if self.before is None else self.before.arrays(f"{prefix}before.")
        return before | {f"{prefix}{name}": array for name, array in named.items() if array is not None}

    def about(self) -> dict[str, Any]:
        """Return what else to save."""
        bank, ends = self.bank, self.lengths
        about = {
            "before": None if self.before is None else self.before.about(),
            "width": None if self.features is None else self.features.width,
            "mixed": self.features is not None and self.features.mixed,
            "bank": None if bank is None else {"weight": bank.weight, "neighbors": bank.neighbors},
        }
        # Without them, what tells one translator from another is what it was before there were any.
        lengths = {} if ends is None else {"length": ends.length, "power": ends.power, "unit": ends.unit}
        return about | ({"lengths": lengths} if lengths else {})

    @staticmethod
    def from_saved(arrays: dict[str, np.ndarray], about: dict[str, Any], prefix: str) -> Map:
        """Rebuild from what :meth:`arrays` and :meth:`about` gave, checking that the parts fit together."""
        before, features, bank, saved = None, None, None, about.get("bank")
        ends = about.get("lengths")
        lengths = None if ends is None else Lengths(arrays[f"{prefix}center"], **ends)
        if about["before"] is not None:
            before = Normalizer.from_saved(arrays, about["before"], f"{prefix}before.")
        if about["width"] is not None:
            features = Features(arrays[f"{prefix}centers"], float(about["width"]), bool(about["mixed"]))
        if saved is not None:
            rows = arrays[f"{prefix}bank.queries"], arrays[f"{prefix}bank.offsets"]
            bank = Bank(*rows, float(saved["weight"]), int(saved["neighbors"]))
        matrix, offset = arrays[f"{prefix}matrix"], arrays[f"{prefix}offset"]
        bias, basis = arrays.get(f"{prefix}bias"), arrays.get(f"{prefix}basis")
        found = Map(matrix, offset, before, features, bias, basis, bank, lengths=lengths)
        # What a later version added would change what the map gives.
        more = {name for name in arrays if name.startswith(prefix)} - set(found.arrays(prefix))
        more |= set(about) - set(found.about()) - {"lengths"}
        if more:
            raise ValueError(f"this version does not know {', '.join(sorted(more))}")
        # One row shows whether the shapes fit together.
        found(np.zeros((1, found.dims_in), dtype=matrix.dtype))
        return found


def rows_scaled(scale: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Multiply a matrix by another from the left, or by a diagonal given as a vector."""
    return np.asarray(scale @ matrix if scale.ndim == 2 else scale[:, None] * matrix)
