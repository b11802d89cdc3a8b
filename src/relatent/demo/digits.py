"""Two networks that never met: an old one that learned from 50 digits, and a new one that learned from a thousand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from relatent.spaces import Fingerprint, Space

__all__ = ["Network", "Upgrade", "digits_upgrade"]

WIDTH, ANCHORS, SEED = 64, 300, 0
OLD_IMAGES = 50
# A digit's ten others fill the first ten answers exactly, so that recall@10 runs from 0 to 1.
PER_DIGIT = 11


@dataclass(frozen=True, eq=False)
class Network:
    """A classifier of images with one hidden layer; its encoder is what comes before the head."""

    classifier: Any

    @classmethod
    def train(cls, images: np.ndarray, labels: np.ndarray, seed: int) -> Self:
        """Train from one seed. Two seeds give two sets of coordinates that have nothing to do with each other."""
        from sklearn.neural_network import MLPClassifier

        layers = MLPClassifier((WIDTH,), activation="tanh", learning_rate_init=0.01, max_iter=300, random_state=seed)
        return cls(layers.fit(images, labels))

    def encode(self, images: np.ndarray) -> np.ndarray:
        """Return the activations of the hidden layer, (n, 64)."""
        return np.asarray(np.tanh(images @ self.classifier.coefs_[0] + self.classifier.intercepts_[0]))

    def accuracy(self, hidden: Any, labels: np.ndarray) -> float:
        """Return how often the head is right about hidden vectors, its own or another's."""
        scores = hidden @ self.classifier.coefs_[1] + self.classifier.intercepts_[1]
        return float(np.mean(self.classifier.classes_[np.argmax(scores, axis=1)] == labels))


@dataclass(frozen=True, eq=False)
class Upgrade:
    """Two networks, images that both have encoded to learn from, and other images to judge by."""

    old: Network
    new: Network
    anchors: np.ndarray
    images: np.ndarray
    labels: np.ndarray

    @property
    def searched(self) -> np.ndarray:
        """Rows of the images to search among: as many of each digit."""
        return np.sort(np.concatenate([np.flatnonzero(self.labels == digit)[:PER_DIGIT] for digit in range(10)]))

    def space(self, network: Network, name: str) -> Space:
        """Return the vectors of the anchors and, after them, of the images searched."""
        keys = [f"anchor {i}" for i in range(len(self.anchors))] + [f"image {i}" for i in self.searched]
        vectors = network.encode(np.concatenate([self.anchors, self.images[self.searched]])).astype(np.float32)
        return Space(vectors, keys, name, Fingerprint(dim=WIDTH, model=f"digits-mlp-{name}"))

    def relevant(self) -> list[tuple[str, str]]:
        """Return each searched image with every other of the same digit, by key."""
        rows = self.searched.tolist()
        return [(f"image {i}", f"image {j}") for i in rows for j in rows if i != j and self.labels[i] == self.labels[j]]


def digits_upgrade() -> Upgrade:
    """Train both networks on one half of the digits, and keep the other half for judging."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from relatent.anchors import kmeans

    images, labels = load_digits(return_X_y=True)
    train, test, known, labels = train_test_split(images / 16, labels, test_size=0.4, random_state=SEED)
    old, new = Network.train(train[:OLD_IMAGES], known[:OLD_IMAGES], 1), Network.train(train, known, 2)
    return Upgrade(old, new, train[kmeans(old.encode(train), ANCHORS, seed=SEED)], test, labels)
