"""``relatent translate`` on files beside pyarrow and NumPy used by hand: read, one matrix product, write.

By hand means the same batches, the same product and the same settings for writing Parquet (vectors plain and
uncompressed), without keys to carry along, fingerprints, checks for NaN or atomic writes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Suite, Target
from relatent.spaces import read_space
from relatent.translate import Translator, translate_space

ROWS_PER_FILE = 250_000
# The processes that measure memory find here what the first one made.
PLACE = "RELATENT_STREAMING_FOLDER"
if PLACE not in os.environ:
    HELD = tempfile.TemporaryDirectory(prefix="relatent-streaming-")
    os.environ[PLACE] = HELD.name


def setup(n: int, d: int) -> dict[str, Any]:
    """Make the files once, and fit an orthogonal map on their first rows."""
    folder = Path(os.environ[PLACE]) / f"{n}x{d}"
    if not (folder / "done").exists():  # in a process of its own, so that its memory is not counted here
        subprocess.run([sys.executable, "-m", "benchmarks.streaming", str(folder), str(n), str(d)], check=True)
    rows = np.array(np.load(folder / "old.npy", mmap_mode="r")[:4096])
    matrix = np.linalg.qr(np.random.default_rng(1).normal(size=(d, d)))[0].astype(np.float32)
    return {"folder": folder, "translator": Translator(map="orthogonal").fit(rows, rows @ matrix)}


def fresh(path: Path) -> Path:
    """Remove what an earlier round left."""
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return path


def make(folder: Path, rows: int, dim: int) -> None:
    """Write the same random vectors as a folder of Parquet files with pyarrow's defaults, and as one .npy."""
    (folder / "old").mkdir(parents=True)
    flat = np.lib.format.open_memmap(folder / "old.npy", mode="w+", dtype=np.float32, shape=(rows, dim))
    rng = np.random.default_rng(0)
    for part, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        stop = min(start + ROWS_PER_FILE, rows)
        vectors = rng.standard_normal((stop - start, dim), dtype=np.float32)
        flat[start:stop] = vectors
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), dim)
        pq.write_table(pa.table({"id": np.arange(start, stop), "vector": lists}), folder / f"old/{part:03d}.parquet")
    flat.flush()
    (folder / "done").touch()


def plain_parquet(folder: Path, translator: Translator) -> None:
    """Read, multiply and write with pyarrow alone, in batches of the same size and with the same settings."""
    fresh(folder / "plain").mkdir()
    matrix, offset = translator.matrix_, translator.offset_
    settings = {
        "compression": {"id": "zstd", "vector.list.element": "none"},
        "use_dictionary": ["id"],
        "write_statistics": ["id"],
    }
    for file in sorted((folder / "old").glob("*.parquet")):
        writer = None
        for batch in pq.ParquetFile(file).iter_batches(batch_size=21_845):
            column = batch.column("vector")
            new = column.flatten().to_numpy().reshape(len(column), -1) @ matrix + offset
            lists = pa.FixedSizeListArray.from_arrays(pa.array(new.reshape(-1)), new.shape[1])
            table = pa.table({"id": batch.column("id"), "vector": lists})
            writer = writer or pq.ParquetWriter(folder / "plain" / file.name, table.schema, **settings)
            writer.write_table(table)
        if writer:
            writer.close()
    synced(folder / "plain")


def plain_npy(folder: Path, translator: Translator) -> None:
    """Read, multiply and write with NumPy alone."""
    old = np.load(folder / "old.npy", mmap_mode="r")
    matrix, offset = translator.matrix_, translator.offset_
    with fresh(folder / "plain.npy").open("wb") as out:
        shape = (len(old), matrix.shape[1])
        np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for start in range(0, len(old), 21_845):
            out.write((old[start : start + 21_845] @ matrix + offset).data)
    synced(folder / "plain.npy")


def synced(path: Path) -> None:
    """Wait until what was written is on the disk, as relatent does before it gives a file its name."""
    for file in [path, *path.glob("*")]:
        if file.is_file():
            with file.open("rb+") as written:
                os.fsync(written.fileno())


def stream(source: Path, target: Path, translator: Translator) -> None:
    """Run what `relatent translate` runs."""
    translate_space(translator, read_space(source), fresh(target))


SUITE = Suite(
    title="relatent translate on files, float32",
    setup=setup,
    size={"n": 2_000_000, "d": 384},
    quick={"n": 100_000, "d": 384},
    contenders={
        "relatent, Parquet": lambda folder, translator: stream(folder / "old", folder / "new", translator),
        "relatent, npy": lambda folder, translator: stream(folder / "old.npy", folder / "new.npy", translator),
        "pyarrow by hand, Parquet": plain_parquet,
        "NumPy by hand, npy": plain_npy,
    },
    bare="NumPy by hand, npy",
    peer="pyarrow by hand, Parquet",
    targets=[
        Target("relatent, Parquet", over="pyarrow by hand, Parquet", at_least=0.95),
        Target("relatent, npy", over="NumPy by hand, npy", at_least=0.95),
    ],
    repeats=3,
)

if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
