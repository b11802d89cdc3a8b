"""Steps that the tests of the contract share: reading, filling and comparing stores."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.stores.case import as_keys

from relatent.stores import Field, Store

NEW = Field("new", 5, "float32", "inner", {"translator": "a-to-b", "model": "b", "revision": "1"})

NEXT = Field("next", 7, "float32", "l2", {"translator": "b-to-c", "model": "c", "revision": "1"})


def new_vectors(keys: list[Any], dim: int = 5, seed: int = 9) -> np.ndarray:
    """The new vector of a key, whatever other keys are asked for."""
    rows = [np.random.default_rng([seed, *str(key).encode()]).normal(size=dim) for key in keys]
    return np.asarray(rows, dtype=np.float32).reshape(len(keys), dim)


def read(store: Store, of: Field, **options: Any) -> tuple[list[Any], np.ndarray]:
    chunks = list(store.scan(of, **options))
    keys = [key for chunk in chunks for key in chunk.keys.to_pylist()]
    vectors = [chunk.vectors for chunk in chunks]
    return keys, np.concatenate(vectors) if vectors else np.empty((0, of.dim), np.float32)


def fill(store: Store, new: Field = NEW, but: int = 0) -> list[Any]:
    """Add a field and write all items but the last few, in two parts."""
    store.add(new)
    keys = read(store, store.served)[0]
    keys = keys[: len(keys) - but]
    for part in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
        store.write(new, as_keys(part), new_vectors(part, new.dim))
    return keys


def snapshot(store: Store, of: Field) -> list[tuple[Any, ...]]:
    """Everything that was there before: keys, payload, and the bytes of the vectors."""
    rows = []
    for chunk in store.scan(of, columns=None):
        rows += [(*row.values(), v.tobytes()) for row, v in zip(chunk.others.to_pylist(), chunk.vectors, strict=True)]
    return rows


def brute_force(metric: str, queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    queries, vectors = queries.astype(np.float64), vectors.astype(np.float64)
    if metric == "l2":
        return -np.linalg.norm(queries[:, None] - vectors[None], axis=2)
    if metric == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return queries @ vectors.T
