"""Chroma: a new field is a companion collection, and serving it renames two collections, one after the other.

``chroma://host:8000/collection`` is a server, ``chroma:///folder/collection`` the folder of a ``PersistentClient``.
Keys are Chroma's ids, which are texts. A token is taken from the environment variable ``CHROMA_TOKEN``, or from the
password of the URL. Options: ``?ssl=1``, ``?tenant=`` and ``?database=``.

===========================  ======================================================================================
``items``                    what searches read
``items.FIELD``              the new field; its metadata records which collection it is for, and its provenance
``items.old``                after the switch: the collection that was served, untouched
===========================  ======================================================================================

The companion has copies of documents, metadata and URIs, as they were when its vectors were written: what is served
after the switch is a complete collection. An embedding function is not copied, since it is that of the old model.

Chroma renames one collection at a time. Between the two renames there is no collection of the served name: a client
that asks for it by name then is refused, and one that holds it keeps reading the old vectors. No client gets a mixture.
A switch that died between the two is undone by the next one who opens the store, so that the old vectors are served.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._errors import StoreError, needs
from relatent.spaces.keys import key_hashes
from relatent.spaces.sample import sample_rows
from relatent.stores.address import Address
from relatent.stores.base import Form, Found, Purpose, Rows, Scan, Session, Shard, Store, every_nth
from relatent.stores.fields import Field, Metric, Roles, busy, lock_file

PORT = 8000
DATABASE_FILE = "chroma.sqlite3"
META = "relatent.added"
METRICS: dict[Metric, str] = {"cosine": "cosine", "inner": "ip", "l2": "l2"}
INDEX = (
    "ef_construction",
    "max_neighbors",
    "ef_search",
    "num_threads",
    "batch_size",
    "sync_threshold",
    "resize_factor",
)
KEY, DOCUMENT, URI = "id", "document", "uri"
TEXT = pa.large_string()
# A switch is in the middle for some milliseconds. Who finds it there after PATIENCE seconds checks whether it is dead;
# one that is alive is waited for up to MAX_WAIT.
PATIENCE, MAX_WAIT, PAUSE = 2.0, 60.0, 0.02
# Times that something is read again after an item was deleted meanwhile.
ATTEMPTS = 20
SERVER = Form(
    "Chroma",
    "chroma://host:8000/collection",
    "a companion collection",
    "two collections renamed, one after the other: for a moment there is none of the served name",
    "gets the collection by its name",
    "the old collection, with its documents and metadata",
)


@dataclass(frozen=True)
class Added:
    """What a companion records of itself in its metadata. Renaming the collection keeps it."""

    name: str
    """The name of its field."""
    serves: str
    """The name of the collection once it is served."""
    dim: int
    metric: Metric
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def waiting(self) -> str:
        """The name of the collection while it is new."""
        return f"{self.serves}.{self.name}"

    @property
    def kept_as(self) -> str:
        """The name of the collection that was served before, while this one is."""
        return f"{self.serves}.old"

    @staticmethod
    def of(collection: Any) -> Added | None:
        """Read what a collection records; None for one that we did not add."""
        text = (collection.metadata or {}).get(META)
        return None if text is None else Added(**json.loads(text))


@dataclass(frozen=True)
class Collections(Session):
    """The collection of each field, by the name of the field, as one operation finds them."""

    collections: Mapping[str, Any]

    def of(self, field: Field) -> Any:
        """Return the collection of a field."""
        return self.collections[field.name]


class ChromaStore(Store):
    """A collection and its companion (:mod:`relatent.stores.chroma`)."""

    schemes = ("chroma",)
    extra = "chroma"
    forms = (SERVER, replace(SERVER, title="Chroma, embedded", url="chroma:///folder/collection"))
    no_codes = "Chroma holds no smaller numbers than float32: choose it, or a translator to fewer coordinates."
    searches_exactly = False
    denser = (
        'collection.modify(configuration={"hnsw": {"ef_search": …}}) of the new collection with a larger value, which '
        "Chroma reads when it opens the collection the next time"
    )

    def _open(self) -> None:
        self._connection = Connection(self.address)
        self._closing.callback(self._connection.close)

    @contextmanager
    def _session(self, purpose: Purpose = "read") -> Iterator[Collections]:
        with self._connection.reporting():
            yield _collections(self._connection)

    # Rows ------------------------------------------------------------------------------------------------------------

    def _count(self, session: Collections, of: Field, shard: Shard) -> int:
        return len(_keys(session.of(of), shard))

    def unfilled(self, of: Field) -> int:
        """Count the items of the served collection that another one does not have."""
        return len(self.only_in(self.served, of))

    def _keys_of(self, of: Field, shard: Shard | None) -> pa.Array:
        with self._session() as session:
            return _keys(session.of(self._find(session.roles, of)), shard)

    def _bounds(self, session: Collections, rows: int) -> list[Any]:
        return every_nth(_keys(session.of(session.roles.served)), rows)

    def _scan(self, session: Collections, asked: Scan) -> Rows:
        """Read the ids first, then their items. An item that is deleted meanwhile is left out."""
        collection = session.of(asked.of)
        keys = _keys(collection, asked.shard).to_pylist()
        for part in self._batches(keys, asked.rows):
            found = _get(collection, part, ["embeddings", "documents", "metadatas", "uris"])
            vectors = np.asarray(found["embeddings"], np.float32).reshape(len(found["ids"]), asked.of.dim)
            yield _payload(found, asked.columns), vectors

    def _batches(self, keys: list[str], rows: int | None = None) -> Iterator[list[str]]:
        """Cut keys into batches that the server takes."""
        size = min(rows or self._connection.batch, self._connection.batch)
        return (keys[first : first + size] for first in range(0, len(keys), size))

    # The new field ---------------------------------------------------------------------------------------------------

    def _taken(self, session: Collections) -> list[str]:
        return ["old", "lock"]

    def _add(self, session: Collections, new: Field) -> None:
        added = Added(new.name, self.address.name, new.dim, new.metric, dict(new.provenance))
        like = _index(session.of(session.roles.served))
        self._connection.create(added.waiting, METRICS[new.metric], {META: json.dumps(asdict(added))}, like)

    def _write(self, session: Collections, new: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Copy the items of these keys from the served collection, with the new vectors."""
        self._check_keys(keys, TEXT)
        last = {key: row for row, key in enumerate(keys.to_pylist())}
        for part in self._batches(list(last)):
            found = _get(session.of(session.roles.served), part, ["documents", "metadatas", "uris"])
            if found["ids"]:
                session.of(new).upsert(embeddings=vectors[[last[key] for key in found["ids"]]], **found)

    def _overwrite(self, session: Collections, served: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Update the embeddings of the items that are there."""
        self._check_keys(keys, TEXT)
        last, collection = {key: row for row, key in enumerate(keys.to_pylist())}, session.of(served)
        for part in self._batches(list(last)):
            found = _get(collection, part, [])["ids"]
            if found:
                collection.update(ids=found, embeddings=vectors[[last[key] for key in found]])

    def _remove_orphans(self, session: Collections, new: Field, kept: frozenset[Any]) -> int:
        """Delete from the companion what is no longer in the served collection."""
        here, there = _keys(session.of(new)), _keys(session.of(session.roles.served))
        gone = [key for key in here.filter(pc.invert(pc.is_in(here, value_set=there))).to_pylist() if key not in kept]
        for part in self._batches(gone):
            session.of(new).delete(ids=part)
        return len(gone)

    def _search(
        self, session: Collections, of: Field, queries: np.ndarray, k: int, exact: bool, effort: int | None
    ) -> list[Found]:
        found = _reading(lambda: session.of(of).query(query_embeddings=queries, n_results=k, include=["distances"]))
        return list(zip(found["ids"], found["distances"], strict=True))

    @contextmanager
    def rehearsal(self, rows: int) -> Iterator[str]:
        """Copy items into a collection beside: of a server into another one, of a folder into another folder."""
        with self._connection.beside() as address:
            with self._session() as session, closing(Connection(address, is_there=False)) as there:
                self._copy(session, there, address.name, rows)
            yield str(address)

    def _copy(self, session: Collections, there: Connection, name: str, rows: int) -> None:
        served, metric = session.of(session.roles.served), METRICS[session.roles.served.metric]
        added, ids = Added.of(served), _keys(served)
        metadata = None if added is None else {META: json.dumps(asdict(replace(added, serves=name)))}
        copied = there.create(name, metric, metadata, _index(served))
        for part in self._batches(ids.take(pa.array(sample_rows(len(ids), rows, seed=0))).to_pylist()):
            copied.add(**_get(served, part, ["embeddings", "documents", "metadatas", "uris"]))

    # Cutover ---------------------------------------------------------------------------------------------------------

    def _switch(self, session: Collections, new: Field) -> None:
        """Rename the served collection, then give its name to the companion."""
        self._rename_both(session, new, _added(session.of(new)).kept_as)

    def _switch_back(self, session: Collections, old: Field) -> None:
        """Take the name from the companion, then give it to the collection that had it."""
        self._rename_both(session, old, _added(session.of(session.roles.served)).waiting)

    def _rename_both(self, session: Collections, other: Field, away: str) -> None:
        """Rename the served collection and give its name to another, or do neither."""
        served, name = session.of(session.roles.served), self.address.name
        self._connection.rename(served, away)
        try:
            self._connection.rename(session.of(other), name)
        except StoreError:
            with suppress(StoreError):  # whoever opens the store next repairs it
                self._connection.rename(served, name)
            raise

    def _drop_new(self, session: Collections, new: Field) -> None:
        self._connection.delete(session.of(new).name)

    def _drop_old(self, session: Collections, old: Field) -> None:
        self._connection.delete(session.of(old).name)

    def lock(self) -> AbstractContextManager[object]:
        """Lock a file, and on a server a name too."""
        return self._connection.lock()


class Connection:
    """A client of one database of Chroma, embedded or a server: collections by name."""

    def __init__(self, address: Address, *, is_there: bool = True) -> None:
        self.address, self._is_there = address, is_there
        self._chroma = needs("chromadb", "chroma", "open Chroma collections")
        with self.reporting():
            self._client = self._connect()
            self.batch = int(self._client.get_max_batch_size())

    def _connect(self) -> Any:
        address, options = self.address, self.address.options
        shared = {
            "settings": self._chroma.config.Settings(anonymized_telemetry=False),
            "tenant": options.get("tenant", self._chroma.DEFAULT_TENANT),
            "database": options.get("database", self._chroma.DEFAULT_DATABASE),
        }
        if not address.host:
            if self._is_there and not Path(address.path, DATABASE_FILE).is_file():
                raise StoreError(f"{address} is not there: {address.path} is not the folder of a Chroma database.")
            return self._chroma.PersistentClient(address.path, **shared)
        token = address.password or os.environ.get("CHROMA_TOKEN")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        ssl = options.get("ssl") == "1"
        return self._chroma.HttpClient(address.host, address.port or PORT, ssl=ssl, headers=headers, **shared)

    @contextmanager
    def beside(self) -> Iterator[Address]:
        """Yield the address of a collection that can be made beside, and remove it with what was made of it.

        That of a folder is in a folder of its own, since Chroma leaves the files of a collection that is deleted.
        """
        if not self.address.host:
            folder = Path(self.address.path)
            with TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-rehearsal-") as made:
                yield replace(self.address, path=made, options={})
            return
        name = f"{self.address.name}-rehearsal-{token_hex(4)}"
        try:
            yield replace(self.address, name=name)
        finally:
            with self.reporting():
                for one in [one for one in self.every() if one.startswith(name)]:
                    self.delete(one)

    def find(self, name: str) -> Any | None:
        """Return a collection, or None if there is none of that name."""
        try:
            return self._client.get_collection(name, embedding_function=None)
        except self._chroma.errors.NotFoundError:
            return None

    def every(self) -> dict[str, Any]:
        """Return all collections by name."""
        return {one.name: one for one in self._client.list_collections()}

    def create(
        self, name: str, metric: str, metadata: dict[str, Any] | None, like: Mapping[str, Any] | None = None
    ) -> Any:
        """Make a collection, with an index whose options are like those of another."""
        index = {"hnsw": {**(like or {}), "space": metric}}
        return self._client.create_collection(name, configuration=index, metadata=metadata, embedding_function=None)

    def rename(self, collection: Any, name: str) -> None:
        """Give a collection another name, which must be free."""
        with self.reporting():
            collection.modify(name=name)

    def delete(self, name: str) -> None:
        """Delete a collection."""
        self._client.delete_collection(name)

    def close(self) -> None:
        """Close the client, and the sessions of HTTP that Chroma leaves open."""
        clients = (self._client, getattr(self._client, "_admin_client", None))
        sessions = [getattr(getattr(one, "_server", None), "_session", None) for one in clients]
        self._client.close()
        for session in sessions:
            if session is not None:
                session.close()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other migrations out: those of this machine by a file, those of others by a collection.

        Whoever has the file knows that a collection that this machine left behind is of a dead process.
        """
        hashed = int(key_hashes([str(self.address)])[0])
        folder = Path(tempfile.gettempdir() if self.address.host else self.address.path)
        with lock_file(folder / f"relatent-{hashed:016x}.lock", self.address):
            if not self.address.host:
                yield
                return
            name = f"{self.address.name}.lock"
            with self.reporting():
                self._claim(name)
            try:
                yield
            finally:
                with self.reporting():
                    self.delete(name)

    def _claim(self, name: str) -> None:
        machine = {"relatent.machine": socket.gethostname()}
        left = self.find(name)
        if left is not None:
            if dict(left.metadata or {}) != machine:
                raise busy(self.address)
            self.delete(name)
        self.create(name, "l2", machine)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report as StoreError what Chroma, or the connection to it, refuses. Errors of Chroma hold no token."""
        import httpx

        try:
            yield
        except StoreError:
            raise
        except (self._chroma.errors.ChromaError, httpx.HTTPError, ValueError) as error:
            said = str(error).splitlines()
            raise StoreError(
                f"{self.address} was refused by Chroma: {said[0] if said else type(error).__name__}"
            ) from error


# Which collection is served, which is new and which is old -----------------------------------------------------------


def _collections(connection: Connection) -> Collections:
    """Find the roles of the collections; wait for a switch that is under way, and undo one that died."""
    name = connection.address.name
    served = _served(connection, name)
    every = connection.every()
    records = {at: record for at, one in every.items() if (record := Added.of(one)) is not None}
    new = next((every[at] for at, one in records.items() if one.serves == name and at == one.waiting), None)
    old = every.get(records[name].kept_as) if name in records else None
    found = {role: one for role, one in (("served", served), ("new", new), ("old", old)) if one is not None}
    fields: dict[str, Any] = {role: _field(one, name) for role, one in found.items()}
    return Collections(Roles(**fields), KEY, {fields[role].name: one for role, one in found.items()})


def _served(connection: Connection, name: str) -> Any:
    """Return the served collection. If it is away for longer than a switch takes, restore the old one."""
    began = time.monotonic()
    while (served := connection.find(name)) is None:
        every = connection.every()
        if _renamed_away(every, name) is None and name not in every:
            raise StoreError(f"{connection.address} is not there: no collection has that name.")
        waited = time.monotonic() - began
        if waited > MAX_WAIT:
            raise busy(connection.address)
        if waited > PATIENCE:
            _undo(connection, name)
        time.sleep(PAUSE)
    return served


def _undo(connection: Connection, name: str) -> None:
    """Restore the old collection, unless a migration is alive: on a busy machine a switch can take long."""
    with suppress(StoreError), connection.reporting(), connection.lock():
        old = _renamed_away(connection.every(), name)
        if old is not None:
            connection.rename(old, name)


def _renamed_away(every: Mapping[str, Any], name: str) -> Any | None:
    """Return what was served before, if both it and a companion are there and neither has the served name."""
    records = [record for one in every.values() if (record := Added.of(one)) is not None and record.serves == name]
    away = (every[one.kept_as] for one in records if one.kept_as in every and one.waiting in every)
    return None if name in every else next(away, None)


def _added(collection: Any) -> Added:
    added = Added.of(collection)
    assert added is not None  # it has a role that only a companion has
    return added


def _field(collection: Any, served: str) -> Field:
    """Describe a collection. One that we did not add is the field that was served first, whatever it is called now."""
    record = Added.of(collection)
    if record is not None:
        return Field(record.name, record.dim, "float32", record.metric, record.provenance)
    space = (collection.configuration.get("hnsw") or collection.configuration.get("spann") or {}).get("space", "l2")
    one = collection.get(limit=1, include=["embeddings"])["embeddings"]
    metric = next(metric for metric, known in METRICS.items() if known == space)
    return Field(served, len(one[0]) if len(one) else 0, "float32", metric)


def _index(collection: Any) -> dict[str, Any]:
    """Return how the HNSW index of a collection is built and searched, for another one."""
    known = collection.configuration.get("hnsw") or {}
    return {name: known[name] for name in INDEX if known.get(name) is not None}


# Items ---------------------------------------------------------------------------------------------------------------


def _keys(collection: Any, shard: Shard | None = None) -> pa.Array:
    """Read the ids of a collection and sort them; Chroma has no condition on ids, so that all are read."""
    keys, shard = pa.array(collection.get(include=[])["ids"], TEXT), shard or Shard()
    if shard.low is not None:
        keys = keys.filter(pc.greater_equal(keys, pa.scalar(shard.low, TEXT)))
    if shard.high is not None:
        keys = keys.filter(pc.less(keys, pa.scalar(shard.high, TEXT)))
    return keys.take(pc.sort_indices(keys))


def _reading(read: Callable[[], Any]) -> Any:
    """Read, and again where an item is deleted in the middle of it: then Chroma fails, as it does not find the id."""
    errors = needs("chromadb", "chroma", "open Chroma collections").errors
    for _ in range(ATTEMPTS):
        try:
            return read()
        except errors.InternalError as error:
            if "finding id" not in str(error):
                raise
            time.sleep(PAUSE)
    return read()


def _get(collection: Any, keys: list[str], wanted: list[str]) -> dict[str, Any]:
    """Read items in the order of the keys given, without those that are not there."""
    found = _reading(lambda: collection.get(ids=keys, include=wanted))
    place = {key: row for row, key in enumerate(found["ids"])}
    order = [place[key] for key in keys if key in place]
    return {name: [found[name][row] for row in order] for name in ("ids", *wanted)}


def _payload(found: dict[str, Any], columns: Sequence[str] | None) -> pa.Table:
    """Return ids, and documents, URIs and metadata as columns: all that there are, or those that are named."""
    rows = [dict(one or {}) for one in found["metadatas"]]
    given = {DOCUMENT: found["documents"], URI: found["uris"]}
    known = [name for name, values in given.items() if any(value is not None for value in values)]
    names = [*known, *sorted({name for row in rows for name in row})] if columns is None else columns
    values = {name: given.get(name) or [row.get(name) for row in rows] for name in names if name != KEY}
    return pa.table({KEY: pa.array(found["ids"], TEXT), **{name: _column(one) for name, one in values.items()}})


def _column(values: list[Any]) -> pa.Array:
    """Return values as a column; those of several types, which Chroma allows, as JSON."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else json.dumps(value) for value in values])
