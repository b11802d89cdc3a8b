"""Checksums of rows that add, and do not depend on the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from relatent.spaces.keys import key_hashes

__all__ = ["Digest", "hashed_keys"]

# The constants of splitmix64.
STEP, FIRST, SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
HASHES, BITS = 2, 64
UNREAD = np.uint64(0x5245_4144)


@dataclass(frozen=True)
class Digest:
    r"""How many rows there are, and the sums of two hashes of each.

    .. math:: s = \sum_i \text{mix}\Big(k_i \oplus \sum_j w_j x_{ij}\Big) \bmod 2^{64}

    where k is the hash of the key, x are the bytes of the vector as 64-bit words, and w odd weights. Digests of chunks
    add up to that of all rows, in whatever order and chunks they were read. A row that is added, deleted, changed or
    there twice changes the sums, but for one chance in :math:`2^{128}`. It is a guard against accidents: someone who
    knows the weights can make two stores with the same digest.

    References: Bellare & Micciancio, 1997 (sums of hashes); Lemire & Kaser, 2014 (multilinear hashes); Steele et al.,
    2014 (splitmix64).

    >>> keys, x = hashed_keys(pa.array(["a", "b"])), np.eye(2, dtype=np.float32)
    >>> Digest.of(keys, x) == Digest.of(keys[1:], x[1:]) + Digest.of(keys[:1], x[:1])
    True
    >>> Digest.of(keys, x) == Digest.of(keys[::-1], x)
    False
    """

    rows: int = 0
    sums: tuple[int, ...] = (0,) * HASHES

    @staticmethod
    def of(keys: np.ndarray, vectors: np.ndarray) -> Digest:
        """Return the digest of rows, from the hashes of their keys (:func:`hashed_keys`)."""
        words = _words(vectors)
        return _summed(keys[:, None] ^ (words @ _weights(words.shape[1])))

    @staticmethod
    def of_keys(keys: np.ndarray) -> Digest:
        """Return the digest of rows whose vectors cannot be read."""
        return _summed(keys[:, None] ^ (UNREAD * _weights(1)))

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of the rows of both."""
        return Digest(
            self.rows + other.rows, tuple((a + b) % 2**BITS for a, b in zip(self.sums, other.sums, strict=True))
        )

    def to_json(self) -> list[Any]:
        """Return plain values: the rows, and the sums in hexadecimal digits."""
        return [self.rows, *(f"{one:016x}" for one in self.sums)]

    @staticmethod
    def from_json(saved: list[Any]) -> Digest:
        """Rebuild from what :meth:`to_json` returned."""
        rows, *sums = saved
        return Digest(int(rows), tuple(int(one, 16) for one in sums))


def hashed_keys(keys: pa.Array) -> np.ndarray:
    """Return a hash of each key of one store, whose keys are all of one kind; integers are hashed all at once."""
    if pa.types.is_integer(keys.type):
        return _mixed(keys.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))
    return key_hashes(keys)


def _summed(hashes: np.ndarray) -> Digest:
    mixed = _mixed(hashes)
    return Digest(len(mixed), tuple(int(one) for one in mixed.sum(axis=0, dtype=np.uint64)))


def _words(vectors: np.ndarray) -> np.ndarray:
    """Return the bytes of each row as 64-bit numbers, the last one filled up with zeros."""
    rows = np.ascontiguousarray(vectors).view(np.uint8).reshape(len(vectors), -1)
    missing = -rows.shape[1] % 8
    return (np.pad(rows, ((0, 0), (0, missing))) if missing else rows).view(np.uint64)


def _weights(words: int) -> np.ndarray:
    """Return an odd number for each word and each hash: so no change of a single word is lost."""
    return _mixed(np.arange(1, words * HASHES + 1, dtype=np.uint64)).reshape(words, HASHES) | np.uint64(1)


def _mixed(x: np.ndarray) -> np.ndarray:
    """Return splitmix64 of each number: a sum of what comes out tells nothing about a sum of what went in."""
    x = x * STEP
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return np.asarray(x ^ (x >> np.uint64(31)))
