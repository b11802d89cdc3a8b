"""The store over one collection of Chroma; :mod:`relatent.stores.chroma` says how it is laid out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent.spaces.chunks import Chunk, Layout, chunk_rows
from relatent.stores.address import Address, StoreError
from relatent.stores.checks import (
    NUMERIC_METRICS,
    RoleKeeper,
    as_queries,
    as_vectors,
    check_addable,
    check_kind,
    check_new,
    check_old,
    check_one_of,
    cut,
    readable,
    same_kind,
)
from relatent.stores.chroma.connection import Connection
from relatent.stores.chroma.roles import METRICS, Added, Roles, read_roles
from relatent.stores.exact import exact_search
from relatent.stores.store import Field, Hits, Shard, Unreadable

KEY, DOCUMENT, URI = "id", "document", "uri"
TEXT = pa.large_string()
NO_CODES = "Chroma holds no smaller numbers than float32: choose it, or a translator to fewer coordinates."


class ChromaStore(RoleKeeper):
    """A collection and its companion (:mod:`relatent.stores.chroma`)."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection = Connection(address)
        try:
            self._current()
        except StoreError:
            self.close()
            raise

    # Roles ---------------------------------------------------------------------------------------------------------

    def _current(self) -> Roles:
        with self._connection.reporting():
            return read_roles(self._connection)

    def _collection(self, roles: Roles, of: Field) -> Any:
        return roles.collections[check_one_of(self.address, of, roles.served, roles.new, roles.old).name]

    # Rows ----------------------------------------------------------------------------------------------------------

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the items of a collection."""
        return len(self._keys(self._collection(self._current(), of), shard))

    def shards(self, rows: int) -> list[Shard]:
        """Cut the sorted ids into shards of so many rows."""
        roles = self._current()
        return cut(self._keys(self._collection(roles, roles.served)), rows)

    def scan(
        self,
        of: Field,
        *,
        shard: Shard | None = None,
        rows: int | None = None,
        columns: Sequence[str] | None = (),
        unreadable: Unreadable | None = None,
    ) -> Iterator[Chunk]:
        """Read the ids first, then their items. An item that is deleted meanwhile is left out."""
        collection = self._collection(self._current(), of)
        keys = self._keys(collection, shard)
        size, start = min(chunk_rows(of.dim, np.dtype(np.float32), rows), self._connection.batch), 0
        for first in range(0, len(keys), size):
            wanted = keys[first : first + size].to_pylist()
            found = self._get(collection, wanted, ["embeddings", "documents", "metadatas", "uris"])
            vectors = np.asarray(found["embeddings"], np.float32).reshape(len(found["ids"]), of.dim)
            others = _payload(found, columns)
            fine = readable(self.address, others[KEY], vectors, unreadable)
            if not fine.all():
                vectors, others = vectors[fine], others.filter(pa.array(fine))
            yield Chunk(start, vectors, others, Layout(of.name, KEY, (*others.column_names, of.name)))
            start += len(vectors)

    def _keys(self, collection: Any, shard: Shard | None = None) -> pa.Array:
        """Read the ids of a collection and sort them; Chroma has no condition on ids, so that all are read."""
        with self._connection.reporting():
            keys = pa.array(collection.get(include=[])["ids"], TEXT)
        if shard is not None and shard.low is not None:
            keys = keys.filter(pc.greater_equal(keys, pa.scalar(shard.low, TEXT)))
        if shard is not None and shard.high is not None:
            keys = keys.filter(pc.less(keys, pa.scalar(shard.high, TEXT)))
        return keys.take(pc.sort_indices(keys))

    def _get(self, collection: Any, keys: list[str], wanted: list[str]) -> dict[str, Any]:
        """Read items in the order of the keys given, without those that are not there."""
        with self._connection.reporting():
            found = collection.get(ids=keys, include=wanted)
        place = {key: row for row, key in enumerate(found["ids"])}
        order = [place[key] for key in keys if key in place]
        return {name: [found[name][row] for row in order] for name in ("ids", *wanted)}

    # The new field -------------------------------------------------------------------------------------------------

    def add(self, new: Field) -> Field:
        """Make an empty companion."""
        roles = self._current()
        if not check_addable(self.address, new, roles.new, roles.old):
            return new
        check_kind(self.address, new, {"float32": NUMERIC_METRICS}, NO_CODES)
        if new.name in (roles.served.name, "old", "lock"):
            raise StoreError(f"{new.name!r} cannot be the name of a new field of {self.address}: take another.")
        added = Added(new.name, self.address.name, new.dim, new.metric, dict(new.provenance))
        self._connection.create(added.waiting, METRICS[new.metric], added.metadata())
        return new

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Copy the items of these keys from the served collection, with the new vectors."""
        roles = self._current()
        new = check_new(self.address, roles.new, into)
        kept = as_vectors(self.address, new, vectors)
        names = same_kind(self.address, keys, TEXT).to_pylist() if len(kept) else []
        last = {name: row for row, name in enumerate(names)}  # a key that is given twice has its last vector
        every, size = list(last), self._connection.batch
        for part in (every[first : first + size] for first in range(0, len(every), size)):
            found = self._get(self._collection(roles, roles.served), part, ["documents", "metadatas", "uris"])
            if found["ids"]:
                with self._connection.reporting():
                    self._collection(roles, new).upsert(embeddings=kept[[last[key] for key in found["ids"]]], **found)

    def remove_orphans(self, of: Field) -> int:
        """Delete from the companion what is no longer in the served collection."""
        roles = self._current()
        companion = self._collection(roles, check_new(self.address, roles.new, of))
        here, there = self._keys(companion), self._keys(self._collection(roles, roles.served))
        gone = here.filter(pc.invert(pc.is_in(here, value_set=there))).to_pylist()
        for first in range(0, len(gone), self._connection.batch):
            with self._connection.reporting():
                companion.delete(ids=gone[first : first + self._connection.batch])
        return len(gone)

    def build_index(self, of: Field) -> None:
        """Do nothing: Chroma indexes what is written."""
        self._collection(self._current(), of)

    def search(self, vectors: np.ndarray, k: int, *, of: Field | None = None, exact: bool = False) -> Hits:
        """Search by Chroma's own index; ``exact`` compares with every vector."""
        roles = self._current()
        field = roles.served if of is None else of
        queries = as_queries(self.address, field, vectors)
        if exact:
            return exact_search(self.scan(field), queries, k, field.metric)
        with self._connection.reporting():
            found = self._collection(roles, field).query(query_embeddings=queries, n_results=k, include=["distances"])
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for row, distances in enumerate(found["distances"]):
            scores[row, : len(distances)] = _score(np.asarray(distances, np.float32), field.metric)
        return Hits(found["ids"], scores)

    # Cutover -------------------------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Put the served collection aside, then give its name to the companion."""
        roles = self._current()
        new, added = check_new(self.address, roles.new), roles.added
        assert added is not None
        self._rename_both(roles, (roles.served, added.aside), (new, added.serves))

    def switch_back(self) -> None:
        """Take the name from the companion, then give it to the collection that had it."""
        roles = self._current()
        old, added = check_old(self.address, roles.old), roles.added
        assert added is not None
        self._rename_both(roles, (roles.served, added.waiting), (old, added.serves))

    def _rename_both(self, roles: Roles, first: tuple[Field, str], second: tuple[Field, str]) -> None:
        """Rename two collections, or neither."""
        (served, away), (other, name) = first, second
        self._connection.rename(self._collection(roles, served), away)
        try:
            self._connection.rename(self._collection(roles, other), name)
        except StoreError:
            with suppress(StoreError):  # whoever opens the store next repairs it
                self._connection.rename(self._collection(roles, served), name)
            raise

    def drop_new(self) -> None:
        """Delete the companion."""
        roles = self._current()
        self._connection.delete(self._collection(roles, check_new(self.address, roles.new)).name)

    def drop_old(self) -> None:
        """Delete the collection that was served before."""
        roles = self._current()
        self._connection.delete(self._collection(roles, check_old(self.address, roles.old)).name)

    def lock(self) -> AbstractContextManager[None]:
        """Lock a file, and on a server a name too."""
        return self._connection.lock()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


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


def _score(distances: np.ndarray, metric: str) -> np.ndarray:
    """Return the cosine or inner product, or minus the distance, of which Chroma gives the square."""
    return np.asarray(-np.sqrt(distances) if metric == "l2" else 1 - distances)
