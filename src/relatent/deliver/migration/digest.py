"""Checksums of rows that add, and do not depend on the order of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from relatent.spaces.keys import key_texts

__all__ = ["Digest"]

BYTES = 16


@dataclass(frozen=True)
class Digest:
    r"""How many rows there are, and the sum of a hash of each.

    .. math:: \sum_i h(\text{key}_i, x_i) \bmod 2^{128}

    Digests of chunks add up to that of all rows, in whatever order and chunks they were read. A row that is added,
    deleted, changed or there twice changes the sum.

    References: Bellare & Micciancio, 1997 (incremental hashing by sums).

    >>> x = np.eye(2, dtype=np.float32)
    >>> both = Digest.of(pa.array(["a", "b"]), x)
    >>> both == Digest.of(pa.array(["b"]), x[1:]) + Digest.of(pa.array(["a"]), x[:1])
    True
    >>> both == Digest.of(pa.array(["b", "a"]), x)
    False
    """

    rows: int = 0
    total: int = 0

    @staticmethod
    def of(keys: pa.Array | pa.ChunkedArray, vectors: np.ndarray) -> Digest:
        """Return the digest of rows: keys by their text, vectors by their bytes."""
        texts, rows = key_texts(keys), np.ascontiguousarray(vectors)
        return _summed(_hash(text.as_buffer(), row) for text, row in zip(texts, rows, strict=True))

    @staticmethod
    def of_keys(keys: Iterable[Any]) -> Digest:
        """Return the digest of rows whose vectors cannot be read."""
        return _summed(_hash(str(key).encode()) for key in keys)

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of the rows of both."""
        return Digest(self.rows + other.rows, (self.total + other.total) % 2 ** (8 * BYTES))

    def to_json(self) -> list[Any]:
        """Return plain values: the rows, and the sum in hexadecimal digits."""
        return [self.rows, f"{self.total:0{2 * BYTES}x}"]

    @staticmethod
    def from_json(saved: list[Any]) -> Digest:
        """Rebuild from what :meth:`to_json` returned."""
        rows, total = saved
        return Digest(int(rows), int(total, 16))


def _summed(hashes: Iterable[int]) -> Digest:
    rows, total = 0, 0
    for one in hashes:
        rows, total = rows + 1, total + one
    return Digest(rows, total % 2 ** (8 * BYTES))


def _hash(key: Any, vector: Any = b"") -> int:
    # The vectors of a field are all of one size, so that key and vector need nothing between them.
    hashed = blake2b(key, digest_size=BYTES)
    hashed.update(vector)
    return int.from_bytes(hashed.digest(), "little")
