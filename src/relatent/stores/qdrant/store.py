"""The stores over a collection of named vectors and over an alias; :mod:`relatent.stores.qdrant` tells them apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent._errors import StoreError
from relatent.spaces.sample import sample_rows
from relatent.stores.address import Address
from relatent.stores.base import Effort, Form, Found, Purpose, Rows, Scan, Session, Shard, Store
from relatent.stores.fields import NUMERIC_METRICS, Field, Roles, decoded, encoded, is_coded, quantizer
from relatent.stores.qdrant.client import DEFAULT, ClientEngine, Key, Point
from relatent.stores.qdrant.edge import EdgeEngine

KEY = "id"
# Ids without vectors are small; points with vectors and payload are asked for in fewer at a time.
IDS_AT_A_TIME = 10_000
POINTS_AT_A_TIME = 1_000
# Points whose payload tells the names and types of its columns.
SAMPLED_POINTS = 1_000
# Candidates beyond which an exact search is as fast.
MAX_EF = 10_000
KINDS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
# What the note in the second collection of an alias names: the collection that the alias stood for at first.
FIRST = "beside"
# What the note in the first collection names once an earlier one was dropped: what the names of collections begin with,
# and the name of the vector in each of them.
BASE, VECTOR = "base", "vector"
Engine = ClientEngine | EdgeEngine


class QdrantStore(Store):
    """A collection (:mod:`relatent.stores.qdrant`)."""

    schemes = ("qdrant",)
    extra = "qdrant"
    forms: ClassVar[tuple[Form, ...]] = (
        Form(
            "Qdrant, a collection",
            "qdrant://host:6333/collection",
            "a named vector",
            "one update of the collection's metadata",
            "names the vector it searches (`using=`), and names the new one at the cutover",
            "the old vector of every point",
        ),
        Form(
            "Qdrant, an alias",
            "qdrant://host:6333/alias",
            "a collection beside, `collection__field`",
            "the alias moved",
            "searches the alias as before",
            "the old collection, with its points and payload",
        ),
    )
    # Codes are compared with codes. Their distances are those of the vectors, in units of the scale; their products are
    # not, since codes begin at the offset.
    holds = {"float32": NUMERIC_METRICS, "float16": NUMERIC_METRICS, "uint8": ("cosine", "l2")}  # noqa: RUF012
    compares_codes = True
    denser = (
        "client.update_collection with a larger m and ef_construct in the vector's hnsw_config, which builds it again"
    )

    def __init__(self, address: Address, engine: Engine) -> None:
        self._engine = engine
        super().__init__(address)

    @classmethod
    def at(cls, address: Address) -> Store:
        """Connect to a server, or open a folder of the client; the name is that of a collection or of an alias."""
        engine = ClientEngine(address)
        collection = engine.alias_target(address.name)
        return cls(address, engine) if collection is None else AliasStore(address, engine, collection)

    def _open(self) -> None:
        """Find the field that is served first."""
        self._closing.callback(self._engine.close)
        noted = self._engine.read_note()
        self._first = self._chosen() if noted is None else Roles.of_note(noted).first

    def _chosen(self) -> Field:
        """Return the vector that the URL names, or the only one."""
        known = {field.name: field for field in self._engine.fields()}
        name = self.address.options.get("vector", "" if len(known) != 1 else next(iter(known)))
        if name not in known:
            raise StoreError(
                f"{self.address} has the vectors {', '.join(known) or 'none'}: name the one that is served with "
                f"?vector=.{suggest(name, known) if name else ''}"
            )
        return known[name]

    def _read_roles(self) -> Roles:
        noted = self._engine.read_note()
        return Roles(self._first) if noted is None else Roles.of_note(noted)

    @contextmanager
    def _session(self, purpose: Purpose = "read") -> Iterator[Session]:
        yield Session(self._read_roles(), KEY)

    def _write_roles(self, session: Session, roles: Roles) -> None:
        self._engine.write_note(roles.note())

    def _place(self, of: Field) -> tuple[Engine, str]:
        """Return the collection of a field, and the name of its vector there."""
        return self._engine, of.name

    def _alive(self, roles: Roles, of: Field, points: list[Point]) -> list[Point]:
        """Return the points that belong to items of the store: here all, since a vector goes with its point."""
        return points

    # Rows ------------------------------------------------------------------------------------------------------------

    def _count(self, session: Session, of: Field, shard: Shard) -> int:
        if shard == Shard():
            engine, name = self._place(of)
            return engine.count(name)
        return len(self._ids(session.roles, of, shard))

    def unfilled(self, of: Field) -> int:
        """Count the points without a vector: those of its own collection, or of the served one while it is new."""
        with self._session() as session:
            roles, of = session.roles, self._find(session.roles, of)
            engine, _ = self._place(roles.served if roles.is_new(of) else of)
            return engine.count(None) - self._count(session, of, Shard())

    def _bounds(self, session: Session, rows: int) -> list[Any]:
        return self._ids(session.roles, session.roles.served, Shard())[rows::rows]

    def _keys_of(self, of: Field, shard: Shard | None) -> pa.Array:
        with self._session() as session:
            return pa.array(self._ids(session.roles, self._find(session.roles, of), shard or Shard()))

    def _ids(self, roles: Roles, of: Field, shard: Shard) -> list[Key]:
        """Return the ids of the points that have a vector, in order, without reading it."""
        return [point.id for point in self._points(roles, of, shard, IDS_AT_A_TIME, vectors=False)]

    def _points(
        self, roles: Roles, of: Field, shard: Shard, size: int, *, vectors: bool = True, payload: bool = False
    ) -> Iterator[Point]:
        """Return the points of a shard that have a vector in a field, in order of their ids."""
        engine, name = self._place(of)
        start, end = shard.low, None if shard.high is None else _order(shard.high)
        while True:
            points, start = engine.scroll(start, size, name if vectors else None, payload, having=name)
            inside = [point for point in points if end is None or _order(point.id) < end]
            yield from self._alive(roles, of, inside)
            if start is None or len(inside) < len(points):
                return

    def _scan(self, session: Session, asked: Scan) -> Rows:
        """Return the points in order of their ids. It is no view of one moment: Qdrant has none."""
        of, roles = asked.of, session.roles
        kinds = self._columns(of, asked.columns)
        waiting: list[Point] = []
        for point in self._points(roles, of, asked.shard, min(asked.rows, POINTS_AT_A_TIME), payload=bool(kinds)):
            waiting.append(point)
            if len(waiting) == asked.rows:
                yield self._rows(of, waiting, kinds)
                waiting = []
        if waiting:
            yield self._rows(of, waiting, kinds)

    def _columns(self, of: Field, columns: Sequence[str] | None) -> dict[str, pa.DataType]:
        """Return the payload columns that are asked for, with the types that the first points have."""
        if columns is not None and not [name for name in columns if name != KEY]:
            return {}
        points, _ = self._place(of)[0].scroll(None, SAMPLED_POINTS, None, True)
        found: dict[str, set[type]] = {}
        for point in points:
            for name, value in point.payload.items():
                found.setdefault(name, set()).update([] if value is None else [type(value)])
        names = sorted(found) if columns is None else columns
        return {name: _kind(found.get(name, set())) for name in names if name != KEY}

    def _rows(self, of: Field, points: list[Point], kinds: dict[str, pa.DataType]) -> tuple[pa.Table, np.ndarray]:
        ids = [point.id for point in points]
        if len({type(key) for key in ids}) > 1 or any(isinstance(key, int) and key >= 2**63 for key in ids):
            raise StoreError(f"{self.address} has ids of two kinds, or above 2⁶³: expected all UUIDs or all integers.")
        columns = {KEY: pa.array(ids)}
        for name, kind in kinds.items():
            columns[name] = self._column(name, kind, [point.payload.get(name) for point in points])
        return pa.table(columns), decoded(of, np.asarray([point.vector for point in points], dtype=of.dtype))

    def _column(self, name: str, kind: pa.DataType, values: list[Any]) -> pa.Array:
        if kind == pa.string():
            return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values], kind)
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise StoreError(
                f"The payload {name!r} of {self.address} is not {kind} throughout: leave it out."
            ) from error

    # The new field ---------------------------------------------------------------------------------------------------

    def add(self, new: Field) -> Field:
        """Note the new vector, then create it: a run that was killed in between creates it when it is resumed."""
        super().add(new)
        self._create(new)
        return new

    def _taken(self, session: Session) -> list[str]:
        return [DEFAULT, "", *(field.name for field in self._engine.fields())]

    def _add(self, session: Session, new: Field) -> None:
        self._write_roles(session, replace(session.roles, new=new))

    def _create(self, new: Field) -> None:
        if not self._has(new):
            self._engine.create(new, self._first.name)

    def _has(self, field: Field) -> bool:
        return field.name in {one.name for one in self._engine.fields()}

    def _write(self, session: Session, new: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Set the vectors of the points that are there."""
        for ids, rows in _points(self._engine, keys):
            self._put(new, ids, vectors[rows])

    def _overwrite(self, session: Session, served: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Set the vectors of the points that are there, whose payload stays."""
        engine, name = self._place(served)
        for ids, rows in _points(engine, keys):
            engine.set_vectors(name, ids, vectors[rows])

    def _put(self, new: Field, ids: list[Key], vectors: np.ndarray) -> None:
        self._engine.set_vectors(new.name, ids, vectors)

    def _build_index(self, session: Session, of: Field) -> None:
        """Wait for Qdrant, which builds its indexes itself."""
        self._place(of)[0].build_index()

    def _effort(self, session: Session, of: Field) -> Effort | None:
        engine, name = self._place(of)
        ef = engine.ef(name)
        return None if ef is None else Effort("hnsw_ef", ef, MAX_EF, "SearchParams(hnsw_ef={n})", self.denser)

    def _search(
        self, session: Session, of: Field, queries: np.ndarray, k: int, exact: bool, effort: int | None
    ) -> list[Found]:
        engine, name = self._place(of)
        found = engine.search(name, encoded(of, queries) if is_coded(of) else queries, k, exact, effort)
        return [([key for key, _ in hits], [score for _, score in hits]) for hits in found]

    def score(self, distances: np.ndarray, of: Field) -> np.ndarray:
        """Return Qdrant's scores as they are, and minus a distance; that of coded unit vectors as their cosine."""
        if is_coded(of):
            lengths = distances * quantizer(of).scale
            return 1 - lengths**2 / 2 if of.metric == "cosine" else -lengths
        return -distances if of.metric == "l2" else distances

    @contextmanager
    def rehearsal(self, rows: int) -> Iterator[str]:
        """Copy points into a collection beside; a folder, which only one process can open, into another folder."""
        served = self.served
        engine, vector = self._place(served)
        ids = self._keys_of(served, None)
        chosen = ids.take(pa.array(sample_rows(len(ids), rows, seed=0))).to_pylist()
        with engine.beside() as address:
            with closing(self._copied(engine, address, served, vector)) as copied:
                for part in (chosen[i : i + POINTS_AT_A_TIME] for i in range(0, len(chosen), POINTS_AT_A_TIME)):
                    copied.put(vector, engine.retrieve(part, vector))
                copied.build_index()
            yield str(address)

    def _copied(self, engine: Any, address: Address, served: Field, vector: str) -> Engine:
        """Return an empty copy of the collection of the served field, with a note of it where it has one."""
        copied: Engine = engine.copy_to(address, served, vector, address.name)
        if self._engine.read_note() is not None:
            copied.write_note(Roles(served).note())
        return copied

    # Cutover ---------------------------------------------------------------------------------------------------------

    def _drop_new(self, session: Session, new: Field) -> None:
        """Remove the new vector from every point, then the note of it."""
        if self._has(new):
            self._engine.drop(new.name)
        self._write_roles(session, replace(session.roles, new=None))

    def _drop_old(self, session: Session, old: Field) -> None:
        """Note that the old vector goes, remove it from every point, and note that it is gone."""
        self._write_roles(session, replace(session.roles, dropping=True))
        if self._has(old):
            self._engine.drop(old.name)
        self._write_roles(session, session.roles.finished())

    def lock(self) -> AbstractContextManager[object]:
        """Keep other migrations out, as far as the engine can."""
        return self._engine.lock()


class EdgeStore(QdrantStore):
    """A folder of the embedded engine."""

    schemes = ("qdrant+edge",)
    forms = (
        replace(QdrantStore.forms[0], title="Qdrant Edge", url="qdrant+edge:///folder", switch="one file replaced"),
    )
    denser = "EdgeShard.load with a larger m and ef_construct in the vector's hnsw_config, then optimize()"

    @classmethod
    def at(cls, address: Address) -> Store:
        """Open a folder."""
        return cls(address, EdgeEngine(address))


class AliasStore(QdrantStore):
    """An alias: the new vectors are in a collection of their own, and a switch moves the alias.

    Beside ``items_v1``, for which the alias stands, a field ``new`` is the collection ``items_v1__new``: the same ids,
    a copy of the payload as it was when the vector was written, and one vector under the name that the old one has. The
    note of the fields is in the metadata of the first collection; which one is served is told by the alias itself.
    Dropping the old field deletes the first collection, and the second takes its part, with a note of its own.
    """

    def __init__(self, address: Address, engine: ClientEngine, collection: str) -> None:
        self._alias = address.name
        at = (engine.on(collection).read_note() or {}).get(FIRST, collection)
        # A drop that was killed at the end has left the name of a collection that is gone.
        self._client = engine.on(at if engine.on(at).is_there() else collection)
        super().__init__(address, self._client)

    def _open(self) -> None:
        """Find how collections and vectors are named."""
        super()._open()
        note = self._client.read_note() or {}
        self._base, self._vector = note.get(BASE, self._client.name), note.get(VECTOR, self._first.name)

    @contextmanager
    def _session(self, purpose: Purpose = "read") -> Iterator[Session]:
        roles = self._read_roles()
        if roles.second is not None:
            roles = roles.switched(self._client.alias_target(self._alias) == self._name(roles.second))
        yield Session(roles, KEY)

    def _write_roles(self, session: Session, roles: Roles) -> None:
        self._client.write_note(self._note(roles))

    def _note(self, roles: Roles) -> dict[str, Any]:
        return {**roles.note(), BASE: self._base, VECTOR: self._vector}

    def _name(self, field: Field) -> str:
        return f"{self._base}__{field.name}"

    def _beside(self, field: Field) -> ClientEngine:
        return self._client.on(self._name(field))

    def _place(self, of: Field) -> tuple[Engine, str]:
        """Return the collection of a field. Its vector has the same name in both."""
        return (self._client if of.name == self._first.name else self._beside(of)), self._vector

    def _alive(self, roles: Roles, of: Field, points: list[Point]) -> list[Point]:
        """Leave out of the new collection what was deleted from the first, until it is served itself."""
        if not roles.is_new(of) or not points:
            return points
        there = self._client.existing([point.id for point in points])
        return [point for point in points if point.id in there]

    def _count(self, session: Session, of: Field, shard: Shard) -> int:
        """Count the points that have a vector; of the new field those that the first collection has too."""
        if not session.roles.is_new(of):
            return super()._count(session, of, shard)
        return len(self._ids(session.roles, of, shard))

    def _taken(self, session: Session) -> list[str]:
        return []

    def _add(self, session: Session, new: Field) -> None:
        self._check_name(new, [new.name] if self._beside(new).is_there() else [])
        super()._add(session, new)

    def _create(self, new: Field) -> None:
        beside = self._beside(new)
        if not beside.is_there():
            beside.create_collection(new, self._vector, self._client)
            beside.write_note({FIRST: self._client.name})

    def _put(self, new: Field, ids: list[Key], vectors: np.ndarray) -> None:
        payloads = {point.id: point.payload for point in self._client.retrieve(ids)}
        rows = zip(ids, vectors.tolist(), strict=True)
        points = [Point(key, vector, payloads[key]) for key, vector in rows if key in payloads]
        if points:
            self._beside(new).put(self._vector, points)

    def _remove_orphans(self, session: Session, new: Field, kept: frozenset[Any]) -> int:
        """Delete from the new collection what the first one no longer has."""
        engine, start, removed = self._beside(new), None, 0
        while True:
            points, start = engine.scroll(start, POINTS_AT_A_TIME, None, False)
            alive = {point.id for point in self._alive(session.roles, new, points)}
            gone = [point.id for point in points if point.id not in alive and point.id not in kept]
            if gone:
                engine.delete(gone)
            removed += len(gone)
            if start is None:
                return removed

    def _copied(self, engine: Any, address: Address, served: Field, vector: str) -> Engine:
        """Return an empty copy of the collection, which an alias stands for."""
        copied: ClientEngine = engine.copy_to(address, served, vector, f"{address.name}-1")
        if self._engine.read_note() is not None:
            copied.write_note({**Roles(served).note(), BASE: copied.name, VECTOR: vector})
        copied.move_alias(address.name)
        return copied

    def _switch(self, session: Session, new: Field) -> None:
        self._beside(new).move_alias(self._alias)

    def _switch_back(self, session: Session, old: Field) -> None:
        self._client.move_alias(self._alias)

    def _drop_new(self, session: Session, new: Field) -> None:
        """Delete the new collection, then the note of it."""
        if self._beside(new).is_there():
            self._beside(new).delete_collection()
        self._write_roles(session, replace(session.roles, new=None))

    def _drop_old(self, session: Session, old: Field) -> None:
        """Note that the first collection goes, have the second one note its part, and delete the first."""
        first, beside = self._client, self._beside(session.roles.served)
        note = self._note(session.roles.finished())
        self._write_roles(session, replace(session.roles, dropping=True))
        beside.write_note({FIRST: first.name, **note})
        first.delete_collection()
        beside.write_note(note)
        self._engine = self._client = beside
        self._open()


def _kind(types: set[type]) -> pa.DataType:
    """Return Arrow's type of values that are all of one simple type; all others are read as JSON."""
    return KINDS.get(next(iter(types)), pa.string()) if len(types) == 1 else pa.string()


def _points(engine: Engine, keys: pa.Array) -> Iterator[tuple[list[Key], list[int]]]:
    """Return the ids of points that are there, some at a time, and the last row of each among these keys."""
    ids = [_known_id(key) for key in keys.to_pylist()]
    possible = [key for key in ids if key is not None]
    alive = engine.existing(possible) if possible else set()
    last = {key: row for row, key in enumerate(ids) if key is not None and key in alive}
    found = list(last)
    for part in (found[i : i + POINTS_AT_A_TIME] for i in range(0, len(found), POINTS_AT_A_TIME)):
        yield part, [last[key] for key in part]


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
