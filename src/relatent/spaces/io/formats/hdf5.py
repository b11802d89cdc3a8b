"""HDF5 (extra: hdf5): the vectors, keys and columns as datasets of one group, the fingerprint as an attribute.

HDF5 checks vectors itself, by the checksums of its Fletcher filter, and its own structures, by those of its latest
file format; the other columns are checked by ours.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._errors import needs
from relatent._files import FileError
from relatent.spaces.chunks import Chunk, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.arrays import CHECKS, FINGERPRINT, Container, column_arrays, file_notes, open_container
from relatent.spaces.io.columns import ReadOptions
from relatent.spaces.io.matrix import ReadRows, Shape, check_size


def open_rows(path: Path, options: ReadOptions) -> Rows:
    """Open an HDF5 file. Nothing outside of the file is read: links and datasets that lead there are refused."""
    h5py = needs("h5py", "hdf5", f"read {path}")
    with h5py.File(path, "r") as file:
        found = _datasets(h5py, path, file)
        shapes = {name: Shape(item.shape, item.dtype) for name, item in found.items()}

        def matrix(name: str, _sums: np.ndarray | None) -> _Hdf5Matrix:
            block = Shape(found[name].chunks or (0,), found[name].dtype)
            check_size(path, "one block of vectors", block.nbytes, options)
            return _Hdf5Matrix(path, name, shapes[name].shape, shapes[name].dtype)  # type: ignore[arg-type]

        notes = {name: str(file.attrs[name]) for name in (FINGERPRINT, CHECKS) if name in file.attrs}
        return open_container(Container(path, shapes, lambda name: found[name][()], notes, matrix), options)


def _datasets(h5py: Any, path: Path, file: Any) -> dict[str, Any]:
    """Find the datasets at the top of a file, all of whose data are in the file."""
    found = {}
    for name in file:
        if isinstance(file.get(name, getlink=True), h5py.ExternalLink):
            problem = f"{path} has a link to another file under {name!r}: expected the data themselves. Copy them."
            raise FileError(problem)
        item = file[name]
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            if item.is_virtual or item.external:
                raise FileError(f"{path} keeps {name!r} in other files: expected the data themselves. Copy them.")
            found[name] = item
    return found


@dataclass(frozen=True)
class _Hdf5Matrix:
    path: Path
    name: str
    shape: tuple[int, int]
    dtype: np.dtype

    @contextmanager
    def reader(self, verify: bool) -> Iterator[ReadRows]:
        """Open the file and yield a function that returns rows first to last; HDF5 verifies in any case."""
        with needs("h5py", "hdf5", f"read {self.path}").File(self.path, "r") as file:
            yield lambda first, last: np.asarray(file[self.name][first:last])

    def mapped(self, verify: bool) -> None:
        """Return nothing: HDF5 keeps vectors in pieces."""


class Writer:
    """Appends vectors to a dataset that grows."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        h5py = needs("h5py", "hdf5", f"write {path.name}")
        self._text = h5py.string_dtype()
        self._raw = _ErrorKeeper(path, "w+")
        self._file: Any = h5py.File(self._raw, "w", libver="latest")
        dim, dtype = first.vectors.shape[1], first.vectors.dtype
        rows = max(1, min(4096, 2**20 // max(1, dim * dtype.itemsize)))
        self._vectors = self._file.create_dataset(
            first.layout.vector, (0, dim), dtype, maxshape=(None, dim), chunks=(rows, dim), fletcher32=True
        )
        self._name = first.layout.vector
        self._tables: list[pa.Table] = []

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        start = self._vectors.shape[0]
        self._vectors.resize(start + len(chunk), axis=0)
        self._vectors[start:] = chunk.vectors
        self._tables.append(chunk.others)
        self._raw.check()

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the other columns and the fingerprint."""
        arrays = column_arrays(self._tables, text=True)
        shape = Shape(self._vectors.shape, self._vectors.dtype)
        for name, array in arrays.items():
            text = array.dtype.kind == "U"
            data = array.astype(object) if text else array
            self._file.create_dataset(name, data=data, dtype=self._text if text else None)
        self._file.attrs.update(file_notes(self._name, shape, arrays, fingerprint))
        self._file.close()
        self._raw.check()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()


class _ErrorKeeper(io.FileIO):
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
        """Set the size, or note that it failed."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0

    def check(self) -> None:
        """Raise what went wrong, if anything did."""
        if self.error is not None:
            raise self.error
