"""Fitting from 20,000 pairs against NumPy's least squares and SciPy's Procrustes."""

import numpy as np
from scipy.linalg import orthogonal_procrustes

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator


def setup(n: int, d: int) -> Inputs:
    """Draw pairs that differ by a rotation and noise, with a decaying spectrum."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.3
    q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return {"x": x, "y": x @ q + 0.1 * rng.standard_normal((n, d))}


def bare(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multiply out the two products that least squares cannot do without."""
    return x.T @ x, x.T @ y


def quality(x: np.ndarray, y: np.ndarray) -> list[str]:
    """Compare the residuals of ours and theirs on the same pairs."""
    theirs = np.linalg.norm(y - x @ np.linalg.lstsq(x, y, rcond=None)[0])
    ours = np.linalg.norm(y - Translator(map="least_squares", normalize="none").fit(x, y).transform(x))
    return [f"residual of least_squares over that of NumPy's: {ours / theirs:.9f}"]


def ours(**settings: str):
    """Fit with settings."""
    return lambda x, y: Translator(**settings).fit(x, y)


SUITE = Suite(
    title="fit of parallel pairs, float64",
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
        Target("least_squares", over="numpy lstsq", at_least=10.0),
        Target("orthogonal", over="scipy procrustes", at_least=1.5),
        Target("retrieval (auto)", over="orthogonal", at_least=0.1),
    ],
    notes=quality,
    repeats=7,
)
