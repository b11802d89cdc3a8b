"""Matrices in files: read a range of rows at a time, verified, and never more than may be held.

Vectors are read with plain reads rather than memory-mapped: a file that is cut short while it is read then gives an
error, where touching a mapped page that is gone would end the process.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa

from relatent._errors import with_remedy
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

# No compression of one pass makes more than this out of a byte; what claims more is empty or a trap.
INFLATION = 1_100
# Vectors have a CRC-32 per block of this size, so that a part of a file is verified without reading the rest. It finds
# every damage of up to 32 bits in a row, misses other damage once in four billion times, and runs at 1.6 GB/s where
# blake2b runs at 0.4. It protects against accidents, not against someone who forges a file.
BLOCK = 2**20

ReadRows = Callable[[int, int], np.ndarray]


class Matrix(Protocol):
    """A stored matrix that is read a range of rows at a time."""

    @property
    def shape(self) -> tuple[int, int]: ...  # noqa: D102
    @property
    def dtype(self) -> np.dtype: ...  # noqa: D102

    def reader(self, verify: bool) -> AbstractContextManager[ReadRows]:
        """Open the file and yield a function that returns rows first to last."""
        ...


@dataclass(frozen=True)
class Shape:
    """The shape and dtype of a stored array."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """How large it says it is."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix that stands in a file, or in a member of a zip file, as its bytes."""

    path: Path
    shape: tuple[int, int]
    stored: np.dtype
    offset: int
    member: str | None = None
    fortran: bool = False
    bfloat16: bool = False
    sums: np.ndarray | None = None

    @property
    def dtype(self) -> np.dtype:
        """The dtype of what is read."""
        return np.dtype(np.float32) if self.bfloat16 else self.stored.newbyteorder("=")

    @contextmanager
    def reader(self, verify: bool) -> Iterator[ReadRows]:
        """Open the file and yield a function that returns rows first to last."""
        sums = self.sums if verify else None
        seen: set[int] = set()
        with self._open() as file:
            yield lambda first, last: self.decoded(
                self._columns(file, first, last) if self.fortran else self._rows(file, first, last, sums, seen)
            )

    @property
    def end(self) -> int:
        """Where it ends, by what its header says."""
        return self.offset + Shape(self.shape, self.stored).nbytes

    def check_length(self, available: int) -> None:
        """Refuse a file that is shorter than its header says."""
        if self.end > available:
            raise FileError(f"{self.path} is cut short: {available:,} bytes, expected {self.end:,}. Get a new copy.")

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with self.path.open("rb", buffering=0 if self.member is None else -1) as raw:
            if self.member is None:
                yield raw
            else:
                with zipfile.ZipFile(raw) as archive, archive.open(self.member) as file:
                    yield file

    def _rows(self, file: Any, first: int, last: int, sums: np.ndarray | None, seen: set[int]) -> np.ndarray:
        width = self.shape[1] * self.stored.itemsize
        low, high = first * width, last * width
        begin, end = low, high
        blocks = set() if sums is None else set(range(low // BLOCK, -(-high // BLOCK))) - seen
        if blocks:  # a block is verified as a whole
            begin, end = low // BLOCK * BLOCK, min(-(-high // BLOCK) * BLOCK, self.shape[0] * width)
        raw = _read_exactly(self.path, file, self.offset + begin, end - begin)
        for block in sorted(blocks):
            start = block * BLOCK - begin
            if sums is None or block >= len(sums) or zlib.crc32(raw[start : start + BLOCK].data) != sums[block]:
                rows = f"rows {block * BLOCK // width} to {(block + 1) * BLOCK // width}"
                raise damaged(self.path, f"what it holds in {rows}")
        seen |= blocks
        return raw[low - begin : high - begin].view(self.stored).reshape(last - first, self.shape[1])

    def _columns(self, file: Any, first: int, last: int) -> np.ndarray:
        """Read rows of a matrix that is stored column by column."""
        out = np.empty((last - first, self.shape[1]), self.stored)
        for j in range(self.shape[1]):
            at = self.offset + (j * self.shape[0] + first) * self.stored.itemsize
            out[:, j] = _read_exactly(self.path, file, at, (last - first) * self.stored.itemsize).view(self.stored)
        return out

    def decoded(self, rows: np.ndarray) -> np.ndarray:
        """Return stored numbers as those that NumPy can compute with."""
        if self.bfloat16:  # the upper half of a float32
            return (rows.astype(np.uint32) << 16).view(np.float32)
        return rows.astype(self.dtype, copy=False)


def check_inflation(path: Path, shape: Shape, options: ReadOptions) -> None:
    """Refuse vectors that claim far more than a file of this size can hold, and more than may be used."""
    if shape.nbytes > INFLATION * path.stat().st_size:
        check_size(path, "its vectors", shape.nbytes, options)


def check_size(path: Path, what: str, nbytes: int, options: ReadOptions) -> None:
    """Refuse what is larger than may be held, by the size that the file states, before anything is allocated."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63
    limit = options.max_memory or memory
    if nbytes > limit:
        problem = f"{path} states {nbytes:,} bytes for {what}: more than the {limit:,} that may be used."
        words = "If it is not a mistake, allow more with {}."
        raise with_remedy(FileError(problem), python=words.format("max_memory="), command=words.format("--max-memory"))


def _read_exactly(path: Path, file: Any, offset: int, count: int) -> np.ndarray:
    out = np.empty(count, np.uint8)
    file.seek(offset)
    done = 0
    while done < count:
        got = file.readinto(out[done:].data)
        if not got:
            raise FileError(f"{path} ends before byte {offset + count:,}: it was cut short. Get a new copy.")
        done += got
    return out


class BlockSums:
    """The CRC-32 of each block of a stream of bytes.

    >>> sums = BlockSums()
    >>> sums.add(b"a" * 2**20)
    >>> sums.add(b"b")
    >>> sums.array().tolist() == [zlib.crc32(b"a" * 2**20), zlib.crc32(b"b")]
    True
    """

    def __init__(self) -> None:
        self._done: list[int] = []
        self._crc = self._filled = 0

    def add(self, data: bytes | memoryview) -> None:
        """Take more bytes into account."""
        view = memoryview(data)
        while len(view):
            part = view[: BLOCK - self._filled]
            self._crc = zlib.crc32(part, self._crc)
            self._filled += len(part)
            view = view[len(part) :]
            if self._filled == BLOCK:
                self._done.append(self._crc)
                self._crc = self._filled = 0

    def array(self) -> np.ndarray:
        """Return the sums, of the last block too if it is begun."""
        return np.asarray(self._done + ([self._crc] if self._filled else []), dtype="<u4")


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
