"""Embedding Atlas: a Parquet of translated items with their place on a map and their nearest neighbors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from relatent._errors import with_remedy
from relatent._files import atomic_write
from relatent._linalg import Plane
from relatent.evaluate import nearest
from relatent.spaces import Space, read_space

NEIGHBORS = 15
# Rows up to which neighbors are written: an exact search among more takes minutes.
NEIGHBOR_ROWS = 50_000
OWN = ("key", "space", "x", "y", "neighbors")
AnySpace = Space | str | os.PathLike[str]


def write(
    translator: Any,
    path: str | os.PathLike[str],
    *,
    space: AnySpace | None = None,
    target: AnySpace | None = None,
    overwrite: bool = False,
) -> None:
    """Write a Parquet that ``embedding-atlas FILE --x x --y y --neighbors neighbors`` opens.

    ``space`` is translated; ``target``, if given, is drawn on the same map. Columns are ``key``, ``space`` (whose item
    it is), ``x`` and ``y`` (by the principal axes of the target, or of the translation without one), ``neighbors``
    (row numbers and cosine distances, up to 50,000 rows), and whatever columns the spaces had beside their vectors.
    """
    if space is None:
        raise with_remedy(
            ValueError("No space was given: an atlas shows translated items. Name the vectors to translate:"),
            python="space=.",
            command="SOURCE, after the translator.",
        )
    source = _read(space)
    rows = [np.asarray(translator.transform(source).vectors, dtype=np.float32)]
    tables = [_columns(source)]
    if target is not None:
        other = _read(target)
        prepare = getattr(translator, "transform_target", lambda space: space)
        rows.append(np.asarray(prepare(other).vectors, dtype=np.float32))
        tables.append(_columns(other))
    table = _placed(pa.concat_tables(tables, promote_options="permissive"), rows)
    with atomic_write(path, overwrite=overwrite) as tmp:
        parquet.write_table(table, tmp)


def _read(space: AnySpace) -> Space:
    return space if isinstance(space, Space) else read_space(space)


def _columns(space: Space) -> pa.Table:
    """Return a space's keys as text, its name, and its other columns."""
    others = space.others
    if space.layout.key is not None:
        others = others.drop_columns([space.layout.key])
    clash = [name for name in others.column_names if name in OWN]
    if clash:
        raise ValueError(f"{space.name} has a column {clash[0]!r}, which an atlas fills itself: rename it first.")
    named = {"key": [str(key) for key in space.keys], "space": [space.name] * len(space)}
    return pa.table({**named, **{name: others.column(name) for name in others.column_names}})


def _placed(table: pa.Table, rows: list[np.ndarray]) -> pa.Table:
    """Add where every row lies and which rows lie nearest to it, the target's among the translated."""
    vectors = np.concatenate(rows)
    x, y = Plane.fit(rows[-1])(vectors).T
    table = table.append_column("x", pa.array(x)).append_column("y", pa.array(y))
    if len(vectors) > NEIGHBOR_ROWS:
        return table
    found = nearest(vectors, vectors, min(NEIGHBORS, len(vectors) - 1), exclude_self=True)
    lists = [_lists(found.indices), _lists(1 - found.similarities)]
    return table.append_column("neighbors", pa.StructArray.from_arrays(lists, ["ids", "distances"]))


def _lists(values: np.ndarray) -> pa.ListArray:
    n, k = values.shape
    return pa.ListArray.from_arrays(pa.array(np.arange(0, n * k + 1, k), pa.int32()), pa.array(values.ravel()))
