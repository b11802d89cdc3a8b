"""Made-up encoders that read made-up corpora: random networks with a privileged basis, as real encoders have."""

from __future__ import annotations

import numpy as np

INPUTS, HIDDEN, D = 24, 64, 48


def encode(encoder: int, corpus: int, rows: int, seed: int = 0, dim: int = D) -> np.ndarray:
    """Return unit rows: what a network makes of a corpus, which has topics of its own."""
    rng = np.random.default_rng([encoder, 1])
    first, second = (
        rng.normal(size=(INPUTS, HIDDEN)) / np.sqrt(INPUTS),
        rng.normal(size=(HIDDEN, dim)) / np.sqrt(HIDDEN),
    )
    scale, offset = np.exp(0.3 * rng.normal(size=dim)), 0.3 * rng.normal(size=dim)
    second = second * np.geomspace(1, 0.05, HIDDEN)[:, None]
    hidden = np.maximum(read(corpus, rows, seed) @ first + 0.2 * rng.normal(size=HIDDEN), 0) @ second
    hidden = (hidden - hidden.mean(axis=1, keepdims=True)) / hidden.std(axis=1, keepdims=True)
    return unit(hidden * scale + offset)


def read(corpus: int, rows: int, seed: int) -> np.ndarray:
    """Return the inputs: a few topics, about which texts vary in their own ways."""
    rng = np.random.default_rng([corpus, 2])
    topics, ways = (
        rng.normal(size=(3, INPUTS)),
        rng.normal(size=(INPUTS, INPUTS)) * np.exp(0.5 * rng.normal(size=INPUTS)),
    )
    drawn = np.random.default_rng([corpus, seed, 3])
    return topics[drawn.integers(3, size=rows)] + drawn.normal(size=(rows, INPUTS)) @ ways / np.sqrt(INPUTS)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def mixed(x: np.ndarray, other: np.ndarray, share: float) -> np.ndarray:
    """Replace a share of rows, spread over all."""
    out, chosen = x.copy(), np.random.default_rng(0).permutation(len(x))[: round(share * len(x))]
    out[chosen] = other[chosen]
    return out
