"""Fitting on two files of 2,000,000 rows in chunks, within 1 GiB of memory."""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Pairs, Translator, read_space

ROWS = 16_384


def setup(n: int, d: int) -> Inputs:
    """Write two parallel spaces, chunk by chunk."""
    folder = tempfile.TemporaryDirectory(prefix="relatent-bench-")
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((d, d)))[0].astype(np.float32)
    paths = [Path(folder.name) / name for name in ("old.npy", "new.npy")]
    old, new = (np.lib.format.open_memmap(p, mode="w+", dtype=np.float32, shape=(n, d)) for p in paths)
    for start in range(0, n, ROWS):
        x = rng.standard_normal((min(ROWS, n - start), d), dtype=np.float32)
        old[start : start + len(x)], new[start : start + len(x)] = x, x @ q
    old.flush()
    new.flush()
    return {"folder": folder, "old": paths[0], "new": paths[1]}


def streamed(folder: object, old: Path, new: Path) -> Translator:
    """Sum up chunk after chunk, solve once."""
    parts: list[Pairs] = []
    for x, y in zip(read_space(old).chunks(ROWS), read_space(new).chunks(ROWS), strict=True):
        parts = Pairs.collected([*parts, Pairs.of(x.vectors, y.vectors, start=x.start, full_y=False)])
    return Translator(map="ridge").fit(Pairs.total(parts))


def bare(folder: object, old: Path, new: Path) -> np.ndarray:
    """Read the same chunks and multiply out the two products that a ridge needs, in float64."""
    x, y = np.load(old, mmap_mode="r"), np.load(new, mmap_mode="r")
    xx, xy = np.zeros((x.shape[1],) * 2), np.zeros((x.shape[1], y.shape[1]))
    for start in range(0, len(x), ROWS):
        a, b = (s[start : start + ROWS].astype(np.float64) for s in (x, y))
        xx += a.T @ a
        xy += a.T @ b
    return xy


SUITE = Suite(
    title="streaming fit of a ridge from two files, float32",
    setup=setup,
    size={"n": 2_000_000, "d": 384},
    quick={"n": 100_000, "d": 64},
    contenders={"pairs": streamed, "read and multiply": bare},
    bare="read and multiply",
    peer="read and multiply",
    targets=[Target("pairs", over="read and multiply", at_least=0.5)],
    repeats=1,
)
