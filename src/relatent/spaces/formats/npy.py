"""NumPy: .npy with its ids beside it, and .npz with named arrays; memory-mapped, never a pickle."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from relatent._atomic import FileError
from relatent.spaces.chunks import ArrayRows, Chunk, Layout, Rows, empty_others
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats.columns import Reading, conform, with_key
from relatent.spaces.formats.mapped import MappedFile
from relatent.spaces.formats.sidecar import read_sidecar, sidecar_path, write_sidecar

__all__ = ["NpyVectors", "Writer", "array_at", "open_rows", "sidecars"]

IDS = (".ids.npy", ".keys.npy", "_ids.npy", "_keys.npy", ".ids.txt", ".keys.txt", "_ids.txt")


def sidecars(path: Path) -> list[Path]:
    """Name every file that may stand beside an .npy of ours."""
    return [sidecar_path(path), _table_path(path)]


def open_rows(path: Path, reading: Reading) -> Rows:
    """Open an .npy file with the keys and other columns beside it, if any."""
    mapped = MappedFile(path)
    vectors = array_at(mapped, 0)
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
        raise FileError(f"{path} holds {vectors.dtype} of shape {vectors.shape}: expected numbers in 2-D.")
    if vectors.dtype.kind != "f" or (reading.dtype and reading.dtype != vectors.dtype):
        vectors = vectors.astype(reading.dtype or np.float32)
    beside = read_sidecar(path)
    beside.check_rows(path, len(vectors))
    table = _beside(path, len(vectors), reading.keys)
    if reading.keys is not None and reading.key is None and table.num_columns == 1:
        reading = replace(reading, key=table.column_names[0])  # whoever names a file of ids means its only column
    layout = with_key(path, Layout("vector", None, tuple(table.column_names)), table.schema, reading)
    return ArrayRows(vectors, table, layout, beside.fingerprint, mapped.forget)


def array_at(mapped: MappedFile, offset: int) -> np.ndarray:
    """Give the array of an .npy that begins at an offset, mapped."""
    head = io.BytesIO(mapped.part(offset, offset + 2**16))
    version = np.lib.format.read_magic(head)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = reader(head)
    if dtype.hasobject:
        raise FileError(f"{mapped.path} holds Python objects, which would have to be unpickled: save plain arrays.")
    array = mapped.array(dtype, shape[::-1] if fortran else shape, offset + head.tell())
    return array.T if fortran else array


def _beside(path: Path, rows: int, given: Path | None) -> pa.Table:
    """Read keys and other columns from the file given, or from the first one beside that may hold them."""
    usual = [_table_path(path), *(path.with_name(path.stem + ending) for ending in IDS)]
    found = given or next((other for other in usual if other.exists()), None)
    table = empty_others(rows) if found is None else _ids(found)
    if len(table) != rows:
        raise FileError(f"{found} has {len(table)} rows and {path} has {rows}: expected one per vector.")
    return table


def _ids(path: Path) -> pa.Table:
    if path.suffix in (".parquet", ".pq"):
        return pq.read_table(path)
    if path.suffix == ".npy":
        ids = np.load(path, allow_pickle=False)
        return pa.table({"key": ids.tolist() if ids.dtype.kind == "U" else ids})
    return pa.table({"key": path.read_text("utf8").splitlines()})


def _table_path(path: Path) -> Path:
    return path.with_name(path.stem + ".keys.parquet")


class NpyVectors:
    """An .npy file that grows: its header is written again when the number of rows is known."""

    def __init__(self, file: BinaryIO, dim: int, dtype: np.dtype) -> None:
        self._file, self._dim, self._dtype = file, dim, dtype.newbyteorder("=")
        self.rows = 0
        self._header()

    def append(self, vectors: np.ndarray) -> None:
        """Append rows."""
        self._file.write(np.ascontiguousarray(vectors, dtype=self._dtype).data if vectors.size else b"")
        self.rows += len(vectors)

    def finish(self) -> None:
        """Write the number of rows into the header."""
        self._file.seek(0)
        self._header()
        self._file.flush()

    def _header(self) -> None:
        # NumPy leaves room for the first axis to grow, so the header keeps its length.
        about = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.rows, self._dim)}
        np.lib.format.write_array_header_1_0(self._file, about)


class Writer:
    """Writes vectors to .npy and, beside it, keys and other columns to Parquet and the fingerprint to JSON."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        self._path, self._first = path, first
        self._file = path.open("wb")
        self._vectors = NpyVectors(self._file, first.vectors.shape[1], first.vectors.dtype)
        names = first.others.column_names
        self._table = pq.ParquetWriter(_table_path(path), first.others.schema) if names else None

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._vectors.append(chunk.vectors)
        if self._table is not None:
            self._table.write_table(conform(chunk.others, self._first.others.schema))

    def finish(self, fingerprint: Fingerprint) -> None:
        """Complete the header and write what stands beside."""
        self._vectors.finish()
        write_sidecar(self._path, fingerprint, self._first, self._vectors.rows)

    def release(self) -> None:
        """Let go of the files."""
        self._file.close()
        if self._table is not None:
            self._table.close()
