"""Columns of Arrow tables: which one holds the vectors, which one the keys, and lists as matrices and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._array import suggest
from relatent._errors import with_remedy
from relatent._files import FileError
from relatent.spaces.chunks import Chunk, Layout
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.coordinates import listed_columns, numbered_columns
from relatent.spaces.keys import is_key_type
from relatent.spaces.quantize import Quantizer

META = b"relatent.fingerprint"
# How the numbers of the vector column stand for vectors, in the metadata of that column.
CODES = b"relatent.codes"
VECTOR_NAMES = ("vector", "embedding", "vectors", "embeddings", "emb", "values", "features", "x", "arr_0")
# A column is taken for the keys only if it has one of these names, in any case; the earlier wins. It must be unique
# too, which the join checks: whether a column of a huge file is unique cannot be seen without reading it.
KEY_NAMES = (
    *("key", "keys", "custom_id", "id", "ids", "_id", "uid", "uuid", "guid", "pk", "doc_id", "docid", "document_id"),
    *("item_id", "url", "uri", "path", "file_path", "filename", "file_name", "file", "word", "words", "token", "name"),
)


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read: the names of its columns and the dtype of its vectors, where they are given."""

    vector: str | None = None
    key: str | None = None
    dtype: np.dtype | None = None
    keys: Path | None = None
    """A file of ids for an .npy."""
    verify: bool = True
    """Whether to compare what we wrote with its checksums."""
    max_memory: int | None = None
    """Bytes that a file may ask for at once; None for the memory of the machine."""
    packed: bool = False
    """Whether each number of a vector is a byte of eight coordinates of one bit."""


def guess_layout(path: Any, schema: pa.Schema, reading: ReadOptions) -> Layout:
    """Find the vector column by name and type, and the key column by name."""
    lists = [f.name for f in schema if is_vector(f.type)]
    vector = choose(path, "vector", reading.vector, schema.names, lists, VECTOR_NAMES)
    if vector is None:
        raise _no_vectors(path, schema)
    if vector not in lists:
        raise FileError(
            f"Column {vector!r} of {path} holds {schema.field(vector).type}: expected lists of numbers. "
            f"Such columns are: {', '.join(lists) or 'none'}."
        )
    layout = Layout(vector, None, tuple(schema.names), quantizer=_quantizer(schema.field(vector), path))
    return with_key(path, layout, schema, reading)


def _no_vectors(path: Any, schema: pa.Schema) -> FileError:
    problem = FileError(
        f"{path} has no column of vectors, that is of lists of numbers; it has: "
        f"{listed_columns(schema) or 'no column at all'}."
    )
    numbered = next((stem for stem, names in numbered_columns(schema).items() if len(names) > 1), None)
    if not numbered:
        words = "Gather the coordinates in one list column, or number their columns from 0, or read another file."
        return with_remedy(problem, python=words, command=words)
    return with_remedy(
        problem,
        python=f"If these columns are one vector, say vector={numbered!r}.",
        command=f"If these columns are one vector, say --vector {numbered}.",
    )


def with_key(path: Any, layout: Layout, schema: pa.Schema, reading: ReadOptions) -> Layout:
    """Find the key column: the one that was given, else one that is named like a key.

    A column that is named like a key and whose type cannot be one is found too if there is no other, so that a join
    refuses it with the reason and does not fall back on row order. Else it is the index of a pandas data frame.
    """
    names = [name for name in schema.names if name != layout.vector]
    fitting = [name for name in names if is_key_type(schema.field(name).type)]
    key = choose(path, "key", reading.key, names, fitting, KEY_NAMES)
    key = choose(path, "key", None, names, names, KEY_NAMES) if key is None else key
    key = _pandas_index(schema, fitting) if key is None else key
    return replace(layout, key=key, guessed=reading.key is None)


