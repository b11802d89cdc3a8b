"""Matrices in files: read a range of rows at a time, verified, and never more than may be held.

Vectors are read with plain reads rather than memory-mapped: a file that is cut short while it is read then gives an
error, where touching a mapped page that is gone would end the process.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from relatent._atomic import FileError
from relatent.spaces.formats.checksums import BLOCK, damaged
from relatent.spaces.formats.columns import ReadOptions

__all__ = ["Matrix", "ReadRows", "Shape", "StoredMatrix", "check_inflation", "check_size"]

# No compression of one pass makes more than this out of a byte; what claims more is empty or a trap.
INFLATION = 1_100

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

    def check_length(self, available: int) -> None:
        """Refuse a file that is shorter than its header says."""
        expected = self.offset + int(np.prod(self.shape, dtype=object)) * self.stored.itemsize
        if expected > available:
            raise FileError(f"{self.path} is cut short: {available:,} bytes, expected {expected:,}. Get a new copy.")

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
    limit = options.max_memory or _physical_memory()
    if nbytes > limit:
        raise FileError(
            f"{path} states {nbytes:,} bytes for {what}: more than the {limit:,} that may be used. If it is not a "
            "mistake, allow more with max_memory (--max-memory)."
        )


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63


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
