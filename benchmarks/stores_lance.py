"""Filling a new column of a Lance table: scan, translate, write, merge; against translating in memory and writing.

"migrate apply" is all of the command: it looks whether the table is that of the translator, reads, translates by an
affine map, writes, keeps manifests, looks at the source again, and merges the column.
"""

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
from benchmarks.stored import embeddings, rotation, save_translator
from relatent.migrate import apply_migration
from relatent.spaces.io.columns import as_lists
from relatent.stores import Field, open_store


def setup(rows: int, dim: int) -> dict[str, Any]:
    """Write a table of old vectors."""
    folder = Path(tempfile.mkdtemp(prefix="relatent-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    vectors = embeddings(rows, dim)
    save_translator(folder / "t.safetensors", vectors)
    lance.write_dataset(_table(vectors), str(folder / "items.lance"))
    return {"folder": folder, "vectors": vectors, "matrix": rotation(dim)}


def _table(vectors: np.ndarray) -> pa.Table:
    return pa.table({"id": np.arange(len(vectors)), "vector": as_lists(vectors)})


def bare(folder: Path, vectors: np.ndarray, matrix: np.ndarray) -> None:
    """Translate, and write keys and vectors as a table of its own."""
    lance.write_dataset(_table(vectors @ matrix), str(folder / "bare.lance"), mode="overwrite")


def scan_and_write(folder: Path, matrix: np.ndarray, **_: Any) -> None:
    """Scan the table, translate, and write the new field; its parts are durable, and not merged into the column yet."""
    _written(folder, matrix)


def scan_write_and_merge(folder: Path, matrix: np.ndarray, **_: Any) -> None:
    """Do the same, and merge the column that can be switched to."""
    with _written(folder, matrix) as store:
        store.build_index(store.new)


def migrate(folder: Path, **_: Any) -> None:
    """Do all that `relatent migrate apply` does."""
    with open_store(folder / "items.lance") as store:
        _drop(store)
    apply_migration(folder / "t.safetensors", folder / "items.lance", work=folder / "work", progress=False)


def _written(folder: Path, matrix: np.ndarray) -> Any:
    new = Field("new", matrix.shape[1], metric="inner")
    store = open_store(folder / "items.lance")
    _drop(store)
    store.add(new)
    for chunk in store.scan(store.served):
        store.write(new, chunk.keys, chunk.vectors @ matrix)
    return store


def _drop(store: Any) -> None:
    if store.new is not None:
        store.drop_new()


SUITE = Suite(
    title="A new column of a Lance table",
    setup=setup,
    size={"rows": 200_000, "dim": 384},
    quick={"rows": 5_000, "dim": 64},
    contenders={
        "a table of vectors in memory": bare,
        "scan, translate and write": scan_and_write,
        "the same and merge": scan_write_and_merge,
        "migrate apply": migrate,
    },
    bare="a table of vectors in memory",
    peer="a table of vectors in memory",
    targets=[Target("migrate apply", "a table of vectors in memory", 0.7)],
)
