"""Sums of pairs as they stream by."""

from __future__ import annotations

import numpy as np

from relatent._array import Array
from relatent.spaces.normalize import UNIT_ROWS, Normalizer
from relatent.summary import Summary, summarize_checked
from relatent.translate.sample import Sample
from relatent.translate.selection import Prepared

__all__ = ["PairStream"]


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
        if self.summary is not None and self.summary.dims != (x.shape[1], y.shape[1]):
            raise ValueError(
                f"Pairs of {x.shape[1]} and {y.shape[1]} coordinates were given: expected the same as before, "
                f"{self.summary.dims[0]} and {self.summary.dims[1]}."
            )
        if self.normalize in UNIT_ROWS and self.first is None:
            self.first = Normalizer.fit(x, self.normalize), Normalizer.fit(y, self.normalize)
        chunk = summarize_checked(x, y, weights, full_x, full_y, self.first)
        self.summary = chunk if self.summary is None else self.summary + chunk

    def prepared(self, sample: Sample) -> Prepared:
        """Give the sums and a sample of raw pairs in normalised coordinates."""
        s = self.summary
        assert s is not None
        source, target = self.first or (
            Normalizer.from_moments(int(s.n), s.mean_x, s.xx, self.normalize),
            Normalizer.from_moments(int(s.n), s.mean_y, s.yy, self.normalize),
        )
        return Prepared(source, target, s if self.first else s.normalized(source, target), sample)

    def target_statistics(self, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std of the target's coordinates, from the sums, or from a sample where rows were scaled."""
        s = self.summary
        if s is None or self.first:
            wide = sample.y.astype(np.float64)
            return np.asarray(wide.mean(axis=0)), np.asarray(wide.std(axis=0))
        return s.mean_y, np.sqrt((np.diagonal(s.yy) if s.yy.ndim == 2 else s.yy) / s.n)
