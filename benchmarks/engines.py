"""Translating and fitting whole files on an engine: memory per worker, rates, and what a second Dask worker adds.

``python -m benchmarks engines`` compares one Dask worker with two on the compute-bound part: the sums of a fit. Each
worker makes its rows itself, so that no disk is measured. ``python -m benchmarks.engines`` runs the two jobs that must
stay within 1 GiB per worker, each in a process of its own, and extrapolates what was measured to a billion rows::

    python -m benchmarks.engines --rows 5000000 --pairs 2000000 --dim 384 --engine processes --workers 2
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import RESULTS, Suite, Target
from relatent import Pairs, Translator, load, read_space
from relatent.engines import open_engine
from relatent.translate import translate_space

ROWS_PER_FILE = 500_000
BILLION = 1_000_000_000
# A usual machine.
CORES = 16
# Megabytes.
LIMIT = 1024


@dataclass(frozen=True)
class MakeAndSum:
    """Pairs of rows that a worker makes itself."""

    rows: int
    dim: int

    def __call__(self, shard: int) -> Pairs:
        """Draw a block of rows once and sum it up again and again, under other row numbers."""
        x = np.random.default_rng(shard).standard_normal((8_192, self.dim), dtype=np.float32)
        return Pairs.total(
            Pairs.of(x, x, start=shard * self.rows + start, size=1_000) for start in range(0, self.rows, len(x))
        )


def setup(rows: int, dim: int, shards: int) -> dict[str, Any]:
    """Start both clusters, and let their workers import what they need."""
    engines = {workers: open_engine("dask", workers) for workers in (1, 2)}
    for engine in engines.values():
        engine._threads = 1  # one core each, for both clusters
        engine.sum(MakeAndSum(8_192, 8), range(4))
    return {"engines": engines, "work": MakeAndSum(rows, dim), "shards": shards}


def on(workers: int) -> Any:
    """Return the contender that sums up all shards on ``workers`` workers."""
    return lambda engines, work, shards: engines[workers].sum(work, range(shards))


SUITE = Suite(
    title="Dask: the sums of a fit, one thread per worker",
    setup=setup,
    size={"rows": 65_536, "dim": 384, "shards": 16},
    quick={"rows": 16_384, "dim": 64, "shards": 8},
    contenders={"one worker": on(1), "two workers": on(2)},
    bare="one worker",
    peer="one worker",
    targets=[Target("two workers", over="one worker", at_least=1.6)],
    repeats=3,
)


def make(folder: Path, name: str, rows: int, dim: int, matrix: np.ndarray | None) -> None:
    """Write a folder of Parquet files: the same random vectors again and again under other ids, or their image."""
    (folder / name).mkdir(parents=True)
    block = np.random.default_rng(0).standard_normal((min(rows, 50_000), dim), dtype=np.float32)
    block = block if matrix is None else block @ matrix
    for start in range(0, rows, ROWS_PER_FILE):
        file, count = folder / name / f"{start:010d}.parquet", min(ROWS_PER_FILE, rows - start)
        writer = None
        for first in range(0, count, len(block)):
            x = block[: count - first]
            lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), dim)
            table = pa.table({"id": np.arange(start + first, start + first + len(x)), "vector": lists})
            writer = writer or pq.ParquetWriter(file, table.schema, compression="none", use_dictionary=["id"])
            writer.write_table(table)
        writer.close()


def peak(who: int) -> float:
    """Return the megabytes of resident memory that this process, or the largest of its children, held at most."""
    return resource.getrusage(who).ru_maxrss / (2**20 if platform.system() == "Darwin" else 1024)


def job(options: argparse.Namespace) -> dict[str, Any]:
    """Run one job in this process and its workers: seconds, and the memory of the process that held most."""
    folder, began = Path(options.folder), time.perf_counter()
    if options.job == "fit":
        t = Translator(map="ridge")
        with open_engine(options.engine, options.workers) as engine:
            spaces = read_space(folder / "old-fit"), read_space(folder / "new")
            t.fit(*spaces, held_out=0, max_pairs=options.pairs, engine=engine, progress=False)
        t.save(folder / "t.safetensors", overwrite=True)
    else:
        with open_engine(options.engine, options.workers) as engine:
            space, out = read_space(folder / "old"), folder / "translated"
            translate_space(load(folder / "t.safetensors"), space, out, engine=engine, progress=False)
    seconds = time.perf_counter() - began
    processes = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    used = [resource.getrusage(who) for who in processes]
    return {
        "seconds": seconds,
        "core_seconds": sum(one.ru_utime + one.ru_stime for one in used),
        "parent_mb": peak(processes[0]),
        "worker_mb": peak(processes[1]),
    }


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Make the files, run both jobs in processes of their own, and say what a billion rows would take."""
    with tempfile.TemporaryDirectory(prefix="relatent-engines-", dir=options.folder) as made:
        folder = Path(made)
        matrix = np.linalg.qr(np.random.default_rng(1).normal(size=(options.dim,) * 2))[0].astype(np.float32)
        make(folder, "new", options.pairs, options.dim, matrix)
        make(folder, "old-fit", options.pairs, options.dim, None)
        make(folder, "old", options.rows, options.dim, None)
        sizes = {"fit": options.pairs, "translate": options.rows}
        done = {name: {"rows": rows, **measured(name, folder, options)} for name, rows in sizes.items()}
        done["bytes"] = sum(file.stat().st_size for file in (folder / "translated").iterdir())
    return done