def _pandas_index(schema: pa.Schema, fitting: list[str]) -> str | None:
    """Return the column of the index that pandas recorded, if it has a name or holds text: others are row numbers."""
    try:
        index = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):
        return None
    if len(index) != 1 or index[0] not in fitting:  # a range is not stored, and several levels are no key
        return None
    unnamed = index[0].startswith("__index_level_")
    return None if unnamed and not _is_text(schema.field(index[0]).type) else str(index[0])


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def choose(
    path: Any, what: str, given: str | None, every: Iterable[str], fitting: list[str], usual: tuple[str, ...]
) -> str | None:
    """Take the column that was given, else the one with a usual name; for vectors, else the only one that fits."""
    every = list(every)
    if given is not None:
        if given not in every:
            raise FileError(f"{path} has no column {given!r}.{suggest(given, every)}")
        return given
    named = sorted((name for name in fitting if name.lower() in usual), key=lambda n: usual.index(n.lower()))
    if named:
        return named[0]
    if what != "vector":
        return None
    if len(fitting) > 1:
        raise with_remedy(
            FileError(f"{path} has several columns of vectors: {', '.join(fitting)}. Say which one with"),
            python=f"vector={fitting[0]!r}.",
            command=f"--vector {fitting[0]}.",
        )
    return fitting[0] if fitting else None


def refuse_keys(path: Any, unreadable: dict[str, str]) -> None:
    """Refuse arrays that are named like keys and cannot serve as such, each with its reason."""
    for name, reason in unreadable.items():
        if name.lower() in KEY_NAMES:
            raise FileError(
                f"{path} has {name!r}, which is named like the keys, and {reason}: rows would be joined by their "
                "number. Save it as an array of text or integers, one per row, or under another name."
            )


def too_large(path: Any, dtype: np.dtype, row: int, key: str = "") -> FileError:
    """Return the error about a number that the dtype of the vectors cannot hold."""
    return FileError(
        f"{path} has a number that {dtype} cannot hold in row {row}{key}: fix or drop that line, or read it with "
        "dtype='float64'."
    )


def as_matrix(column: pa.ChunkedArray | pa.Array, path: Any, first_row: int, dim: int | None = None) -> np.ndarray:
    """Return a list column as a matrix, without a copy when it is one piece of one length and without nulls."""
    pieces = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    matrices, row = [], first_row
    for piece in pieces:
        if len(piece):
            matrices.append(_piece(piece, path, row, dim))
            dim = matrices[-1].shape[1]
        row += len(piece)
    if len(matrices) == 1:
        return matrices[0]
    return np.concatenate(matrices) if matrices else np.empty((0, dim or 0), vector_dtype(column.type))


def as_lists(matrix: np.ndarray) -> pa.FixedSizeListArray:
    """Return a matrix as a column of fixed-size lists, without a copy when it is contiguous."""
    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    if matrix.shape[1] == 0:
        raise ValueError("The vectors have no coordinate: there is nothing to write.")
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])


def vector_dtype(kind: pa.DataType) -> np.dtype:
    """Return the dtype that vectors of an Arrow type are read as."""
    if _is_packed(kind):
        return np.dtype(np.float32)
    value = storage_type(kind).value_type
    if pa.types.is_floating(value):
        floating: np.dtype = np.dtype(value.to_pandas_dtype())
        return floating
    return np.dtype(np.float32 if value.bit_width <= 16 else np.float64)


