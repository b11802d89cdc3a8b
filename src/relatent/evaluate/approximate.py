"""Approximate search with FAISS, for galleries where an exact one would take minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relatent._array import Array, row_chunks, to_numpy
from relatent._linalg import unit_norm
from relatent.evaluate.neighbors import Neighbors

__all__ = ["approximate"]

# Training vectors per list, and the share of lists that a query visits. The tests hold the result to 0.9 of the true
# neighbors on small clustered data; nothing larger was measured.
TRAIN_PER_LIST = 64
VISITED_SHARE = 0.05
CHUNK_ROWS = 2**16


def approximate(
    x: Array, gallery: Array, k: int, metric: str, otherwise: Callable[[Array, Array, int, str], Neighbors]
) -> Neighbors:
    """Search an inverted file of about 4√m lists; queries whose lists hold fewer than k rows go to ``otherwise``."""
    x, gallery = to_numpy(x), to_numpy(gallery)
    index = _index(gallery, metric)
    similarities, indices = index.search(_prepared(x, metric), k)
    # FAISS measures squared distances, which by rounding can fall below zero.
    similarities = -np.sqrt(np.maximum(similarities, 0)) if metric == "euclidean" else similarities
    short = np.flatnonzero(np.any(indices < 0, axis=1))
    if len(short):
        mended = otherwise(x[short], gallery, k, metric)
        indices[short], similarities[short] = mended.indices, mended.similarities
    return Neighbors(indices, similarities.astype(x.dtype, copy=False))


def _index(gallery: np.ndarray, metric: str) -> Any:
    faiss = _faiss()
    m, d = gallery.shape
    lists = int(max(1, min(4 * m**0.5, m // TRAIN_PER_LIST)))
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    index = faiss.IndexIVFFlat(faiss.IndexFlat(d, kind), d, lists, kind)
    sample = np.random.default_rng(0).permutation(m)[: TRAIN_PER_LIST * lists]
    index.train(_prepared(gallery[np.sort(sample)], metric))
    for rows in row_chunks(m, CHUNK_ROWS):
        index.add(_prepared(gallery[rows], metric))
    index.nprobe = int(min(lists, max(8, round(VISITED_SHARE * lists))))
    return index


def _prepared(rows: np.ndarray, metric: str) -> np.ndarray:
    return np.ascontiguousarray(unit_norm(rows) if metric == "cosine" else rows, dtype=np.float32)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "Approximate search needs FAISS: pip install 'relatent[faiss]', or use method=\"exact\"."
        ) from error
    return faiss
