"""Farthest-point anchors against the loop that their definition suggests."""

from unittest.mock import patch

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import anchors


def setup(n: int, d: int, k: int) -> Inputs:
    """Draw a space whose directions decay as those of real encoders do, around a few hundred topics."""
    rng = np.random.default_rng(0)
    decay = np.arange(1, d + 1, dtype=np.float32) ** -0.5
    x = rng.standard_normal((n, d), dtype=np.float32)
    x += rng.standard_normal((300, d), dtype=np.float32)[rng.integers(300, size=n)]
    x *= decay
    return {"x": x, "k": k}


def loop(x: np.ndarray, k: int) -> np.ndarray:
    """One pass over the data per anchor."""
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    chosen = [int(np.random.default_rng(0).integers(len(x)))]
    nearest = np.full(len(x), np.inf, dtype=x.dtype)
    while len(chosen) < k:
        np.minimum(nearest, 1 - unit @ unit[chosen[-1]], out=nearest)
        chosen.append(int(np.argmax(nearest)))
    return np.asarray(chosen)


def bare_product(x: np.ndarray, k: int) -> np.ndarray:
    """Compare all rows with k of them at once: the arithmetic that any exact choice needs."""
    return x @ x[:k].T


def passes(x: np.ndarray, k: int) -> list[str]:
    """Count how often farthest_point read all data."""
    with patch.object(anchors, "_update", wraps=anchors._update) as update:
        anchors.farthest_point(x, k)
    return [f"farthest_point read the data {update.call_count} times for {k} anchors; the loop reads it {k - 1} times."]


SUITE = Suite(
    title="farthest-point anchors, float32",
    setup=setup,
    size={"n": 100_000, "d": 768, "k": 1_000},
    quick={"n": 20_000, "d": 256, "k": 300},
    contenders={"farthest_point": anchors.farthest_point, "NumPy loop": loop, "bare x @ x[:k].T": bare_product},
    bare="bare x @ x[:k].T",
    peer="NumPy loop",
    targets=[Target("farthest_point", over="NumPy loop", at_least=3.0)],
    notes=passes,
    repeats=3,
)
