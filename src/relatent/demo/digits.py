"""The demo without any download: the digits of scikit-learn through two networks that never met."""

from __future__ import annotations

from typing import Any

import numpy as np

from relatent.deliver import Relevance
from relatent.demo.sentences import Material
from relatent.evaluate import nearest
from relatent.spaces import Fingerprint, Space

__all__ = ["digits"]

WIDTHS, ANCHORS, SEED = (64, 48), 300, 0


def digits() -> Material:
    """Train two small networks on half of the images; their hidden layers are the old and the new space."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    order = np.random.default_rng(SEED).permutation(len(images))
    train, shown = order[:700], order[700:]
    keys = [f"image {i}" for i in shown]
    old, new = (
        _space(_network(images[train], labels[train], width, seed), images[shown], keys, labels[shown], seed)
        for seed, width in enumerate(WIDTHS, start=1)
    )
    searched = np.arange(ANCHORS, len(shown))
    twin = nearest(images[shown[searched]], images[shown[searched]], 1, "euclidean", exclude_self=True).indices[:, 0]
    relevant = Relevance(
        [keys[i] for i in searched], [keys[searched[i]] for i in twin], "the image most alike in its pixels"
    )
    words = {
        "items": f"{len(searched):,} images of digits",
        "old": f"a network with {WIDTHS[0]} hidden units",
        "new": f"a network with {WIDTHS[1]} hidden units, trained from another seed",
        "anchors": f"{ANCHORS} other images",
        "task": "A search should find the image that is most alike in its pixels",
    }
    named = {key: f"a {label}" for key, label in zip(keys, labels[shown], strict=True)}
    return Material(old, new, keys[:ANCHORS], relevant, words, named)


def _network(images: np.ndarray, labels: np.ndarray, width: int, seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier((width,), activation="tanh", learning_rate_init=0.01, max_iter=300, random_state=seed)
    return network.fit(images, labels)


def _space(network: Any, images: np.ndarray, keys: list[str], labels: np.ndarray, seed: int) -> Space:
    """Give the activations of the hidden layer."""
    hidden = np.tanh(images @ network.coefs_[0] + network.intercepts_[0]).astype(np.float32)
    known = Fingerprint(dim=hidden.shape[1], model=f"digits-mlp-{hidden.shape[1]}", revision=f"seed {seed}")
    return Space(hidden, keys, known.model or "", known, others={"digit": labels})
