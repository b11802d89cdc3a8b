"""Files of named arrays: the vectors among them, the columns beside them, and the checksums of everything."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from relatent._files import FileError, damaged, dump_checked, read_checks, readable
from relatent.spaces.chunks import Chunk, Layout, empty_others
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import (
    META,
    VECTOR_NAMES,
    ReadOptions,
    choose,
    conform,
    refuse_keys,
    stored_fingerprint,
    with_key,
)
from relatent.spaces.io.matrix import BlockSums, Matrix, Shape, check_size


def array_sum(array: np.ndarray) -> int:
    """Return the CRC-32 of an array, its shape and dtype included; texts count as UTF-8.

    >>> array_sum(np.zeros(2)) == array_sum(np.zeros((1, 2)))
    False
    """
    array = np.asarray(array)
    if array.dtype.kind in "OUT":
        texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.ravel().tolist()]
        data: Any = b"".join(len(text).to_bytes(8, "little") + text for text in texts)
        return zlib.crc32(data, zlib.crc32(f"text {array.shape}".encode()))
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return zlib.crc32(data, zlib.crc32(f"{array.dtype.newbyteorder('<').str} {array.shape}".encode()))


# Columns that are neither numbers nor text travel in one Arrow stream under this name.
PACKED = "others.arrow"
# The checksums of the blocks of the vectors; those of everything else are in a note.
SUMS = "relatent.checksums"
CHECKS = "relatent.checks"
FINGERPRINT = META.decode()


@dataclass(frozen=True)
class Container:
    """A file of named arrays: their shapes, how to load one of them, its texts, and the matrix under a name."""

    path: Path
    shapes: dict[str, Shape]
    load: Callable[[str], np.ndarray]
    notes: Mapping[str, str]
    matrix: Callable[[str, np.ndarray | None], Matrix]


def open_container(file: Container, options: ReadOptions) -> StoredRows:
    """Open a file of named arrays: find its vectors and columns, and read and check everything but the vectors."""
    layout = _find_layout(file.path, {n: s for n, s in file.shapes.items() if n not in (PACKED, SUMS)}, options)
    others = [name for name in layout.order if name != layout.vector]
    wanted = [*others, *(name for name in (PACKED, SUMS) if name in file.shapes)]
    for name in wanted:
        check_size(file.path, repr(name), file.shapes[name].nbytes, options)
    check_size(file.path, "its columns together", sum(file.shapes[name].nbytes for name in wanted), options)
    arrays = {name: file.load(name) for name in wanted}
    matrix = file.matrix(layout.vector, arrays.get(SUMS))
    if options.verify and CHECKS in file.notes:
        _check_arrays(file, layout.vector, matrix, arrays)
    table = others_table(matrix.shape[0], arrays)
    layout = Layout(layout.vector, None, (*table.column_names, layout.vector))
    layout = with_key(file.path, layout, table.schema, options)
    text = file.notes.get(FINGERPRINT)
    known = stored_fingerprint(None if text is None else {META: text.encode()}, file.path)
    return StoredRows(file.path, matrix, table, layout, known, options)


class StoredRows:
    """Rows whose vectors are a stored matrix and whose other columns are in memory: small beside the vectors."""

    def __init__(
        self,
        path: Path,
        matrix: Matrix,
        table: pa.Table,
        layout: Layout,
        fingerprint: Fingerprint | None,
        options: ReadOptions,
    ) -> None:
        self._path, self._matrix, self._table, self._verify = path, matrix, table, options.verify
        self.shape, self.layout, self.fingerprint = matrix.shape, layout, fingerprint
        self.dtype = options.dtype or (matrix.dtype if matrix.dtype.kind == "f" else np.dtype(np.float32))
        self.schema = table.schema
        check_size(path, "one vector", matrix.shape[1] * matrix.dtype.itemsize, options)

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Read the rows from start to stop, ``size`` at a time."""
        with readable(self._path), self._matrix.reader(self._verify) as read:
            for first in range(start, max(stop, start + 1), size):
                last = min(first + size, stop)
                vectors = read(first, last).astype(self.dtype, copy=False)
                yield Chunk(first, vectors, self._table.slice(first, last - first), self.layout)

    def mapped(self) -> np.ndarray | None:
        """Return all vectors, verified and mapped from the file; None if they do not stand there as they are read."""
        if self.dtype != self._matrix.dtype:
            return None
        with readable(self._path):
            return self._matrix.mapped(self._verify)

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Return every column but the vectors, or some of them."""
        return self._table if names is None else self._table.select(names)


def file_notes(vector: str, shape: Shape, arrays: Mapping[str, np.ndarray], fingerprint: Fingerprint) -> dict[str, str]:
    """Return the texts that a file of named arrays carries: its fingerprint, and the checksums of everything."""
    known = fingerprint.to_json()
    return {FINGERPRINT: known, CHECKS: dump_checked(_checks(vector, shape, arrays, known))}


def _checks(vector: str, shape: Shape, arrays: Mapping[str, np.ndarray], fingerprint: str) -> dict[str, Any]:
    """Return the kind of matrix, and the checksum of everything else in a file."""
    return {
        "vectors": [vector, shape.dtype.newbyteorder("<").str, list(shape.shape)],
        "arrays": {name: array_sum(array) for name, array in arrays.items()},
        "fingerprint": zlib.crc32(fingerprint.encode()),
    }


def _check_arrays(file: Container, vector: str, matrix: Matrix, arrays: Mapping[str, np.ndarray]) -> None:
    written = read_checks(file.notes[CHECKS], file.path)
    found = _checks(vector, Shape(matrix.shape, matrix.dtype), arrays, file.notes.get(FINGERPRINT, ""))
    for part in ("vectors", "fingerprint"):
        if written.get(part) != found[part]:
            raise damaged(file.path, f"its record of the {part}")
    sums = written.get("arrays", {})
    for name in sorted({*sums, *found["arrays"]}):
        if sums.get(name) != found["arrays"].get(name):
            raise damaged(file.path, f"column {name!r}")


def _find_layout(path: Path, shapes: dict[str, Shape], options: ReadOptions) -> Layout:
    """Find the matrix and the columns among named arrays."""
    matrices = [name for name, s in shapes.items() if len(s.shape) == 2 and s.dtype.kind in "fiu"]
    vector = choose(path, "vector", options.vector, shapes, matrices, VECTOR_NAMES)
    if vector is None or vector not in matrices:
        listed = ", ".join(f"{name} {s.shape}" for name, s in shapes.items()) or "nothing"
        raise FileError(f"{path} holds {listed}: expected a matrix of numbers, one vector per row.")
    rows = shapes[vector].shape[0]
    columns = [name for name, s in shapes.items() if s.shape == (rows,) and name != vector]
    others = {name: s for name, s in shapes.items() if name not in (vector, *columns)}
    refuse_keys(path, {name: f"has shape {s.shape} beside {rows} vectors" for name, s in others.items()})
    return Layout(vector, None, (*columns, vector))


def others_table(rows: int, arrays: Mapping[str, np.ndarray]) -> pa.Table:
    """Put arrays, and the columns of the Arrow stream among them, into one table."""
    columns = {name: _column(array) for name, array in arrays.items() if name not in (PACKED, SUMS)}
    if PACKED in arrays:
        rest = pa.ipc.open_stream(pa.py_buffer(np.ascontiguousarray(arrays[PACKED]))).read_all()
        rest.validate(full=True)
        columns |= {name: rest.column(name) for name in rest.column_names}
    return pa.table(columns) if columns else empty_others(rows)


def _column(array: np.ndarray) -> Any:
    if array.dtype.kind in "US":
        return pa.array(array.astype(str).tolist(), pa.string())
    if array.dtype.kind == "O":
        return pa.array([value.decode("utf8") if isinstance(value, bytes) else value for value in array], pa.string())
    return pa.array(np.ascontiguousarray(array))


def column_arrays(tables: list[pa.Table], text: bool, numbers: bool = True) -> dict[str, np.ndarray]:
    """Return the columns of numbers (and of text, if the format has it) as arrays, the rest as one Arrow stream."""
    others = _stacked(tables)
    found = {}
    for name in others.column_names:
        column = others.column(name)
        if column.null_count:
            continue
        if numbers and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            found[name] = np.asarray(column.to_numpy())
        elif text and pa.types.is_string(column.type) and "\0" not in "".join(texts := column.to_pylist()):
            found[name] = np.asarray(texts, dtype=str)  # NumPy and HDF5 would cut a text at a NUL
    rest = others.select([name for name in others.column_names if name not in found])
    return found | ({PACKED: _stream(rest)} if rest.column_names else {})


def _stacked(tables: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        for table in tables:
            conform(table, tables[0].schema)  # names the column that changed its type
        raise


class VectorWriter:
    """Appends vectors to a file as bytes, with checksums of their blocks; the other columns are gathered."""

    def __init__(self, file: BinaryIO, first: Chunk) -> None:
        self._file, self._name = file, first.layout.vector
        self._dim, self._dtype = first.vectors.shape[1], first.vectors.dtype.newbyteorder("<")
        self._rows, self._sums = 0, BlockSums()
        self._tables: list[pa.Table] = []

    @property
    def shape(self) -> Shape:
        """The shape and dtype so far."""
        return Shape((self._rows, self._dim), self._dtype)

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        data = np.ascontiguousarray(chunk.vectors, dtype=self._dtype).reshape(-1).view(np.uint8).data
        self._file.write(data)
        self._sums.add(data)
        self._rows += len(chunk)
        self._tables.append(chunk.others)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _arrays(self, text: bool, numbers: bool = True) -> dict[str, np.ndarray]:
        """Return what comes with the vectors: the other columns, and the checksums."""
        return {**column_arrays(self._tables, text, numbers), SUMS: self._sums.array()}


def _stream(table: pa.Table) -> np.ndarray:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)
