"""Named arrays: what .npy, .npz, safetensors and HDF5 share. One matrix, and one array per other column."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._atomic import FileError
from relatent.spaces.chunks import Chunk, Layout, empty_others
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats.checksums import array_sum, damaged, read_note, signed_note
from relatent.spaces.formats.columns import (
    META,
    VECTOR_NAMES,
    ReadOptions,
    choose,
    conform,
    refuse_keys,
    stored_fingerprint,
)
from relatent.spaces.formats.columns import with_key as with_key_column
from relatent.spaces.formats.errors import readable
from relatent.spaces.formats.matrix import Matrix, Shape, check_size

__all__ = [
    "CHECKS",
    "FINGERPRINT",
    "PACKED",
    "SUMS",
    "Container",
    "GatheredColumns",
    "StoredRows",
    "checks_note",
    "open_container",
    "others_table",
]

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
    arrays = {name: file.load(name) for name in wanted}
    matrix = file.matrix(layout.vector, arrays.get(SUMS))
    if options.verify and CHECKS in file.notes:
        _check_arrays(file, layout.vector, matrix, arrays)
    table = others_table(matrix.shape[0], arrays)
    layout = with_key(file.path, layout, table, options)
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
        """Read so many rows at a time."""
        with readable(self._path), self._matrix.reader(self._verify) as read:
            for first in range(start, max(stop, start + 1), size):
                last = min(first + size, stop)
                vectors = read(first, last).astype(self.dtype, copy=False)
                yield Chunk(first, vectors, self._table.slice(first, last - first), self.layout)

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Return every column but the vectors, or some of them."""
        return self._table if names is None else self._table.select(names)


def checks_note(vector: str, shape: Shape, arrays: Mapping[str, np.ndarray], fingerprint: str) -> str:
    """Return the record of everything in a file: the kind of matrix, and the checksum of every other array."""
    return signed_note(
        {
            "vectors": [vector, shape.dtype.newbyteorder("<").str, list(shape.shape)],
            "arrays": {name: array_sum(array) for name, array in arrays.items()},
            "fingerprint": zlib.crc32(fingerprint.encode()),
        }
    )


def _check_arrays(file: Container, vector: str, matrix: Matrix, arrays: Mapping[str, np.ndarray]) -> None:
    note = read_note(file.notes[CHECKS], file.path)
    found = read_note(
        checks_note(vector, Shape(matrix.shape, matrix.dtype), arrays, file.notes.get(FINGERPRINT, "")), file.path
    )
    for part in ("vectors", "fingerprint"):
        if note.get(part) != found[part]:
            raise damaged(file.path, f"what it says of its {part}")
    sums = note.get("arrays", {})
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


def with_key(path: Path, layout: Layout, table: pa.Table, reading: ReadOptions) -> Layout:
    """Find the keys among the other columns."""
    layout = Layout(layout.vector, None, (*table.column_names, layout.vector))
    return with_key_column(path, layout, table.schema, reading)


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


class GatheredColumns:
    """Other columns, gathered over chunks, to be stored as arrays at the end."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def add(self, chunk: Chunk) -> None:
        """Keep the other columns of a chunk."""
        self._tables.append(chunk.others)

    def arrays(self, text: bool, numbers: bool = True) -> dict[str, np.ndarray]:
        """Return columns of numbers (and of text, if the format has it) as arrays, the rest as one Arrow stream."""
        others = self._joined()
        found = {}
        for name in others.column_names:
            column = others.column(name)
            if column.null_count:
                continue
            if numbers and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
                found[name] = np.asarray(column.to_numpy())
            elif text and pa.types.is_string(column.type) and not _has_nul(column.to_pylist()):
                found[name] = np.asarray(column.to_pylist(), dtype=str)
        rest = others.select([name for name in others.column_names if name not in found])
        return found | ({PACKED: _stream(rest)} if rest.column_names else {})

    def _joined(self) -> pa.Table:
        try:
            return pa.concat_tables(self._tables, promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            for table in self._tables:
                conform(table, self._tables[0].schema)  # names the column that changed its type
            raise


def _has_nul(texts: Iterable[str]) -> bool:
    """Return whether a text holds a NUL, at which NumPy and HDF5 would cut it."""
    return any("\0" in text for text in texts)


def _stream(table: pa.Table) -> np.ndarray:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)
