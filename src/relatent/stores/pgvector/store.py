"""The store over one table; :mod:`relatent.stores.pgvector` says what stands beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from relatent.spaces.chunks import Chunk
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
    same_kind,
)
from relatent.stores.locks import busy
from relatent.stores.pgvector.connection import Connections, psycopg
from relatent.stores.pgvector.copying import copy_in, copy_over, possible_keys
from relatent.stores.pgvector.pages import Page, read_pages
from relatent.stores.pgvector.queries import Queries
from relatent.stores.pgvector.roles import beside, read_roles, write_roles
from relatent.stores.pgvector.table import METRICS, find_table, index_classes
from relatent.stores.pgvector.wire import VECTOR_TYPES, Rows, copy_rows, value_size
from relatent.stores.prefetch import read_ahead
from relatent.stores.roles import Roles
from relatent.stores.store import Field, Hits, Shard, Unreadable

SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Vectors that are fetched and copied at a time: few enough to stay in the cache, enough to make up for a round trip.
CHUNK_BYTES = 8 * 2**20
# The largest vectors of each type that an HNSW index takes.
INDEXED = {"float32": 2_000, "float16": 4_000, "bit": 64_000}
HELD = {"float32": NUMERIC_METRICS, "float16": NUMERIC_METRICS, "bit": ("hamming",)}
NO_CODES = "pgvector has no vectors of eight bits: choose float16, which is halfvec, or bit, or fewer coordinates."
# What advisory locks of relatent are known by, beside the table's number.
LOCK_CLASS = 0x7E1A
LOCK_KEYS = "%s, %s::int8::bit(32)::int4"
LOCK_WAIT = 2.0


class _AlreadyThereError(Exception):
    """Some of the rows that were copied are there already, so that none was written."""


class PgvectorStore(RoleKeeper):
    """A table with a vector column (:mod:`relatent.stores.pgvector`)."""

    writes_while_read = True

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connections = Connections(address)
        try:
            with self._connections.transaction(SNAPSHOT) as cursor:
                self._find_table(cursor)
                self._roles(cursor)
        except BaseException:
            self.close()
            raise

    # Roles ---------------------------------------------------------------------------------------------------------

    def _current(self) -> Roles:
        with self._connections.transaction() as cursor:
            return self._roles(cursor)

    def _roles(self, cursor: Any) -> Roles:
        return read_roles(cursor, self._table, self._column)

    def _find_table(self, cursor: Any) -> None:
        self._table = find_table(cursor, self.address)
        self._queries = Queries(self.address, self._table)
        self._column = self._own_field(cursor) if self._table.has_vector else None

    def _own_field(self, cursor: Any) -> Field:
        """Describe the table's own column: its dimension, and the metric of its index."""
        table, dim = self._table, self._table.vector.size
        if dim < 0:  # declared without one: that of any row
            dim = (cursor.execute(self._queries.dimension()).fetchone() or (0,))[0]
        classes = index_classes(cursor, table)
        known = [name for name, metric in METRICS.items() if any(c.endswith(metric.operator_class) for c in classes)]
        usual = "hamming" if table.dtype == "bit" else "cosine"
        return Field(table.vector.name, dim, table.dtype, (*known, usual)[0])

    # Rows ----------------------------------------------------------------------------------------------------------

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the items that have a vector in a field."""
        with self._connections.transaction(SNAPSHOT) as cursor:
            cursor.execute(self._queries.count(self._roles(cursor), of, shard))
            return int(cursor.fetchone()[0])

    def shards(self, rows: int) -> list[Shard]:
        """Cut at every so many keys, in the order of the primary key."""
        with self._connections.transaction(SNAPSHOT) as cursor:
            cursor.execute(self._queries.bounds(rows))
            bounds = [str(key) if self._is_uuid else key for (key,) in cursor.fetchall()]
        return [Shard(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True)]

    def state(self, shard: Shard) -> str | None:
        """Return a sum over the versions of the rows: every change of a row gives it another version.

        It has a connection of its own, so that another thread can write meanwhile.
        """
        if self._table.is_foreign:
            return None
        with self._connections.another() as connection, connection.cursor(binary=True) as cursor:
            roles = self._roles(cursor)
            return str(cursor.execute(self._queries.state(roles, roles.served, shard)).fetchone())

    @property
    def _is_uuid(self) -> bool:
        return self._table.key.type == "uuid"

    def scan(
        self,
        of: Field,
        *,
        shard: Shard | None = None,
        rows: int | None = None,
        columns: Sequence[str] | None = (),
        unreadable: Unreadable | None = None,
    ) -> Iterator[Chunk]:
        """Return the items in order of their keys, as they were when the first was asked for.

        It has a connection of its own, so that what is written meanwhile is not part of its transaction.
        """
        table, start = self._table, 0
        key = table.key.name
        wanted = [c.name for c in table.columns] if columns is None else [key, *(c for c in columns if c != key)]
        for page in read_ahead(self._pages(of, shard, wanted, rows)):  # the server reads while this page is worked on
            chunk = page.chunk(self.address, table, of, start, unreadable)
            start += len(chunk)
            yield chunk

    def _pages(
        self, of: Field, shard: Shard | None, wanted: list[str], rows: int | None
    ) -> Generator[Page, None, None]:
        size = rows or max(1, CHUNK_BYTES // value_size(of.dtype, of.dim))
        with (
            self._connections.another() as connection,
            connection.transaction(),
            connection.cursor(binary=True) as cursor,
        ):
            cursor.execute(f"SET TRANSACTION {SNAPSHOT}")
            ask = partial(self._queries.page, self._roles(cursor), of, shard, wanted, size)
            yield from read_pages(cursor, ask, wanted, self._table.key.name, size)

    # The new field -------------------------------------------------------------------------------------------------

    def add(self, new: Field) -> Field:
        """Make the table of new vectors, and the view that shows the served ones."""
        check_kind(self.address, new, HELD, NO_CODES)
        with self._connections.transaction() as cursor:
            roles = self._roles(cursor)
            if not check_addable(self.address, new, roles.new, roles.old):
                return new
            if new.name in (roles.first.name, self._table.vector.name, "served"):
                raise StoreError(f"{new.name!r} cannot be the name of a new field of {self.address}: take another.")
            for statement in self._queries.create(new):
                cursor.execute(statement)
            write_roles(cursor, self._table, replace(roles, second=new))
        return new

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Copy new rows in; where some are there already, copy them aside and replace those."""
        kept = as_vectors(self.address, into, vectors)
        column = same_kind(self.address, keys, pa.int64() if self._table.key.arrow == pa.int64() else pa.large_string())
        possible = possible_keys(self._table.key.type, column)
        if not possible.all():
            column, kept = column.filter(pa.array(possible)), kept[possible]
        rows = copy_rows(self._table.key.type, into.dtype, column, kept)
        try:
            self._write(into, rows, copy_in)
        except _AlreadyThereError:
            self._write(into, rows, copy_over)

    def flush(self) -> None:
        """Commit something that the server has to wait for: with it, all that was committed before is on the disk."""
        with self._connections.transaction() as cursor:
            cursor.execute("SELECT pg_logical_emit_message(true, 'relatent', 'flush')")

    def _write(self, into: Field, rows: Rows, how: Callable[[Any, Any, Rows], None]) -> None:
        """Write rows in one transaction, if the field is the new one; the server need not wait for its disk."""
        with self._connections.transaction() as cursor:
            cursor.execute("SET LOCAL synchronous_commit = off")
            check_new(self.address, self._roles(cursor).new, into)
            try:
                how(cursor, beside(self._table, into.name), rows)
            except psycopg().errors.UniqueViolation as error:
                raise _AlreadyThereError from error

    def remove_orphans(self, of: Field) -> int:
        """Delete the vectors of keys that the table no longer has."""
        check_new(self.address, self.new, of)
        with self._connections.transaction() as cursor:
            return int(cursor.execute(self._queries.delete_orphans(of)).rowcount)

    def build_index(self, of: Field) -> None:
        """Build an HNSW index of the new vectors, for their metric. The table's own indexes are its owner's."""
        if self._table.holds(of):
            return
        if of.dim > INDEXED[of.dtype]:
            raise StoreError(
                f"{of.name!r} has {of.dim:,} coordinates: an HNSW index of pgvector takes up to {INDEXED[of.dtype]:,} "
                f"of {VECTOR_TYPES[of.dtype]}. Add the field as float16, or with fewer coordinates."
            )
        with self._connections.transaction() as cursor:
            for statement in self._queries.index(of):
                cursor.execute(statement)

    def search(self, vectors: np.ndarray, k: int, *, of: Field | None = None, exact: bool = False) -> Hits:
        """Search as an application would, all queries in one snapshot; ``exact`` forbids the use of indexes."""
        with self._connections.transaction(SNAPSHOT) as cursor:
            roles = self._roles(cursor)
            field = roles.served if of is None else of
            _forbid_indexes(cursor) if exact else _widen(cursor, k)
            queries = [self._queries.search(roles, field, k, asked) for asked in self._literals(field, vectors)]
            found = [cursor.execute(query).fetchall() for query in queries]
        scores = np.full((len(found), k), -np.inf)
        for row, hits in zip(scores, found, strict=True):
            row[: len(hits)] = [METRICS[field.metric].one - distance for _, distance in hits]
        return Hits([[str(key) if self._is_uuid else key for key, _ in hits] for hits in found], scores)

    def _literals(self, of: Field, vectors: np.ndarray) -> Iterator[str]:
        queries = as_queries(self.address, of, vectors)
        if of.dtype == "bit":
            return ("".join("01"[int(bit)] for bit in row) for row in queries > 0)
        return (f"[{','.join(map(repr, row))}]" for row in queries.tolist())

    # Cutover -------------------------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Have the view show the new vectors, in one transaction."""
        with self._connections.transaction() as cursor:
            roles = self._roles(cursor)
            check_new(self.address, roles.new)
            write_roles(cursor, self._table, replace(roles, switched=True))

    def switch_back(self) -> None:
        """Have the view show the table's own column again, in one transaction."""
        with self._connections.transaction() as cursor:
            roles = self._roles(cursor)
            check_old(self.address, roles.old)
            write_roles(cursor, self._table, replace(roles, switched=False))

    def drop_new(self) -> None:
        """Drop the table of new vectors. The view stays, for those who read it, and shows the table."""
        with self._connections.transaction() as cursor:
            roles = self._roles(cursor)
            new = check_new(self.address, roles.new)
            write_roles(cursor, self._table, replace(roles, second=None))
            cursor.execute(self._queries.drop(new))

    def drop_old(self) -> None:
        """Drop the table's own vector column, or the table of an earlier migration. The view stays as it is.

        One transaction. PostgreSQL refuses where something else needs the column, and then nothing is dropped.
        """
        with self._connections.transaction() as cursor:
            roles = self._roles(cursor)
            old = check_old(self.address, roles.old)
            write_roles(cursor, self._table, roles.finished)
            cursor.execute(self._queries.drop(old))
            self._find_table(cursor)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Take an advisory lock on a connection of its own, so that the server drops it when this process dies."""
        lock = (LOCK_CLASS, self._table.oid)
        with self._connections.another() as connection:
            if not _locked(connection, lock):
                raise busy(self.address)
            try:
                yield
            finally:  # a lost connection has lost the lock, too
                with suppress(psycopg().Error):
                    connection.execute(f"SELECT pg_advisory_unlock({LOCK_KEYS})", lock)

    def close(self) -> None:
        """Close the connection."""
        self._connections.close()


def _locked(connection: Any, lock: tuple[int, int]) -> bool:
    """Return whether the lock is ours now, after a wait: a server needs a moment to notice a killed process."""
    until = time.monotonic() + LOCK_WAIT
    while not connection.execute(f"SELECT pg_try_advisory_lock({LOCK_KEYS})", lock).fetchone()[0]:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _forbid_indexes(cursor: Any) -> None:
    cursor.execute("SET LOCAL enable_indexscan = off")


def _widen(cursor: Any, k: int) -> None:
    """Let an HNSW index return k items: by itself it returns as many as it looks at, 40 unless the server says else."""
    cursor.execute("SELECT current_setting('hnsw.ef_search', true)")
    now = cursor.fetchone()[0]
    if k > int(now or 40):
        cursor.execute("SELECT set_config('hnsw.ef_search', %s, true)", (str(min(k, 1_000)),))
