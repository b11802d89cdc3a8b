"""HDF5 (extra: hdf5): the vectors, keys and columns as datasets of one group, the fingerprint as an attribute."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._extras import needs
from relatent.spaces.chunks import Chunk, Layout, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats.arrays import PACKED, OthersGathered, Shape, find_layout, unpack, with_key
from relatent.spaces.formats.columns import META, Reading, stored_fingerprint

__all__ = ["Hdf5Rows", "Writer", "open_rows"]

FINGERPRINT = META.decode()


def open_rows(path: Path, reading: Reading) -> Rows:
    """Open an HDF5 file."""
    return Hdf5Rows(path, reading)


class Hdf5Rows:
    """The datasets at the top of an HDF5 file; vectors are read slice by slice."""

    def __init__(self, path: Path, reading: Reading) -> None:
        h5py = needs("h5py", "hdf5", f"read {path}")
        self._path = path
        with h5py.File(path, "r") as file:
            found = {name: item for name, item in file.items() if isinstance(item, h5py.Dataset)}
            shapes = {name: Shape(item.shape, item.dtype.kind in "fiu") for name, item in found.items()}
            layout = find_layout(path, shapes, reading)
            vectors = found[layout.vector]
            self.shape = (int(vectors.shape[0]), int(vectors.shape[1]))
            self.dtype = reading.dtype or np.dtype(vectors.dtype if vectors.dtype.kind == "f" else np.float32)
            stream = found[PACKED][()] if PACKED in found else None
            self._table: pa.Table = unpack(self.shape[0], layout, lambda name: found[name][()], stream)
            text = file.attrs.get(FINGERPRINT)
        self.layout: Layout = with_key(path, layout, self._table, reading)
        self.schema = self._table.schema
        self.fingerprint = stored_fingerprint(None if text is None else {META: str(text).encode()}, path)

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Read slices."""
        with needs("h5py", "hdf5", f"read {self._path}").File(self._path, "r") as file:
            for first in range(start, max(stop, start + 1), size):
                last = min(first + size, stop)
                vectors = np.asarray(file[self.layout.vector][first:last]).astype(self.dtype, copy=False)
                yield Chunk(first, vectors, self._table.slice(first, last - first), self.layout)

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Give every column but the vectors, or some of them."""
        return self._table if names is None else self._table.select(names)


class Writer:
    """Appends vectors to a dataset that grows."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        h5py = needs("h5py", "hdf5", f"write {path.name}")
        self._text = h5py.string_dtype()
        self._raw = _Recording(path, "w+")
        self._file: Any = h5py.File(self._raw, "w")
        dim, dtype = first.vectors.shape[1], first.vectors.dtype
        rows = max(1, min(4096, 2**20 // max(1, dim * dtype.itemsize)))
        self._vectors = self._file.create_dataset(
            first.layout.vector, (0, dim), dtype, maxshape=(None, dim), chunks=(rows, dim)
        )
        self._others = OthersGathered()

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        start = self._vectors.shape[0]
        self._vectors.resize(start + len(chunk), axis=0)
        self._vectors[start:] = chunk.vectors
        self._others.add(chunk)
        self._raw.check()

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the other columns and the fingerprint."""
        packed = self._others.packed(text=True)
        for name, array in packed.plain.items():
            self._file.create_dataset(name, data=array, dtype=self._text if array.dtype.kind == "O" else None)
        stream = packed.stream()
        if stream is not None:
            self._file.create_dataset(PACKED, data=stream)
        self._file.attrs[FINGERPRINT] = fingerprint.to_json()
        self._file.close()
        self._raw.check()

    def release(self) -> None:
        """Let go of the file."""
        self._file.close()
        self._raw.close()


class _Recording(io.FileIO):
    """A file that keeps its first error for later: HDF5 crashes when a write fails under it."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write, or note that it failed."""
        try:
            super().write(data)
        except OSError as error:
            self.error = self.error or error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        """Set the length, or note that it failed."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0

    def check(self) -> None:
        """Raise what went wrong, if anything did."""
        if self.error is not None:
            raise self.error
