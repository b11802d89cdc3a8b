"""Fitting from 20,000 pairs against NumPy's least squares and SciPy's Procrustes."""

import numpy as np
from scipy.linalg import orthogonal_procrustes

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator


def setup(n: int, d: int) -> Inputs:
    """Draw pairs that differ by a rotation and noise, with a decaying spectrum, in float32 as encoders give them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.3
    q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    y = x @ q + 0.1 * rng.standard_normal((n, d))
    return {"x": x.astype(np.float32), "y": y.astype(np.float32)}


def bare(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multiply out the two products that least squares cannot do without."""
    return x.T @ x, x.T @ y


def quality(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Compare the residuals and predictions of ours with those of NumPy and SciPy in float64, on the same pairs."""
    wide, goal = x.astype(np.float64), y.astype(np.float64)
    theirs = {
        "least_squares": np.linalg.lstsq(wide, goal, rcond=None)[0],
        "orthogonal": orthogonal_procrustes(wide, goal)[0],
    }
    return [compared(name, x, y, wide @ matrix) for name, matrix in theirs.items()]


def compared(name: str, x: np.ndarray, y: np.ndarray, theirs: np.ndarray) -> str:
    """Compare a map's predictions with others in float64."""
    found = x.astype(np.float64) @ Translator(map=name, normalize="none").fit(x, y).matrix_
    residual = np.linalg.norm(y - found) / np.linalg.norm(y - theirs)
    apart = np.linalg.norm(found - theirs) / np.linalg.norm(theirs)
    return f"{name}: residual over that in float64 {residual:.12f}, predictions differ by {apart:.1e} of their norm"


def ours(**settings: str):
    """Fit with settings."""
    return lambda x, y: Translator(**settings).fit(x, y)


SUITE = Suite(
    title="fit of parallel pairs, float32",
    setup=setup,
    size={"n": 20_000, "d": 768},
    quick={"n": 3_000, "d": 128},
    contenders={
        "least_squares": ours(map="least_squares", normalize="none"),
        "numpy lstsq": lambda x, y: np.linalg.lstsq(x, y, rcond=None),
        "orthogonal": ours(map="orthogonal", normalize="none"),
        "scipy procrustes": lambda x, y: orthogonal_procrustes(x, y),
        "vectors (auto)": ours(goal="vectors"),
        "retrieval (auto)": ours(goal="retrieval"),
        "bare products": bare,
    },
    bare="bare products",
    peer="numpy lstsq",
    targets=[
        Target("least_squares", over="numpy lstsq", at_least=6.0),
        Target("orthogonal", over="scipy procrustes", at_least=1.5),
        Target("retrieval (auto)", over="orthogonal", at_least=0.1),
    ],
    notes=quality,
    repeats=7,
)
