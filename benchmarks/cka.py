"""Linear CKA from features against its Gram form and against the three matrix products that it cannot do without."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import evaluate


def setup(n: int, d: int) -> Inputs:
    """Draw a space and a noisy copy, off centre."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32)
    return {"x": x + 1, "y": x + rng.standard_normal((n, d), dtype=np.float32)}


def gram(x: np.ndarray, y: np.ndarray) -> float:
    """Compare n × n kernels, centred by subtracting means."""
    k, other = x @ x.T, y @ y.T
    for g in (k, other):
        g -= g.mean(axis=0)
        g -= g.mean(axis=1, keepdims=True)
    return float(np.vdot(k, other) / np.linalg.norm(k) / np.linalg.norm(other))


def products(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Form the three products and do nothing else: the bare operation."""
    return x.T @ x, x.T @ y, y.T @ y


def agreement(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Show that both answer the same, and what the definition costs when it is typed in as printed."""
    wide = float(evaluate.cka(x.astype(np.float64), y.astype(np.float64)))
    values = f"cka {float(evaluate.cka(x, y)):.6f}, in float64 {wide:.6f}, Gram form {gram(x, y):.6f}"
    return [values, as_printed(x)]


def as_printed(x: np.ndarray, slab: int = 500) -> str:
    """Estimate tr(KHLH) with a centring matrix H: two products n × n × n, of which one slab of rows is timed."""
    h = np.full((len(x), len(x)), -1 / len(x), dtype=x.dtype)
    np.fill_diagonal(h, 1 - 1 / len(x))
    rows = x[:slab] @ x.T
    start = time.perf_counter()
    _ = rows @ h
    printed = 2 * (time.perf_counter() - start) * len(x) / slab
    start = time.perf_counter()
    evaluate.cka(x, x)
    ours = time.perf_counter() - start
    times = f"{printed / ours:.0f} × cka's {ours:.2f} s"
    return f"tr(KHLH) as printed: about {printed:.0f} s from one slab of {slab} rows, {times}"


SUITE = Suite(
    title="linear CKA, float32",
    setup=setup,
    size={"n": 20_000, "d": 768},
    quick={"n": 3_000, "d": 128},
    contenders={"cka": evaluate.cka, "Gram form": gram, "bare products": products},
    bare="bare products",
    peer="Gram form",
    targets=[
        Target("cka", over="Gram form", at_least=100.0),
        Target("cka", over="bare products", at_least=1 / 1.3),
    ],
    notes=agreement,
    repeats=3,
)
