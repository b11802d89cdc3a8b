"""Fitting a kernel ridge with every anchor as a center, and translating with it, against the linear ridge."""

import statistics
import time

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator


def setup(n: int, d: int) -> Inputs:
    """Draw pairs with a curved relation, float32."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32) * np.arange(1, d + 1, dtype=np.float32) ** -0.5
    turned = rng.standard_normal((d, d), dtype=np.float32)
    return {"x": x, "y": np.sin(x @ turned) + 0.1 * rng.standard_normal((n, d), dtype=np.float32)}


def translating(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Time the two translations in turn, and tell what the products alone would make of it."""
    kernel, affine = Translator().fit(x, y), Translator(max_cost="affine").fit(x, y)
    times: dict[str, list[float]] = {"kernel": [], "affine": []}
    for _ in range(5):
        for name, t in (("kernel", kernel), ("affine", affine)):
            start = time.perf_counter()
            t.transform(x)
            times[name].append(time.perf_counter() - start)
    ratio = statistics.median(times["kernel"]) / statistics.median(times["affine"])
    return [f"transform of a kernel map over an affine one: {ratio:.1f}; multiplications {kernel.map_.cost:.1f}"]


SUITE = Suite(
    title="kernel ridge, float32",
    setup=setup,
    size={"n": 3_000, "d": 384},
    quick={"n": 400, "d": 64},
    contenders={
        "vectors (auto)": lambda x, y: Translator().fit(x, y),
        "linear ridge": lambda x, y: Translator(map="ridge").fit(x, y),
        "bare products": lambda x, y: (x.T @ x, x.T @ y),
    },
    bare="bare products",
    peer="linear ridge",
    targets=[Target("vectors (auto)", over="linear ridge", at_least=0.1)],
    notes=translating,
    repeats=3,
)
