"""JSON lines: one object per line with a list of numbers and anything else.

The vector and the key may be inside other objects: ``meta.id`` is the ``id`` of the object under ``meta``, and
``response.body.data.0.embedding`` is where the results of OpenAI's batches have the vector.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._files import FileError
from relatent.spaces.chunks import Chunk, Layout, empty_others
from relatent.spaces.io.columns import KEY_NAMES, VECTOR_NAMES, ReadOptions, choose, too_large
from relatent.spaces.io.lines import TextRows, TextWriter, line_blocks
from relatent.spaces.io.lines import merge_sidecars as merge_sidecars

# The names and types of the columns are those of the first rows; objects may leave names out.
LOOK_AHEAD = 1_000
# What Arrow raises for values that a type cannot hold.
UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)


class JsonRows(TextRows):
    """Objects, parsed block by block. The first one tells the columns; numbers are float32 unless said otherwise."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        rows = self._scan(path, options).lines
        self._nested: list[str] = []
        first = self._objects(*next(line_blocks(path, 0, 0, min(rows, LOOK_AHEAD), LOOK_AHEAD)))
        self.layout = _layout(path, first, options) if first else Layout("vector", None, ("vector",))
        named = (self.layout.vector, self.layout.key)
        self._nested = [name for name in named if name is not None and first and not any(name in one for one in first)]
        first = [self._unnested(one, i) for i, one in enumerate(first)]
        given = next((one[self.layout.vector] for one in first if one.get(self.layout.vector)), ())
        known = self.fingerprint.dim if self.fingerprint else 0
        self.shape = (rows, len(given) if first else known)
        self.schema = _schema(path, first, self.layout)

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Parse the rows from start to stop, ``size`` at a time."""
        for first, lines in line_blocks(self._path, 0, start, stop, size):
            objects = self._objects(first, lines)
            yield Chunk(first, self._matrix(objects, first), self._table(objects, first), self.layout)

    def _objects(self, first: int, lines: list[str]) -> list[dict[str, Any]]:
        return [self._object(line, first + i) for i, line in enumerate(lines)]

    def _object(self, line: str, row: int) -> dict[str, Any]:
        try:
            found = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant)
        except _OddJsonError as error:
            raise FileError(f"{self._path} has {error} in row {row}: fix or drop that line.") from error
        except (ValueError, RecursionError) as error:
            raise FileError(
                f"{self._path} is not JSON in row {row} ({error}): the file may be cut short. Fix or drop that line."
            ) from error
        if not isinstance(found, dict):
            raise FileError(f"{self._path} has a {type(found).__name__} in row {row}: expected one object per line.")
        return self._unnested(found, row) if self._nested else found

    def _unnested(self, found: dict[str, Any], row: int) -> dict[str, Any]:
        """Move a nested vector to the top, and copy a nested key there."""
        for path in self._nested:
            try:
                holder, last = _holder(found, path), path.rpartition(".")[2]
            except _OddJsonError as error:
                raise FileError(
                    f"{self._path} has {error} in row {row}: expected one vector per line. Send one text per request."
                ) from error
            take = holder.pop if path == self.layout.vector else holder.get
            found[path] = take(last, None)
        return found

    def _matrix(self, objects: list[dict[str, Any]], first: int) -> np.ndarray:
        vectors = [self._vector(o, first + i) for i, o in enumerate(objects)]
        try:
            with np.errstate(over="ignore"):
                matrix = np.asarray(vectors, dtype=self.dtype).reshape(len(objects), self.shape[1])
            finite = np.isfinite(matrix).all(axis=1)
        except OverflowError:  # an integer of hundreds of digits
            largest = float(np.finfo(self.dtype).max)
            finite = np.asarray([all(abs(v) <= largest for v in vector) for vector in vectors])
        if not finite.all():
            row = int(np.argmin(finite))
            raise too_large(self._path, self.dtype, first + row, self._key_of(objects[row]))
        return matrix

    def _vector(self, found: dict[str, Any], row: int) -> list[float]:
        name = self.layout.vector
        vector = found.get(name)
        if not isinstance(vector, list) or None in vector:
            raise FileError(f"{self._path} has a null vector in row {row}: drop or fix this row ({name!r}).")
        if len(vector) != self.shape[1]:
            raise FileError(
                f"{self._path} has vectors of different lengths: {self.shape[1]} coordinates at first, {len(vector)} "
                f"in row {row}. Drop or fix that row."
            )
        odd = set(map(type, vector)) - {int, float}
        if odd:
            raise FileError(
                f"{self._path} has a {odd.pop().__name__} in the vector of row {row}{self._key_of(found)}: expected "
                "numbers. Fix or drop that line."
            )
        return vector

    def _key_of(self, found: dict[str, Any]) -> str:
        return "" if self.layout.key is None else f" (key {found.get(self.layout.key)!r})"

    def _table(self, objects: list[dict[str, Any]], first: int) -> pa.Table:
        known = set(self.layout.order)
        new = next(((i, name) for i, found in enumerate(objects) for name in found if name not in known), None)
        if new is not None:
            raise FileError(
                f"{self._path} has {new[1]!r} in row {first + new[0]} and not in its first {LOOK_AHEAD} rows: expected "
                "the same names throughout. Add it to the first row, with null."
            )
        columns = {f.name: self._column(objects, f, first) for f in self.schema}
        return pa.table(columns) if columns else empty_others(len(objects))

    def _column(self, objects: list[dict[str, Any]], field: pa.Field, first: int) -> pa.Array:
        """Make a column of the type that the first rows have. A cast refuses 9.99 where pa.array would make it 9."""
        values = [found.get(field.name) for found in objects]
        try:
            return _converted(values, field.type)
        except UNFIT:
            row = next(i for i, value in enumerate(values) if not _fits(value, field.type))
        raise FileError(
            f"{self._path} has {values[row]!r} under {field.name!r} in row {first + row}{self._key_of(objects[row])}, "
            f"of another type than {field.type} as at first: expected one type throughout. Fix that line."
        )


open_rows = JsonRows


class _OddJsonError(ValueError):
    """JSON that parses and yet does not say what its writer meant."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _OddJsonError(f"{next(name for name in names if names.count(name) > 1)!r} twice in one object")
    return found


