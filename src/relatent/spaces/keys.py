"""Hashes of keys: the same key has the same hash in every file, run and machine, in whatever order rows come."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["held_out", "key_hashes"]


def key_hashes(keys: Iterable[Any]) -> np.ndarray:
    """Return a 64-bit hash of each key, by its text: 7 and "7" are the same key.

    >>> a, b = key_hashes([7, "x"]), key_hashes(["x", "7"])
    >>> bool(a[0] == b[1]), bool(a[1] == b[0])
    (True, True)
    """
    digests = b"".join(hashlib.blake2b(str(key).encode(), digest_size=8).digest() for key in keys)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def held_out(hashes: np.ndarray, share: float) -> np.ndarray:
    """Return which keys are held out: those whose hash is in the lowest share of all hashes.

    A key is held out or not for good, whatever other keys there are and however the rows are ordered.

    >>> bool(abs(held_out(key_hashes(range(10_000)), 0.2).mean() - 0.2) < 0.02)
    True
    """
    if not 0 <= share < 1:
        raise ValueError(f"The share to hold out is {share}: expected from 0 to less than 1, such as 0.2.")
    return hashes < np.uint64(int(share * 2**64))
