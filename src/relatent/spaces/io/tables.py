"""Rows of an Arrow table that is read batch by batch: what Parquet, Arrow and datasets folders share."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from relatent._files import FileError, readable
from relatent.spaces.chunks import Chunk, empty_others
from relatent.spaces.io.columns import (
    VECTOR_NAMES,
    ReadOptions,
    as_lists,
    as_matrix,
    choose,
    guess_layout,
    is_vector,
    storage_type,
    stored_fingerprint,
    too_large,
    vector_dtype,
)
from relatent.spaces.io.coordinates import are_coordinates, numbered_columns


class Source(Protocol):
    """A file that is read as tables: its schema, how many rows it has, and those from start on."""

    path: Any
    rows: int
    schema: pa.Schema
    metadata: dict[bytes, bytes] | None

    def tables(self, start: int, stop: int, size: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Yield rows start to stop in tables of at most size rows."""
        ...


class TableRows:
    """The rows of a source, with its vector column as matrices."""

    def __init__(self, source: Source, options: ReadOptions) -> None:
        source = gathered(source, options)
        self._source = source
        self.layout = guess_layout(source.path, source.schema, options)
        self.entries: list[int] | None = getattr(source, "entries", None)
        self.fingerprint = stored_fingerprint(source.metadata, source.path)
        kind = source.schema.field(self.layout.vector).type
        self.dtype = options.dtype or getattr(source, "dtype", None) or vector_dtype(kind)
        self.schema = pa.schema([field for field in source.schema if field.name != self.layout.vector])
        self.shape = (source.rows, self._dim(kind))

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Read the rows from start to stop, ``size`` at a time."""
        row = start
        with readable(self._source.path):
            for table in self._source.tables(start, stop, size):
                table.validate(full=True)  # an offset that leads out of its buffer would crash the process
                vectors = as_matrix(table.column(self.layout.vector), self._source.path, row, self.shape[1] or None)
                others = table.drop_columns([self.layout.vector])
                yield Chunk(row, self._cast(vectors, row), others, self.layout)
                row += len(table)
        if row != stop and stop > start:
            raise FileError(f"{self._source.path} ends after row {row} of {stop}: get a new copy.")

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Read every column but the vectors, or some of them."""
        names = self.schema.names if names is None else names
        if not names:
            return empty_others(self.shape[0])
        with readable(self._source.path):
            table = pa.concat_tables(list(self._source.tables(0, self.shape[0], max(1, self.shape[0]), names)))
            table.validate(full=True)
            return table

    def _cast(self, vectors: np.ndarray, row: int) -> np.ndarray:
        with np.errstate(over="ignore"):
            cast = vectors.astype(self.dtype, copy=False)
        lost = ~np.isfinite(cast).all(axis=1) if cast.dtype.itemsize < vectors.dtype.itemsize else np.zeros(0, bool)
        if lost.any() and np.isfinite(vectors[lost]).all(axis=1).any():
            first = row + int(np.argmax(lost & np.isfinite(vectors).all(axis=1)))
            raise too_large(self._source.path, self.dtype, first)
        return cast

    def _dim(self, kind: pa.DataType) -> int:
        kind = storage_type(kind)
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        if pa.types.is_fixed_size_binary(kind):
            return int(kind.byte_width)
        if self._source.rows == 0:
            return self.fingerprint.dim if self.fingerprint else 0
        first = next(self._source.tables(0, 1, 1, [self.layout.vector]))
        first.validate(full=True)
        return int(as_matrix(first.column(0), self._source.path, 0).shape[1])


def gathered(source: Source, options: ReadOptions) -> Source:
    """Return the source with its numbered columns as one vector, where that was asked for or it has no other."""
    columns = find_coordinates(source.path, source.schema, options.vector)
    return source if columns is None else WideSource(source, columns)


def find_coordinates(path: Any, schema: pa.Schema, given: str | None) -> tuple[str, list[str]] | None:
    """Return the numbered columns to read as the vector, and its name; None if there is a column of vectors."""
    found = {stem or "vector": columns for stem, columns in numbered_columns(schema).items()}
    found = {name: columns for name, columns in found.items() if name not in schema.names}
    if given is not None:
        return (given, found[given]) if given in found else None
    if any(is_vector(field.type) for field in schema):
        return None
    sure = [name for name, columns in found.items() if are_coordinates(name, columns)]
    name = choose(path, "vector", None, found, sure, VECTOR_NAMES)
    return None if name is None else (name, found[name])


