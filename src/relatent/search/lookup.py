"""What can be searched: arrays, spaces, FAISS indexes, stores, or a function of one's own, all asked in one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relatent.evaluate.neighbors import nearest
from relatent.spaces.space import Space

__all__ = ["Lookup", "as_lookup"]

Lookup = Callable[[np.ndarray, int], list[list[Any]]]
"""A function of queries (n, d) and k that returns the keys of each query's nearest items, nearest first."""


def as_lookup(index: Any) -> Lookup:
    """Return a search function for an index of any kind.

    >>> as_lookup(np.eye(3))(np.asarray([[0.0, 2.0, 0.1]]), 2)
    [[1, 2]]
    """
    if isinstance(index, Space):
        return lambda queries, k: _nearest_keys(index.vectors, index.keys, queries, k)
    if isinstance(index, np.ndarray):
        return lambda queries, k: _nearest_keys(index, np.arange(len(index)), queries, k)
    if hasattr(index, "ntotal") and hasattr(index, "search"):
        return lambda queries, k: _faiss_ids(index, queries, k)
    if hasattr(index, "served") and hasattr(index, "search"):
        return lambda queries, k: index.search(queries, k).keys
    if callable(index):
        return lambda queries, k: [list(keys) for keys in index(queries, k)]
    raise ValueError(
        f"A {type(index).__name__} was given to search in: expected an array, a Space, a FAISS index, a store "
        "(relatent.stores.open_store) or a function of (vectors, k)."
    )


def _nearest_keys(vectors: np.ndarray, keys: np.ndarray, queries: np.ndarray, k: int) -> list[list[Any]]:
    rows = nearest(queries.astype(vectors.dtype, copy=False), vectors, min(k, len(vectors))).indices
    found: list[list[Any]] = keys[rows].tolist()
    return found


def _faiss_ids(index: Any, queries: np.ndarray, k: int) -> list[list[Any]]:
    """Search a FAISS index as it is; −1 fills up where it found less."""
    _, ids = index.search(np.ascontiguousarray(queries, dtype=np.float32), min(k, index.ntotal))
    return [[int(i) for i in row if i >= 0] for row in ids]
