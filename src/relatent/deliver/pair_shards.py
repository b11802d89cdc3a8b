"""Pairs of two spaces, summed up shard by shard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from relatent.engines import Engine, Serial
from relatent.spaces.chunks import chunk_rows
from relatent.spaces.gather import row_blocks
from relatent.spaces.space import Space
from relatent.translate.pairs import Pairs

__all__ = ["PairShard", "sum_pairs"]

# Rows of the source, as bytes of float32, whose pairs make a shard: some seconds of work.
SHARD_BYTES = 256 * 2**20


@dataclass(frozen=True, eq=False)
class PairShard:
    """Which row of the source goes with which row of the target, (n, 2), and the hashes of their keys."""

    start: int
    rows: np.ndarray
    hashes: np.ndarray

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.rows)

    def __str__(self) -> str:
        """Name the pairs."""
        return f"pairs {self.start:,} to {self.start + len(self):,}"


def sum_pairs(
    source: Space,
    target: Space,
    rows: np.ndarray,
    hashes: np.ndarray,
    options: dict[str, Any],
    engine: Engine,
    advance: Callable[[int], None],
) -> Pairs:
    """Sum up the pairs of rows (n, 2), those of the source ascending."""
    edges = _edges(source, rows, engine)
    shards = [PairShard(a, rows[a:b], hashes[a:b]) for a, b in pairwise(edges.tolist()) if a < b]
    if isinstance(engine, Serial):  # in this process, where progress within a shard can be seen
        return engine.sum(_SumShard(source, target, options, advance), shards)
    return engine.sum(_SumShard(source, target, options), shards, lambda shard: advance(len(shard)))


def _edges(source: Space, rows: np.ndarray, engine: Engine) -> np.ndarray:
    """Cut the pairs where the source can be entered. A target in another order is read once by each worker instead."""
    if np.any(np.diff(rows[:, 1]) <= 0):
        return np.linspace(0, len(rows), engine.workers + 1).astype(np.intp)
    ranges = source.ranges(max(1, SHARD_BYTES // (4 * source.dim)))
    return np.searchsorted(rows[:, 0], [0, *(stop for _, stop in ranges)])


@dataclass(frozen=True)
class _SumShard:
    """What a worker does: read the vectors of a shard block by block, and sum them up."""

    source: Space
    target: Space
    options: dict[str, Any]
    advance: Callable[[int], None] | None = None

    def __call__(self, shard: PairShard) -> Pairs:
        size = max(1, chunk_rows(max(self.source.dim, self.target.dim), np.dtype(np.float64)) // 4)
        # The target first: it may have to be brought into order, and only one file should be read at a time.
        targets = row_blocks(self.target, shard.rows[:, 1], size)
        blocks = zip(targets, row_blocks(self.source, shard.rows[:, 0], size), strict=True)
        total: list[Pairs] = []
        for start, (y, x) in zip(range(0, len(shard), size), blocks, strict=True):
            part = Pairs.of(x, y, ids=shard.hashes[start : start + len(x)], **self.options)
            total = Pairs.collected([*total, part])
            if self.advance is not None:
                self.advance(len(x))
        return Pairs.total(total)
