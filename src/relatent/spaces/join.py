"""Join spaces on keys, so that row i means the same in all of them, and report what was left out.

Keys are compared by their texts (:func:`relatent.spaces.keys.key_texts`): 7 and "7" are the same key. A key column that
was found by its name (:data:`relatent.spaces.io.columns.KEY_NAMES`) must be unique, which is checked here, where
all keys are read anyway. Rows are paired by their order only when asked, or where neither space has keys.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from relatent._array import Array, as_parallel
from relatent._errors import with_remedy
from relatent._files import writing
from relatent._lazy import LazyModule
from relatent.spaces.keys import key_texts, key_values, repeated_keys, without_nulls
from relatent.spaces.space import Space

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")


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
    on: tuple[str, str] | None
    """The key columns of x and y; None where rows were paired by their order."""
    left_out: tuple[int, int]
    """How many rows of x and of y have no partner."""

    def __len__(self) -> int:
        return len(self.x_rows)

    def summary(self) -> str:
        """Return what was joined on, how many rows matched, and how many were left out on each side, as text."""
        if self.on is None:
            return f"{len(self):,} rows paired by row order"
        columns = f"column {self.on[0]!r}" if self.on[0] == self.on[1] else f"columns {self.on[0]!r} and {self.on[1]!r}"
        reasons = [("only in x", self.only_x), ("only in y", self.only_y), ("ambiguous", self.duplicates)]
        named = ", ".join(f"{len(keys):,} {why} ({_some(keys)})" for why, keys in reasons if len(keys))
        left_out = f"left out {self.left_out[0]:,} rows of x and {self.left_out[1]:,} of y"
        return f"{len(self):,} keys in common by {columns}; {left_out}" + (f": {named}" if named else "")


@dataclass(frozen=True, eq=False)
class Parallel(Matched):
    """Two aligned arrays with their keys, and what was left out. Unpacks into the two arrays."""

    x: np.ndarray
    y: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        """Unpack into x and y."""
        return iter((self.x, self.y))


def parallel(x: Space, y: Space, *, by_row: bool = False) -> Parallel:
    """Join two spaces on their keys, or by row order if asked. Reads only the vectors that both have.

    >>> old = Space([[1.0], [2.0], [3.0]], keys=["a", "b", "c"])
    >>> new = Space([[30.0], [10.0]], keys=["c", "a"])
    >>> joined = parallel(old, new)
    >>> x, y = joined
    >>> x.tolist(), y.tolist(), joined.only_x.tolist()
    ([[1.0], [3.0]], [[10.0], [30.0]], ['b'])
    """
    matched = match_keys(x, y, by_row=by_row)
    return Parallel(**vars(matched), x=x.take(matched.x_rows), y=y.take(matched.y_rows))


def match_keys(x: Space, y: Space, *, by_row: bool = False) -> Matched:
    """Find the rows that two spaces have in common, without reading a vector.

    With ``by_row``, or where neither space has keys, row i of x goes with row i of y, if there are equally many.
    """
    if by_row or not (x.has_keys or y.has_keys):
        return _row_by_row(x, y)
    for space, other, which in ((x, y, "first"), (y, x, "second")):
        if not space.has_keys:
            refused = ValueError(
                f"The {which} space ({space.name or len(space)}) has no keys and the other has "
                f"{other.layout.key!r}: expected both."
            )
            raise _with_keys_named(refused, space)
    return _on_keys(x, y, _keys(x, "x"), _keys(y, "y"))


@dataclass(frozen=True, eq=False)
class Aligned:
    """Vectors of several spaces whose row i means the same in each, and its key; keys are None if there are none."""

    vectors: dict[str, Array]
    keys: np.ndarray | None


def align(spaces: Mapping[str, Array | Space]) -> Aligned:
    """Join any number of spaces on their keys, in the order of the first; arrays are taken row by row.

    >>> old, new = Space([[1.0], [2.0]], keys=["a", "b"]), Space([[20.0], [10.0]], keys=["b", "a"])
    >>> align({"old": old, "new": new}).vectors["new"].tolist()
    [[10.0], [20.0]]
    """
    keyed = {name: space for name, space in spaces.items() if isinstance(space, Space) and space.has_keys}
    if len(keyed) < 2:
        arrays = {name: space.vectors if isinstance(space, Space) else space for name, space in spaces.items()}
        keys = next((space.keys for space in keyed.values()), None)
        return Aligned(dict(zip(spaces, as_parallel(**arrays), strict=True)), keys)
    without = [name for name in spaces if name not in keyed]
    if without:
        raise ValueError(
            f"{' and '.join(keyed)} have keys and {without[0]} has none: expected keys in all or in none. Give "
            f"{without[0]} as a Space with keys."
        )
    rows = common_rows(*keyed.values(), names=list(keyed))
    taken = {name: space.take(part) for (name, space), part in zip(keyed.items(), rows, strict=True)}
    keys = next(iter(keyed.values())).keys[rows[0]]
    return Aligned(dict(zip(keyed, as_parallel(**taken), strict=True)), keys)


def common_rows(first: Space, *others: Space, names: Sequence[str] = ()) -> tuple[np.ndarray, ...]:
    """Return the rows of each space whose keys are in all of them, in the order of the first. Reads no vector.

    >>> a, b = Space([[1.0], [2.0]], keys=["a", "b"]), Space([[2.0], [3.0]], keys=["b", "c"])
    >>> [rows.tolist() for rows in common_rows(a, b)]
    [[1], [0]]
    """
    matches = [match_keys(first, other) for other in others]
    kept = reduce(np.intersect1d, [one.x_rows for one in matches]) if matches else np.arange(len(first))
    if len(matches) > 1 and not len(kept):
        listed = names or [space.name or f"space {i}" for i, space in enumerate((first, *others))]
        raise ValueError(f"No key is in all of {', '.join(listed)}: expected keys that all of them have.")
    return kept, *(one.y_rows[np.searchsorted(one.x_rows, kept)] for one in matches)


def duplicate_keys(space: Space) -> np.ndarray:
    """Name the keys that stand for several rows.

    >>> duplicate_keys(Space([[1.0], [2.0], [3.0]], keys=["a", "b", "a"])).tolist()
    ['a']
    """
    if not space.has_keys:
        return np.empty(0, dtype=np.intp)
    return _listed(repeated_keys(key_values(space.key_column())))


def _row_by_row(x: Space, y: Space) -> Matched:
    if len(x) != len(y):
        refused = ValueError(f"{len(x)} and {len(y)} rows cannot be paired by row order: expected equally many.")
        raise _with_keys_named(refused, x, y)
    rows = np.arange(len(x))
    none = rows[:0]
    return Matched(rows, rows, rows, none, none, none, on=None, left_out=(0, 0))


def _with_keys_named(error: ValueError, *spaces: Space) -> ValueError:
    """Return the error with how to name the keys, or to do without."""
    columns = dict.fromkeys(name for space in spaces for name in space.schema.names)
    listed = f", one of: {', '.join(columns)}" if columns else ""
    words = f"Name the key column ({{}}{listed}), or pair equally many rows by order ({{}})."
    return with_remedy(error, python=words.format("key=", "by_row=True"), command=words.format("--key", "--by-row"))


def _on_keys(x: Space, y: Space, x_keys: pa.Array, y_keys: pa.Array) -> Matched:
    kx, ky = key_texts(x_keys), key_texts(y_keys)
    twice = pc.unique(pa.concat_arrays([repeated_keys(kx), repeated_keys(ky)]))
    place = pc.index_in(kx, value_set=ky)
    keep = pc.and_(pc.is_valid(place), pc.invert(pc.is_in(kx, value_set=twice)))
    if not pc.any(keep).as_py():
        likes = [f"{which} has {_some(k.slice(0, 3).to_pylist())}" for which, k in (("x", x_keys), ("y", y_keys))]
        clash = f", and {_some(twice.to_pylist())} stand for several rows" if len(twice) else ""
        raise _with_keys_named(ValueError(f"No key is in both spaces: {' and '.join(likes)}{clash}."), x, y)
    only_x, only_y = (pc.invert(pc.is_in(a, value_set=b)) for a, b in ((kx, ky), (ky, kx)))
    x_rows = np.flatnonzero(keep.to_numpy(zero_copy_only=False))
    return Matched(
        x_rows=x_rows,
        y_rows=place.filter(keep).to_numpy(zero_copy_only=False).astype(np.intp),
        keys=_listed(x_keys.filter(keep)),
        only_x=_listed(pc.unique(x_keys.filter(only_x))),
        only_y=_listed(pc.unique(y_keys.filter(only_y))),
        duplicates=_listed(twice.cast(x_keys.type) if x_keys.type == y_keys.type else twice),
        on=(str(x.layout.key), str(y.layout.key)),
        left_out=(len(x) - len(x_rows), len(y) - len(x_rows)),
    )


def _keys(space: Space, which: str) -> pa.Array:
    """Read the keys; refuse repeated ones in a column that nobody named."""
    column = space.layout.key
    try:
        keys = without_nulls(key_values(space.key_column()), which)
    except ValueError as error:
        raise ValueError(f"Column {column!r} of {which} cannot be joined on: {error}") from error
    twice = repeated_keys(keys) if space.layout.guessed else keys[:0]
    if len(twice):
        words = "Say {} to leave those rows out, name another column, or pair by row order ({})."
        raise with_remedy(
            ValueError(
                f"Column {column!r} of {which} is named like a key and is not unique: {len(twice):,} of its values are "
                f"on several rows ({_some(twice.to_pylist())})."
            ),
            python=words.format(f"key={column!r}", "by_row=True"),
            command=words.format(f"--key {column}", "--by-row"),
        )
    return keys


def _listed(keys: pa.Array) -> np.ndarray:
    return np.asarray(keys.to_numpy(zero_copy_only=False))


def _some(keys: Iterable[object], max_keys: int = 3) -> str:
    listed = list(keys)
    return ", ".join(repr(k.item() if hasattr(k, "item") else k) for k in listed[:max_keys]) + (
        " …" if len(listed) > max_keys else ""
    )


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
