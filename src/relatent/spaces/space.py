"""Spaces: the vectors of one model, one row per key, in memory or left on disk until needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import to_numpy
from relatent._lazy import LazyModule
from relatent._terminal import doing
from relatent.spaces.chunks import (
    ArrayRows,
    Chunk,
    Layout,
    Rows,
    chunk_rows,
    empty_others,
    entries_of,
    mapped_vectors,
    row_ranges,
    shard_range,
)
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.keys import as_column, key_values, rows_of
from relatent.spaces.probe import Probe, ProbeBuilder, SpaceWarning, find_change, probed_ranges

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = LazyModule("pyarrow")


class Space:
    """Vectors with keys, a name, and a fingerprint that says which model they come from.

    A space that was read from a file is lazy: :meth:`chunks` and :meth:`take` read what they give and no more, and
    ``vectors`` reads all. Without keys, rows are known by their number.

    Every function that takes vectors takes a space. One that takes parallel vectors joins two spaces on their keys.
    ``space[3]`` is the vector of row 3; a slice, row numbers or a mask give a smaller space. A pickled space holds its
    vectors, or the path of its file, which is opened again.

    >>> space = Space([[1.0, 0.0], [0.0, 2.0]], keys=["a", "b"], name="toy")
    >>> space
    Space('toy', 2 × 2 float64, keys 'a' …)
    >>> space[1:].keys.tolist(), space[1].tolist(), space.by_keys(["b", "a"])[0].tolist()
    (['b'], [0.0, 2.0], [0.0, 2.0])
    >>> [len(chunk) for chunk in space.chunks(rows=1)]
    [1, 1]
    """

    path: str | None
    """Where it was read from: a file, a folder or a glob; None for what is in memory."""

    def __init__(
        self,
        vectors: Any,
        keys: Sequence[Any] | np.ndarray | pa.Array | None = None,
        name: str = "",
        fingerprint: Fingerprint | None = None,
        *,
        others: pa.Table | Mapping[str, Any] | None = None,
    ) -> None:
        array = to_numpy(vectors)
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise ValueError(f"vectors have shape {array.shape} and dtype {array.dtype}: expected numbers in 2-D.")
        if array.dtype.kind != "f":
            array = array.astype(np.float32 if array.dtype.itemsize <= 2 else np.float64)
        table, layout = _table(len(array), keys, others)
        self._rows: Rows = ArrayRows(array, table, layout)
        self.name, self.path, self._layout = name, None, layout
        self._reopen: Callable[[], Rows] | None = None
        self._recorded = _checked(fingerprint, array.shape[1])

    @classmethod
    def over(
        cls,
        rows: Rows,
        name: str = "",
        fingerprint: Fingerprint | None = None,
        path: str | None = None,
        reopen: Callable[[], Rows] | None = None,
    ) -> Space:
        """Build over rows that know how to read themselves, such as those of a file.

        ``reopen`` opens them again in another process; without it, the rows themselves are pickled.
        """
        space = cls.__new__(cls)
        space._rows, space.name, space.path, space._reopen, space._layout = rows, name, path, reopen, rows.layout
        space._recorded = _checked(fingerprint or rows.fingerprint, rows.shape[1])
        return space

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and coordinates."""
        return self._rows.shape

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.shape[1]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the vectors."""
        return self._rows.dtype

    @property
    def layout(self) -> Layout:
        """How the columns are named."""
        return self._layout

    @property
    def schema(self) -> pa.Schema:
        """The names and types of all columns but the vectors', without reading them."""
        return self._rows.schema

    @property
    def has_keys(self) -> bool:
        """Whether rows have keys of their own, rather than only their number."""
        return self.layout.key is not None

    @cached_property
    def vectors(self) -> np.ndarray:
        """All vectors, (n, d).

        Those of a large file that holds them in one piece (.npy, .safetensors, uncompressed .npz) are mapped rather
        than read, after one pass that compares them with their checksums. Replacing the file does not change them;
        do not write into it while they are in use. What is written to the array stays in memory.
        """
        if isinstance(self._rows, ArrayRows):
            return self._rows.vectors
        mapped = mapped_vectors(self._rows)
        if mapped is not None:
            return mapped
        out = np.empty(self.shape, dtype=self.dtype)
        for chunk in self.chunks():
            out[chunk.start : chunk.start + len(chunk)] = chunk.vectors
        return out

    @cached_property
    def others(self) -> pa.Table:
        """Every column but the vectors, keys included."""
        return self._rows.others()

    @cached_property
    def keys(self) -> np.ndarray:
        """All keys, integers as such and others as text; the row numbers when there are none."""
        column = self.key_column()
        return np.arange(len(self)) if column is None else key_values(column).to_numpy(zero_copy_only=False)

    def key_column(self) -> pa.ChunkedArray | None:
        """Read the keys, and no other column, as Arrow holds them; None when there are none."""
        return None if self.layout.key is None else self._rows.others([self.layout.key]).column(0)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What was recorded when the vectors were made; what is not known is left open, and the probe is measured."""
        if self._recorded is not None and self._recorded.probe is not None:
            return self._recorded
        with doing(f"measuring the fingerprint of {self.name or 'a space'}"):
            return replace(self._recorded or Fingerprint(dim=self.dim), probe=self._measured())

    @property
    def recorded(self) -> Fingerprint:
        """What was recorded when the vectors were made, without measuring."""
        return (self._recorded or Fingerprint(dim=self.dim)).recorded()

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Return blocks of consecutive rows from all over the space, each with the number of its first row."""
        for first, last in probed_ranges(getattr(self._rows, "starts", (0, len(self)))):
            yield first, next(self._rows.chunks(first, last, last - first)).vectors

    def _measured(self) -> Probe | None:
        """Probe blocks of rows all over the space, and warn where they look like two spaces."""
        ranges, blocks = [], []
        for first, rows in self.blocks():
            ranges.append(first)
            blocks.append(ProbeBuilder())
            blocks[-1].add(rows)
        change = find_change(blocks)
        if change is not None:
            row = ranges[change[0]]
            warnings.warn(
                f"The rows of {self.path or self.name or 'the space'} from about {row:,} on look like another space "
                f"than the rest: {change[1].reason}. Split the file if it holds vectors of two models.",
                SpaceWarning,
                stacklevel=3,
            )
        return sum(blocks, ProbeBuilder()).probe()

    def chunks(
        self, rows: int | None = None, shard: tuple[int, int] | None = None, *, within: tuple[int, int] | None = None
    ) -> Iterator[Chunk]:
        """Return the rows in order, at most ``rows`` at a time (default: 32 MiB).

        ``shard=(i, n)`` returns one of n equal parts, ``within=(start, stop)`` a range of rows. There is always at
        least one chunk, so that a writer learns the columns; in an empty space it is empty.
        """
        start, stop = shard_range(len(self), shard) if within is None else within
        chunks = self._rows.chunks(start, stop, chunk_rows(self.dim, self.dtype, rows))
        return (replace(chunk, layout=self.layout) for chunk in chunks)

    def ranges(self, rows: int) -> list[tuple[int, int]]:
        """Divide the space into ranges of about ``rows`` rows that can be read independently at no extra cost.

        They depend on the space alone, not on who reads them.

        >>> Space([[1.0], [2.0], [3.0]]).ranges(2)
        [(0, 2), (2, 3)]
        """
        return row_ranges(len(self), rows, entries_of(self._rows))

    def take(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Read the vectors of some rows, in the order given, without holding the others."""
        rows = np.asarray(rows, dtype=np.intp)
        if isinstance(self._rows, ArrayRows) or "vectors" in self.__dict__:
            return np.asarray(self.vectors[rows])
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError(f"Row {rows.max()} was asked for but there are {len(self)} rows.")
        out = np.empty((len(rows), self.dim), dtype=self.dtype)
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        for chunk in self.chunks(within=(ordered[0], ordered[-1] + 1)) if len(rows) else ():
            low, high = np.searchsorted(ordered, [chunk.start, chunk.start + len(chunk)])
            out[order[low:high]] = chunk.vectors[ordered[low:high] - chunk.start]
        return out

    def subset(self, rows: Sequence[int] | np.ndarray) -> Space:
        """Return some rows as a space in memory, in the order given, with their other columns and the fingerprint."""
        rows = np.asarray(rows, dtype=np.intp)
        part = ArrayRows(self.take(rows), self.others.take(pa.array(rows)), self.layout)
        return Space.over(part, self.name, self.fingerprint)

    def rows_of(self, keys: Sequence[Any] | np.ndarray) -> np.ndarray:
        """Return the rows of these keys, in the order given."""
        column = self.key_column()
        return rows_of(self.keys if column is None else column, keys)

    def by_keys(self, keys: Sequence[Any] | np.ndarray) -> Space:
        """Return the rows of these keys as a space in memory, in the order given."""
        return self.subset(self.rows_of(keys))

    def without_keys(self) -> Space:
        """Return the same rows, known by their number only. Two such spaces are joined by row order."""
        space = Space.over(self._rows, self.name, self._recorded, self.path, self._reopen)
        space._layout = replace(self.layout, key=None)
        return space

    def aligned_with(self, *others: Space) -> tuple[np.ndarray, ...]:
        """Return the vectors of the keys that all these spaces share, in the order of this one."""
        from relatent.spaces.join import common_rows

        spaces = (self, *others)
        return tuple(space.take(rows) for space, rows in zip(spaces, common_rows(*spaces), strict=True))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all vectors: NumPy's conversion of a space to an array."""
        return np.array(self.vectors, dtype=dtype, copy=copy)

    def __getitem__(self, rows: Any) -> Any:
        """Return the vector of one row, or a space of several: a slice, row numbers or a mask of booleans."""
        if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
            return self.take([range(len(self))[rows]])[0]
        return self.subset(np.arange(len(self))[rows])

    def __iter__(self) -> Iterator[np.ndarray]:
        """Go through the vectors, chunk by chunk."""
        return (vector for chunk in self.chunks() for vector in chunk.vectors)

    def __getstate__(self) -> dict[str, Any]:
        """Keep how to open the rows again, or else the rows, and nothing that was read of them."""
        state = {name: getattr(self, name) for name in ("name", "path", "_reopen", "_recorded", "_layout")}
        return state | {"shape": self.shape, "rows": self._rows if self._reopen is None else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the rows again."""
        shape, rows = state.pop("shape"), state.pop("rows")
        self.__dict__.update(state)
        self._rows = rows if self._reopen is None else self._reopen()
        if self.shape != shape:
            raise ValueError(
                f"{self.path} is {self.shape[0]} × {self.shape[1]} and was {shape[0]} × {shape[1]} when its space was "
                "pickled: the file has changed. Read it again."
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        """Name, size and first key."""
        first = next(self._rows.chunks(0, min(1, len(self)), 1)).keys if self.has_keys else None
        keys = f", keys {first[0].as_py()!r} …" if first is not None and len(first) else ""
        return f"Space({self.name!r}, {len(self):,} × {self.dim} {self.dtype}{keys})"


def _table(rows: int, keys: Any, others: pa.Table | Mapping[str, Any] | None) -> tuple[pa.Table, Layout]:
    """Put keys and other columns into one table with a layout."""
    table = empty_others(rows) if others is None else others if isinstance(others, pa.Table) else pa.table(dict(others))
    if keys is not None:
        column = as_column(keys)
        if "key" in table.column_names:
            raise ValueError("others holds a column 'key' and keys were given too: rename or drop one of them.")
        if len(column) != rows:
            raise ValueError(f"{len(column)} keys were given for {rows} vectors: expected one per row.")
        table = pa.table({"key": column, **{name: table.column(name) for name in table.column_names}})
    if table.num_rows != rows:
        raise ValueError(f"others has {table.num_rows} rows for {rows} vectors: expected as many.")
    return table, Layout("vector", None if keys is None else "key", tuple(table.column_names))


def _checked(fingerprint: Fingerprint | None, dim: int) -> Fingerprint | None:
    if fingerprint is not None and dim and fingerprint.dim != dim:
        raise ValueError(
            f"The fingerprint says {fingerprint.dim} coordinates and the vectors have {dim}: expected the same. "
            "Give the fingerprint of the model that made these vectors."
        )
    return fingerprint
