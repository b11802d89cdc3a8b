"""The store over one table; :mod:`relatent.stores.pgvector` says what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent.spaces.chunks import Chunk, Layout, chunk_rows
from relatent.stores.address import Address, StoreError
from relatent.stores.checks import (
    Closing,
    as_queries,
    as_vectors,
    cannot_read,
    check_addable,
    check_new,
    check_old,
    check_one_of,
    same_kind,
)
from relatent.stores.locks import busy
from relatent.stores.pgvector.connection import Connections, psycopg
from relatent.stores.pgvector.roles import beside, read_roles, write_roles
from relatent.stores.pgvector.table import METRICS, find_table
from relatent.stores.pgvector.wire import COPY_END, COPY_START, VECTOR_TYPES, copy_rows, decode, value_size
from relatent.stores.roles import Roles
from relatent.stores.store import Field, Hits, Shard, Unreadable

__all__ = ["PgvectorStore"]

SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
# The largest vectors of each type that an HNSW index takes.
INDEXED = {"float32": 2_000, "float16": 4_000, "bit": 64_000}
# What advisory locks of relatent are known by, beside the table's number.
LOCK_CLASS = 0x7E1A


class PgvectorStore(Closing):
    """A table with a vector column (:mod:`relatent.stores.pgvector`)."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connections = Connections(address)
        try:
            with self._connections.transaction(SNAPSHOT) as cursor:
                self._table = find_table(cursor, address)
                self._column = self._own_field(cursor)
                self._roles(cursor)
        except BaseException:
            self.close()
            raise

    # Roles ---------------------------------------------------------------------------------------------------------

    @property
    def served(self) -> Field:
        """The field that the view shows."""
        return self._current().served

    @property
    def new(self) -> Field | None:
        """The field of the table beside, while it is not served."""
        return self._current().new

    @property
    def old(self) -> Field | None:
        """The table's own column, while it is not served."""
        return self._current().old

    def _current(self) -> Roles:
        with self._connections.transaction() as cursor:
            return self._roles(cursor)

    def _roles(self, cursor: Any) -> Roles:
        return read_roles(cursor, self._table, self._column)

    def _own_field(self, cursor: Any) -> Field:
        """Describe the table's own column: its dimension, and the metric of its index."""
        sql, table = psycopg().sql, self._table
        dim = table.vector.size
        if dim < 0:  # declared without one: that of any row
            dims = sql.SQL("length" if table.vector.type == "bit" else "vector_dims")
            query = sql.SQL("SELECT {}({v}) FROM {} WHERE {v} IS NOT NULL LIMIT 1")
            cursor.execute(query.format(dims, self._base, v=sql.Identifier(table.vector.name)))
            dim = (cursor.fetchone() or (0,))[0]
        cursor.execute(
            "SELECT o.opcname FROM pg_index i JOIN pg_opclass o ON o.oid = i.indclass[0] "
            "WHERE i.indrelid = %s AND i.indkey[0] = %s",
            (table.oid, table.vector.number),
        )
        classes = [row[0] for row in cursor.fetchall()]
        known = [name for name, metric in METRICS.items() if any(c.endswith(metric.operator_class) for c in classes)]
        usual = "hamming" if table.dtype == "bit" else "cosine"
        return Field(table.vector.name, dim, table.dtype, (*known, usual)[0])

    @property
    def _base(self) -> Any:
        return psycopg().sql.Identifier(self._table.schema, self._table.name)

    @property
    def _key(self) -> Any:
        return psycopg().sql.Identifier("b", self._table.key.name)

    def _place(self, roles: Roles, of: Field) -> tuple[Any, Any]:
        """Return what to select from for a field, the table being b, and the expression of its vectors."""
        sql = psycopg().sql
        field = check_one_of(self.address, of, roles.first, roles.second)
        if field == roles.first:
            return sql.SQL("{} b").format(self._base), sql.Identifier("b", self._table.vector.name)
        joined = sql.SQL("{} b JOIN {} n ON n.key = {}").format(self._base, beside(self._table, of.name), self._key)
        return joined, sql.SQL("n.vector")

    def _within(self, shard: Shard | None) -> Any:
        """Return the condition that a key is in a shard."""
        sql, shard = psycopg().sql, shard or Shard()
        bounds = [
            sql.SQL("{} {} {}").format(self._key, sql.SQL(sign), sql.Literal(bound))
            for sign, bound in ((">=", shard.low), ("<", shard.high))
            if bound is not None
        ]
        return sql.SQL(" AND ").join([sql.SQL("true"), *bounds])

    # Rows ----------------------------------------------------------------------------------------------------------

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the items that have a vector in a field."""
        with self._connections.transaction(SNAPSHOT) as cursor:
            place, vector = self._place(self._roles(cursor), of)
            query = psycopg().sql.SQL("SELECT count({}) FROM {} WHERE {}")
            cursor.execute(query.format(vector, place, self._within(shard)))
            return int(cursor.fetchone()[0])

    def shards(self, rows: int) -> list[Shard]:
        """Cut at every so many keys, in the order of the primary key."""
        query = psycopg().sql.SQL(
            "SELECT key FROM (SELECT {} AS key, row_number() OVER (ORDER BY {}) AS row FROM {} b) AS numbered "
            "WHERE row > 1 AND (row - 1) %% {} = 0 ORDER BY key"
        )
        with self._connections.transaction(SNAPSHOT) as cursor:
            cursor.execute(query.format(self._key, self._key, self._base, rows), ())
            bounds = [str(key) if self._is_uuid else key for (key,) in cursor.fetchall()]
        return [Shard(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True)]

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
        key = self._table.key.name
        wanted = [c.name for c in self._table.columns] if columns is None else [key, *(c for c in columns if c != key)]
        size, start = chunk_rows(of.dim, np.dtype("float16" if of.dtype == "float16" else "float32"), rows), 0
        with self._connections.another() as connection, connection.transaction():
            with connection.cursor(binary=True) as cursor:
                cursor.execute(f"SET TRANSACTION {SNAPSHOT}")
                query = self._scan_query(self._roles(cursor), of, shard, wanted)
            with connection.cursor("relatent_scan", binary=True) as cursor:
                cursor.execute(query)
                while found := cursor.fetchmany(size):
                    chunk = self._chunk(of, start, found, wanted, unreadable)
                    start += len(chunk)
                    yield chunk

    def _scan_query(self, roles: Roles, of: Field, shard: Shard | None, wanted: list[str]) -> Any:
        sql = psycopg().sql
        place, vector = self._place(roles, of)
        names = [
            sql.SQL("{}::text" if column.is_cast else "{}").format(sql.Identifier("b", column.name))
            for column in self._table.payload(wanted)
        ]
        listed = sql.SQL(", ").join([vector, *names])
        query = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {}")
        return query.format(listed, place, self._within(shard), self._key)

    def _chunk(
        self, of: Field, start: int, found: list[Any], wanted: list[str], unreadable: Unreadable | None
    ) -> Chunk:
        """Make a chunk of rows whose first column is the vector, as bytes."""
        size, key = value_size(of.dtype, of.dim), wanted.index(self._table.key.name)
        if any(row[0] is None or len(row[0]) != size for row in found):
            found = [row for row in found if self._is_readable(row, size, key, unreadable)]
        kinds = [column.arrow for column in self._table.payload(wanted)]
        values = list(zip(*found, strict=True)) or [() for _ in range(1 + len(wanted))]
        table = pa.table([pa.array(v, kind) for v, kind in zip(values[1:], kinds, strict=True)], names=wanted)
        layout = Layout(of.name, self._table.key.name, (*wanted, of.name))
        return Chunk(start, decode(of.dtype, of.dim, values[0]), table, layout)

    def _is_readable(self, row: Any, size: int, key: int, unreadable: Unreadable | None) -> bool:
        if row[0] is not None and len(row[0]) == size:
            return True
        reason = "it is null" if row[0] is None else "it has another dimension than the first"
        cannot_read(self.address, row[1 + key], reason, unreadable)
        return False

    # The new field -------------------------------------------------------------------------------------------------

    def add(self, new: Field) -> Field:
        """Make the table of new vectors, and the view that shows the served ones."""
        if (
            new.dtype not in VECTOR_TYPES
            or new.metric not in METRICS
            or (new.dtype == "bit") != (new.metric == "hamming")
        ):
            raise StoreError(
                f"{self.address} was asked for {new.dtype} vectors and the metric {new.metric}: expected float32 or "
                "float16 with cosine, inner or l2, or bit with hamming."
            )
        sql = psycopg().sql
        with self._connections.transaction() as cursor:
            roles = self._roles(cursor)
            if not check_addable(self.address, new, roles.new, roles.old):
                return new
            if new.name in (roles.first.name, "served"):
                raise StoreError(f"{new.name!r} cannot be the name of a new field of {self.address}: take another.")
            place = beside(self._table, new.name)
            query = "CREATE TABLE {} AS SELECT {} AS key, NULL::{}({}) AS vector FROM {} b WITH NO DATA"
            kind = sql.SQL(VECTOR_TYPES[new.dtype])
            cursor.execute(sql.SQL(query).format(place, self._key, kind, new.dim, self._base))
            cursor.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (key), ALTER vector SET NOT NULL").format(place))
            write_roles(cursor, self._table, replace(roles, second=new))
        return new

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Copy new rows in; where some are there already, copy them aside and replace those."""
        new = check_new(self.address, self.new, into)
        kept = as_vectors(self.address, new, vectors)
        if not len(kept):
            return
        column = same_kind(self.address, keys, pa.int64() if self._table.key.arrow == pa.int64() else pa.large_string())
        possible = self._possible(column)
        rows = copy_rows(self._table.key.type, new.dtype, column.filter(pa.array(possible)), kept[possible])
        place = beside(self._table, new.name)
        errors = psycopg().errors
        with self._connections.transaction() as cursor:
            try:
                with cursor.connection.transaction():
                    _copy(cursor, place, rows)
            except errors.UniqueViolation:
                self._replace(cursor, place, rows)

    def _possible(self, keys: pa.Array) -> np.ndarray:
        """Return which keys a column of this type can hold; no other is in the table."""
        kind = self._table.key.type
        if kind in ("int2", "int4"):
            limit = 2 ** (15 if kind == "int2" else 31)
            values = keys.to_numpy(zero_copy_only=False)
            return np.asarray((values >= -limit) & (values < limit))
        if kind == "int8":
            return np.ones(len(keys), bool)
        pattern = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" if self._is_uuid else "^[^\\x00]*$"
        return np.asarray(pc.match_substring_regex(keys, pattern).to_numpy(zero_copy_only=False), bool)

    def _replace(self, cursor: Any, place: Any, rows: bytes) -> None:
        """Copy rows into a table that lives as long as the transaction; the last of a key that comes twice counts."""
        sql = psycopg().sql
        like = sql.SQL("CREATE TEMPORARY TABLE relatent_rows ON COMMIT DROP AS SELECT * FROM {} WITH NO DATA")
        cursor.execute(like.format(place))
        cursor.execute("ALTER TABLE relatent_rows ADD row bigint GENERATED ALWAYS AS IDENTITY")
        _copy(cursor, sql.Identifier("relatent_rows"), rows)
        cursor.execute(
            sql.SQL(
                "INSERT INTO {} SELECT DISTINCT ON (key) key, vector FROM relatent_rows ORDER BY key, row DESC "
                "ON CONFLICT (key) DO UPDATE SET vector = excluded.vector"
            ).format(place)
        )

    def remove_orphans(self, of: Field) -> int:
        """Delete the vectors of keys that the table no longer has."""
        check_new(self.address, self.new, of)
        query = psycopg().sql.SQL("DELETE FROM {} n WHERE NOT EXISTS (SELECT FROM {} b WHERE {} = n.key)")
        with self._connections.transaction() as cursor:
            cursor.execute(query.format(beside(self._table, of.name), self._base, self._key))
            return int(cursor.rowcount)

    def build_index(self, of: Field) -> None:
        """Build an HNSW index of the new vectors, for their metric. The table's own indexes are its owner's."""
        if of.name == self._column.name:
            return
        if of.dim > INDEXED[of.dtype]:
            raise StoreError(
                f"{of.name!r} has {of.dim:,} coordinates: an HNSW index of pgvector takes up to {INDEXED[of.dtype]:,} "
                f"of {VECTOR_TYPES[of.dtype]}. Add the field as float16, or with fewer coordinates."
            )
        sql = psycopg().sql
        place, name = beside(self._table, of.name), beside(self._table, f"{of.name}__hnsw")
        operators = sql.SQL(f"{VECTOR_TYPES[of.dtype]}_{METRICS[of.metric].operator_class}")
        bare = sql.Identifier(name._obj[-1])
        with self._connections.transaction() as cursor:
            cursor.execute(
                sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw (vector {})").format(bare, place, operators)
            )
            cursor.execute(sql.SQL("ANALYZE {}").format(place))

    def search(self, vectors: np.ndarray, k: int, *, of: Field | None = None, exact: bool = False) -> Hits:
        """Search as an application would, all queries in one snapshot; ``exact`` forbids the use of indexes."""
        with self._connections.transaction(SNAPSHOT) as cursor:
            roles = self._roles(cursor)
            field = roles.served if of is None else of
            query = self._search_query(roles, field, k)
            cursor.execute("SET LOCAL enable_indexscan = off" if exact else "SELECT 1")
            if not exact:
                _widen(cursor, k)
            found = [self._ask(cursor, query, row) for row in self._literals(field, vectors)]
        scores = np.full((len(found), k), -np.inf)
        for row, hits in zip(scores, found, strict=True):
            row[: len(hits)] = [METRICS[field.metric].one - distance for _, distance in hits]
        return Hits([[str(key) if self._is_uuid else key for key, _ in hits] for hits in found], scores)

    def _search_query(self, roles: Roles, of: Field, k: int) -> Any:
        sql = psycopg().sql
        place, vector = self._place(roles, of)
        cast = sql.SQL(f"%(query)s::{VECTOR_TYPES[of.dtype]}({of.dim})")
        distance = sql.SQL("{} {} {}").format(vector, sql.SQL(METRICS[of.metric].operator), cast)
        query = sql.SQL("SELECT {}, {} FROM {} WHERE {} IS NOT NULL ORDER BY {} LIMIT {}")
        return query.format(self._key, distance, place, vector, distance, k)

    def _ask(self, cursor: Any, query: Any, literal: str) -> list[Any]:
        return list(cursor.execute(query, {"query": literal}).fetchall())

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
            cursor.execute(psycopg().sql.SQL("DROP TABLE {}").format(beside(self._table, new.name)))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Take an advisory lock on a connection of its own; the server drops it with the connection."""
        with self._connections.another() as connection:
            query = "SELECT pg_try_advisory_lock(%s, %s::int8::bit(32)::int4)"
            if not connection.execute(query, (LOCK_CLASS, self._table.oid)).fetchone()[0]:
                raise busy(self.address)
            yield

    def close(self) -> None:
        """Close the connection."""
        self._connections.close()


def _copy(cursor: Any, place: Any, rows: bytes) -> None:
    statement = psycopg().sql.SQL("COPY {} (key, vector) FROM STDIN (FORMAT binary)").format(place)
    with cursor.copy(statement) as copy:
        copy.write(COPY_START)
        copy.write(rows)
        copy.write(COPY_END)


def _widen(cursor: Any, k: int) -> None:
    """Let an HNSW index return k items: by itself it returns as many as it looks at, 40 unless the server says else."""
    cursor.execute("SELECT current_setting('hnsw.ef_search', true)")
    now = cursor.fetchone()[0]
    if k > int(now or 40):
        cursor.execute("SELECT set_config('hnsw.ef_search', %s, true)", (str(min(k, 1_000)),))
