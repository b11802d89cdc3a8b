"""Vectors as small codes: 8-bit integers or single bits, with the scale that turns them back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import as_matrix, suggest, to_numpy
from relatent.spaces.chunks import Chunk, Rows

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("int8", "uint8", "binary")
# Bytes of one coordinate, by how vectors are stored.
NUMBER_BYTES = {"float32": 4.0, "float16": 2.0, "int8": 1.0, "uint8": 1.0, "binary": 1 / 8}
# The smallest and the largest code.
LIMITS = {"int8": (-127, 127), "uint8": (0, 255)}
# Coordinates beyond this quantile are clipped, so that one outlier does not spoil the scale of all.
INSIDE = 0.9999


@dataclass(frozen=True, eq=False)
class Quantizer:
    r"""Codes for vectors, and back. One scale for all coordinates, so that products of codes rank as vectors do.

    ==========  =======================================================================================
    ``int8``    :math:`c = \mathrm{round}(x / s)` in −127…127
    ``uint8``   :math:`c = \mathrm{round}((x - o) / s)` in 0…255
    ``binary``  one bit per coordinate, :math:`x \ge o`, eight in a byte; back to :math:`o \pm s`
    ==========  =======================================================================================

    For ``binary`` the cut o is 0, or the mean of each coordinate with ``center=True``, which keeps more where
    coordinates do not lie around 0.

    >>> x = np.asarray([[0.5, -1.0, 0.25, 1.0]])
    >>> q = Quantizer.fit(x, "int8")
    >>> q.encode(x).tolist()
    [[64, -127, 32, 127]]
    >>> Quantizer.fit(np.eye(8), "binary").encode(np.eye(8) - 0.5).ravel().tolist()
    [128, 64, 32, 16, 8, 4, 2, 1]
    """

    kind: str
    dim: int
    scale: float = 1.0
    offset: float | np.ndarray = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"There is no code {self.kind!r}.{suggest(self.kind, KINDS)}")
        if self.kind == "binary" and self.dim % 8:
            raise ValueError(f"{self.dim} coordinates do not fill bytes: expected a multiple of 8 for one bit each.")

    @staticmethod
    def fit(vectors: Any, kind: str, *, center: bool = False) -> Quantizer:
        """Find the scale of some vectors; others that lie beyond it are clipped."""
        x = to_numpy(as_matrix(vectors, "vectors")).astype(np.float64)
        if kind == "int8":
            return Quantizer(kind, x.shape[1], _positive(float(np.quantile(np.abs(x), INSIDE)) / 127))
        if kind == "uint8":
            low, high = np.quantile(x, [1 - INSIDE, INSIDE])
            return Quantizer(kind, x.shape[1], _positive(float(high - low) / 255), float(low))
        cut: Any = np.mean(x, axis=0) if center else 0.0
        return Quantizer(kind, x.shape[1], _positive(float(np.mean(np.abs(x - cut)))), cut)

    @property
    def nbytes(self) -> int:
        """Bytes of a vector's code."""
        return self.dim // 8 if self.kind == "binary" else self.dim

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest coordinate that 8-bit codes can stand for; what lies beyond is clipped."""
        low, high = (float(self.offset) + self.scale * code for code in LIMITS[self.kind])
        return low, high

    def encode(self, vectors: np.ndarray) -> np.ndarray:
        """Return the codes of vectors (n, d): (n, d) integers, or (n, d/8) bytes of bits."""
        shifted = np.asarray(vectors, dtype=np.float32) - np.asarray(self.offset, dtype=np.float32)
        if self.kind == "binary":
            return np.packbits(shifted >= 0, axis=1)
        steps = np.rint(shifted / np.float32(self.scale))
        return np.asarray(steps.clip(*LIMITS[self.kind]).astype(self.kind))

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the vectors that codes stand for, float32."""
        if self.kind == "binary":
            steps = np.unpackbits(codes.astype(np.uint8), axis=1).astype(np.float32) * 2 - 1
        else:
            steps = codes.astype(np.float32)
        steps *= np.float32(self.scale)
        return np.asarray(steps + np.asarray(self.offset, dtype=np.float32))

    def to_json(self) -> str:
        """Return it as text, to be kept beside the codes."""
        return json.dumps(vars(self) | {"offset": np.asarray(self.offset).tolist()})

    @staticmethod
    def from_json(text: str) -> Quantizer:
        """Read what :meth:`to_json` wrote."""
        try:
            found = json.loads(text)
            offset = found["offset"]
            cut: Any = np.asarray(offset, dtype=np.float64) if isinstance(offset, list) else float(offset)
            return Quantizer(str(found["kind"]), int(found["dim"]), float(found["scale"]), cut)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"The record of how vectors were coded cannot be read ({error}).") from error


class DecodedRows:
    """Rows whose stored codes are read as the vectors that they stand for."""

    def __init__(self, rows: Rows, quantizer: Quantizer) -> None:
        if rows.shape[1] not in (quantizer.nbytes, 0):
            raise ValueError(f"The codes have {rows.shape[1]} bytes: expected {quantizer.nbytes} of {quantizer.dim}-d.")
        self._rows, self._quantizer = rows, quantizer
        self.shape, self.dtype = (rows.shape[0], quantizer.dim), np.dtype(np.float32)
        self.layout, self.fingerprint, self.schema = rows.layout, rows.fingerprint, rows.schema

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Read and decode the rows from start to stop, ``size`` at a time."""
        for chunk in self._rows.chunks(start, stop, size):
            yield chunk.with_vectors(self._quantizer.decode(chunk.vectors.reshape(len(chunk), self._quantizer.nbytes)))

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Read every column but the vectors, or some of them."""
        return self._rows.others(names)


def _positive(scale: float) -> float:
    """Return a scale; 1 where all vectors are zero."""
    return scale if scale > 0 else 1.0
