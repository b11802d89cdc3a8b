"""Relative projection against the matrix product inside it."""

import numpy as np

import relatent as rl
from benchmarks.harness import Inputs, Suite, Target


def setup(n: int, d: int, k: int) -> Inputs:
    """Draw samples and anchors."""
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal((n, d), dtype=np.float32),
        "anchors": rng.standard_normal((k, d), dtype=np.float32),
    }


def straightforward(x: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Normalise both, multiply: what one writes without a library."""
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, anchors)]
    return unit[0] @ unit[1].T


SUITE = Suite(
    title="cosine relative projection, float32",
    setup=setup,
    size={"n": 100_000, "d": 768, "k": 1_000},
    quick={"n": 20_000, "d": 256, "k": 500},
    contenders={
        "relative_projection": rl.relative_projection,
        "straightforward NumPy": straightforward,
        "bare x @ a.T": lambda x, anchors: x @ anchors.T,
    },
    bare="bare x @ a.T",
    peer="straightforward NumPy",
    targets=[Target("relative_projection", over="bare x @ a.T", at_least=0.9)],
)
