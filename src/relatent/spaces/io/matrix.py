"""Matrices in files: a range of rows at a time, or all of them mapped; verified, and never more than may be held.

Ranges are read with plain reads: a file that is cut short while it is read then gives an error, where touching a mapped
page that is gone would end the process.
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
from xxhash import xxh3_64, xxh3_64_intdigest

from relatent._errors import with_remedy
from relatent._files import FileError, damaged
from relatent.spaces.io.columns import ReadOptions

# No compression of one pass makes more than this out of a byte; what claims more is empty or a trap.
INFLATION = 1_100
# Vectors have a checksum per block of this size, so that a part of a file is verified without reading the rest.
BLOCK = 2**20
# XXH3 runs at 28 GB/s on one core, where CRC-32, which earlier files have, runs at 4 and sha256 at 1.8. The size of the
# checksums tells which of them it is. They protect against accidents, not against someone who forges a file.
CHECKSUMS: dict[str, Callable[..., int]] = {"<u4": zlib.crc32, "<u8": xxh3_64_intdigest}
# All vectors of a larger file are mapped; less is read in a moment, and then nothing that happens to the file matters.
MAPPED_BYTES = 2**28

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

    def mapped(self, verify: bool) -> np.ndarray | None:
        """Return all rows as they stand in the file, if they are worth mapping."""
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

    def mapped(self, verify: bool) -> np.ndarray | None:
        """Verify all rows, and return them mapped: what is written to the array stays in memory.

        None for few rows, and for those that are read as something else than their bytes. They are verified with plain
        reads, so that a file that is cut short gives an error.
        """
        is_plain = self.member is None and not self.fortran and self.stored == self.dtype
        if not is_plain or self.end - self.offset < MAPPED_BYTES:
            return None
        if verify and self.sums is not None:
            with self._open() as file:
                for start in range(self.offset, self.end, BLOCK):
                    block = _read_exactly(self.path, file, start, min(BLOCK, self.end - start))
                    self._check(block, (start - self.offset) // BLOCK, self.sums)
        return np.asarray(np.memmap(self.path, self.stored, "c", self.offset, self.shape))

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
        if sums is None:
            raw = _read_exactly(self.path, file, self.offset + low, high - low)
            return raw.view(self.stored).reshape(last - first, self.shape[1])
        blocks = set(range(low // BLOCK, -(-high // BLOCK))) - seen
        if blocks:  # a block is verified as a whole
            begin, end = low // BLOCK * BLOCK, min(-(-high // BLOCK) * BLOCK, self.shape[0] * width)
        raw = _read_exactly(self.path, file, self.offset + begin, end - begin)
        for block in sorted(blocks):
            start = block * BLOCK - begin
            self._check(raw[start : start + BLOCK], block, sums)
        seen |= blocks
        return raw[low - begin : high - begin].view(self.stored).reshape(last - first, self.shape[1])

    def _check(self, data: np.ndarray, block: int, sums: np.ndarray) -> None:
        checksum = CHECKSUMS.get(sums.dtype.str)
        if checksum is None or block >= len(sums) or checksum(data.data) != sums[block]:
            width = self.shape[1] * self.stored.itemsize
            rows = f"rows {block * BLOCK // width} to {(block + 1) * BLOCK // width}"
            raise damaged(self.path, f"what it holds in {rows}")

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
    """The checksum of each block of a stream of bytes.

    >>> sums = BlockSums()
    >>> sums.add(b"a" * 2**20)
    >>> sums.add(b"b")
    >>> sums.array().tolist() == [xxh3_64_intdigest(b"a" * 2**20), xxh3_64_intdigest(b"b")]
    True
    """

    def __init__(self) -> None:
        self._done: list[int] = []
        self._begun, self._filled = xxh3_64(), 0

    def add(self, data: bytes | memoryview) -> None:
        """Take more bytes into account."""
        view = memoryview(data)
        while len(view):
            part = view[: BLOCK - self._filled]
            self._begun.update(part)
            self._filled += len(part)
            view = view[len(part) :]
            if self._filled == BLOCK:
                self._done.append(self._begun.intdigest())
                self._begun, self._filled = xxh3_64(), 0

    def array(self) -> np.ndarray:
        """Return the sums, of the last block too if it is begun."""
        return np.asarray(self._done + ([self._begun.intdigest()] if self._filled else []), dtype="<u8")
