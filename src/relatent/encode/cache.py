"""Vectors kept on disk under the content of what was encoded and the fingerprint of what encoded it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from relatent._atomic import FileError
from relatent.spaces import Fingerprint

__all__ = ["VectorCache", "content"]

# SQLite takes at most 999 values in one question.
AT_ONCE = 500


class VectorCache:
    """One SQLite file per encoder. Each batch is committed on its own, so an interruption loses one batch at most."""

    def __init__(self, folder: Path, fingerprint: Fingerprint, kind: str) -> None:
        if fingerprint.model is None:
            raise ValueError("The encoder has no name, so a cache could mix it with others: give it one with model=…")
        folder.mkdir(parents=True, exist_ok=True)
        self._kind = kind
        self.path = folder / f"{hashlib.sha256(fingerprint.to_json().encode()).hexdigest()[:16]}.sqlite"
        try:
            self._base = sqlite3.connect(self.path)
            self._base.execute("CREATE TABLE IF NOT EXISTS about (fingerprint TEXT)")
            self._base.execute("CREATE TABLE IF NOT EXISTS vectors (item BLOB PRIMARY KEY, dtype TEXT, vector BLOB)")
            if self._base.execute("SELECT count(*) FROM about").fetchone() == (0,):
                self._base.execute("INSERT INTO about VALUES (?)", (fingerprint.to_json(),))
            self._base.commit()
        except sqlite3.DatabaseError as error:
            self._base.close()
            raise FileError(f"{self.path} is not a cache of vectors or is damaged ({error}): delete it.") from error

    def __enter__(self) -> Self:
        """Use in a with block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._base.close()

    def digest(self, item: Any) -> bytes:
        """Name an item by its content."""
        return hashlib.blake2b(content(item, self._kind), digest_size=16).digest()

    def look_up(self, digests: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Give the vectors that are known."""
        wanted = list(dict.fromkeys(digests))
        found: dict[bytes, np.ndarray] = {}
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            marks = ",".join("?" * len(some))
            rows = self._base.execute(f"SELECT item, dtype, vector FROM vectors WHERE item IN ({marks})", some)
            found |= {item: np.frombuffer(vector, dtype) for item, dtype, vector in rows}
        return found

    def keep(self, vectors: dict[bytes, np.ndarray]) -> None:
        """Keep the vectors of a batch."""
        rows = [(item, vector.dtype.str, vector.tobytes()) for item, vector in vectors.items()]
        with self._base:
            self._base.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)


def content(item: Any, kind: str) -> bytes:
    """Give the bytes that make an item what it is; for a path of an image, those of the file.

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
