"""What a fit leaves behind: one affine map, with at most similarities to centers before and a coordinate after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._array import BLOCK_ROWS, Array, array_namespace, like, row_chunks
from relatent._linalg import rows_per_chunk
from relatent._saved import Saved, content_hash
from relatent._torch import is_tracked
from relatent.spaces.io.columns import Batch, BatchVectors, batch_vectors, with_vectors
from relatent.spaces.normalize import Normalizer, live_dimensions, scaled
from relatent.translate.endpoints import Endpoints
from relatent.translate.frames import Frame
from relatent.translate.hubness import Bank, with_bias
from relatent.translate.kernel import Features
from relatent.translate.maps import Affine
from relatent.translate.pairs import Pairs

# Folding a mean this many times the spread into the offset would cost a float32 product its digits.
FAR = 100.0
# A product of two matrices is kept as two where that takes less than this share of the work.
FACTORED = 0.5


@dataclass(frozen=True)
class FoldedMap:
    """x ↦ before(x) @ basis @ matrix + offset, with each part only where the map has it."""

    matrix: np.ndarray
    offset: np.ndarray
    before: Normalizer | None = None
    """Kept apart only if it scales rows to unit norm, feeds features, or subtracts a far mean."""
    features: Features | None = None
    bias: np.ndarray | None = None
    """Weights of the squared outputs in an appended coordinate (the target side of a likelihood ratio)."""
    basis: np.ndarray | None = None
    """What few anchors reach of the source, (d, r): two thin products instead of one wide one."""
    bank: Bank | None = None
    """What crowded items lose in the appended coordinate."""

    def __call__(self, x: Array) -> Array:
        """Translate checked rows. NumPy's halves become float32; these and what has steps in between go in blocks."""
        rows, half = self._rows_at_once, isinstance(x, np.ndarray) and x.dtype == np.float16
        # Autograd keeps the temporaries anyway; and one product of all rows takes no longer than its blocks.
        if is_tracked(x) or (not half and (self.is_affine or x.shape[0] <= rows)):
            return self._mapped(x)
        if not isinstance(x, np.ndarray):
            return array_namespace(x).concat(
                [self._mapped(x[part, :]) for part in row_chunks(x.shape[0], rows)], axis=0
            )
        out = np.empty((len(x), self.width), dtype=np.result_type(x.dtype, np.float32))
        for part in row_chunks(len(x), rows):
            out[part] = self._mapped(x[part].astype(out.dtype, copy=False))
        return out

    def one(self, x: np.ndarray) -> np.ndarray:
        """Translate one checked vector, 1-D, of the dtype of the matrix."""
        if not self.is_affine:
            return np.asarray(self._mapped(x[None])[0])
        y: np.ndarray = x @ self.matrix
        y += self.offset
        return y

    @property
    def is_affine(self) -> bool:
        """Whether one matrix and one offset are all of it."""
        return self.before is None and self.basis is None and self.features is None and self.bias is None

    @property
    def _rows_at_once(self) -> int:
        """How many rows take little memory on their way."""
        return BLOCK_ROWS if self.features is None else rows_per_chunk(len(self.features.centers))

    def _mapped(self, x: Array) -> Array:
        if self.before is not None:
            x = self.before.applied(x)
        if self.basis is not None:
            x = x @ like(self.basis, x)
        if self.features is not None:
            x = self.features.of(x)
        y = x @ like(self.matrix, x)
        y += like(self.offset, y)  # in place: the product is ours, and a second result of that size is not needed
        if self.bias is None:
            return y
        return with_bias(y, self.bias, self.bank)

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
    def dims_in(self) -> int:
        """Coordinates of the input."""
        if self.before is not None:
            return len(self.before.mean)
        return len(self.matrix if self.basis is None else self.basis)

    @property
    def product(self) -> np.ndarray:
        """The matrix that prepared rows are multiplied by, as one; of features where there are any."""
        return self.matrix if self.basis is None else self.basis @ self.matrix

    def blended(self, other: FoldedMap, share: float) -> FoldedMap:
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
                moved, left = moved + self.before.mean @ left, _rows_scaled(self.before.unscale, left)
        offset = (1 - share) * self.offset + share * other.offset
        if right is not None:
            basis = np.concatenate([self.basis, left], axis=1)
            matrix = np.concatenate([(1 - share) * self.matrix, right])
            return replace(self, matrix=matrix, offset=offset + np.broadcast_to(moved, len(right)) @ right, basis=basis)
        matrix = (1 - share) * self.product
        matrix[: self.dims_in] += left
        return replace(self, matrix=matrix, offset=offset + moved, basis=None)

    def astype(self, dtype: np.dtype) -> FoldedMap:
        """Return the map in another precision."""
        matrix, offset = (np.ascontiguousarray(a, dtype=dtype) for a in (self.matrix, self.offset))
        bias, basis = (None if a is None else np.ascontiguousarray(a, dtype=dtype) for a in (self.bias, self.basis))
        features = self.features
        if features is not None:
            features = replace(features, centers=np.ascontiguousarray(features.centers, dtype=dtype))
        bank = None if self.bank is None else self.bank.astype(dtype)
        return FoldedMap(matrix, offset, self.before, features, bias, basis, bank)

    def guarded(self, pairs: Pairs) -> FoldedMap:
        """Set coordinates that do not vary among the anchors to their mean there, whatever the map says."""
        mean, std = pairs.target_spread
        live = live_dimensions(std)
        if np.all(live):
            return self
        matrix, offset = np.where(live, self.matrix, 0), np.where(live, self.offset, mean)
        return replace(self, matrix=matrix.astype(self.matrix.dtype), offset=offset.astype(self.offset.dtype))

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the arrays to save."""
        arrays = {f"{prefix}matrix": self.matrix, f"{prefix}offset": self.offset}
        if self.before is not None:
            arrays |= self.before.arrays(f"{prefix}before.")
        if self.features is not None:
            arrays |= {f"{prefix}centers": self.features.centers}
        if self.bank is not None:
            arrays |= self.bank.arrays(f"{prefix}bank.")
        optional = {f"{prefix}bias": self.bias, f"{prefix}basis": self.basis}
        return arrays | {name: array for name, array in optional.items() if array is not None}

    def about(self) -> dict[str, Any]:
        """Return what else to save."""
        return {
            "before": None if self.before is None else self.before.about(),
            "width": None if self.features is None else self.features.width,
            "mixed": self.features is not None and self.features.mixed,
            "bank": None if self.bank is None else self.bank.about(),
        }

    @staticmethod
    def from_saved(arrays: dict[str, np.ndarray], about: dict[str, Any], prefix: str) -> FoldedMap:
        """Rebuild from what :meth:`arrays` and :meth:`about` gave, checking that the parts fit together."""
        before, features = None, None
        if about["before"] is not None:
            before = Normalizer.from_saved(arrays, about["before"], f"{prefix}before.")
        if about["width"] is not None:
            features = Features(arrays[f"{prefix}centers"], float(about["width"]), bool(about["mixed"]))
        matrix, offset = arrays[f"{prefix}matrix"], arrays[f"{prefix}offset"]
        bias, basis, banked = arrays.get(f"{prefix}bias"), arrays.get(f"{prefix}basis"), about.get("bank")
        bank = None if banked is None else Bank.from_saved(arrays, banked, f"{prefix}bank.")
        folded = FoldedMap(matrix, offset, before, features, bias, basis, bank)
        # One row shows whether the shapes fit together.
        folded(np.zeros((1, folded.dims_in), dtype=folded.matrix.dtype))
        return folded


def fold(
    solved: Affine,
    source: Frame,
    target: Frame | None,
    *,
    dtype: np.dtype,
    features: Features | None = None,
    bias: np.ndarray | None = None,
    bank: Bank | None = None,
) -> FoldedMap:
    """Fold the coordinates that a map was solved in into it, as far as they are affine.

    Without a target the output stays in the coordinates of the solved map.
    """
    matrix, offset = (solved.matrix, solved.offset) if target is None else _in_space(solved, target)
    normalizer, basis = source.normalizer, source.basis
    if normalizer.unit or features is not None:
        before: Normalizer | None = normalizer
    else:
        far = np.linalg.norm(normalizer.mean) > FAR * np.linalg.norm(normalizer.unscale) / len(normalizer.mean) ** 0.5
        before = replace(normalizer, name="center", **_unscaled(normalizer)) if far else None
        if basis is None:
            matrix = _rows_scaled(normalizer.scale, matrix)
            shift = normalizer.mean @ matrix
        else:
            basis = _rows_scaled(normalizer.scale, basis)
            shift = normalizer.mean @ basis @ matrix
        offset = offset if far else offset - shift
    if basis is not None and not _is_thin(basis, matrix):
        matrix, basis = basis @ matrix, None
    return FoldedMap(matrix, offset, before, features, bias, basis, bank).astype(dtype)


def _in_space(solved: Affine, target: Frame) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and offset that lead into the target space itself."""
    normalizer = target.normalizer
    matrix, offset = (
        scaled((a if target.basis is None else a @ target.basis.T) * normalizer.mean_norm, normalizer.unscale)
        for a in (solved.matrix, solved.offset)
    )
    return matrix, offset + normalizer.mean


