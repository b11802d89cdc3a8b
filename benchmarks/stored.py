"""What the benchmarks of stores have in common: vectors that look like embeddings, and a translator of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from relatent import Translator

__all__ = ["embeddings", "rotation", "save_translator"]

FITTED = 4_000


def embeddings(rows: int, dim: int) -> np.ndarray:
    """Draw vectors with a mean and a falling spectrum. Isotropic noise has no fingerprint and is checked at length."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, dim), dtype=np.float32)
    x *= np.linspace(2.0, 0.2, dim, dtype=np.float32)
    x += rng.standard_normal(dim, dtype=np.float32)
    return x


def save_translator(path: Path, vectors: np.ndarray) -> None:
    """Save an affine translator of these vectors: a rotation."""
    x = vectors[:FITTED]
    Translator(map="affine").fit(x, x @ rotation(x.shape[1])).save(path)


def rotation(dim: int) -> np.ndarray:
    """Return a random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(1).normal(size=(dim, dim)))[0].astype(np.float32)
