"""Fitted translators of every kind of map, on two pairs of spaces."""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
from sklearn.datasets import load_digits

import relatent as rl

# What decides the shape of a map: its goal, and the normalizations that do not fold into a matrix.
SETTINGS = {
    "vectors": {},
    "index": {"goal": "index"},
    "index, affine": {"goal": "index", "max_cost": "affine"},
    "retrieval": {"goal": "retrieval"},
    "retrieval, unit rows": {"goal": "retrieval", "normalize": "center+l2"},
    "frozen": {"goal": "retrieval", "frozen_target": True},
    "frozen, offset of queries": {"goal": "retrieval", "frozen_target": True},
    "stitching": {"goal": "stitching"},
    "orthogonal": {"map": "orthogonal"},
    "ridge, whitened": {"map": "ridge", "normalize": "whiten"},
    "affine, standard": {"map": "affine", "normalize": "standard"},
    "ridge, l2": {"map": "ridge", "normalize": "l2"},
    "ridge, center+l2": {"map": "ridge", "normalize": "center+l2"},
    "blocks": {"map": "ridge", "blocks": 8},
    "two sources": {"map": "ridge"},
    "two sources, center+l2": {"map": "ridge", "normalize": "center+l2"},
}
SPACES = ("digits", "correlated")
CASES = [(setting, space) for setting in SETTINGS for space in SPACES]
# Vectors far from zero keep their digits only if the mean is subtracted before the product.
CASES += [("orthogonal", "far"), ("retrieval", "far"), ("ridge, center+l2", "far")]
# Those whose source side is a chain of products, offsets and unit norms, whatever "auto" chooses.
AFFINE = [case for case in CASES if case[0] not in ("vectors", "index", "stitching")]


@cache
def spaces(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two views of the same items: digits through two random networks, or noisy mixtures, perhaps far from zero."""
    rng = np.random.default_rng(5)
    if name == "digits":
        images = load_digits().data / 16
        views = [np.tanh(images @ rng.normal(size=(64, d)) / 4) for d in (48, 32)]
    else:
        hidden = rng.normal(size=(900, 20))
        views = [hidden @ rng.normal(size=(20, d)) + 0.1 * rng.normal(size=(900, d)) for d in (40, 56)]
        views[0] += 2_000.0 * (name == "far")
    x, y = (view.astype(np.float32) for view in views)
    return x, y


@cache
def fitted(setting: str, space: str) -> rl.Translator:
    x, y = spaces(space)
    # Queries that a prefix has moved, where the map has a place for that.
    given = {"queries": (x[500:600] + 0.5, y[500:600])} if "offset" in setting else {}
    source = [x[:500, :16], x[:500, 16:]] if "two sources" in setting else x[:500]
    t = rl.Translator(**SETTINGS[setting]).fit(source, y[:500], **given)
    assert ("offset of queries" in t.chosen_) == bool(given)
    return t


@cache
def nonlinear(space: str) -> rl.Translator:
    """A map with features, whatever "auto" would choose on these spaces."""
    x, y = spaces(space)
    t = rl.Translator().fit(x[:500], np.abs(y[:500] - np.mean(y, axis=0)))
    assert t.map_.features is not None
    return t


def rounding(t: rl.Translator) -> float:
    """How far single precision may be off: the large coefficients of a kernel map cancel, in transform as elsewhere."""
    return 1e-5 if t.map_.features is None else 3e-4


def near(found: np.ndarray, expected: np.ndarray, rtol: float = 1e-5) -> None:
    """Compare rows by the norm of their difference."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    error = np.linalg.norm(found - expected, axis=-1)
    assert np.max(error / np.maximum(np.linalg.norm(expected, axis=-1), 1e-30)) <= rtol


def rows_of(texts: list[str], side: int, space: str = "digits") -> np.ndarray:
    """Embed texts as rows of a space's source (0) or target (1): the same text is the same item in both."""
    view = spaces(space)[side]
    return view[[zlib.crc32(text.encode()) % len(view) for text in texts]]