def measured(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Start this module again for one job."""
    words = ["--job", name, "--folder", str(folder), "--engine", options.engine, "--workers", str(options.workers)]
    command = [sys.executable, "-m", "benchmarks.engines", *words, "--pairs", str(options.pairs)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(shown.splitlines()[-1]))


def report(done: dict[str, Any]) -> str:
    """Say what was measured, and what follows for a billion rows.

    Core-seconds, unlike seconds, do not depend on what else the machine was doing. What they leave out is waiting for a
    disk or a network that cannot keep up.
    """
    lines = []
    for name in ("fit", "translate"):
        one = done[name]
        verdict = "within" if one["worker_mb"] <= LIMIT else "ABOVE"
        lines.append(
            f"{name}: {one['rows']:,} × {done['dim']} with {done['workers']} workers in {one['seconds']:,.0f} s; "
            f"{one['core_seconds']:,.0f} core-seconds, {one['rows'] / one['core_seconds']:,.0f} rows per core-second; "
            f"at most {one['worker_mb']:,.0f} MB in a worker, {verdict} 1 GiB; {one['parent_mb']:,.0f} MB in the parent"
        )
    hours = BILLION * done["translate"]["core_seconds"] / done["translate"]["rows"] / 3600
    stored = done["bytes"] / done["translate"]["rows"] * BILLION / 1e12
    lines.append(
        f"translating a billion rows: {hours:,.0f} core-hours, that is {hours / CORES:,.1f} hours on {CORES} cores, or "
        f"{hours * done['price']:,.2f} at {done['price']} per core-hour; {stored:.1f} TB to read and as much "
        f"to write, {stored * 1e6 / (hours / CORES * 3600):,.0f} MB/s each way to keep {CORES} cores busy"
    )
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--engine", default="processes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--price", type=float, default=0.05, help="what an hour of a core costs")
    parser.add_argument("--folder", default=None, help="where to make the files; needs about 13 GB")
    parser.add_argument("--again", action="store_true", help="print the last report again")
    parser.add_argument("--job", choices=["fit", "translate"], help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    given = parsed()
    if given.job:
        print(json.dumps(job(given)))
        sys.exit()
    results = RESULTS / "engines-files.json"
    if not given.again:
        RESULTS.mkdir(exist_ok=True)
        results.write_text(json.dumps({**vars(given), **run(given)}, indent=2) + "\n")
    print(report(json.loads(results.read_text())))
