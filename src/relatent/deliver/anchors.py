"""`relatent anchors`: choose anchors of a whole space and write them as a space of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from relatent import anchors as choose
from relatent._array import suggest
from relatent.spaces.files import AnyPath, check_new, write_space
from relatent.spaces.space import Space

__all__ = ["STRATEGIES", "anchor_rows", "select_anchors"]

STRATEGIES = ("uniform", "farthest_point", "kmeans", "stratified", "most_frequent")


def anchor_rows(space: Space, k: int, strategy: str = "kmeans", *, column: str | None = None, seed: int = 0) -> Any:
    """Choose k rows of a space; "stratified" needs a column of labels, "most_frequent" one of counts.

    >>> space = Space([[0.0], [0.1], [9.0]], others={"n": [1, 5, 3]})
    >>> anchor_rows(space, 2, "most_frequent", column="n").tolist()
    [1, 2]
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"There is no strategy {strategy!r}.{suggest(strategy, STRATEGIES)}")
    if strategy not in ("stratified", "most_frequent"):
        return getattr(choose, strategy)(space.vectors, k, seed)
    names = space.schema.names
    if column is None or column not in names:
        raise ValueError(f"{strategy} needs a column of the space and {column!r} is none.{suggest(column, names)}")
    values = np.asarray(space.others.column(column).to_numpy())
    return choose.stratified(values, k, seed) if strategy == "stratified" else choose.most_frequent(values, k)


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
    """Choose anchors and write them as a space of their own, whose keys serve for every space of the same items."""
    check_new(path, space, overwrite=overwrite)
    chosen = space.subset(np.sort(anchor_rows(space, k, strategy, column=column, seed=seed)))
    write_space(chosen, path, overwrite=overwrite)
    return chosen
