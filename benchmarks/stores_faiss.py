"""Filling a new field of a FAISS index file: scan, write, build; against translating and indexing vectors in memory.

"migrate apply" is all of the command: it looks whether the index is that of the translator, reads, translates by an
affine map, writes, keeps manifests, looks at the source again, and builds the index file that can be switched to.
"""

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
from benchmarks.stored import embeddings, rotation, save_translator
from relatent.migrate import apply_migration
from relatent.stores import Field, open_store


def setup(rows: int, dim: int) -> dict[str, Any]:
    """Write an index file of old vectors."""
    folder = Path(tempfile.mkdtemp(prefix="relatent-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    vectors = embeddings(rows, dim)
    save_translator(folder / "t.safetensors", vectors)
    index = faiss.IndexFlatIP(dim)
    index.add(vectors)
    faiss.write_index(index, str(folder / "items.faiss"))
    return {"folder": folder, "vectors": vectors, "matrix": rotation(dim)}


def bare(folder: Path, vectors: np.ndarray, matrix: np.ndarray) -> None:
    """Translate, add to an index, write it, and wait for the disk."""
    index = faiss.IndexFlatIP(matrix.shape[1])
    index.add(vectors @ matrix)
    faiss.write_index(index, str(folder / "bare.faiss"))
    with (folder / "bare.faiss").open("rb") as file:
        os.fsync(file.fileno())


def scan_and_write(folder: Path, matrix: np.ndarray, **_: Any) -> None:
    """Scan the index, translate and write the new field; its parts are durable, and its index is not built yet."""
    _written(folder, matrix)


def scan_write_and_build(folder: Path, matrix: np.ndarray, **_: Any) -> None:
    """Do the same, and build the index file that can be switched to."""
    with _written(folder, matrix) as store:
        store.build_index(store.new)


def migrate(folder: Path, **_: Any) -> None:
    """Do all that `relatent migrate apply` does."""
    with open_store(folder / "items.faiss") as store:
        _drop(store)
    url, work = folder / "items.faiss", folder / "work"
    apply_migration(folder / "t.safetensors", url, metric="inner", work=work, progress=False)


def _written(folder: Path, matrix: np.ndarray) -> Any:
    new = Field("new", matrix.shape[1], metric="inner")
    store = open_store(folder / "items.faiss")
    _drop(store)
    store.add(new)
    for chunk in store.scan(store.served):
        store.write(new, chunk.keys, chunk.vectors @ matrix)
    return store


def _drop(store: Any) -> None:
    if store.new is not None:
        store.drop_new()


SUITE = Suite(
    title="A new field of a FAISS index file",
    setup=setup,
    size={"rows": 200_000, "dim": 384},
    quick={"rows": 5_000, "dim": 64},
    contenders={
        "an index of vectors in memory": bare,
        "scan, translate and write": scan_and_write,
        "the same and build": scan_write_and_build,
        "migrate apply": migrate,
    },
    bare="an index of vectors in memory",
    peer="an index of vectors in memory",
    targets=[Target("migrate apply", "an index of vectors in memory", 0.7)],
)
