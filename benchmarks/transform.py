"""Translating 100,000 rows, in float32 and in float16, and one vector, against the bare matrix product."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator


def setup(n: int, d: int) -> Inputs:
    """Fit an orthogonal translator and draw rows to translate, correlated and off-center, as models' are."""
    rng = np.random.default_rng(0)
    mixing, center = (rng.standard_normal((rows, d), dtype=np.float32) for rows in (d // 4, 1))
    anchors = rng.standard_normal((2 * d, d // 4), dtype=np.float32) @ mixing + 5 * center
    fitted = Translator(map="orthogonal").fit(anchors, anchors[:, ::-1] + 1)
    x = rng.standard_normal((n, d // 4), dtype=np.float32) @ mixing + 5 * center
    return {"t": fitted, "x": x, "half": x.astype(np.float16), "m": fitted.matrix_}


def small(t: Translator, x: np.ndarray, half: np.ndarray, m: np.ndarray) -> list[str]:
    """Time single vectors and small batches, in turn with the bare product."""
    vectors, batches = list(x[:2_000]), [x[i : i + 20] for i in range(0, 4_000, 20)]
    query, bare = microseconds({"query": t.query, "bare": lambda v: v @ m}, vectors)
    batch, bare_batch = microseconds({"transform": t.transform, "bare": lambda v: v @ m}, batches)
    verdict = "met" if query - bare <= 4 else "MISSED"
    shares = [f"{processor_share(t, rows, x, m):.2f}" for rows in (x, half)]
    return [
        f"query: {query:.1f} µs, bare product {bare:.1f} µs; target overhead ≤ 4 µs: {query - bare:.1f} — {verdict}",
        f"by CPU time: transform has {shares[0]} of the throughput of the bare product, of float16 {shares[1]}",
        f"20 rows, the minimum that is checked against the fitted space: {batch:.0f} µs, bare {bare_batch:.0f} µs",
    ]


def microseconds(calls: dict[str, Callable[[np.ndarray], object]], inputs: list[np.ndarray]) -> list[float]:
    """Return the median time of each call, timed in turn on each input."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for value in inputs:
        for name, call in calls.items():
            start = time.perf_counter()
            call(value)
            times[name].append(time.perf_counter() - start)
    return [1e6 * statistics.median(found) for found in times.values()]


def processor_share(t: Translator, rows: np.ndarray, x: np.ndarray, m: np.ndarray, repeats: int = 5) -> float:
    """Return the CPU time of the bare product over ours, the least of each: what a busy machine cannot blur."""
    times: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(repeats):
        for name, call in (("bare", lambda: x @ m), ("ours", lambda: t.transform(rows))):
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return min(times["bare"]) / min(times["ours"])


SUITE = Suite(
    title="transform",
    setup=setup,
    size={"n": 100_000, "d": 768},
    quick={"n": 5_000, "d": 256},
    contenders={
        "transform": lambda t, x, half, m: t.transform(x),
        "transform of float16": lambda t, x, half, m: t.transform(half),
        "x @ m + b in NumPy": lambda t, x, half, m: x @ m + t.offset_,
        "bare x @ m": lambda t, x, half, m: x @ m,
    },
    bare="bare x @ m",
    peer="x @ m + b in NumPy",
    targets=[
        Target("transform", over="bare x @ m", at_least=0.95),
        Target("transform of float16", over="bare x @ m", at_least=0.8),
    ],
    notes=small,
)
