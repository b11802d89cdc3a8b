"""Filling a new column of a Lance table: scan, translate, write, merge; against writing a table of ready vectors."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from benchmarks.harness import Suite, Target
from relatent.spaces.formats.columns import as_lists
from relatent.stores import Field, open_store


def setup(rows: int, dim: int) -> dict[str, Any]:
    """Write a table of old vectors."""
    folder = Path(tempfile.mkdtemp(prefix="relatent-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(rows, dim)).astype(np.float32)
    lance.write_dataset(_table(vectors), str(folder / "items.lance"))
    matrix = np.linalg.qr(rng.normal(size=(dim, dim)))[0].astype(np.float32)
    return {"folder": folder, "vectors": vectors, "matrix": matrix}


def _table(vectors: np.ndarray) -> pa.Table:
    return pa.table({"id": np.arange(len(vectors)), "vector": as_lists(vectors)})


def bare(folder: Path, vectors: np.ndarray, matrix: np.ndarray) -> None:
    """Translate, and write keys and vectors as a table of its own."""
    lance.write_dataset(_table(vectors @ matrix), str(folder / "bare.lance"), mode="overwrite")


def apply(folder: Path, matrix: np.ndarray, **_: Any) -> None:
    """Scan the table, translate, and write the new field; its parts are durable, and not merged into the column yet."""
    _written(folder, matrix)


def apply_and_merge(folder: Path, matrix: np.ndarray, **_: Any) -> None:
    """Do the same, and merge the column that can be switched to."""
    with _written(folder, matrix) as store:
        store.build_index(store.new)


def _written(folder: Path, matrix: np.ndarray) -> Any:
    new = Field("new", matrix.shape[1], metric="inner")
    store = open_store(folder / "items.lance")
    if store.new is not None:
        store.drop_new()
    store.add(new)
    for chunk in store.scan(store.served):
        store.write(new, chunk.keys, chunk.vectors @ matrix)
    return store


SUITE = Suite(
    title="A new column of a Lance table",
    setup=setup,
    size={"rows": 200_000, "dim": 384},
    quick={"rows": 5_000, "dim": 64},
    contenders={"a table of vectors in memory": bare, "apply": apply, "apply and merge": apply_and_merge},
    bare="a table of vectors in memory",
    peer="a table of vectors in memory",
    targets=[Target("apply", "a table of vectors in memory", 0.7)],
)
