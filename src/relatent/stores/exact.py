"""Exact search over a scan, for stores whose engine has none: every vector is compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from relatent.evaluate.neighbors import nearest
from relatent.spaces.chunks import Chunk
from relatent.stores.store import Hits

METRICS = {"cosine": "cosine", "inner": "inner", "l2": "euclidean"}


def exact_search(chunks: Iterable[Chunk], queries: np.ndarray, k: int, metric: str) -> Hits:
    """Return the k best items of each query among the items of all chunks."""
    keys: list[list[Any]] = [[] for _ in queries]
    scores = np.full((len(queries), k), -np.inf, np.float32)
    for chunk in chunks:
        if not len(chunk) or chunk.keys is None:
            continue
        found = nearest(queries, chunk.vectors, min(k, len(chunk)), METRICS[metric], method="exact")
        names = chunk.keys.to_pylist()
        for row, (rows, fresh) in enumerate(zip(found.indices, found.similarities, strict=True)):
            both = np.concatenate([scores[row, : len(keys[row])], fresh])
            every = [*keys[row], *(names[i] for i in rows)]
            best = np.argsort(-both, kind="stable")[:k]
            keys[row], scores[row, : len(best)] = [every[i] for i in best], both[best]
    return Hits(keys, scores)
