"""Pairs as they stream by: their sums, and a sample of them."""

from __future__ import annotations

import numpy as np

from relatent._array import Array
from relatent.spaces.normalize import Normalizer
from relatent.translate.selection import Prepared
from relatent.translate.summary import Summary, summarize_checked

__all__ = ["PairStream", "Reservoir"]

UNIT_ROWS = ("l2", "center+l2")


class Reservoir:
    """A uniform sample of all pairs seen, the same however they were chunked."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.keys = np.empty(0)
        self.x = np.empty((0, 0))
        self.y = np.empty((0, 0))

    def take(self, x: np.ndarray, y: np.ndarray) -> None:
        """Give each pair a random number and keep those with the smallest."""
        new = self.rng.random(len(x))
        if len(self.keys) == self.size:  # of a long stream, few rows get in
            enters = new < np.max(self.keys)
            x, y, new = x[enters], y[enters], new[enters]
        # The first chunk is kept as it is: an array that fits in memory is not copied.
        self.x = np.concatenate([self.x, x]) if len(self.keys) else x
        self.y = np.concatenate([self.y, y]) if len(self.keys) else y
        keys = np.concatenate([self.keys, new])
        if len(keys) > self.size:
            kept = np.sort(np.argpartition(keys, self.size)[: self.size])
            keys, self.x, self.y = keys[kept], self.x[kept], self.y[kept]
        self.keys = keys


class PairStream:
    """Sums of normalised pairs.

    Affine normalisations are applied to the sums at the end. Unit rows cannot be: there, the mean and length that
    they need are those of the first chunk.
    """

    def __init__(self, normalize: str) -> None:
        self.normalize = normalize
        self.first: tuple[Normalizer, Normalizer] | None = None
        self.summary: Summary | None = None

    def take(self, x: Array, y: Array, weights: Array | None, full_x: bool, full_y: bool) -> None:
        """Add a chunk that has passed the door."""
        if self.normalize in UNIT_ROWS:
            if self.first is None:
                self.first = Normalizer.fit(x, self.normalize), Normalizer.fit(y, self.normalize)
            x, y = self.first[0].apply(x), self.first[1].apply(y)
        chunk = summarize_checked(x, y, weights, full_x, full_y)
        self.summary = chunk if self.summary is None else self.summary + chunk

    def prepared(self, x: np.ndarray, y: np.ndarray) -> Prepared:
        """Give the sums and a sample of raw pairs in normalised coordinates."""
        s = self.summary
        assert s is not None
        source, target = self.first or (
            Normalizer.from_moments(int(s.n), s.mean_x, s.xx, self.normalize),
            Normalizer.from_moments(int(s.n), s.mean_y, s.yy, self.normalize),
        )
        return Prepared(source, target, s if self.first else s.normalized(source, target), x, y)

    def target_statistics(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std of the target's coordinates, from the sums, or from a sample where rows were scaled."""
        s = self.summary
        if s is None or self.first:
            wide = y.astype(np.float64)
            return np.asarray(wide.mean(axis=0)), np.asarray(wide.std(axis=0))
        return s.mean_y, np.sqrt((np.diagonal(s.yy) if s.yy.ndim == 2 else s.yy) / s.n)
