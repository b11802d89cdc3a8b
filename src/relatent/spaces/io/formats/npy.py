"""NumPy's .npy; never a pickle.

What we write is one file: the vectors, and behind them, as repeated calls of `np.save` on one file put them, the other
columns as an Arrow stream, the checksums of the vectors and a note. `np.load` reads the first array and stops there.
For files of other tools, keys are looked up in a file next to it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from relatent._files import FileError
from relatent.spaces.chunks import Chunk, Layout, Rows, empty_others
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.arrays import PACKED, SUMS, Container, StoredRows, VectorWriter, file_notes, open_container
from relatent.spaces.io.columns import ReadOptions, with_key
from relatent.spaces.io.matrix import Shape, StoredMatrix

IDS = (".keys.parquet", ".ids.npy", ".keys.npy", "_ids.npy", "_keys.npy", ".ids.txt", ".keys.txt", "_ids.txt")
# NumPy's own limit.
MAX_HEADER = 10_000
# The arrays of a file of ours, in order. All but the vectors are bytes or checksums.
PARTS = ("vector", PACKED, SUMS, "note")


def open_rows(path: Path, options: ReadOptions) -> Rows:
    """Open an .npy file with the keys and other columns in it or beside it, if any."""
    with path.open("rb") as file:
        parts = _parts(path, file)
        vectors = parts[0]
        if len(vectors.shape) != 2 or vectors.stored.kind not in "fiu":
            raise FileError(f"{path} holds {vectors.stored} of shape {vectors.shape}: expected numbers in 2-D.")
        if len(parts) == 1:
            return _foreign_rows(path, vectors, options)
        loaded = {name: _load(file, part) for name, part in zip(PARTS[1:], parts[1:], strict=True)}
    return _our_rows(path, vectors, loaded, options)


def read_header(path: Path, file: BinaryIO | Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the header of an array: its shape, whether it is stored by columns, and its dtype."""
    version = np.lib.format.read_magic(file)
    first = version == (1, 0)
    length = file.read(2 if first else 4)
    stated = int.from_bytes(length, "little")
    if stated > MAX_HEADER:  # NumPy reads it before it looks at its length
        raise FileError(f"{path} states a header of {stated:,} bytes: expected at most {MAX_HEADER:,}. Get a new copy.")
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(BytesIO(length + file.read(stated)))
    if any(n < 0 for n in shape):
        raise FileError(f"{path} states the shape {shape}: it is damaged. Get a new copy.")
    return shape, fortran, dtype


def _parts(path: Path, file: BinaryIO) -> list[StoredMatrix]:
    """Find the arrays that follow one another in a file: one, or the four of ours."""
    size, end = path.stat().st_size, 0
    found: list[StoredMatrix] = []
    while end < size or not found:
        file.seek(end)
        shape, fortran, dtype = read_header(path, file)
        if dtype.hasobject:
            raise FileError(f"{path} holds Python objects, which would have to be unpickled: save numbers instead.")
        part = StoredMatrix(path, shape, dtype, file.tell(), fortran=fortran)  # type: ignore[arg-type]
        part.check_length(size)
        end = part.end
        found.append(part)
    if len(found) not in (1, len(PARTS)):
        raise FileError(
            f"{path} holds {len(found)} arrays: expected one. If relatent wrote it, it is damaged: get a new copy."
        )
    return found


def _load(file: BinaryIO, part: StoredMatrix) -> np.ndarray:
    file.seek(part.offset)
    return np.frombuffer(file.read(part.end - part.offset), part.stored)


def _our_rows(path: Path, vectors: StoredMatrix, loaded: dict[str, np.ndarray], options: ReadOptions) -> Rows:
    try:
        notes = json.loads(loaded.pop("note").tobytes())
    except ValueError as error:
        raise FileError(f"{path} is damaged behind its vectors ({error}): get a new copy.") from error
    shapes = {"vector": Shape(vectors.shape, vectors.stored)}
    shapes |= {name: Shape(array.shape, array.dtype) for name, array in loaded.items() if array.size or name == SUMS}
    matrix = replace(vectors, sums=loaded[SUMS])
    return open_container(Container(path, shapes, loaded.__getitem__, notes, lambda *_: matrix), options)


def _foreign_rows(path: Path, vectors: StoredMatrix, options: ReadOptions) -> Rows:
    table = _beside(path, vectors.shape[0], options.keys)
    if options.keys is not None and options.key is None and table.num_columns == 1:
        options = replace(options, key=table.column_names[0])  # whoever names a file of ids means its only column
    layout = with_key(path, Layout("vector", None, tuple(table.column_names)), table.schema, options)
    return StoredRows(path, vectors, table, layout, None, options)


def _beside(path: Path, rows: int, given: Path | None) -> pa.Table:
    """Read keys and other columns from the file given, or from the first one beside that may hold them."""
    found = given or ids_beside(path)
    table = empty_others(rows) if found is None else read_ids(found)
    if len(table) != rows:
        raise FileError(f"{found} has {len(table)} rows and {path} has {rows}: expected one per vector.")
    return table


def ids_beside(path: Path) -> Path | None:
    """Return the first file beside a file of vectors that may hold its keys, if there is one."""
    usual = (path.with_name(path.stem + ending) for ending in IDS)
    return next((other for other in usual if other.exists()), None)


def read_ids(path: Path) -> pa.Table:
    """Read a file of ids, and of other columns where it is Parquet: one row per vector."""
    if path.suffix in (".parquet", ".pq"):
        return pq.read_table(path)
    if path.suffix == ".npy":
        ids = np.load(path, allow_pickle=False)
        return pa.table({"key": ids.tolist() if ids.dtype.kind == "U" else ids})
    return pa.table({"key": path.read_text("utf8").splitlines()})


class NpyWriter(VectorWriter):
    """Writes an .npy array that grows: its header is written again when the number of rows is known."""

    def __init__(self, file: BinaryIO, first: Chunk) -> None:
        super().__init__(file, first)
        self._write_header()

    def _write_header(self) -> None:
        # NumPy leaves space for the first axis to grow, so the header keeps its size.
        about = {"descr": self.shape.dtype.str, "fortran_order": False, "shape": self.shape.shape}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, about)
        self._file.seek(0, 2)


class Writer(NpyWriter):
    """Writes vectors to .npy and, behind them, everything else."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        super().__init__(path.open("wb"), first)

    def finish(self, fingerprint: Fingerprint) -> None:
        """Complete the header and write what comes behind."""
        self._write_header()
        arrays = self._arrays(text=False, numbers=False)
        notes = file_notes("vector", self.shape, arrays, fingerprint)
        arrays["note"] = np.frombuffer(json.dumps(notes).encode(), np.uint8)
        for name in PARTS[1:]:
            np.lib.format.write_array(self._file, arrays.get(name, np.empty(0, np.uint8)), allow_pickle=False)
        self._file.flush()
