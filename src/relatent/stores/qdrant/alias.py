"""Qdrant by an alias: the new vectors are in a collection of their own, and a switch moves the alias.

Beside ``items_v1``, for which the alias stands, a field ``new`` is the collection ``items_v1__new``: the same ids, a
copy of the payload as it was when the vector was written, and one vector under the name that the old one has. The note
of the fields is in the metadata of the first collection; which one is served is told by the alias itself. Dropping the
old field deletes the first collection, and the second takes its part, with a note of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from relatent.stores.address import Address, StoreError
from relatent.stores.checks import check_addable, check_new, check_old, check_whole
from relatent.stores.qdrant.client import ClientEngine
from relatent.stores.qdrant.engine import Engine, Point
from relatent.stores.qdrant.store import POINTS_AT_A_TIME, Key, QdrantStore
from relatent.stores.roles import Roles
from relatent.stores.store import Field, Shard

# What the note in the second collection names: the collection that the alias stood for at first.
FIRST = "beside"
# What the note in the first collection names once an earlier one was dropped: what the names of collections begin with,
# and the name of the vector in each of them.
BASE, VECTOR = "base", "vector"


class AliasStore(QdrantStore):
    """An alias, the collection that it stood for at first, and the one beside."""

    def __init__(self, address: Address, engine: ClientEngine, collection: str) -> None:
        self._alias = address.name
        at = (engine.on(collection).read_note() or {}).get(FIRST, collection)
        # A drop that was killed at the end has left the name of a collection that is gone.
        self._client = engine.on(at if engine.on(at).is_there() else collection)
        super().__init__(address, self._client)

    def _begin(self, engine: Engine) -> None:
        """Find the field that is served first, and how collections and vectors are named."""
        super()._begin(engine)
        note = engine.read_note() or {}
        self._base, self._vector = note.get(BASE, self._client.name), note.get(VECTOR, self._first.name)

    def _current(self) -> Roles:
        roles = super()._current()
        if roles.second is None:
            return roles
        return replace(roles, switched=self._client.alias_target(self._alias) == self._name(roles.second))

    def _note(self, roles: Roles) -> dict[str, Any]:
        return {**roles.note(), BASE: self._base, VECTOR: self._vector}

    def _name(self, field: Field) -> str:
        return f"{self._base}__{field.name}"

    def _beside(self, field: Field) -> ClientEngine:
        return self._client.on(self._name(field))

    def _place(self, of: Field) -> tuple[Engine, str]:
        """Return the collection of a field. Its vector has the same name in both."""
        return (self._client if of.name == self._first.name else self._beside(of)), self._vector

    def _is_alive(self, of: Field, points: list[Point]) -> list[bool]:
        """Leave out of the new collection what was deleted from the first, until it is served itself."""
        new = self.new
        if new is None or of.name != new.name or not points:
            return [True] * len(points)
        there = self._client.existing([point.id for point in points])
        return [point.id in there for point in points]

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the points that have a vector; of the new field those that the first collection has too."""
        new = self.new
        if new is None or of.name != new.name:
            return super().count(of, shard)
        return sum(1 for _ in self._points(of, shard, POINTS_AT_A_TIME, vectors=False))

    def add(self, new: Field) -> Field:
        """Note the new field, then create its collection: a run that was killed in between does so when it goes on."""
        self._check_kind(new)
        roles, beside = self._current(), self._beside(new)
        if check_addable(self.address, new, roles.new, roles.old):
            if beside.is_there():
                raise StoreError(f"There is a collection {self._name(new)!r} already: give the new field another name.")
            self._client.write_note(self._note(Roles(self._first, new)))
        if not beside.is_there():
            beside.create_collection(new, self._vector)
            beside.write_note({FIRST: self._client.name})
        return new

    def _put(self, new: Field, ids: list[Key], vectors: np.ndarray) -> None:
        payloads = self._client.payloads(ids)
        points = [
            Point(key, vector, payloads[key])
            for key, vector in zip(ids, vectors.tolist(), strict=True)
            if key in payloads
        ]
        if points:
            self._beside(new).put(self._vector, points)

    def remove_orphans(self, of: Field) -> int:
        """Delete from the new collection what the first one no longer has."""
        new = check_new(self.address, self.new, of)
        engine, start, removed = self._beside(new), None, 0
        while True:
            points, start = engine.scroll(start, POINTS_AT_A_TIME, None, False)
            gone = [p.id for p, alive in zip(points, self._is_alive(new, points), strict=True) if not alive]
            if gone:
                engine.delete(gone)
            removed += len(gone)
            if start is None:
                return removed

    def switch(self) -> None:
        """Move the alias to the new collection."""
        self._beside(check_new(self.address, self.new)).move_alias(self._alias)

    def switch_back(self) -> None:
        """Move the alias back to the first collection."""
        roles = self._current()
        check_whole(self.address, roles.old, roles.dropping)
        self._client.move_alias(self._alias)

    def drop_new(self) -> None:
        """Delete the new collection, then the note of it."""
        beside = self._beside(check_new(self.address, self.new))
        if beside.is_there():
            beside.delete_collection()
        self._client.write_note(self._note(Roles(self._first)))

    def drop_old(self) -> None:
        """Note that the first collection goes, have the second one note its part, and delete the first."""
        roles, first = self._current(), self._client
        check_old(self.address, roles.old)
        beside, note = self._beside(roles.served), self._note(roles.finished)
        first.write_note(self._note(replace(roles, dropping=True)))
        beside.write_note({FIRST: first.name, **note})
        first.delete_collection()
        beside.write_note(note)
        self._engine = self._client = beside
        self._begin(beside)
