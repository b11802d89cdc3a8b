"""Rows of a space in any order, a block at a time, without holding the space."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from relatent._atomic import writing
from relatent.spaces.space import Space

__all__ = ["row_blocks"]

# Up to this size, rows are held in memory.
HELD_BYTES = 128 * 2**20


def row_blocks(space: Space, rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Go through the vectors of some rows, in the order given, at most ``size`` at a time.

    Few rows of a file are read at once. Of many, those that ascend are read as they come; others are first brought into
    order in a temporary file, in one pass over the space, so that neither memory nor time grows with how far they are
    shuffled.

    >>> space = Space([[0.0], [1.0], [2.0], [3.0]])
    >>> [block[:, 0].tolist() for block in row_blocks(space, np.asarray([3, 1, 0]), 2)]
    [[3.0, 1.0], [0.0]]
    """
    if space.path is None:
        return (space.take(rows[start : start + size]) for start in range(0, len(rows), size))
    if len(rows) * space.dim * space.dtype.itemsize <= HELD_BYTES:
        return _regrouped(iter([space.take(rows)]), size)
    ascending = bool(np.all(np.diff(rows) > 0))
    return _regrouped(_read(space, rows, size) if ascending else _ordered(space, rows, size), size)


def _read(space: Space, rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Go through ascending rows, chunk by chunk."""
    for chunk in space.chunks(size, within=(int(rows[0]), int(rows[-1]) + 1)):
        low, high = np.searchsorted(rows, [chunk.start, chunk.start + len(chunk)])
        yield chunk.vectors[rows[low:high] - chunk.start]


def _ordered(space: Space, rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Write rows to where they belong in a temporary file, and read that."""
    order = np.argsort(rows, kind="stable")
    width = space.dim * space.dtype.itemsize
    with writing(Path(tempfile.gettempdir(), "rows")), tempfile.TemporaryFile(prefix="relatent-") as file:
        done = 0
        for found in _read(space, rows[order], size):
            for place, row in zip(order[done : done + len(found)].tolist(), found, strict=True):
                os.pwrite(file.fileno(), row.tobytes(), place * width)
            done += len(found)
        for start in range(0, len(rows), size):
            count = min(size, len(rows) - start)
            raw = os.pread(file.fileno(), count * width, start * width)
            yield np.frombuffer(raw, dtype=space.dtype).reshape(count, space.dim)


def _regrouped(pieces: Iterator[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Join and cut arrays so that each but the last has ``size`` rows."""
    held: list[np.ndarray] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= size:
            joined = np.concatenate(held)
            whole = len(joined) // size * size
            yield from np.split(joined[:whole], whole // size)
            held = [joined[whole:]]
    if held and sum(map(len, held)):
        yield np.concatenate(held)