def _no_constant(name: str) -> float:
    raise _OddJsonError(f"{name}, which is no number in JSON,")


def _converted(values: list[Any], kind: pa.DataType) -> pa.Array:
    inferred = pa.array(values)
    return inferred if inferred.type == kind else inferred.cast(kind)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        _converted([value], kind)
    except UNFIT:
        return False
    return True


def _schema(path: Path, objects: list[dict[str, Any]], layout: Layout) -> pa.Schema:
    """Find the types of the other columns in the first rows; one that is null throughout is taken for text."""
    kinds = {}
    for name in layout.order:
        try:
            kinds[name] = pa.array([found.get(name) for found in objects if name != layout.vector]).type
        except UNFIT as error:
            raise FileError(
                f"{path} has values under {name!r} that make no column ({error}): expected one type throughout, and "
                "integers below 2^63. Write them as texts."
            ) from error
    fields = [(name, pa.string() if pa.types.is_null(kind) else kind) for name, kind in kinds.items()]
    return pa.schema([field for field in fields if field[0] != layout.vector])


def _layout(path: Path, objects: list[dict[str, Any]], options: ReadOptions) -> Layout:
    found = {name: value for one in reversed(objects) for name, value in one.items()}
    found = {**dict.fromkeys(name for one in objects for name in one), **found, **objects[0]}
    values = {name: value for one in reversed(objects) for name, value in _nested_values(one).items()} | found
    lists = [name for name, value in found.items() if _is_vector(value)]
    lists = lists or [name for name, value in values.items() if _is_vector(value)]
    vector = choose(path, "vector", options.vector, values, lists, VECTOR_NAMES)
    if vector is None or not _is_vector(values[vector]):
        raise FileError(f"{path} has no list of numbers in row 0; it has: {', '.join(found)}. Check the vector's name.")
    key = choose(path, "key", options.key, values, [name for name in found if name != vector], KEY_NAMES)
    order = dict.fromkeys((*found, vector, *([] if key is None else [key])))
    return Layout(vector, key, tuple(order), guessed=options.key is None)


def _nested_values(found: dict[str, Any]) -> dict[str, Any]:
    """Return the values inside objects, and inside lists of one object, by their paths."""
    values: dict[str, Any] = {}
    for name, value in found.items():
        inner = value if isinstance(value, dict) else {}
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inner = {"0": value[0]}
        values |= {f"{name}.{path}": one for path, one in (inner | _nested_values(inner)).items()}
    return values


def _holder(found: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the object that has the last name of a path, or an empty one if there is none."""
    holder: Any = found
    for name in path.split(".")[:-1]:
        if isinstance(holder, list):
            if len(holder) != 1:
                raise _OddJsonError(f"{len(holder)} objects in the list of {path!r}")
            holder = holder[0]
        else:
            holder = holder.get(name) if isinstance(holder, dict) else None
    return holder if isinstance(holder, dict) else {}


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and not set(map(type, value)) - {int, float}


class Writer(TextWriter):
    """Writes one object per line, each number as short as it can be without changing it."""

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._check_finite(chunk)
        others = chunk.others.to_pylist() if chunk.others.column_names else [{}] * len(chunk)
        numbers = chunk.vectors.astype(str).tolist()
        name = json.dumps(chunk.layout.vector, ensure_ascii=False)
        for row, vector in zip(others, numbers, strict=True):
            head = json.dumps(row, ensure_ascii=False, default=str)[1:-1]
            self._file.write(f"{{{head}{', ' if head else ''}{name}: [{', '.join(vector)}]}}\n".encode())
        self._rows += len(chunk)
