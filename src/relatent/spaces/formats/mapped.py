"""Memory-mapped files whose pages are let go again, so that reading through one does not fill the memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pyarrow as pa

from relatent._atomic import FileError

__all__ = ["MappedFile"]


class MappedFile:
    """A file mapped into memory, read-only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        if self.size == 0:
            raise FileError(f"{path} is empty: get a new copy.")
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def forget(self) -> None:
        """Drop the pages read so far from this process; arrays stay valid and read them again when asked."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def array(self, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> np.ndarray:
        """Give part of the file as an array."""
        count = int(np.prod(shape))
        if offset + count * dtype.itemsize > self.size:
            raise FileError(
                f"{self.path} is cut short: {self.size:,} bytes, expected {offset + count * dtype.itemsize:,}. "
                "Get a new copy."
            )
        return np.frombuffer(self._map, dtype, count, offset).reshape(shape) if count else np.empty(shape, dtype)

    def reader(self) -> pa.BufferReader:
        """Give the file to Arrow, which reads it without a copy."""
        return pa.BufferReader(pa.py_buffer(self._map))

    def part(self, start: int, stop: int) -> bytes:
        """Give some bytes."""
        return self._map[start:stop]
