"""Vector columns of Arrow batches: read as matrices, written as fixed-size lists, nulls left where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._array import suggest
from relatent.spaces.io.columns import as_matrix, is_vector_type

Batch = TypeVar("Batch", pa.RecordBatch, pa.Table)


@dataclass(frozen=True, eq=False)
class BatchVectors:
    """The vectors of a column that are not null, and the rows of the batch in which they stand."""

    vectors: np.ndarray
    rows: np.ndarray

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of some of these rows, which ascend."""
        return self.vectors if len(rows) == len(self.rows) else self.vectors[np.searchsorted(self.rows, rows)]


def batch_column(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
    """Return a column by its name, or say which ones there are."""
    if name not in batch.schema.names:
        raise ValueError(f"The batch has no column {name!r}.{suggest(name, batch.schema.names)}")
    return batch.column(name)


def batch_vectors(batch: pa.RecordBatch | pa.Table, name: str, dim: int | None = None) -> BatchVectors:
    """Return the vectors of a list column; refuse a row of another dimension, or one that holds null or NaN.

    Lists of any layout and of float16, float32, float64 or integers are read.

    >>> batch = pa.record_batch({"e": pa.array([[1.0, 2.0], None, [3.0, 4.0]])})
    >>> found = batch_vectors(batch, "e")
    >>> found.vectors.tolist(), found.rows.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], [0, 2])
    """
    column = batch_column(batch, name)
    if not is_vector_type(column.type):
        raise ValueError(f"Column {name!r} holds {column.type}: expected lists of numbers.")
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if column.null_count:
        column = column.drop_null()
    _check_lengths(column, name, rows, dim)
    _refuse(_null_inside(column), name, rows, "has a null inside its vector")
    vectors = as_matrix(column, f"Column {name!r}", 0, dim)
    _refuse(~np.isfinite(vectors).all(axis=1), name, rows, "holds NaN or infinity")
    return BatchVectors(vectors, rows)


def with_vectors(batch: Batch, name: str, found: BatchVectors, *, replace: bool = False) -> Batch:
    """Return the batch with one more column of vectors, null in the rows that have none.

    >>> batch = pa.record_batch({"id": [1, 2]})
    >>> new = BatchVectors(np.ones((1, 2), np.float32), np.asarray([1]))
    >>> with_vectors(batch, "e", new).column("e").to_pylist()
    [None, [1.0, 1.0]]
    """
    lists = _fixed_size_lists(found, batch.num_rows)
    if name not in batch.schema.names:
        return batch.append_column(pa.field(name, lists.type), lists)
    check_replace(name, replace)
    return batch.set_column(batch.schema.names.index(name), pa.field(name, lists.type), lists)


def check_replace(name: str, replace: bool) -> None:
    """Refuse to replace a column unless that was asked for."""
    if not replace:
        raise ValueError(
            f"There is a column {name!r} already: write into another one, or say replace=True to give it up."
        )


def _fixed_size_lists(found: BatchVectors, rows: int) -> pa.FixedSizeListArray:
    vectors, mask = found.vectors, None
    if len(found.rows) < rows:
        vectors = np.zeros((rows, found.vectors.shape[1]), found.vectors.dtype)
        vectors[found.rows] = found.vectors
        mask = np.ones(rows, dtype=bool)
        mask[found.rows] = False
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1], mask=None if mask is None else pa.array(mask))


def _check_lengths(column: pa.Array | pa.ChunkedArray, name: str, rows: np.ndarray, dim: int | None) -> None:
    if not len(rows):
        return
    lengths = pc.list_value_length(column).to_numpy()
    expected = int(lengths[0]) if dim is None else dim
    wrong = np.flatnonzero(lengths != expected)
    if len(wrong):
        raise ValueError(
            f"Column {name!r} has a vector of {lengths[wrong[0]]} coordinates in row {rows[wrong[0]]} of the batch: "
            f"expected {expected} in every row. Drop or mend that row, or name another column."
        )


def _null_inside(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return for each vector whether one of its coordinates is null; all have the same length."""
    values = pc.list_flatten(column)
    if not values.null_count:
        return np.zeros(len(column), dtype=bool)
    nulls: np.ndarray = values.is_null().to_numpy(zero_copy_only=False)
    return np.asarray(nulls.reshape(len(column), -1).any(axis=1))


def _refuse(bad: np.ndarray, name: str, rows: np.ndarray, problem: str) -> None:
    if bad.any():
        more = f", as do {bad.sum() - 1} more rows" if bad.sum() > 1 else ""
        raise ValueError(
            f"Row {rows[np.argmax(bad)]} of the batch {problem} in column {name!r}{more}: drop or mend it, or set the "
            "whole vector to null."
        )
