"""The store over one collection of named vectors; :mod:`relatent.stores.qdrant` says what a switch does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent.spaces.chunks import Chunk, Layout, chunk_rows
from relatent.stores.address import Address, StoreError
from relatent.stores.checks import (
    RoleKeeper,
    as_queries,
    as_vectors,
    cannot_read,
    check_addable,
    check_kind,
    check_new,
    check_old,
    check_one_of,
    check_whole,
    key_column,
)
from relatent.stores.codes import decoded, encoded, is_coded, read_as
from relatent.stores.qdrant.engine import DEFAULT, HELD, Engine, Point, scores
from relatent.stores.roles import Roles
from relatent.stores.store import Field, Hits, Shard, Unreadable

KEY = "id"
# Ids without vectors are small; points with vectors and payload are asked for in fewer at a time.
IDS_AT_A_TIME = 10_000
POINTS_AT_A_TIME = 1_000
# Points whose payload tells the names and types of its columns.
LOOKED_AT = 1_000
KINDS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}

Key = int | str


class QdrantStore(RoleKeeper):
    """A collection (:mod:`relatent.stores.qdrant`)."""

    compares_codes = True

    def __init__(self, address: Address, engine: Engine) -> None:
        self.address, self._engine = address, engine
        try:
            self._begin(engine)
        except BaseException:
            self.close()
            raise

    def _begin(self, engine: Engine) -> None:
        """Find the field that is served first."""
        self._first = self._chosen(engine.fields())

    def _chosen(self, fields: list[Field]) -> Field:
        """Return the vector that the URL names, or the only one."""
        noted = self._engine.read_note()
        if noted is not None:
            return Roles.of_note(noted).first
        known = {field.name: field for field in fields}
        name = self.address.options.get("vector", "" if len(known) != 1 else next(iter(known)))
        if name not in known:
            raise StoreError(
                f"{self.address} has the vectors {', '.join(known) or 'none'}: say which one is served with ?vector=."
                f"{suggest(name, known) if name else ''}"
            )
        return known[name]

    # Roles ---------------------------------------------------------------------------------------------------------

    def _current(self) -> Roles:
        noted = self._engine.read_note()
        return Roles(self._first) if noted is None else Roles.of_note(noted)

    def _known(self, of: Field) -> Field:
        roles = self._current()
        return check_one_of(self.address, of, roles.first, roles.second)

    def _place(self, of: Field) -> tuple[Engine, str]:
        """Return the collection of a field, and the name of its vector there."""
        return self._engine, of.name

    def _is_alive(self, of: Field, points: list[Point]) -> list[bool]:
        """Return which points belong to items of the store: here all, since a vector goes with its point."""
        return [True] * len(points)

    # Rows ----------------------------------------------------------------------------------------------------------

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the points that have a vector."""
        self._known(of)
        if shard is None or shard == Shard():
            engine, name = self._place(of)
            return engine.count(name)
        return sum(point.vector is not None for point in self._points(of, shard, POINTS_AT_A_TIME))

    def shards(self, rows: int) -> list[Shard]:
        """Cut at every so many ids."""
        ids = self._points(self.served, None, IDS_AT_A_TIME, vectors=False)
        bounds = [point.id for row, point in enumerate(ids) if row and row % rows == 0]
        return [Shard(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True)]

    def _points(
        self, of: Field, shard: Shard | None, size: int, *, vectors: bool = True, payload: bool = False
    ) -> Iterator[Point]:
        """Return the points of a shard in order of their ids."""
        engine, name = self._place(of)
        shard = shard or Shard()
        start, end = shard.low, None if shard.high is None else _order(shard.high)
        while True:
            points, start = engine.scroll(start, size, name if vectors else None, payload)
            for point, alive in zip(points, self._is_alive(of, points), strict=True):
                if end is not None and _order(point.id) >= end:
                    return
                if alive:
                    yield point
            if start is None:
                return

    def scan(
        self,
        of: Field,
        *,
        shard: Shard | None = None,
        rows: int | None = None,
        columns: Sequence[str] | None = (),
        unreadable: Unreadable | None = None,
    ) -> Iterator[Chunk]:
        """Return the points in order of their ids. It is no view of one moment: Qdrant has none."""
        field, roles = self._known(of), self._current()
        size, start = chunk_rows(of.dim, read_as(field), rows), 0
        kinds = self._columns(of, columns)
        waiting: list[Point] = []
        for point in self._points(field, shard, min(size, POINTS_AT_A_TIME), payload=bool(kinds)):
            if point.vector is not None and len(point.vector) == field.dim:
                waiting.append(point)
            elif field == roles.first:  # in the one that was added, it is not written yet
                cannot_read(self.address, point.id, "it is missing", unreadable)
            if len(waiting) == size:
                yield self._chunk(field, start, waiting, kinds)
                start, waiting = start + size, []
        if waiting:
            yield self._chunk(field, start, waiting, kinds)

    def _columns(self, of: Field, columns: Sequence[str] | None) -> dict[str, pa.DataType]:
        """Return the payload columns that are asked for, with the types that the first points have."""
        if columns is not None and not [name for name in columns if name != KEY]:
            return {}
        points, _ = self._place(of)[0].scroll(None, LOOKED_AT, None, True)
        found: dict[str, set[type]] = {}
        for point in points:
            for name, value in point.payload.items():
                found.setdefault(name, set()).update([] if value is None else [type(value)])
        names = sorted(found) if columns is None else [name for name in columns if name != KEY]
        return {name: _kind(found.get(name, set())) for name in names if name != KEY}

    def _chunk(self, of: Field, start: int, points: list[Point], kinds: dict[str, pa.DataType]) -> Chunk:
        ids = [point.id for point in points]
        if len({type(key) for key in ids}) > 1 or any(isinstance(key, int) and key >= 2**63 for key in ids):
            raise StoreError(f"{self.address} has ids of two kinds, or above 2⁶³: expected all UUIDs or all integers.")
        columns = {KEY: pa.array(ids)}
        for name, kind in kinds.items():
            columns[name] = self._column(name, kind, [point.payload.get(name) for point in points])
        vectors = np.asarray([point.vector for point in points], dtype=of.dtype)
        return Chunk(start, decoded(of, vectors), pa.table(columns), Layout(of.name, KEY, (*columns, of.name)))

    def _column(self, name: str, kind: pa.DataType, values: list[Any]) -> pa.Array:
        if kind == pa.string():
            return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values], kind)
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise StoreError(
                f"The payload {name!r} of {self.address} is not {kind} throughout: leave it out."
            ) from error

    # The new field -------------------------------------------------------------------------------------------------

    def add(self, new: Field) -> Field:
        """Note the new vector, then create it: a run that was killed in between creates it when it goes on."""
        self._check_kind(new)
        roles = self._current()
        there = {field.name for field in self._engine.fields()}
        if check_addable(self.address, new, roles.new, roles.old):
            if new.name in there or new.name in (DEFAULT, ""):
                raise StoreError(f"{self.address} has a vector {new.name!r} already: give the new one another name.")
            self._engine.write_note(replace(roles, second=new).note())
        if new.name not in there:
            self._engine.create(new)
        return new

    def _check_kind(self, new: Field) -> None:
        check_kind(self.address, new, HELD)

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Set the vectors of the points that are there."""
        new = check_new(self.address, self.new, into)
        kept = as_vectors(self.address, new, vectors)
        ids = [_known_id(key) for key in key_column(keys).to_pylist()]
        possible = [key for key in ids if key is not None]
        alive = self._engine.existing(possible) if possible else set()
        last = {key: row for row, key in enumerate(ids) if key in alive}
        for part in _parts(list(last), POINTS_AT_A_TIME):
            self._put(new, part, kept[[last[key] for key in part]])

    def _put(self, new: Field, ids: list[Key], vectors: np.ndarray) -> None:
        self._engine.set_vectors(new.name, ids, vectors)

    def remove_orphans(self, of: Field) -> int:
        """Return 0: a vector goes with its point."""
        check_new(self.address, self.new, of)
        return 0

    def build_index(self, of: Field) -> None:
        """Wait for Qdrant, which builds its indexes itself."""
        self._place(self._known(of))[0].build_index()

    def search(self, vectors: np.ndarray, k: int, *, of: Field | None = None, exact: bool = False) -> Hits:
        """Search the vector that is served, or another."""
        field = self.served if of is None else self._known(of)
        engine, name = self._place(field)
        queries = as_queries(self.address, field, vectors)
        found = engine.search(name, encoded(field, queries) if is_coded(field) else queries, k, exact)
        rows = np.full((len(found), k), -np.inf)
        for row, hits in zip(rows, found, strict=True):
            row[: len(hits)] = scores(field, [score for _, score in hits])
        return Hits([[key for key, _ in hits] for hits in found], rows)

    # Cutover -------------------------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Note that the new vector is served."""
        roles = self._current()
        check_new(self.address, roles.new)
        self._engine.write_note(replace(roles, switched=True).note())

    def switch_back(self) -> None:
        """Note that the old vector is served again."""
        roles = self._current()
        check_whole(self.address, roles.old, roles.dropping)
        self._engine.write_note(replace(roles, switched=False).note())

    def drop_new(self) -> None:
        """Remove the new vector from every point, then the note of it."""
        roles = self._current()
        new = check_new(self.address, roles.new)
        if new.name in {field.name for field in self._engine.fields()}:
            self._engine.drop(new.name)
        self._engine.write_note(replace(roles, second=None).note())

    def drop_old(self) -> None:
        """Note that the old vector goes, remove it from every point, and note that it is gone."""
        roles = self._current()
        old = check_old(self.address, roles.old)
        self._engine.write_note(replace(roles, dropping=True).note())
        if old.name in {field.name for field in self._engine.fields()}:
            self._engine.drop(old.name)
        self._engine.write_note(roles.finished.note())
        self._first = roles.served

    def lock(self) -> AbstractContextManager[None]:
        """Keep other migrations out, as far as the engine can."""
        return self._engine.lock()

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()


def _kind(types: set[type]) -> pa.DataType:
    """Return Arrow's type of values that are all of one simple type; all others are read as JSON."""
    return KINDS.get(next(iter(types)), pa.string()) if len(types) == 1 else pa.string()


def _order(key: Key) -> tuple[bool, Key]:
    """Return what ids are ordered by: integers first, then UUIDs."""
    return isinstance(key, str), key


def _known_id(key: Key) -> Key | None:
    """Return a key as an id, or None where it can be none."""
    if isinstance(key, int):
        return key if key >= 0 else None
    try:
        return str(UUID(key))
    except ValueError:
        return None


def _parts(keys: list[Key], size: int) -> Iterator[list[Key]]:
    return (keys[i : i + size] for i in range(0, len(keys), size))
