"""Join two spaces on keys, so that row i means the same in both, and say what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent.spaces.space import Space

__all__ = ["Matched", "Parallel", "duplicate_keys", "match_keys", "parallel"]


@dataclass(frozen=True, eq=False)
class Matched:
    """Which row of x goes with which row of y, in the order of x, and which keys were left out."""

    x_rows: np.ndarray
    y_rows: np.ndarray
    keys: np.ndarray
    only_x: np.ndarray
    only_y: np.ndarray
    duplicates: np.ndarray
    """Keys that stand for several rows in x or y. They are ambiguous and left out on both sides."""

    def __len__(self) -> int:
        """Count the keys in common."""
        return len(self.x_rows)

    def summary(self) -> str:
        """Say in words what was joined and what was left out."""
        left_out = [("only in x", self.only_x), ("only in y", self.only_y), ("ambiguous", self.duplicates)]
        parts = [f"{len(k):,} {what} ({_some(k)})" for what, k in left_out if len(k)]
        return f"{len(self):,} keys in common" + (f"; left out: {', '.join(parts)}" if parts else "")


@dataclass(frozen=True, eq=False)
class Parallel(Matched):
    """Two aligned arrays with their keys, and what was left out. Unpacks into the two arrays."""

    x: np.ndarray
    y: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        """Unpack into x and y."""
        return iter((self.x, self.y))


def parallel(x: Space, y: Space) -> Parallel:
    """Join two spaces on their keys. Reads only the vectors that both have.

    >>> old = Space([[1.0], [2.0], [3.0]], keys=["a", "b", "c"])
    >>> new = Space([[30.0], [10.0]], keys=["c", "a"])
    >>> joined = parallel(old, new)
    >>> x, y = joined
    >>> x.tolist(), y.tolist(), joined.only_x.tolist()
    ([[1.0], [3.0]], [[10.0], [30.0]], ['b'])
    """
    matched = match_keys(x, y)
    return Parallel(**vars(matched), x=x.take(matched.x_rows), y=y.take(matched.y_rows))


def match_keys(x: Space, y: Space) -> Matched:
    """Find the rows that two spaces have in common, without reading a vector.

    Two spaces without keys are joined row by row if they have equally many.
    """
    if not x.has_keys and not y.has_keys:
        return _row_by_row(x, y)
    for space, other, which in ((x, y, "first"), (y, x, "second")):
        if not space.has_keys:
            raise ValueError(
                f"The {which} space ({space.name or len(space)}) has no keys and the other has "
                f"{other.layout.key!r}: expected both. Name its key column."
            )
    return _on_keys(*_joinable(x, y))


def duplicate_keys(space: Space) -> np.ndarray:
    """Name the keys that stand for several rows.

    >>> duplicate_keys(Space([[1.0], [2.0], [3.0]], keys=["a", "b", "a"])).tolist()
    ['a']
    """
    if not space.has_keys:
        return np.empty(0, dtype=np.intp)
    return np.asarray(_repeated(_keys(space, space.name or "the space")).to_numpy(zero_copy_only=False))


def _row_by_row(x: Space, y: Space) -> Matched:
    if len(x) != len(y):
        raise ValueError(
            f"Neither space has keys and they have {len(x)} and {len(y)} rows: expected keys, or as many rows in the "
            "same order. Name a key column, or give keys."
        )
    rows = np.arange(len(x))
    none = rows[:0]
    return Matched(rows, rows, rows, none, none, none)


def _on_keys(kx: pa.Array, ky: pa.Array) -> Matched:
    twice = pc.unique(pa.concat_arrays([_repeated(kx), _repeated(ky)]))
    place = pc.index_in(kx, value_set=ky)
    keep = pc.and_(pc.is_valid(place), pc.invert(pc.is_in(kx, value_set=twice)))
    in_y, in_x = pc.is_in(kx, value_set=ky), pc.is_in(ky, value_set=kx)
    matched = Matched(
        x_rows=np.flatnonzero(keep.to_numpy(zero_copy_only=False)),
        y_rows=place.filter(keep).to_numpy(zero_copy_only=False).astype(np.intp),
        keys=kx.filter(keep).to_numpy(zero_copy_only=False),
        only_x=pc.unique(kx.filter(pc.invert(in_y))).to_numpy(zero_copy_only=False),
        only_y=pc.unique(ky.filter(pc.invert(in_x))).to_numpy(zero_copy_only=False),
        duplicates=twice.to_numpy(zero_copy_only=False),
    )
    if len(matched) == 0:
        likes = [f"{which} has {_some(k.slice(0, 3).to_pylist())}" for which, k in (("x", kx), ("y", ky))]
        clash = f", and {_some(matched.duplicates)} stand for several rows" if len(twice) else ""
        raise ValueError(f"No key is in both spaces: {' and '.join(likes)}{clash}. Check which columns hold the keys.")
    return matched


def _joinable(x: Space, y: Space) -> tuple[pa.Array, pa.Array]:
    """Return the keys of both as arrays of one type."""
    kx, ky = _keys(x, "x"), _keys(y, "y")
    if pa.types.is_large_string(kx.type) != pa.types.is_large_string(ky.type):
        raise ValueError(
            f"The keys of x are {kx.type} and those of y are {ky.type}: expected one type. "
            "Read the key column of one of them as the other's type."
        )
    return kx, ky.cast(kx.type)


def _keys(space: Space, which: str) -> pa.Array:
    column = space.key_column()
    if column is None:
        raise ValueError(f"The space {which} has no keys: name its key column.")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    integer = pa.types.is_integer(column.type)
    text = not integer and not pa.types.is_binary(column.type) and not pa.types.is_floating(column.type)
    column = column.cast(pa.int64() if integer else pa.large_string() if text else column.type)
    keys = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if keys.null_count:
        row = int(np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{keys.null_count} keys of {which} are null, first in row {row}: give every row a key.")
    return keys


def _repeated(keys: pa.Array) -> pa.Array:
    counts = pc.value_counts(keys)
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def _some(keys: object, most: int = 3) -> str:
    listed = list(keys)  # type: ignore[call-overload]
    return ", ".join(repr(k.item() if hasattr(k, "item") else k) for k in listed[:most]) + (
        " …" if len(listed) > most else ""
    )
