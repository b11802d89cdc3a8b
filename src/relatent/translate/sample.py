"""Pairs that are kept, for what cannot be told from sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["Reservoir", "Sample"]

# A first chunk this many times longer than the sample is not kept in memory for its sake.
ROOMY = 4


@dataclass(frozen=True)
class Sample:
    """Some parallel rows of two arrays, or all of them, taken out when they are first looked at."""

    all_x: np.ndarray
    all_y: np.ndarray
    rows: np.ndarray | None = None

    @cached_property
    def x(self) -> np.ndarray:
        """Rows of the source."""
        return self.all_x if self.rows is None else self.all_x[self.rows]

    @cached_property
    def y(self) -> np.ndarray:
        """Rows of the target."""
        return self.all_y if self.rows is None else self.all_y[self.rows]

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.all_x if self.rows is None else self.rows)

    def part(self, rows: np.ndarray) -> Sample:
        """Give some of the pairs."""
        return Sample(self.all_x, self.all_y, rows if self.rows is None else self.rows[rows])


class Reservoir:
    """A uniform sample of all pairs seen, the same however they were chunked."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.keys = np.empty(0)
        self.sample = Sample(np.empty((0, 0)), np.empty((0, 0)))

    def take(self, x: np.ndarray, y: np.ndarray, *, lasting: bool = False) -> None:
        """Give each pair a random number and keep those with the smallest.

        Arrays that will stay as they are (``lasting``) need not be copied.
        """
        new = self.rng.random(len(x))
        if len(self.keys) == self.size:  # of a long stream, few rows get in
            enters = new < np.max(self.keys)
            x, y, new = x[enters], y[enters], new[enters]
        if len(self.keys):
            x, y = np.concatenate([self.sample.x, x]), np.concatenate([self.sample.y, y])
            new, lasting = np.concatenate([self.keys, new]), True
        rows = np.arange(len(new))
        if len(new) > self.size:
            rows = np.sort(np.argpartition(new, self.size)[: self.size])
        self.keys, self.sample = new[rows], Sample(x, y, rows if len(rows) < len(new) else None)
        if not lasting or len(new) > ROOMY * self.size:
            self.sample = Sample(x[rows], y[rows])
