"""Reading and writing an ``.npy`` of ours beside NumPy: mapped, read, verified, and written with the same fsync.

A reader looks at every number once, so that what is mapped is read too. The file is in the page cache: no disk is
measured, but for what fsync waits for.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Suite, Target
from benchmarks.stored import embeddings
from relatent.spaces import Space, read_space, write_space

HELD = tempfile.TemporaryDirectory(prefix="relatent-files-")


def setup(n: int, d: int) -> dict[str, Any]:
    """Write the file once."""
    vectors, path = embeddings(n, d), Path(HELD.name) / "old.npy"
    write_space(Space(vectors), path, overwrite=True)
    return {"vectors": vectors, "path": path}


def look(vectors: np.ndarray) -> None:
    """Look at every number, as fast as memory allows."""
    for start in range(0, len(vectors), 4_096):
        vectors[start : start + 4_096].view(np.uint64).sum()


def look_at_chunks(path: Path) -> None:
    """Read a chunk at a time."""
    for chunk in read_space(path).chunks():
        look(chunk.vectors)


def plain_write(vectors: np.ndarray, path: Path) -> None:
    """Write with NumPy to a new file, and wait for the disk."""
    with path.with_name("plain.npy").open("wb") as file:
        np.save(file, vectors)
        file.flush()
        os.fsync(file.fileno())
    path.with_name("plain.npy").unlink()


def our_write(vectors: np.ndarray, path: Path) -> None:
    """Write with checksums and a fingerprint, atomically."""
    write_space(Space(vectors), path.with_name("new.npy"))
    path.with_name("new.npy").unlink()


READERS: dict[str, Callable[..., None]] = {
    "NumPy, mapped": lambda vectors, path: look(np.load(path, mmap_mode="r")),
    "NumPy, read": lambda vectors, path: look(np.load(path)),
    "relatent, vectors": lambda vectors, path: look(read_space(path).vectors),
    "relatent, vectors, verify=False": lambda vectors, path: look(read_space(path, verify=False).vectors),
    "relatent, chunks": lambda vectors, path: look_at_chunks(path),
}


def rates(vectors: np.ndarray, path: Path) -> list[str]:
    """Return the best rate of each reader."""
    lines = []
    for name, read in READERS.items():
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            read(vectors=vectors, path=path)
            seconds.append(time.perf_counter() - start)
        lines.append(f"{name}: {vectors.nbytes / min(seconds) / 1e9:.1f} GB/s at best")
    return lines


SUITE = Suite(
    title="an .npy read and written, float32",
    setup=setup,
    size={"n": 500_000, "d": 384},
    quick={"n": 200_000, "d": 384},
    contenders={**READERS, "NumPy, written": plain_write, "relatent, written": our_write},
    bare="NumPy, mapped",
    peer="NumPy, read",
    targets=[
        Target("relatent, vectors", over="NumPy, mapped", at_least=0.3),
        Target("relatent, vectors, verify=False", over="NumPy, mapped", at_least=0.9),
        Target("relatent, chunks", over="NumPy, read", at_least=1.0),
        Target("relatent, written", over="NumPy, written", at_least=0.9),
    ],
    notes=rates,
)
