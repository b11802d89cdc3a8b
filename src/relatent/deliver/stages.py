"""The stages on whole spaces: choose anchors, project on them, compare two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relatent import anchors as choose
from relatent._array import suggest
from relatent.deliver.apply import map_space
from relatent.evaluate import Comparison, compare
from relatent.project import RelativeProjection
from relatent.spaces.files import AnyPath, check_new, write_space
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.join import match_keys
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space

__all__ = ["STRATEGIES", "anchor_rows", "compare_spaces", "project_space", "select_anchors"]

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
    write_space(chosen, path)
    return chosen


def project_space(
    space: Space,
    anchors: Sequence[Any] | np.ndarray,
    path: AnyPath,
    *,
    similarity: str = "cosine",
    normalize: str = "center",
    output: str = "none",
    overwrite: bool = False,
    progress: bool | None = None,
) -> Fingerprint:
    """Write the relative representation of a space: the similarity of every row to the anchors, named by key.

    Two spaces that are projected on anchors of the same keys, in the same order, can be compared as they are.
    """
    rows = _rows_of(space, anchors)
    relative = RelativeProjection(similarity, normalize=normalize, output=output).fit(space.take(rows))
    known = Fingerprint(dim=len(rows), model=f"relative to {len(rows)} anchors ({similarity}, {normalize}, {output})")
    map_space(space, path, relative.transform, known, overwrite=overwrite, progress=progress)
    return known


def _rows_of(space: Space, anchors: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Find anchors by key, an integer key and its text being the same."""
    texts = dict(zip(key_hashes(space.keys).tolist(), space.keys, strict=True))
    missing = [key for key, number in zip(anchors, key_hashes(anchors).tolist(), strict=True) if number not in texts]
    if missing:
        raise ValueError(
            f"{len(missing)} of the {len(anchors)} anchors are not among the keys of {space.name or 'the space'}, "
            f"first {missing[0]!r}: expected anchors of the same items."
        )
    return choose.by_keys(list(space.keys), [texts[number] for number in key_hashes(anchors).tolist()])


def compare_spaces(x: Space, y: Space, *, max_rows: int = 5_000, k: int = 10, seed: int = 0) -> Comparison:
    """Compare two spaces of any dimension by the keys they share, by every measure (:func:`relatent.compare`).

    Of more than ``max_rows`` keys in common, so many are drawn by the seed.
    """
    matched = match_keys(x, y)
    rows = np.arange(len(matched))
    if len(rows) > max_rows:
        rows = np.sort(np.random.default_rng(seed).choice(rows, max_rows, replace=False))
    return compare(x.take(matched.x_rows[rows]), y.take(matched.y_rows[rows]), k=k, seed=seed)
