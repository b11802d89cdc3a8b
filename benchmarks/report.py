"""The report of two files of 100,000 × 768 vectors, compared with reading both files and fitting on all pairs."""

import atexit
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Space, Translator, read_space, write_space
from relatent.report import make_report, write_report

# Limits of the report at its full size: its time, and the size of its page.
MAX_SECONDS, MAX_BYTES = 30, 1_000_000


def setup(n: int, d: int) -> Inputs:
    """Write two files that differ by a rotation and noise, with a decaying spectrum."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32) * np.arange(1, d + 1, dtype=np.float32) ** -0.5
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0].astype(np.float32)
    y = x @ turn + 0.05 * rng.standard_normal((n, d), dtype=np.float32)
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    paths = [Path(folder.name, f"{name}.parquet") for name in ("old", "new")]
    for path, vectors in zip(paths, (x, y), strict=True):
        write_space(Space(vectors, [f"item {i}" for i in range(n)]), path)
    return {"old": paths[0], "new": paths[1]}


def report(old: Path, new: Path) -> Path:
    """Make the report and write the page."""
    path = old.with_name("report.html")
    write_report(make_report(Translator(), read_space(old), read_space(new)), path, overwrite=True)
    return path


def fit(old: Path, new: Path) -> None:
    """Fit an affine map on all pairs that are not held out, as `relatent fit` does."""
    Translator(max_cost="affine").fit(read_space(old), read_space(new), held_out=0.2, progress=False)


def read(old: Path, new: Path) -> float:
    """Read every vector of both files."""
    return sum(float(chunk.vectors[0, 0]) for path in (old, new) for chunk in read_space(path).chunks())


def notes(old: Path, new: Path) -> list[str]:
    """Return the time and the size of a report beside their targets."""
    start, worked = time.perf_counter(), time.process_time()
    size = report(old, new).stat().st_size
    seconds, work = time.perf_counter() - start, time.process_time() - worked
    return [
        f"the report took {seconds:.1f} s, {work:.1f} s of work (target: under {MAX_SECONDS} s)",
        f"its page has {size:,} bytes (target: under {MAX_BYTES:,})",
    ]


SUITE = Suite(
    title="report of two files",
    setup=setup,
    size={"n": 100_000, "d": 768},
    quick={"n": 3_000, "d": 64},
    contenders={"report": report, "fit": fit, "read": read},
    bare="read",
    peer="fit",
    targets=[Target("report", over="fit", at_least=0.25)],
    notes=notes,
    repeats=3,
)
