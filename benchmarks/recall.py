"""Recall of a sample of queries in a million vectors: time, and memory beyond the data."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Inputs, Suite
from relatent import evaluate

K = 10


def setup(n: int, d: int, queries: int) -> Inputs:
    """Draw a gallery, and noisy copies of some of its rows as queries."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((n, d), dtype=np.float32)
    rows = np.sort(rng.choice(n, queries, replace=False))
    return {"x": y[rows] + rng.standard_normal((queries, d), dtype=np.float32), "y": y, "rows": rows}


def ours(x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> float:
    """Exact recall@10."""
    return evaluate.recall(x, y, k=K, relevant=rows)


def with_faiss(x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> float:
    """Ask a flat index, which holds a copy of the gallery."""
    import faiss

    index = faiss.IndexFlatIP(y.shape[1])
    for start in range(0, len(y), 2**16):
        part = y[start : start + 2**16]
        index.add(part / np.linalg.norm(part, axis=1, keepdims=True))
    found = index.search(x, K)[1]
    return float(np.mean(np.any(found == rows[:, None], axis=1)))


SUITE = Suite(
    title="recall@10, float32",
    setup=setup,
    size={"n": 1_000_000, "d": 256, "queries": 10_000},
    quick={"n": 50_000, "d": 64, "queries": 1_000},
    contenders={"recall": ours, "FAISS flat": with_faiss},
    bare="recall",
    peer="FAISS flat",
    repeats=1,
)
