"""Files through a matrix product into files: relatent's chunks beside pyarrow and NumPy used by hand."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Suite, Target
from relatent.spaces import read_space, space_writer

ROWS_PER_FILE = 250_000
# Lives as long as the process, so that its files do.
PLACE = tempfile.TemporaryDirectory(prefix="relatent-streaming-")


def setup(n: int, d: int) -> dict[str, Any]:
    """Make the files once, and an orthogonal matrix."""
    folder = Path(PLACE.name)
    make(folder, n, d)
    matrix = np.linalg.qr(np.random.default_rng(1).normal(size=(d, d)))[0].astype(np.float32)
    return {"folder": folder, "matrix": matrix}


def fresh(path: Path) -> Path:
    """Remove what an earlier round left."""
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return path


def make(folder: Path, rows: int, dim: int) -> None:
    """Write the same random vectors as a folder of Parquet files with pyarrow's defaults, and as one .npy."""
    (folder / "old").mkdir()
    flat = np.lib.format.open_memmap(folder / "old.npy", mode="w+", dtype=np.float32, shape=(rows, dim))
    rng = np.random.default_rng(0)
    for part, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        stop = min(start + ROWS_PER_FILE, rows)
        vectors = rng.standard_normal((stop - start, dim), dtype=np.float32)
        flat[start:stop] = vectors
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), dim)
        pq.write_table(pa.table({"id": np.arange(start, stop), "vector": lists}), folder / f"old/{part:03d}.parquet")
    flat.flush()


def plain_parquet(folder: Path, matrix: np.ndarray) -> None:
    """Read, multiply and write with pyarrow alone, in batches of the same size and with its default settings."""
    fresh(folder / "plain").mkdir()
    for file in sorted((folder / "old").glob("*.parquet")):
        writer = None
        for batch in pq.ParquetFile(file).iter_batches(batch_size=21_845):
            column = batch.column("vector")
            new = column.flatten().to_numpy().reshape(len(column), -1) @ matrix
            lists = pa.FixedSizeListArray.from_arrays(pa.array(new.reshape(-1)), new.shape[1])
            table = pa.table({"id": batch.column("id"), "vector": lists})
            writer = writer or pq.ParquetWriter(folder / "plain" / file.name, table.schema)
            writer.write_table(table)
        if writer:
            writer.close()


def plain_npy(folder: Path, matrix: np.ndarray) -> None:
    """Read, multiply and write with NumPy alone."""
    old = np.load(folder / "old.npy", mmap_mode="r")
    shape = (len(old), matrix.shape[1])
    new = np.lib.format.open_memmap(folder / "plain.npy", mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, len(old), 21_845):
        new[start : start + 21_845] = old[start : start + 21_845] @ matrix
    new.flush()


def stream(source: Path, target: Path, matrix: np.ndarray) -> None:
    """Do the same with relatent."""
    with space_writer(fresh(target)) as out:
        for chunk in read_space(source).chunks():
            out.write(chunk.with_vectors(chunk.vectors @ matrix))


SUITE = Suite(
    title="files through a matrix product into files, float32",
    setup=setup,
    size={"n": 2_000_000, "d": 384},
    quick={"n": 100_000, "d": 384},
    contenders={
        "relatent, Parquet": lambda folder, matrix: stream(folder / "old", folder / "new", matrix),
        "relatent, npy": lambda folder, matrix: stream(folder / "old.npy", folder / "new.npy", matrix),
        "pyarrow by hand, Parquet": plain_parquet,
        "NumPy by hand, npy": plain_npy,
    },
    bare="NumPy by hand, npy",
    peer="pyarrow by hand, Parquet",
    targets=[
        Target("relatent, Parquet", over="pyarrow by hand, Parquet", at_least=0.7),
        Target("relatent, npy", over="NumPy by hand, npy", at_least=0.7),
    ],
    repeats=1,
)