def table_of(chunk: Chunk) -> pa.Table:
    """Return a chunk as one table, the vectors in the place where they were read."""
    layout, quantizer = chunk.layout, chunk.layout.quantizer
    lists = as_lists(chunk.vectors if quantizer is None else quantizer.encode(chunk.vectors))
    others = {name: chunk.others.column(name) for name in chunk.others.column_names}
    order = [name for name in layout.order if name in others or name == layout.vector]
    if layout.vector not in order:
        order = [*(name for name in others if name not in order), *order, layout.vector]
    table = pa.table({name: lists if name == layout.vector else others[name] for name in order})
    if quantizer is None:
        return table
    place = order.index(layout.vector)
    return table.cast(table.schema.set(place, table.schema.field(place).with_metadata({CODES: quantizer.to_json()})))


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the types of the first chunk, or name the column that cannot take them."""
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        given = {f.name: f.type for f in table.schema}
        changed = [f"{f.name} ({f.type}, then {given.get(f.name)})" for f in schema if given.get(f.name) != f.type]
        raise FileError(
            f"The columns changed between chunks: {', '.join(changed) or error}. Give them one type throughout, or "
            "leave them out with others=False."
        ) from error


def meta(fingerprint: Fingerprint) -> dict[bytes, bytes]:
    """Return the metadata that records a fingerprint in an Arrow schema."""
    return {META: fingerprint.to_json().encode()}


def stored_fingerprint(metadata: dict[bytes, bytes] | None, path: Any) -> Fingerprint | None:
    """Find the fingerprint that was recorded, if any."""
    text = (metadata or {}).get(META)
    if text is None:
        return None
    try:
        return Fingerprint.from_json(text.decode())
    except ValueError as error:
        raise FileError(f"{path} records a fingerprint that cannot be read ({error}): get a new copy.") from error


def _piece(piece: pa.Array, path: Any, first_row: int, dim: int | None) -> np.ndarray:
    if isinstance(piece, pa.ExtensionArray):
        piece = piece.storage
    if piece.null_count:
        row = first_row + int(np.argmax(piece.is_null().to_numpy(zero_copy_only=False)))
        raise FileError(f"{path} has {piece.null_count} null vectors, first in row {row}: drop or fix these rows.")
    if _is_packed(piece.type):
        piece = _bytes_as_lists(piece)
    width = _width(piece, path, first_row, dim)
    values = piece.flatten()
    if values.null_count:
        row = first_row + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // max(width, 1)
        raise FileError(f"{path} has a null inside the vector of row {row}: drop or fix this row.")
    flat: np.ndarray = values.to_numpy(zero_copy_only=True)
    return flat.reshape(len(piece), width).astype(vector_dtype(piece.type), copy=False)


def _width(piece: pa.Array, path: Any, first_row: int, dim: int | None) -> int:
    """Return the one length of all lists; name the first row that has another."""
    fixed = pa.types.is_fixed_size_list(piece.type)
    lengths = np.asarray([piece.type.list_size]) if fixed else np.diff(piece.offsets.to_numpy())
    width = int(lengths[0]) if dim is None else dim
    wrong = np.flatnonzero(lengths != width)
    if len(wrong):
        raise FileError(
            f"{path} has vectors of different lengths: {width} coordinates at first, {lengths[wrong[0]]} in row "
            f"{first_row + wrong[0]}. Drop or fix that row."
        )
    return width


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that values of an extension type are stored as."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _quantizer(column: pa.Field, path: Any) -> Quantizer | None:
    """Find how a column is coded: as it records, or as one bit per coordinate where its values are bytes."""
    text = (column.metadata or {}).get(CODES)
    if text is None:
        return Quantizer("binary", 8 * column.type.byte_width) if _is_packed(column.type) else None
    try:
        return Quantizer.from_json(text.decode())
    except ValueError as error:
        raise FileError(f"{path}: {error} Get a new copy.") from error


def _is_packed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_binary(kind))


def _bytes_as_lists(piece: pa.FixedSizeBinaryArray) -> pa.FixedSizeListArray:
    width = piece.type.byte_width
    values = np.frombuffer(piece.buffers()[1], np.uint8)[piece.offset * width : (piece.offset + len(piece)) * width]
    return pa.FixedSizeListArray.from_arrays(pa.array(values), width)


def is_vector(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type are vectors: lists of numbers, or bits packed into bytes."""
    return is_vector_type(kind) or _is_packed(storage_type(kind))


def is_vector_type(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type are lists of numbers."""
    kind = storage_type(kind)
    return is_list(kind) and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type are lists, of one length or of several."""
    return any(fits(kind) for fits in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


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
    if len(found.rows) == rows:
        return as_lists(found.vectors)
    vectors = np.zeros((rows, found.vectors.shape[1]), found.vectors.dtype)
    vectors[found.rows] = found.vectors
    empty = pa.array(~np.isin(np.arange(rows), found.rows))
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1], mask=empty)


def _check_lengths(column: pa.Array | pa.ChunkedArray, name: str, rows: np.ndarray, dim: int | None) -> None:
    if not len(rows):
        return
    lengths = pc.list_value_length(column).to_numpy()
    expected = int(lengths[0]) if dim is None else dim
    wrong = np.flatnonzero(lengths != expected)
    if len(wrong):
        raise ValueError(
            f"Column {name!r} has a vector of {lengths[wrong[0]]} coordinates in row {rows[wrong[0]]} of the batch: "
            f"expected {expected} in every row. Drop or fix that row, or name another column."
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
            f"Row {rows[np.argmax(bad)]} of the batch {problem} in column {name!r}{more}: drop or fix it, or set the "
            "whole vector to null."
        )
