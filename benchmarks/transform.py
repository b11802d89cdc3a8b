"""Translating 100,000 rows, and one row, against the bare matrix product."""

import statistics
import time

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator


def setup(n: int, d: int) -> Inputs:
    """Fit an orthogonal translator and draw rows to translate."""
    rng = np.random.default_rng(0)
    anchors = rng.standard_normal((2 * d, d), dtype=np.float32)
    fitted = Translator(map="orthogonal").fit(anchors, anchors[:, ::-1] + 1)
    return {"t": fitted, "x": rng.standard_normal((n, d), dtype=np.float32), "m": fitted.matrix_}


def one_row(t: Translator, x: np.ndarray, m: np.ndarray) -> list[str]:
    """Time single rows, in turn with the bare product."""
    rows, times = [x[i : i + 1] for i in range(2_000)], {"ours": [], "bare": []}
    for row in rows:
        for name, call in (("ours", lambda r: t.transform(r)), ("bare", lambda r: r @ m)):
            start = time.perf_counter()
            call(row)
            times[name].append(time.perf_counter() - start)
    ours, bare = (1e6 * statistics.median(times[name]) for name in ("ours", "bare"))
    verdict = "met" if ours - bare <= 10 else "MISSED"
    return [
        f"one row: {ours:.1f} µs, bare product {bare:.1f} µs; target overhead ≤ 10 µs: {ours - bare:.1f} — {verdict}"
    ]


SUITE = Suite(
    title="transform, float32",
    setup=setup,
    size={"n": 100_000, "d": 768},
    quick={"n": 5_000, "d": 256},
    contenders={
        "transform": lambda t, x, m: t.transform(x),
        "x @ m + b in NumPy": lambda t, x, m: x @ m + t.offset_,
        "bare x @ m": lambda t, x, m: x @ m,
    },
    bare="bare x @ m",
    peer="x @ m + b in NumPy",
    targets=[Target("transform", over="bare x @ m", at_least=0.9)],
    notes=one_row,
)
