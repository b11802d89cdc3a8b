"""Samples of rows: seeded draws, and samples of pairs by smallest hash, which do not depend on the sharding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from relatent._array import random_generator

# What the state of splitmix64 grows by.
STEP = np.uint64(0x9E3779B97F4A7C15)


def sample_rows(rows: int | np.ndarray, max_rows: int, seed: int | np.random.Generator | None) -> np.ndarray:
    """Return at most ``max_rows`` of some rows, or of the first n, drawn by the seed, in order.

    >>> sample_rows(3, 5, seed=0).tolist(), len(sample_rows(np.arange(10, 20), 5, seed=0))
    ([0, 1, 2], 5)
    """
    given = np.arange(rows) if isinstance(rows, int) else rows
    if len(given) <= max_rows:
        return given
    return np.sort(random_generator(seed).choice(given, max_rows, replace=False))


def shuffled_rows(rows: int | np.ndarray, max_rows: int, seed: int | np.random.Generator | None) -> np.ndarray:
    """Return at most ``max_rows`` of some rows, or of the first n, in random order: fewer rows are the first of more.

    >>> shuffled_rows(5, 2, seed=0).tolist() == shuffled_rows(5, 5, seed=0)[:2].tolist()
    True
    """
    return random_generator(seed).permutation(rows)[:max_rows]


@dataclass(frozen=True, eq=False)
class Sample:
    """Some parallel rows of two arrays, or all of them, copied when they are first used."""

    all_x: np.ndarray
    all_y: np.ndarray
    ids: np.ndarray
    """What each row is known by, ascending: its number among all pairs, or the hash of its key."""
    weights: np.ndarray | None = None
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
        return len(self.ids)

    def part(self, rows: np.ndarray) -> Sample:
        """Return some of the pairs."""
        weights = None if self.weights is None else self.weights[rows]
        inner = rows if self.rows is None else self.rows[rows]
        return Sample(self.all_x, self.all_y, self.ids[rows], weights, inner)

    def copied(self) -> Sample:
        """Return the same pairs in arrays of their own."""
        return Sample(np.array(self.x), np.array(self.y), self.ids, self.weights)

    def smallest(self, size: int, seed: int) -> Sample:
        """Return the pairs of smallest seeded hash: of a union of samples, those that the whole would have kept."""
        if len(self) <= size:
            return self
        return self.part(np.sort(np.argpartition(hashed(self.ids, seed), size)[:size]))


def hashed(ids: np.ndarray, seed: int) -> np.ndarray:
    """Return a seeded 64-bit hash of each id: as good as random, the same on every machine."""
    with np.errstate(over="ignore"):
        return splitmix64(ids + np.uint64((int(STEP) * (2 * seed + 1)) % 2**64))


def splitmix64(z: np.ndarray) -> np.ndarray:
    """Mix the bits of 64-bit numbers, one to one: the output function of splitmix64 (Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def checked_ids(ids: np.ndarray, n: int) -> np.ndarray:
    """Check that there is one id per pair, and that they differ."""
    ids = np.asarray(ids, dtype=np.uint64)
    different = len(np.unique(ids))
    if ids.shape != (n,) or different < n:
        raise ValueError(f"ids has shape {ids.shape} and {different} different entries for {n} pairs: expected {n}.")
    return ids


def all_rows(x: np.ndarray, y: np.ndarray, ids: np.ndarray, weights: np.ndarray | None) -> Sample:
    """Return all rows that count, in the order of their ids."""
    sample = Sample(x, y, ids, weights)
    kept = np.arange(len(ids)) if weights is None else np.flatnonzero(weights)
    order = kept[np.argsort(ids[kept], kind="stable")]
    return sample if np.array_equal(order, np.arange(len(ids))) else sample.part(order)


def merged(samples: list[Sample], size: int, seed: int) -> Sample:
    """Return the pairs of smallest hash among all, in the order of their ids; no others are copied."""
    ids = np.concatenate([s.ids for s in samples])
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        raise ValueError(
            f"Row {unique[np.argmax(counts > 1)]} is in two of the parts: give each part the number of its first row "
            "(start=) or hashes of its keys (ids=), so that rows can be told apart."
        )
    if len(ids) > size:
        last = np.partition(hashed(ids, seed), size - 1)[size - 1]
        samples = [s.part(np.flatnonzero(hashed(s.ids, seed) <= last)) for s in samples]
        ids = np.concatenate([s.ids for s in samples])
    weighted = any(s.weights is not None for s in samples)
    weights = [np.ones(len(s)) if s.weights is None else s.weights for s in samples] if weighted else None
    order = np.argsort(ids)
    x, y = (np.concatenate([getattr(s, side) for s in samples])[order] for side in ("x", "y"))
    return Sample(x, y, ids[order], None if weights is None else np.concatenate(weights)[order])


@dataclass(frozen=True, eq=False)
class Unpaired:
    """Rows beside pairs of which no partner is known: their means, and a sample of the target's."""

    count_x: int = 0
    mean_x: np.ndarray | float = 0.0
    count_y: int = 0
    mean_y: np.ndarray | float = 0.0
    index: np.ndarray | None = None
    """Some rows of the target, for held-out pairs to be ranked among."""

    @staticmethod
    def of(x: np.ndarray | None, y: np.ndarray | None, max_rows: int, seed: int) -> Unpaired:
        """Take what is needed of rows, of which at most ``max_rows`` are kept."""
        sides = ((0, 0.0) if rows is None else (len(rows), np.mean(rows, axis=0, dtype=np.float64)) for rows in (x, y))
        (count_x, mean_x), (count_y, mean_y) = sides
        index = None if y is None else np.asarray(y[sample_rows(len(y), max_rows, seed)], dtype=np.float64)
        return Unpaired(count_x, mean_x, count_y, mean_y, index)

    def centers(self, n: float, mean_x: np.ndarray, mean_y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means over all rows, n pairs included."""
        x = (n * mean_x + self.count_x * self.mean_x) / (n + self.count_x)
        return x, (n * mean_y + self.count_y * self.mean_y) / (n + self.count_y)
