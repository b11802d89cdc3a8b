"""Fitting a kernel ridge with every anchor as a center, and translating with it, against the linear ridge."""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator
from relatent.steps import Features, Map

# What a translation with few centers should take at most, in affine ones, where its multiplications allow that.
CENTERS, WIDTH, LIMIT = 1_000, 512, 5


def setup(n: int, d: int) -> Inputs:
    """Draw pairs with a curved relation that a kernel learns, float32."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32) * np.arange(1, d + 1, dtype=np.float32) ** -1
    turned = rng.standard_normal((d, d), dtype=np.float32)
    return {"x": x, "y": np.sin(x @ turned) + 0.1 * rng.standard_normal((n, d), dtype=np.float32)}


def translating(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Time translations in turn, and tell what the products alone would make of it: as fitted, and with few centers."""
    rng, d = np.random.default_rng(1), x.shape[1]
    m, centers = rng.standard_normal((d + CENTERS, WIDTH), dtype=np.float32), x[:CENTERS]
    offset = np.zeros(WIDTH, dtype=np.float32)
    few = Map(m[: d + len(centers)], offset, features=Features(centers, 2.0 * d)), Map(m[:d], offset)
    fitted = Translator().fit(x, y), Translator(max_cost="affine").fit(x, y)
    rows = np.concatenate([x, x])
    ratio, k = processor_ratio(lambda: few[0](rows), lambda: few[1](rows)), len(centers)
    multiplications = (d * k + (d + k) * WIDTH) / (d * WIDTH)
    allowed = "met" if ratio <= LIMIT else "MISSED"
    all_ratio = processor_ratio(lambda: fitted[0].transform(x), lambda: fitted[1].transform(x))
    return [
        f"CPU time of a kernel map over an affine one, {k:,} centers, {d} → {WIDTH}: {ratio:.1f}; "
        f"multiplications {multiplications:.1f}; target ≤ {LIMIT}: {allowed}",
        f"the same, as fitted on {len(x):,} pairs: {all_ratio:.1f}; multiplications {fitted[0].map_.cost:.1f}",
    ]


def processor_ratio(ours: Callable[[], object], other: Callable[[], object], repeats: int = 7) -> float:
    """Return the CPU time of one call over another's, the least of each, taken in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for call, found in zip((ours, other), times, strict=True):
            start = time.process_time()
            call()
            found.append(time.process_time() - start)
    return min(times[0]) / min(times[1])


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
