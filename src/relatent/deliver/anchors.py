"""`relatent anchors`: choose anchors of a whole space and write them as a space of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from relatent import anchors as choose
from relatent._array import check_count, suggest
from relatent.spaces.files import AnyPath, check_new, read_space, space_writer
from relatent.spaces.space import Space

__all__ = ["STRATEGIES", "anchor_rows", "candidate_count", "select_anchors"]

STRATEGIES = ("uniform", "farthest_point", "kmeans", "stratified", "most_frequent")
BY_COLUMN = ("stratified", "most_frequent")
# Strategies that compare vectors choose among a random sample of about this size, so that memory does not grow with
# the file; and of at least so many rows per anchor, so that there is something to choose from.
SAMPLE_BYTES = 64 * 2**20
ROWS_PER_ANCHOR = 10


def candidate_count(space: Space, k: int, strategy: str = "kmeans") -> int:
    """Return how many rows a strategy chooses among: all, or the size of the sample whose vectors are compared."""
    if strategy not in ("farthest_point", "kmeans"):
        return len(space)
    return min(len(space), max(ROWS_PER_ANCHOR * k, SAMPLE_BYTES // (space.dim * space.dtype.itemsize)))


def anchor_rows(space: Space, k: int, strategy: str = "kmeans", *, column: str | None = None, seed: int = 0) -> Any:
    """Choose k rows of a space; "stratified" needs a column of labels, "most_frequent" one of counts.

    "kmeans" and "farthest_point" choose among a random sample of :func:`candidate_count` rows.

    >>> space = Space([[0.0], [0.1], [9.0]], others={"n": [1, 5, 3]})
    >>> anchor_rows(space, 2, "most_frequent", column="n").tolist()
    [1, 2]
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"There is no strategy {strategy!r}.{suggest(strategy, STRATEGIES)}")
    k = check_count(k, len(space))
    if strategy in BY_COLUMN:
        values = _column(space, strategy, column)
        return choose.stratified(values, k, seed) if strategy == "stratified" else choose.most_frequent(values, k)
    count = k if strategy == "uniform" else candidate_count(space, k, strategy)
    # Only the number of rows matters for a uniform choice, so that no vector is read.
    rows = choose.uniform(np.broadcast_to(0.0, (len(space), 1)), count, seed) if count < len(space) else None
    if strategy == "uniform":
        return np.arange(len(space)) if rows is None else rows
    if rows is None:
        return getattr(choose, strategy)(space.vectors, k, seed)
    rows = np.sort(rows)
    return rows[getattr(choose, strategy)(space.take(rows), k, seed)]


def select_anchors(
    space: Space,
    path: AnyPath,
    k: int,
    strategy: str = "kmeans",
    *,
    column: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Space:
    """Choose anchors and write them as a space of their own, whose keys serve for every space of the same items.

    Reads the file chunk by chunk and holds no more than the sample to choose from and the chosen rows.
    """
    check_new(path, space, overwrite=overwrite)
    rows = np.sort(anchor_rows(space, k, strategy, column=column, seed=seed))
    with space_writer(path, fingerprint=space.fingerprint, overwrite=overwrite) as out:
        for chunk in space.chunks():
            first, end = np.searchsorted(rows, (chunk.start, chunk.start + len(chunk)))
            inside = rows[first:end] - chunk.start
            if len(inside):
                out.write(replace(chunk, vectors=chunk.vectors[inside], others=chunk.others.take(inside)))
    return read_space(path)


def _column(space: Space, strategy: str, name: str | None) -> np.ndarray:
    names = space.schema.names
    if name is None or name not in names:
        raise ValueError(f"{strategy} needs a column of the space and {name!r} is none.{suggest(name, names)}")
    return np.concatenate([chunk.others.column(name).to_numpy() for chunk in space.chunks()])