class WideSource:
    """A source in whose tables numbered columns are one vector, in the place of the first."""

    def __init__(self, source: Source, coordinates: tuple[str, list[str]]) -> None:
        self._source = source
        self._vector, self._columns = coordinates
        self.path, self.rows, self.metadata = source.path, source.rows, source.metadata
        self.entries: list[int] | None = getattr(source, "entries", None)
        self.dtype: np.dtype | None = getattr(source, "dtype", None)
        kinds = [vector_dtype(pa.list_(source.schema.field(name).type)) for name in self._columns]
        self._dtype = np.result_type(*kinds)
        self.schema = self._gathered(source.schema.empty_table(), 0).schema

    def tables(self, start: int, stop: int, size: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Yield tables of the source with the vectors gathered."""
        names = self.schema.names if columns is None else columns
        wanted = [one for name in names for one in (self._columns if name == self._vector else [name])]
        for table in self._source.tables(start, stop, size, wanted):
            yield (self._gathered(table, start) if self._vector in names else table).select(names)
            start += len(table)

    def _gathered(self, table: pa.Table, row: int) -> pa.Table:
        lists = as_lists(coordinate_matrix(table, self._columns, self.path, row, self._dtype))
        place = table.schema.names.index(self._columns[0])
        rest = table.drop_columns(self._columns)
        return rest.add_column(min(place, rest.num_columns), self._vector, lists)


def coordinate_matrix(table: pa.Table, columns: list[str], path: Any, row: int, dtype: Any) -> np.ndarray:
    """Return columns of numbers as a matrix; refuse a missing number, naming its row."""
    matrix = np.empty((len(table), len(columns)), dtype)
    for i, name in enumerate(columns):
        column = table.column(name)
        if column.null_count:
            first = row + int(np.argmax(column.is_null().to_numpy()))
            raise FileError(f"{path} has no number under {name!r} in row {first}: drop or fix this row.")
        matrix[:, i] = column.to_numpy()
    return matrix


def pieces_with(sizes: Sequence[int], start: int, stop: int) -> tuple[list[int], int]:
    """Return which of consecutive pieces of given sizes hold rows start to stop, and how many rows come before them.

    >>> pieces_with([10, 10, 10], 12, 15), pieces_with([10], 10, 10)
    (([1], 10), ([], 10))
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    wanted = [i for i, end in enumerate(ends.tolist()) if end > start and end - sizes[i] < stop]
    return wanted, int(ends[ends <= start].max(initial=0))


def regrouped(batches: Iterable[Any], start: int, stop: int, size: int, schema: pa.Schema) -> Iterator[pa.Table]:
    """Cut and gather batches that begin at row 0 into tables of size rows between start and stop."""
    held: list[Any] = []
    row = waiting = 0
    for batch in batches:
        begin, end = max(start - row, 0), min(stop - row, batch.num_rows)
        row += batch.num_rows
        while begin < end:
            piece = batch.slice(begin, min(end - begin, size - waiting))
            held.append(piece)
            begin, waiting = begin + piece.num_rows, waiting + piece.num_rows
            if waiting == size:
                yield pa.Table.from_batches(held, schema)
                held, waiting = [], 0
        if row >= stop:
            break
    if held or start >= stop:
        yield pa.Table.from_batches(held, schema)


SUFFIXES = (".parquet", ".jsonl", ".csv", ".tsv")


def read_table(path: Path) -> pa.Table:
    """Read a table by its suffix. Columns of .csv and .tsv, which must have a header, are texts throughout."""
    if path.suffix not in SUFFIXES:
        raise FileError(f"{path} ends in {path.suffix!r}: expected a table in {', '.join(SUFFIXES)}.")
    with readable(path):
        if path.suffix == ".parquet":
            from pyarrow import parquet

            return parquet.read_table(path)
        if path.suffix == ".jsonl":
            from pyarrow import json

            return json.read_json(path)
        return _separated(path)


def _separated(path: Path) -> pa.Table:
    """Read lines of values; in a .tsv, quotes are characters like others."""
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
    with path.open(encoding="utf8", newline="") as file:
        rows = [row for row in csv.reader(file, **dialect) if row]
    if not rows:
        raise FileError(f"{path} is empty: expected a header and lines of values.")
    for line, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise FileError(f"Line {line} of {path} has {len(row)} values and the header {len(rows[0])}: correct it.")
    return pa.table({name: pa.array(list(column), pa.string()) for name, *column in zip(*rows, strict=True)})
