"""Filling a new field of a FAISS index file: scan, write, build; against indexing vectors that are ready."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.harness import Suite, Target
from relatent.stores import Field, open_store


def setup(rows: int, dim: int) -> dict[str, Any]:
    """Write an index file of old vectors."""
    folder = Path(tempfile.mkdtemp(prefix="relatent-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    vectors = np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float32)
    index = faiss.IndexFlatIP(dim)
    index.add(vectors)
    faiss.write_index(index, str(folder / "items.faiss"))
    return {"folder": folder, "vectors": vectors}


def bare(folder: Path, vectors: np.ndarray) -> None:
    """Add to an index, write it, and wait for the disk."""
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(folder / "bare.faiss"))
    with (folder / "bare.faiss").open("rb") as file:
        os.fsync(file.fileno())


def apply(folder: Path, vectors: np.ndarray) -> None:
    """Scan the index and write the new field; its parts are durable, and its index is not built yet."""
    _written(folder, vectors.shape[1])


def apply_and_build(folder: Path, vectors: np.ndarray) -> None:
    """Do the same, and build the index file that can be switched to."""
    with _written(folder, vectors.shape[1]) as store:
        store.build_index(store.new)


def _written(folder: Path, dim: int) -> Any:
    new = Field("new", dim, metric="inner")
    store = open_store(folder / "items.faiss")
    if store.new is not None:
        store.drop_new()
    store.add(new)
    for chunk in store.scan(store.served):
        store.write(new, chunk.keys, chunk.vectors)
    return store


SUITE = Suite(
    title="A new field of a FAISS index file",
    setup=setup,
    size={"rows": 200_000, "dim": 384},
    quick={"rows": 5_000, "dim": 64},
    contenders={"an index of vectors in memory": bare, "apply": apply, "apply and build": apply_and_build},
    bare="an index of vectors in memory",
    peer="an index of vectors in memory",
    targets=[Target("apply", "an index of vectors in memory", 0.7)],
)
