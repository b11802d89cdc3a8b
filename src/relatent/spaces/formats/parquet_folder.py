"""A folder of Parquet files, for spaces that are too large for one."""

from __future__ import annotations

from pathlib import Path

from relatent.spaces.chunks import Chunk
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats import parquet

__all__ = ["ROWS_PER_FILE", "Writer"]

ROWS_PER_FILE = 1_000_000


class Writer:
    """Writes part-00000.parquet and so on, a new one when the last has a million rows."""

    def __init__(self, path: Path, first: Chunk, early: Fingerprint) -> None:
        path.mkdir(exist_ok=True)
        self._path, self._first, self._early = path, first, early
        self._parts: list[parquet.Writer] = []
        self._next()

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        if self._rows >= ROWS_PER_FILE:
            self._parts[-1].finish(self._early)
            self._next()
        self._parts[-1].write(chunk)
        self._rows += len(chunk)

    def finish(self, fingerprint: Fingerprint) -> None:
        """Complete the last file."""
        self._parts[-1].finish(fingerprint)

    def release(self) -> None:
        """Let go of the files."""
        for part in self._parts:
            part.release()

    def _next(self) -> None:
        name = self._path / f"part-{len(self._parts):05d}.parquet"
        self._parts.append(parquet.Writer(name, self._first, self._early))
        self._rows = 0
