"""What a fit leaves behind: one affine map, with at most a row normalisation before and a coordinate after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._array import Array, array_namespace, like
from relatent.spaces.normalize import Normalizer, scaled
from relatent.translate.augmented import Features
from relatent.translate.maps import Affine

__all__ = ["FoldedMap", "fold"]

# Folding a mean this many times the spread into the offset would cost a float32 product its digits.
FAR = 100.0


@dataclass(frozen=True)
class FoldedMap:
    """x ↦ before(x) @ matrix + offset, with the nonlinear parts only where the map has them."""

    matrix: np.ndarray
    offset: np.ndarray
    before: Normalizer | None = None
    """Kept apart only if it scales rows to unit length, feeds features, or subtracts a far mean."""
    features: Features | None = None
    bias: np.ndarray | None = None
    """Weights of the squared outputs in an appended coordinate (the target side of a likelihood ratio)."""

    def __call__(self, x: Array) -> Array:
        """Translate checked rows."""
        if self.before is not None:
            x = self.before.applied(x)
        if self.features is not None:
            x = self.features.of(x)
        y = x @ like(self.matrix, x)
        y += like(self.offset, y)  # in place: the product is ours, and a second result of that size is not needed
        if self.bias is None:
            return y
        return array_namespace(x).concat([y, (y * y) @ like(self.bias, y)[:, None]], axis=1)

    @property
    def width(self) -> int:
        """Coordinates of the output."""
        return int(self.matrix.shape[1]) + (self.bias is not None)

    @property
    def dims_in(self) -> int:
        """Coordinates of the input."""
        return len(self.matrix if self.before is None else self.before.mean)

    def guarded(self, live: np.ndarray, level: np.ndarray) -> FoldedMap:
        """Give coordinates that do not vary among the anchors their level, whatever the map says."""
        if np.all(live):
            return self
        matrix, offset = np.where(live, self.matrix, 0), np.where(live, self.offset, level)
        return replace(self, matrix=matrix.astype(self.matrix.dtype), offset=offset.astype(self.offset.dtype))

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Give the arrays to save."""
        arrays = {f"{prefix}matrix": self.matrix, f"{prefix}offset": self.offset}
        if self.before is not None:
            arrays |= self.before.arrays(f"{prefix}before.")
        if self.features is not None:
            arrays |= {f"{prefix}landmarks": self.features.landmarks, f"{prefix}root": self.features.root}
        if self.bias is not None:
            arrays |= {f"{prefix}bias": self.bias}
        return arrays

    def about(self) -> dict[str, Any]:
        """Give what else to save."""
        return {
            "before": None if self.before is None else self.before.about(),
            "width": None if self.features is None else self.features.width,
        }

    @staticmethod
    def from_saved(arrays: dict[str, np.ndarray], about: dict[str, Any], prefix: str) -> FoldedMap:
        """Rebuild from what :meth:`arrays` and :meth:`about` gave, checking that the parts fit together."""
        before, features = None, None
        if about["before"] is not None:
            before = Normalizer.from_saved(arrays, about["before"], f"{prefix}before.")
        if about["width"] is not None:
            features = Features(arrays[f"{prefix}landmarks"], float(about["width"]), arrays[f"{prefix}root"])
        folded = FoldedMap(
            arrays[f"{prefix}matrix"], arrays[f"{prefix}offset"], before, features, arrays.get(f"{prefix}bias")
        )
        # One row shows whether the shapes fit together.
        folded(np.zeros((1, folded.dims_in), dtype=folded.matrix.dtype))
        return folded


def fold(
    solved: Affine,
    source: Normalizer,
    target: Normalizer | None,
    *,
    dtype: np.dtype,
    features: Features | None = None,
    bias: np.ndarray | None = None,
) -> FoldedMap:
    """Fold the normalisations on both sides of a solved map into it, as far as they are affine.

    Without a target normaliser the output stays in the coordinates of the solved map.
    """
    matrix, offset = solved.matrix, solved.offset
    if target is not None:
        matrix, offset = (
            scaled(matrix * target.mean_norm, target.unscale),
            scaled(offset * target.mean_norm, target.unscale),
        )
        offset = offset + target.mean
    if source.unit or features is not None:
        before: Normalizer | None = source
    else:
        matrix = source.scale @ matrix if source.scale.ndim == 2 else source.scale[:, None] * matrix
        d = len(source.mean)
        far = np.linalg.norm(source.mean) > FAR * np.linalg.norm(source.unscale) / d**0.5
        before = replace(source, name="center", scale=np.ones(d), unscale=np.ones(d)) if far else None
        offset = offset if far else offset - source.mean @ matrix
    return FoldedMap(
        np.ascontiguousarray(matrix, dtype=dtype),
        np.ascontiguousarray(offset, dtype=dtype),
        before,
        features,
        None if bias is None else bias.astype(dtype),
    )
