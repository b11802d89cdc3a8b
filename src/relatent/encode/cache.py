"""Vectors kept on disk under the content of what was encoded and the fingerprint of what encoded it."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from relatent._files import FileError
from relatent.spaces import Fingerprint

# SQLite takes at most 999 values in one question.
AT_ONCE = 500
BUSY = (OSError, "another run uses it. Wait until that is done, or give this run another folder (--cache)")
CLOSED = (PermissionError, "it cannot be written. Change its permissions, or use another folder (--cache)")
FULL = (OSError, "the disk is full, and what was encoded so far is kept. Free some space and run again")
DAMAGED = (FileError, "it is damaged or no cache of vectors. Delete it, and its items are encoded again")
REMEDIES: dict[int | None, tuple[type[Exception], str]] = {
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_READONLY: CLOSED,
    sqlite3.SQLITE_CANTOPEN: CLOSED,
    sqlite3.SQLITE_PERM: CLOSED,
}


class VectorCache:
    """One SQLite file per encoder. Each batch is committed on its own, so an interruption loses one batch at most.

    Each row carries a checksum of its item and vector. A row that does not match is left out, as if it had never been
    kept, so its item is encoded again.
    """

    def __init__(self, folder: Path, fingerprint: Fingerprint, kind: str) -> None:
        if fingerprint.model is None:
            raise ValueError("The encoder has no name, so a cache could mix it with others: give it one with model=…")
        folder.mkdir(parents=True, exist_ok=True)
        self._kind = kind
        self.path = folder / f"{fingerprint.id}.sqlite"
        self._base = sqlite3.connect(self.path)
        try:
            self._begin(fingerprint.to_json())
        except BaseException:
            self._base.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def digest(self, item: Any) -> bytes:
        """Return the name of an item, by its content."""
        return hashlib.blake2b(content(item, self._kind), digest_size=16).digest()

    def look_up(self, digests: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Return the vectors that are known."""
        wanted = list(dict.fromkeys(digests))
        found: dict[bytes, np.ndarray] = {}
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            marks = ",".join("?" * len(some))
            with self._explained():
                rows = self._base.execute(f"SELECT * FROM checked WHERE item IN ({marks})", some).fetchall()
            found |= {row[0]: np.frombuffer(row[2], row[1]) for row in rows if row[3] == _checksum(*row[:3])}
        return found

    def keep(self, vectors: dict[bytes, np.ndarray]) -> None:
        """Keep the vectors of a batch."""
        rows = [(item, vector.dtype.str, vector.tobytes()) for item, vector in vectors.items()]
        with self._explained(), self._base:
            self._base.executemany(
                "INSERT OR REPLACE INTO checked VALUES (?, ?, ?, ?)", [(*row, _checksum(*row)) for row in rows]
            )

    def _begin(self, about: str) -> None:
        with self._explained(), self._base:
            self._base.execute("CREATE TABLE IF NOT EXISTS about (fingerprint TEXT)")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS checked (item BLOB PRIMARY KEY, dtype TEXT, vector BLOB, crc32 INTEGER)"
            )
            if self._base.execute("SELECT count(*) FROM about").fetchone() == (0,):
                self._base.execute("INSERT INTO about VALUES (?)", (about,))
            if self._base.execute("SELECT fingerprint FROM about").fetchone() != (about,):
                raise sqlite3.DatabaseError("it records another encoder than its name")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in words why the cache cannot be used; only a damaged one is to be deleted."""
        try:
            yield
        except sqlite3.Error as error:
            kind, remedy = REMEDIES.get(getattr(error, "sqlite_errorcode", None), DAMAGED)
            raise kind(f"{self.path} cannot be used ({error}): {remedy}.") from error


def _checksum(item: Any, dtype: Any, vector: Any) -> int | None:
    """Return the CRC-32 of a row, or None for a row whose types are wrong."""
    if not (isinstance(item, bytes) and isinstance(dtype, str) and isinstance(vector, bytes)):
        return None
    return zlib.crc32(vector, zlib.crc32(dtype.encode(errors="replace"), zlib.crc32(item)))


def content(item: Any, kind: str) -> bytes:
    """Return the bytes that make an item what it is; for a path of an image, those of the file.

    >>> content("a", "text") != content("b", "text")
    True
    """
    if isinstance(item, Path) or (isinstance(item, str) and kind == "image"):
        return b"file:" + Path(item).read_bytes()
    if isinstance(item, str):
        return b"text:" + item.encode()
    if isinstance(item, bytes):
        return b"bytes:" + item
    if hasattr(item, "tobytes") and hasattr(item, "mode"):  # a PIL image
        return f"image:{item.mode}{item.size}".encode() + bytes(item.tobytes())
    if isinstance(item, np.ndarray):
        return f"array:{item.dtype.str}{item.shape}".encode() + item.tobytes()
    raise TypeError(
        f"An item of type {type(item).__name__} has no content to keep its vector under: expected text, bytes, a path, "
        "an image or an array. Encode without a cache."
    )