def _rows_scaled(scale: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return np.asarray(scale @ matrix if scale.ndim == 2 else scale[:, None] * matrix)


def _unscaled(normalizer: Normalizer) -> dict[str, Any]:
    return {"scale": np.ones(len(normalizer.mean)), "unscale": np.ones(len(normalizer.mean))}


def _is_thin(basis: np.ndarray, matrix: np.ndarray) -> bool:
    return bool(basis.size + matrix.size < FACTORED * len(basis) * matrix.shape[1])


@dataclass(frozen=True, eq=False)
class BatchTranslator:
    """RecordBatch → RecordBatch: one more column, the translation of a column of vectors.

    It holds the arrays of one map and the fingerprints of its spaces, and nothing else of the translator: a linear map
    of 384 coordinates takes 0.6 MB when pickled. Made by :meth:`relatent.Translator.batch_udf`.
    """

    folded: FoldedMap | None
    """None for a side that stays as it is."""
    endpoints: Endpoints
    side: str
    column: str
    into: str
    replace: bool = False

    def __call__(self, batch: Batch) -> Batch:
        """Translate a record batch or a table; a null vector stays null."""
        found = batch_vectors(batch, self.column, self.dims[0])
        return with_vectors(
            batch, self.into, BatchVectors(self.vectors(found.vectors), found.rows), replace=self.replace
        )

    def vectors(self, x: np.ndarray) -> Array:
        """Translate finite rows, float16 as float32; warn if they look like those of another space."""
        x = x.astype(np.result_type(x, np.float32), copy=False)
        if not len(x):
            return np.empty((0, self.dims[1]), x.dtype)
        self.endpoints.check_array(x, self.side)
        return x if self.folded is None else self.folded(x)

    @property
    def dims(self) -> tuple[int, int]:
        """Coordinates that come in and that go out."""
        if self.folded is None:
            return self.endpoints.target.dim, self.endpoints.target.dim
        return self.folded.dims_in, self.folded.width

    @property
    def hash(self) -> str:
        """A hash of what it does to vectors, the same in every process."""
        about = {"side": self.side, "map": None if self.folded is None else self.folded.about()}
        arrays = {} if self.folded is None else self.folded.arrays("map.")
        return content_hash(Saved("batch translator", arrays, about))
