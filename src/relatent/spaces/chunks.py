"""Chunks: rows in order, a bounded number at a time, from memory or from any file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from relatent._lazy import LazyModule
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.probe import SpaceWarning

if TYPE_CHECKING:
    import pyarrow as pa

    from relatent.spaces.quantize import Quantizer
else:
    pa = LazyModule("pyarrow")

# A chunk of about this size fills the caches of a matrix product and leaves room for several in memory.
CHUNK_BYTES = 32 * 2**20
# A row group of up to this many rows, the maximum of common writers, is read by one worker.
MAX_GROUP_ROWS = 2**20


@dataclass(frozen=True)
class Layout:
    """How the columns of a table are named: the vectors', the keys' if there are keys, and the order of all."""

    vector: str = "vector"
    key: str | None = "key"
    order: tuple[str, ...] = ()
    guessed: bool = False
    """Whether the key column was found by its name, rather than given by the user: then its keys must be unique."""
    quantizer: Quantizer | None = None
    """How the vectors are coded in the file; None where they stand as they are."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows: their vectors, and every other column (keys among them) as an Arrow table."""

    start: int
    vectors: np.ndarray
    others: pa.Table
    layout: Layout = field(default_factory=Layout)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def keys(self) -> pa.ChunkedArray | None:
        """The keys of these rows, or None when the space has none."""
        return None if self.layout.key is None else self.others.column(self.layout.key)

    def with_vectors(self, vectors: np.ndarray) -> Chunk:
        """Return the same rows with other vectors: what a translation makes of them."""
        if len(vectors) != len(self):
            raise ValueError(f"{len(vectors)} vectors were given for a chunk of {len(self)} rows: expected as many.")
        return replace(self, vectors=vectors)


