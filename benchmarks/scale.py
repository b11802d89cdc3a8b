"""A large file translated in flat memory, and what bounds each step of a billion rows, from rates measured here.

::

    python -m benchmarks.scale --rows 20000000 --dim 256    # makes a float16 .npy, translates it, prints what it took
    python -m benchmarks.scale --billion                    # prints the table of docs/scale.md

The file is read from the disk: its pages are dropped from the cache first. Memory is that of the process which
translates, sampled while it runs, without pages of files, which the system takes back when it needs them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits
from xxhash import xxh3_64_intdigest

from benchmarks.stored import embeddings, save_translator
from relatent import load, read_space
from relatent.translate import translate_space

BILLION, DIM, CORES = 1_000_000_000, 768, 16
BLOCK, FILE_BYTES = 2**25, 2**32


def drop_cached(path: Path) -> None:
    """Have the next read of a file come from the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make(path: Path, rows: int, dim: int) -> None:
    """Write a block of vectors again and again, as float16."""
    block = embeddings(100_000, dim).astype(np.float16)
    with path.open("wb") as out:
        np.lib.format.write_array_header_1_0(out, {"descr": "<f2", "fortran_order": False, "shape": (rows, dim)})
        for start in range(0, rows, len(block)):
            out.write(block[: rows - start].data)
    drop_cached(path)


def translate(folder: Path) -> None:
    """Translate from file to file; print seconds, core-seconds, and the memory: of the first fifth, and of all."""
    held: list[int] = []
    threading.Thread(target=lambda: sample(held), daemon=True).start()
    start = time.perf_counter()
    translate_space(load(folder / "t.safetensors"), read_space(folder / "old.npy"), folder / "new.npy", progress=False)
    print(time.perf_counter() - start, time.process_time(), max(held[: len(held) // 5]), max(held))


def sample(held: list[int]) -> None:
    """Note again and again how many megabytes the process holds that are no pages of files."""
    while True:
        line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("RssAnon"))
        held.append(int(line.split()[1]) // 1024)
        time.sleep(0.1)


def run(folder: Path, rows: int, dim: int) -> str:
    """Make the file, translate it in a process of its own, and say what it took."""
    save_translator(folder / "t.safetensors", embeddings(4_000, dim))
    make(folder / "old.npy", rows, dim)
    command = [sys.executable, "-m", "benchmarks.scale", "--folder", str(folder), "--job"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, cores, early, most = map(float, shown.split())
    read, written = ((folder / name).stat().st_size / 1e9 for name in ("old.npy", "new.npy"))
    return (
        f"{rows:,} × {dim} float16 to float32 in {seconds:,.0f} s ({cores:,.0f} core-seconds): {read:.1f} GB read and "
        f"{written:.1f} GB written, {(read + written) / seconds:.2f} GB/s; at most {early:,.0f} MB held in the first "
        f"fifth of the time, {most:,.0f} MB in all of it"
    )


def rate(work: Callable[[], object], amount: float, times: int = 1) -> float:
    """Return how much is done in a second, at best."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return amount / min(seconds)


def write_bytes(path: Path) -> None:
    """Write and wait for the disk."""
    block = np.random.default_rng(0).bytes(BLOCK)
    with path.open("wb", buffering=0) as out:
        for _ in range(FILE_BYTES // BLOCK):
            out.write(block)
        os.fsync(out.fileno())


def read_bytes(path: Path) -> None:
    """Read all of a file into one buffer."""
    buffer = bytearray(BLOCK)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def billion(folder: Path) -> str:
    """Measure a core and the disk; print what a billion rows take by each."""
    x, matrix = embeddings(20_000, DIM), np.eye(DIM, dtype=np.float32)
    path, size = folder / "bytes", BILLION * DIM * 4
    with threadpool_limits(1, "blas"):
        product = rate(lambda: x @ matrix, len(x), 5)
    checksum = rate(lambda: [xxh3_64_intdigest(x.data)], x.nbytes, 5)
    written = rate(lambda: write_bytes(path), FILE_BYTES)
    drop_cached(path)
    read = rate(lambda: read_bytes(path), FILE_BYTES)
    lines = ["| step | bound by | measured here | one billion × 768 float32 |", "|---|---|---|---|"]
    steps = [("read", "disk", read), ("verify (XXH3)", "a core", checksum), ("write, fsync", "disk", written)]
    lines += [f"| {name} | {by} | {per / 1e9:.2f} GB/s | {size / per / 3600:.2f} hours |" for name, by, per in steps]
    hours = BILLION / product / 3600
    lines.append(
        f"| the product | cores (GEMM) | {product:,.0f} rows per core-second | {hours:.1f} core-hours, "
        f"{hours / CORES:.2f} hours on {CORES} cores |"
    )
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--billion", action="store_true", help="measure rates and print a table")
    parser.add_argument("--folder", default=None, help="where to make the files; 20 million × 256 need 31 GB")
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    given = parsed()
    if given.job:
        translate(Path(given.folder))
        sys.exit()
    with tempfile.TemporaryDirectory(prefix="relatent-scale-", dir=given.folder) as made:
        print(billion(Path(made)) if given.billion else run(Path(made), given.rows, given.dim))
