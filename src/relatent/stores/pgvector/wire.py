"""Rows as PostgreSQL sends and takes them in its binary format: keys, vectors, halfvecs and bits."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

Rows = bytes | memoryview
COPY_START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"
# The type of a column for each dtype of a field.
VECTOR_TYPES = {"float32": "vector", "float16": "halfvec", "bit": "bit"}
# What keys may be, and how they are written where their width is fixed.
KEY_TYPES = {"int2": ">i2", "int4": ">i4", "int8": ">i8", "uuid": "V16", "text": None, "varchar": None}


def value_size(dtype: str, dim: int) -> int:
    """Return how many bytes a vector has."""
    return _value(dtype, dim).itemsize


def decode(dtype: str, dim: int, values: bytes) -> np.ndarray:
    """Return vectors of one size that follow each other as a matrix; bits as 0 and 1."""
    body = np.frombuffer(values, _value(dtype, dim))["body"]
    if dtype == "bit":
        return np.unpackbits(body, axis=1, count=dim).astype(np.float32)
    return body.astype(dtype)


def copy_rows(key_type: str, dtype: str, keys: pa.Array, vectors: np.ndarray) -> Rows:
    """Return rows of a key and a vector for COPY, without its first and last bytes."""
    kind = KEY_TYPES[key_type]
    head: list[Any] = [] if kind is None else [("fields", ">i2"), ("key_size", ">i4"), ("key", kind)]
    value = _value(dtype, vectors.shape[1])
    rows = np.zeros(len(vectors), [*head, ("size", ">i4"), ("value", value)])
    rows["size"] = value.itemsize
    rows["value"]["dim"] = vectors.shape[1]
    rows["value"]["body"] = np.packbits(vectors, axis=1) if dtype == "bit" else vectors
    if kind is None:
        texts = [text.encode() for text in keys.to_pylist()]
        return b"".join(struct.pack(">hi", 2, len(t)) + t + row.tobytes() for t, row in zip(texts, rows, strict=True))
    rows["fields"], rows["key_size"] = 2, np.dtype(kind).itemsize
    rows["key"] = _fixed(keys, key_type)
    return rows.view(np.uint8).data  # as it stands in memory: a copy of it would take as long as the rest


def _value(dtype: str, dim: int) -> np.dtype:
    """Return how a vector is laid out: the number of its coordinates or bits, then these."""
    if dtype == "bit":
        return np.dtype([("dim", ">i4"), ("body", "u1", (-(-dim // 8),))])
    return np.dtype([("dim", ">i2"), ("unused", ">i2"), ("body", ">f2" if dtype == "float16" else ">f4", (dim,))])


def _fixed(keys: pa.Array, key_type: str) -> np.ndarray:
    if key_type == "uuid":
        return np.frombuffer(b"".join(UUID(key).bytes for key in keys.to_pylist()), "V16")
    return np.asarray(keys.to_numpy(zero_copy_only=False))
