"""Rows as PostgreSQL sends and takes them in its binary format: keys, vectors, halfvecs and bits."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pyarrow as pa

__all__ = ["COPY_END", "COPY_START", "KEY_TYPES", "VECTOR_TYPES", "copy_rows", "decode", "value_size"]

COPY_START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"
# The type of a column for each dtype of a field.
VECTOR_TYPES = {"float32": "vector", "float16": "halfvec", "bit": "bit"}
# What keys may be, and how wide they are where their width is fixed.
KEY_TYPES = {"int2": 2, "int4": 4, "int8": 8, "uuid": 16, "text": None, "varchar": None}
# A value begins with a header: the number of coordinates and two empty bytes, or the number of bits.
HEADER = 4


def value_size(dtype: str, dim: int) -> int:
    """Return how many bytes a vector has."""
    return HEADER + {"float32": 4 * dim, "float16": 2 * dim, "bit": -(-dim // 8)}[dtype]


def decode(dtype: str, dim: int, values: Sequence[bytes]) -> np.ndarray:
    """Return vectors of one size as a matrix; bits as 0 and 1."""
    size = value_size(dtype, dim)
    body = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), size)[:, HEADER:]
    if dtype == "bit":
        return np.unpackbits(body, axis=1, count=dim).astype(np.float32)
    stored = ">f2" if dtype == "float16" else ">f4"
    return np.ascontiguousarray(body).view(stored).astype(dtype)


def copy_rows(key_type: str, dtype: str, keys: pa.Array, vectors: np.ndarray) -> bytes:
    """Return rows of a key and a vector for COPY, without its first and last bytes."""
    n, dim = vectors.shape
    header = struct.pack(">i", dim) if dtype == "bit" else struct.pack(">hh", dim, 0)
    if dtype == "bit":
        body = np.packbits(vectors, axis=1)
    else:
        body = vectors.astype(">f2" if dtype == "float16" else ">f4").view(np.uint8).reshape(n, -1)
    ends = _repeated(struct.pack(">i", value_size(dtype, dim)) + header, n)
    width = KEY_TYPES[key_type]
    if width is not None:
        starts = _repeated(struct.pack(">hi", 2, width), n)
        return np.concatenate([starts, _fixed(keys, width), ends, body], axis=1).tobytes()
    tails = np.concatenate([ends, body], axis=1)
    texts = [text.encode() for text in keys.to_pylist()]
    return b"".join(struct.pack(">hi", 2, len(t)) + t + tail.tobytes() for t, tail in zip(texts, tails, strict=True))


def _fixed(keys: pa.Array, width: int) -> np.ndarray:
    """Return keys of fixed width as bytes, a row each."""
    if width == KEY_TYPES["uuid"]:
        raw = b"".join(UUID(key).bytes for key in keys.to_pylist())
        return np.frombuffer(raw, np.uint8).reshape(len(keys), width)
    integers: np.ndarray = keys.to_numpy(zero_copy_only=False).astype(f">i{width}")
    return integers.view(np.uint8).reshape(len(keys), width)


def _repeated(data: bytes, n: int) -> np.ndarray:
    return np.broadcast_to(np.frombuffer(data, np.uint8), (n, len(data)))
