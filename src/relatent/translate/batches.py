"""A fitted translation as a function on Arrow batches: small, picklable, the same wherever it runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relatent._array import Array
from relatent._saved import Saved, content_hash
from relatent.spaces.batches import Batch, BatchVectors, batch_vectors, with_vectors
from relatent.translate.endpoints import Endpoints
from relatent.translate.folded import FoldedMap

__all__ = ["BatchTranslator"]


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
        """Translate checked rows of float32 or float64; warn if they look like those of another space."""
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
