"""The digest of rows, by which a shard that has changed is told, and which of its rows may have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from relatent.spaces.keys import key_hashes
from relatent.spaces.sample import STEP, splitmix64

HASHES, BITS = 2, 64
# Rows fall into buckets by the last bits of their keys' hashes: a bucket that differs says which rows have changed.
BUCKETS = 256
UNREAD = np.uint64(0x5245_4144)


@dataclass(frozen=True)
class Digest:
    r"""How many rows there are, the sums of two hashes of each, and the sums of the first hash in each bucket of keys.

    .. math:: s = \sum_i \text{mix}\Big(k_i \oplus \sum_j w_j x_{ij}\Big) \bmod 2^{64}

    where k is the hash of the key, x are the bytes of the vector as 64-bit words, and w odd weights. Digests of chunks
    add up to that of all rows, in whatever order and chunks they were read. A row that is added, deleted, changed or
    there twice changes the sums, but for one chance in :math:`2^{64}`. It is a guard against accidents: someone who
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
    buckets: tuple[int, ...] = (0,) * BUCKETS
    """Empty in a manifest that an earlier version wrote."""

    @staticmethod
    def of(keys: np.ndarray, vectors: np.ndarray) -> Digest:
        """Return the digest of rows, from the hashes of their keys (:func:`hashed_keys`)."""
        words = _words(vectors)
        return _summed(keys, words @ _weights(words.shape[1]))

    @staticmethod
    def of_keys(keys: np.ndarray) -> Digest:
        """Return the digest of rows whose vectors cannot be read."""
        return _summed(keys, UNREAD * _weights(1))

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of the rows of both."""
        pairs = ((self.sums, other.sums), (self.buckets, other.buckets))
        sums, buckets = (tuple((a + b) % 2**BITS for a, b in zip(*pair, strict=True)) for pair in pairs)
        return Digest(self.rows + other.rows, sums, buckets)

    def changed(self, now: Digest) -> frozenset[int]:
        """Return the buckets in which another digest differs; all of them, if it differs and they are not known."""
        if not self.buckets:
            return frozenset() if (self.rows, self.sums) == (now.rows, now.sums) else frozenset(range(BUCKETS))
        return frozenset(i for i, (a, b) in enumerate(zip(self.buckets, now.buckets, strict=True)) if a != b)

    def updated(self, now: Digest, buckets: frozenset[int]) -> Digest:
        """Return another digest, but for the buckets that are not among these: they stay as they are here."""
        if not self.buckets:
            return now
        pairs = enumerate(zip(self.buckets, now.buckets, strict=True))
        return replace(now, buckets=tuple(new if i in buckets else old for i, (old, new) in pairs))

    def to_json(self) -> list[Any]:
        """Return plain values: the rows, and the sums in hexadecimal digits."""
        return [self.rows, *(f"{one:016x}" for one in (*self.sums, *self.buckets))]

    @staticmethod
    def from_json(saved: list[Any]) -> Digest:
        """Rebuild from what :meth:`to_json` returned."""
        rows, *sums = saved
        numbers = tuple(int(one, 16) for one in sums)
        return Digest(int(rows), numbers[:HASHES], numbers[HASHES:])


def buckets_of(keys: np.ndarray) -> np.ndarray:
    """Return the bucket of each row, from the hashes of the keys."""
    return (keys % np.uint64(BUCKETS)).astype(np.intp)


def hashed_keys(keys: pa.Array) -> np.ndarray:
    """Return a hash of each key of one store, whose keys are all of one kind; integers are hashed all at once."""
    if pa.types.is_integer(keys.type):
        return _mixed(keys.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))
    return key_hashes(keys)


def _summed(keys: np.ndarray, vectors: np.ndarray) -> Digest:
    mixed, buckets = _mixed(keys[:, None] ^ vectors), np.zeros(BUCKETS, dtype=np.uint64)
    np.add.at(buckets, buckets_of(keys), mixed[:, 0])
    return Digest(len(mixed), tuple(mixed.sum(axis=0, dtype=np.uint64).tolist()), tuple(buckets.tolist()))


def _words(vectors: np.ndarray) -> np.ndarray:
    """Return the bytes of each row as 64-bit numbers, the last one filled up with zeros."""
    rows = np.ascontiguousarray(vectors).view(np.uint8).reshape(len(vectors), -1)
    missing = -rows.shape[1] % 8
    return (np.pad(rows, ((0, 0), (0, missing))) if missing else rows).view(np.uint64)


def _weights(words: int) -> np.ndarray:
    """Return an odd number for each word and each hash: so no change of a single word is lost."""
    return _mixed(np.arange(1, words * HASHES + 1, dtype=np.uint64)).reshape(words, HASHES) | np.uint64(1)


def _mixed(x: np.ndarray) -> np.ndarray:
    """Return a hash of each number: a sum of hashes tells nothing about the sum of the numbers."""
    return splitmix64(x * STEP)