class Rows(Protocol):
    """Where rows come from: memory, a file, several files. Each reader of a format gives one."""

    @property
    def shape(self) -> tuple[int, int]: ...  # noqa: D102
    @property
    def dtype(self) -> np.dtype: ...  # noqa: D102
    @property
    def layout(self) -> Layout: ...  # noqa: D102
    @property
    def fingerprint(self) -> Fingerprint | None: ...  # noqa: D102
    @property
    def schema(self) -> pa.Schema: ...  # noqa: D102

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Return rows start to stop in order, at most size at a time; at least one chunk, empty if there is no row."""
        ...

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Read every column but the vectors, or some of them."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """Rows whose vectors are an array in memory."""

    vectors: np.ndarray
    table: pa.Table
    layout: Layout = field(default_factory=Layout)
    fingerprint: Fingerprint | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and coordinates."""
        return (int(self.vectors.shape[0]), int(self.vectors.shape[1]))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the vectors."""
        return self.vectors.dtype

    @property
    def schema(self) -> pa.Schema:
        """The types of the other columns."""
        return self.table.schema

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Return slices, without a copy."""
        for first in range(start, max(stop, start + 1), size):
            last = min(first + size, stop)
            yield Chunk(first, self.vectors[first:last], self.table.slice(first, last - first), self.layout)

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Return every column but the vectors, or some of them."""
        return self.table if names is None else self.table.select(names)


class Joined:
    """Rows of several files, one after the other."""

    def __init__(self, parts: Sequence[Rows], names: Sequence[str]) -> None:
        self._parts, self._names = list(parts), list(names)
        self.starts = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])]).astype(int).tolist()
        filled = [i for i, part in enumerate(parts) if part.shape[0]] or [0]
        first = filled[0]
        for i in filled[1:]:
            _check_alike(parts[first], parts[i], names[first], names[i])
            _check_one_model(parts[first], parts[i], names[first], names[i])
        lead = parts[first]
        self.shape = (self.starts[-1], lead.shape[1])
        self.entries = [
            start + entry for start, part in zip(self.starts, parts, strict=False) for entry in entries_of(part) or [0]
        ]
        self.dtype, self.layout, self.schema = lead.dtype, lead.layout, lead.schema
        # What the first file measured of itself is not measured of all.
        self.fingerprint = None if lead.fingerprint is None else lead.fingerprint.recorded()

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Return the chunks of each file in turn; none reaches over the end of a file."""
        if start >= stop:
            yield from self._parts[0].chunks(0, 0, size)
        for part, first, last in zip(self._parts, self.starts, self.starts[1:], strict=False):
            low, high = max(start, first), min(stop, last)
            if low < high:
                for chunk in part.chunks(low - first, high - first, size):
                    yield replace(chunk, start=chunk.start + first, layout=self.layout)

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Read every column but the vectors, or some of them, of all files."""
        tables = [part.others(names) for part in self._parts]
        filled = [i for i, table in enumerate(tables) if len(table)] or [0]
        return _stacked([tables[i] for i in filled], [self._names[i] for i in filled])


def chunk_rows(dim: int, dtype: np.dtype, size: int | None = None) -> int:
    """Return the rows of a chunk: as asked, or as many as make 32 MiB."""
    if size is None:
        return max(1, min(CHUNK_BYTES // max(1, dim * dtype.itemsize), 1_000_000))
    if isinstance(size, bool) or int(size) != size or size < 1:
        raise ValueError(f"Chunks of {size!r} rows were asked for: expected a whole number of at least 1.")
    return int(size)


def shard_range(rows: int, shard: tuple[int, int] | None) -> tuple[int, int]:
    """Return the first row and the end of shard i of n: consecutive, of equal size to within one row.

    >>> [shard_range(10, (i, 3)) for i in range(3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    i, n = (0, 1) if shard is None else shard
    if not 0 <= i < n:
        raise ValueError(f"shard is {shard}: expected (i, n) with 0 ≤ i < n, such as (0, 4) for the first of four.")
    return rows * i // n, rows * (i + 1) // n


def entries_of(rows: Rows) -> list[int] | None:
    """Return the rows at which reading can begin without reading what comes before, or None if it can at any row.

    A reader tells them as ``entries``: the first rows of the row groups of a Parquet file.
    """
    return getattr(rows, "entries", None)


def mapped_vectors(rows: Rows) -> np.ndarray | None:
    """Return all vectors as a reader maps them from its file by ``mapped``, verified; None where it does not."""
    mapped: np.ndarray | None = rows.mapped() if hasattr(rows, "mapped") else None
    return mapped


def row_ranges(count: int, size: int, entries: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """Cut rows into consecutive ranges of about ``size`` rows, the last may be smaller; there is always one.

    They begin at ``entries`` where these are given: a range may then be longer, up to the longest usual row group.

    >>> row_ranges(10, 4), row_ranges(10, 4, [0, 5, 6])
    ([(0, 4), (4, 8), (8, 10)], [(0, 5), (5, 10)])
    """
    edges = [0]
    for entry in [*(range(size, count, size) if entries is None else entries[1:]), count]:
        if entry - edges[-1] >= size or entry == count:
            parts = max(1, -(-(entry - edges[-1]) // MAX_GROUP_ROWS)) if entries is not None else 1
            edges += np.linspace(edges[-1], entry, parts + 1).astype(int).tolist()[1:]
    return [(a, b) for a, b in pairwise(edges) if a < b] or [(0, 0)]


def empty_others(rows: int) -> pa.Table:
    """Return a table of n rows and no column."""
    return pa.table({"_": pa.nulls(rows)}).select([])


def _check_alike(a: Rows, b: Rows, name_a: str, name_b: str) -> None:
    given = [_kind(rows, rows.layout) for rows in (a, b)]
    names = ("dimension", "dtype", "vector column", "key column", "keys of type", "codes")
    for what, mine, theirs in zip(names, *given, strict=True):
        if mine != theirs:
            raise ValueError(
                f"{name_a} has {what} {mine!r} and {name_b} has {theirs!r}: expected files of one space. "
                "Read them apart."
            )


def _kind(rows: Rows, layout: Layout) -> tuple[int | str | None, ...]:
    codes = None if layout.quantizer is None else layout.quantizer.to_json()
    return rows.shape[1], str(rows.dtype), layout.vector, layout.key, _key_kind(rows), codes


def _check_one_model(a: Rows, b: Rows, name_a: str, name_b: str) -> None:
    """Refuse files that record different models, and warn of those that were measured to be different spaces."""
    if a.fingerprint is None or b.fingerprint is None:
        return
    match = a.fingerprint.recorded().matches(b.fingerprint.recorded())
    if not match:
        raise ValueError(f"{name_a} and {name_b} are of two spaces: {match.reason}. Read them apart.")
    match = a.fingerprint.matches(b.fingerprint)
    if not match:
        warnings.warn(f"{name_a} and {name_b} look like two spaces: {match.reason}.", SpaceWarning, stacklevel=2)


def _key_kind(rows: Rows) -> str | None:
    """Return "integer" for integers of any width, "text" for strings of any layout, and the type itself for others."""
    if rows.layout.key is None:
        return None
    kind = rows.schema.field(rows.layout.key).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind):
        return "integer"
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return "text" if text else str(kind)


def _stacked(tables: list[pa.Table], names: list[str]) -> pa.Table:
    """Put tables under each other, with the column types of the first where they differ."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        first = tables[0].schema
    for table, name in zip(tables[1:], names[1:], strict=True):
        for given in table.schema:
            known = first.field(given.name) if given.name in first.names else given
            try:
                table.column(given.name).cast(known.type)
            except pa.ArrowException as error:
                raise ValueError(
                    f"Column {given.name!r} is {known.type} in {names[0]} and {given.type} in {name}: expected one "
                    "type throughout. Read the files apart, or write one of them again."
                ) from error
    return pa.concat_tables([table.cast(first) for table in tables])
