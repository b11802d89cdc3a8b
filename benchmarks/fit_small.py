"""Fitting from 300 to 3,000 anchors, in thin SVDs of both sides' anchors, all with one thread of BLAS.

An SVD of each side is what a closed-form map of these anchors takes at least; the fits also choose among maps, on
held-out anchors.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator
from relatent._linalg import ONE_THREAD

GOALS = {
    "retrieval": {"goal": "retrieval"},
    "frozen target": {"goal": "retrieval", "frozen_target": True},
    "stitching": {"goal": "stitching"},
    "index": {"goal": "index"},
    "vectors": {},
    "orthogonal": {"map": "orthogonal"},
    "least_squares": {"map": "least_squares"},
}
# At most this many SVDs, and seconds of what does not grow with the anchors: fingerprints and checks.
MOST = {
    "retrieval": 8.0,
    "frozen target": 8.0,
    "stitching": 6.0,
    "vectors": 3.0,
    "orthogonal": 0.5,
    "least_squares": 0.5,
}
FIXED = {"orthogonal": 0.03, "least_squares": 0.03}
ANCHORS, DIMS = (300, 1_000, 3_000), ((384, 512), (768, 768), (1_536, 1_024))
# Rounds, and entries of a side from which on one is enough: it takes minutes.
ROUNDS, LARGE = 3, 700_000


def setup(n: int, dx: int, dy: int) -> Inputs:
    """Draw anchors of two encoders: a falling spectrum, a slightly curved relation, noise and a mean, in float32."""
    rng, shared = np.random.default_rng(0), min(dx, dy)
    latent = rng.standard_normal((n, shared)) * np.arange(1, shared + 1) ** -0.5
    x, y = (
        np.tanh(latent @ rng.standard_normal((shared, d)) / 4)
        + 0.1 * rng.standard_normal((n, d))
        + 0.3 * rng.standard_normal(d)
        for d in (dx, dy)
    )
    return {"x": x.astype(np.float32), "y": y.astype(np.float32)}


def decompositions(x: np.ndarray, y: np.ndarray) -> None:
    """Take the thin SVD of each side."""
    with ONE_THREAD:
        for side in (x, y):
            np.linalg.svd(side, full_matrices=False)


def fit(**settings: object) -> Callable[..., Translator]:
    """Fit with settings."""
    return lambda x, y: Translator(**settings).fit(x, y)


def grid(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Measure all sizes, in turn, by CPU time: a table of SVDs, and how many cells meet the target."""
    lines, met = [], dict.fromkeys(MOST, 0)
    for n in ANCHORS:
        for dims in DIMS:
            times = timed(setup(n, *dims))
            unit = times.pop("SVDs")
            lines.append(
                f"{n:>5} × {dims!s:<12} SVDs {unit:.3f} s; "
                + ", ".join(f"{k} {t / unit:.1f}" for k, t in times.items())
            )
            for name, most in MOST.items():
                met[name] += times[name] <= most * unit + FIXED.get(name, 0.0)
    cells = len(ANCHORS) * len(DIMS)
    return [*lines, *(f"{name} ≤ {MOST[name]:g} SVDs: {count} of {cells} sizes" for name, count in met.items())]


def timed(inputs: Inputs) -> dict[str, float]:
    """Return the median CPU time of each fit, and of the SVDs."""
    calls = {"SVDs": decompositions} | {name: fit(**settings) for name, settings in GOALS.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS if inputs["x"].size < LARGE else 1):
        for name, call in calls.items():
            start = time.process_time()
            call(**inputs)
            times[name].append(time.process_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


SUITE = Suite(
    title="fit of few anchors, float32",
    setup=setup,
    size={"n": 1_000, "dx": 384, "dy": 512},
    quick={"n": 300, "dx": 96, "dy": 128},
    contenders={"two thin SVDs": decompositions} | {name: fit(**settings) for name, settings in GOALS.items()},
    bare="two thin SVDs",
    peer="two thin SVDs",
    targets=[
        Target(name, over="two thin SVDs", at_least=round(1 / most, 3)) for name, most in MOST.items() if most > 1
    ],
    notes=grid,
    repeats=5,
)
