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


def products(x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """All similarities, block by block, and nothing else: the bare operation."""
    block = np.empty((512, 2**15), dtype=y.dtype)
    for column in range(0, len(y), 2**15):
        part = y[column : column + 2**15]
        for row in range(0, len(x), 512):
            queries = x[row : row + 512]
            block[: len(queries), : len(part)] = queries @ part.T
    return block


SUITE = Suite(
    title="recall@10, exact, float32 (promise: a peak below 1,024 MB beyond the data)",
    setup=setup,
    size={"n": 1_000_000, "d": 256, "queries": 10_000},
    quick={"n": 50_000, "d": 64, "queries": 1_000},
    contenders={"recall": ours, "bare products": products},
    bare="bare products",
    peer="bare products",
    repeats=1,
)
