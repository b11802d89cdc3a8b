"""Several vectors per item, as models of late interaction (ColBERT, ColPali) give: one vector per token or patch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import as_matrix, to_numpy
from relatent._errors import with_remedy
from relatent._lazy import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = LazyModule("pyarrow")


@dataclass(frozen=True, eq=False)
class MultiVectors:
    """Matrices of different numbers of rows, one per item, held as one matrix of all vectors and the offsets of items.

    Whatever maps vectors maps these: ``tokens.map(translator.transform)``.

    >>> tokens = MultiVectors.of([np.eye(2), np.ones((3, 2))])
    >>> len(tokens), tokens.vectors.shape, tokens.map(lambda v: 2 * v)[0].tolist()
    (2, (5, 2), [[2.0, 0.0], [0.0, 2.0]])
    """

    vectors: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        """Refuse offsets that do not cut the vectors into items of at least one vector."""
        ends = np.asarray(self.offsets)
        if ends.ndim != 1 or not len(ends) or ends[0] != 0 or ends[-1] != len(self.vectors):
            raise ValueError(f"offsets go from {ends[:1]} to {ends[-1:]}: expected from 0 to {len(self.vectors)}.")
        empty = np.flatnonzero(np.diff(ends) < 1)
        if len(empty):
            raise ValueError(f"Item {int(empty[0])} has no vector: leave out items without vectors.")

    @staticmethod
    def of(matrices: Sequence[Any]) -> MultiVectors:
        """Gather one matrix (tokens, d) per item."""
        if not len(matrices):
            raise ValueError("No item was given: expected one matrix of vectors per item.")
        checked = [to_numpy(as_matrix(matrix, f"item {i}")) for i, matrix in enumerate(matrices)]
        widths = {matrix.shape[1] for matrix in checked}
        if len(widths) > 1:
            raise ValueError(f"Items have vectors of {sorted(widths)} coordinates: expected one number throughout.")
        return MultiVectors(np.concatenate(checked), np.cumsum([0, *map(len, checked)]))

    @staticmethod
    def from_arrow(column: pa.Array | pa.ChunkedArray) -> MultiVectors:
        """Read a column of lists of vectors, as Arrow, Parquet and Lance hold them."""
        from relatent.spaces.io.columns import as_matrix as lists_as_matrix

        array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        if array.null_count:
            raise ValueError(f"{array.null_count} items are null: leave out items without vectors.")
        sizes = array.value_lengths().to_numpy(zero_copy_only=False)
        return MultiVectors(lists_as_matrix(array.flatten(), "the column", 0), np.cumsum([0, *sizes]))

    def to_arrow(self) -> pa.LargeListArray:
        """Return a column of lists of vectors."""
        from relatent.spaces.io.columns import as_lists

        return pa.LargeListArray.from_arrays(pa.array(self.offsets, pa.int64()), as_lists(self.vectors))

    def map(self, function: Callable[[np.ndarray], Any]) -> MultiVectors:
        """Apply a function to all vectors at once, such as a translator's transform; items stay as they are."""
        return MultiVectors(np.asarray(function(self.vectors)), self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, item: int) -> np.ndarray:
        """Return the vectors of an item."""
        item = range(len(self))[item]
        return self.vectors[self.offsets[item] : self.offsets[item + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        """Return an iterator over the matrices of the items."""
        return (self[item] for item in range(len(self)))


def token_pairs(
    x: MultiVectors, y: MultiVectors, aligned: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return parallel vectors to fit a translator on, from items of which both models made vectors.

    Models that cut an item into the same tokens are paired token by token. For others, ``aligned`` gives for each item
    the pairs (token of x, token of y) that mean the same, as (n, 2) numbers.

    >>> x, y = MultiVectors.of([np.eye(3)]), MultiVectors.of([2 * np.eye(3)[1:]])
    >>> [side.shape for side in token_pairs(x, y, aligned=[[(1, 0), (2, 1)]])]
    [(2, 3), (2, 3)]
    """
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} items and y {len(y)}: expected the same items in both.")
    if aligned is not None:
        return _by_alignment(x, y, aligned)
    other = np.flatnonzero(np.diff(x.offsets) != np.diff(y.offsets))
    if len(other):
        i = int(other[0])
        error = ValueError(f"Item {i} has {len(x[i])} vectors in x and {len(y[i])} in y: expected as many.")
        need = "Models with different tokenizers need the pairs of tokens that mean the same:"
        raise with_remedy(
            error,
            python=f"{need} aligned=.",
            command=f"{need} in Python, relatent.spaces.token_pairs(x, y, aligned=…).",
        )
    return x.vectors, y.vectors


def _by_alignment(x: MultiVectors, y: MultiVectors, aligned: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    if len(aligned) != len(x):
        raise ValueError(f"aligned has {len(aligned)} entries and there are {len(x)} items: expected one entry each.")
    rows = []
    for i, pairs in enumerate(aligned):
        tokens = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        if len(tokens) and (tokens.min() < 0 or np.any(tokens.max(axis=0) >= (len(x[i]), len(y[i])))):
            raise ValueError(f"aligned names tokens that item {i} does not have: it has {len(x[i])} and {len(y[i])}.")
        rows.append(tokens + np.asarray([x.offsets[i], y.offsets[i]]))
    every = np.concatenate(rows)
    return x.vectors[every[:, 0]], y.vectors[every[:, 1]]
