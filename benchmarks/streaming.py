"""Stream a large space through a matrix product, file to file: throughput beside plain pyarrow, and resident memory.

Run with ``python -m benchmarks.streaming [rows] [dim]``. Each pass runs in a process of its own, so that its peak
resident memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_FILE = 250_000


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
    (folder / "plain").mkdir()
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


def ours(source: Path, target: Path, matrix: np.ndarray) -> None:
    """Do the same with relatent."""
    from relatent.spaces import read_space, space_writer

    with space_writer(target) as out:
        for chunk in read_space(source).chunks():
            out.write(chunk.with_vectors(chunk.vectors @ matrix))


def one(what: str, folder: Path, dim: int) -> None:
    """Run one pass and print its time and peak resident memory."""
    matrix = np.linalg.qr(np.random.default_rng(1).normal(size=(dim, dim)))[0].astype(np.float32)
    passes = {
        "plain parquet": lambda: plain_parquet(folder, matrix),
        "relatent parquet": lambda: ours(folder / "old", folder / "new", matrix),
        "plain npy": lambda: plain_npy(folder, matrix),
        "relatent npy": lambda: ours(folder / "old.npy", folder / "new.npy", matrix),
    }
    start = time.perf_counter()
    passes[what]()
    print(json.dumps({"what": what, "seconds": time.perf_counter() - start, "peak_mib": peak_mib()}))


def peak_mib() -> float:
    """Give the peak resident memory of this program; what getrusage says includes that of its parent (Linux only)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main(rows: int = 2_000_000, dim: int = 384) -> None:
    """Time every pass and print one table."""
    with tempfile.TemporaryDirectory() as name:
        make(Path(name), rows, dim)
        for what in ("plain parquet", "relatent parquet", "plain npy", "relatent npy"):
            command = [sys.executable, "-m", "benchmarks.streaming", "--one", what, name, str(dim)]
            result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rate = rows / result["seconds"]
            print(f"{what:18} {result['seconds']:6.1f} s  {rate:10,.0f} rows/s  {result['peak_mib']:7,.0f} MiB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(*map(int, sys.argv[1:]))
