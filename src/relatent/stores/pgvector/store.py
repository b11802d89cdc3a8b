"""The store over one table; :mod:`relatent.stores.pgvector` describes what stands beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._errors import StoreError
from relatent.stores.base import Effort, Form, Found, Purpose, Rows, Scan, Shard, Size, read_ahead
from relatent.stores.fields import NUMERIC_METRICS, Field, Roles, busy
from relatent.stores.pgvector import locks, wire
from relatent.stores.pgvector.follow import Follow, keep_items, keep_no_items
from relatent.stores.pgvector.into import Into
from relatent.stores.pgvector.live import SNAPSHOT, Live, Transaction
from relatent.stores.pgvector.queries import Queries
from relatent.stores.pgvector.rehearse import REHEARSAL
from relatent.stores.pgvector.table import (
    OPERATOR_CLASSES,
    Index,
    check_rows_shown,
    column_note,
    find_table,
    has_statistics,
    index_classes,
    vector_indexes,
)
from relatent.stores.pgvector.triggers import share
from relatent.stores.pgvector.view import is_writable, read_roles, write_roles

# The largest vectors of each type that an HNSW index takes.
MAX_INDEXED = {"float32": 2_000, "float16": 4_000, "bit": 64_000}
# The setting of each kind of index that makes it examine more, with pgvector's default and largest value.
EFFORTS = {"hnsw": ("hnsw.ef_search", 40, 1_000), "ivfflat": ("ivfflat.probes", 1, 32_768)}
# What an HNSW index is built with where nothing is said, and the largest that pgvector takes.
DENSITY = {"m": (16, 100), "ef_construction": (64, 1_000)}
# Rows up to which they are counted rather than estimated, and rows of a sample of the keys.
COUNTED_ROWS, SAMPLED_ROWS = 100_000, 4_096
# What advisory locks of relatent are known by, beside the table's number.
LOCK_CLASS = 0x7E1A
LOCK_KEYS = "%s, %s::int8::bit(32)::int4"
LOCK_WAIT = 2.0


class PgvectorStore(Live):
    """A table with a vector column (:mod:`relatent.stores.pgvector`)."""

    schemes = ("postgresql", "postgres")
    extra = "pgvector"
    forms = (
        Form(
            "PostgreSQL + pgvector",
            "postgresql://user@host/database/table",
            "a table beside, `table__field`",
            "a view replaced in one transaction",
            "reads and writes the view `table__served` in place of the table",
            "the vector column of the table; the new vectors stay in `table__field`, and the view stays",
        ),
    )
    holds = {"float32": NUMERIC_METRICS, "float16": NUMERIC_METRICS, "bit": ("hamming",)}  # noqa: RUF012 (see Store)
    no_codes = "pgvector has no 8-bit vectors: choose float16, which is `halfvec`, or bit, or fewer coordinates."
    writes_while_read = can_follow = True
    # The server copies larger values several times, into newly mapped memory, which takes longer than the rest.
    chunk_bytes = 2 * 2**20

    def _open(self) -> None:
        self._connections, self._moment = wire.Connections(self.address), ""
        self._closing.callback(self._connections.close)
        with self._connections.transaction(SNAPSHOT) as cursor:
            self._find_table(cursor)

    def _find_table(self, cursor: Any) -> None:
        self._table = find_table(cursor, self.address)
        check_rows_shown(cursor, self._table, self.address)
        self._queries = Queries(self._table)
        self._own = self._own_field(cursor) if self._table.has_vector else None

    def _own_field(self, cursor: Any) -> Field:
        """Describe the table's own column: its dimension, and the metric of its index."""
        table, dim = self._table, self._table.vector.size
        if dim < 0:  # declared without one: that of any row
            dim = (cursor.execute(self._queries.dimension()).fetchone() or (0,))[0]
        classes = index_classes(cursor, table)
        known = [name for name, end in OPERATOR_CLASSES.items() if any(found.endswith(end) for found in classes)]
        noted = column_note(cursor, table)
        usual = noted.get("metric", "hamming" if table.dtype == "bit" else "cosine")
        dtype: Any = table.dtype
        metric: Any = (*known, usual)[0]
        return Field(table.vector.name, dim, dtype, metric, noted.get("provenance", {}))

    @contextmanager
    def _session(self, purpose: Purpose = "read") -> Iterator[Transaction]:
        """Begin a transaction. That of a scan has its own connection: what is written meanwhile is not part of it."""
        writes = purpose == "write"
        settings, wait = ("", locks.WAIT) if writes else (SNAPSHOT, 0)
        with self._connections.transaction(settings, another=purpose == "scan", wait=wait) as cursor:
            if self._moment and not writes:
                cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._moment}'")
            yield Transaction(read_roles(cursor, self._table, self._own), self._table.key.name, cursor)

    # Rows ------------------------------------------------------------------------------------------------------------

    def _count(self, session: Transaction, of: Field, shard: Shard) -> int:
        return int(session.cursor.execute(self._queries.count(of, shard)).fetchone()[0])

    def unfilled(self, of: Field) -> int:
        """Count the items that have no vector in a field."""
        with self._session() as session:
            field = self._find(session.roles, of)
            return int(session.cursor.execute(self._queries.unfilled(field)).fetchone()[0])

    def size(self, of: Field) -> Size:
        """Return what the planner estimates, where there are statistics and it is more than is counted in a moment."""
        with self._session() as session:
            field = self._find(session.roles, of)
            if has_statistics(session.cursor, self._table.place(field).relation):
                plan = session.cursor.execute(self._queries.estimate(field)).fetchone()[0]
                rows = int(plan[0]["Plan"]["Plan Rows"])
                if rows > COUNTED_ROWS:
                    return Size(rows, is_exact=False)
            return Size(self._count(session, field, Shard()))

    def places(self, n: int) -> list[Shard]:
        """Return places that a sample of the table's pages tells, where counting its rows takes long."""
        size = self.size(self.served)
        if not size.is_exact:
            with self._session() as session:
                query = self._queries.sampled_keys(100 * min(1.0, SAMPLED_ROWS / size.rows))
                keys = [self._plain(key) for (key,) in session.cursor.execute(query).fetchall()]
            if len(keys) >= n:
                return [Shard(keys[at]) for at in np.linspace(0, len(keys) - 1, n).astype(int)]
        return super().places(n)

    def _bounds(self, session: Transaction, rows: int) -> list[Any]:
        return [self._plain(key) for (key,) in session.cursor.execute(self._queries.bounds(rows)).fetchall()]

    def state(self, shard: Shard) -> str | None:
        """Return a sum over the versions of the rows: every change of a row gives it another version.

        It has a connection of its own, so that another thread can write meanwhile.
        """
        if self._table.is_foreign:
            return None
        with self._session("scan") as session:
            return str(session.cursor.execute(self._queries.state(session.roles.served, shard)).fetchone())

    def _scan(self, session: Transaction, asked: Scan) -> Rows:
        """Read the items as they were when the first was asked for; the server reads ahead of what is worked on."""
        names = asked.names(session.key, [column.name for column in self._table.columns])
        ask = partial(self._queries.page, asked, names)
        with closing(read_ahead(wire.read_pages(session.cursor, ask, names, session.key, asked.rows))) as pages:
            for page in pages:
                yield self._readable(page, asked)

    def _readable(self, page: wire.Page, asked: Scan) -> tuple[pa.Table, np.ndarray]:
        """Return the rows whose vectors have the dimension of the field."""
        of, kinds = asked.of, self._table.payload([*page.columns])
        columns = zip(page.columns.items(), kinds, strict=True)
        others = pa.table({name: pa.array(values, kind.arrow) for (name, values), kind in columns})
        bad = [row for row, dim in enumerate(page.dims) if dim != of.dim]
        for row in bad:
            asked.skip(page.columns[self._table.key.name][row], "it has another dimension than the first")
        if bad:
            others = others.filter(pa.array([dim == of.dim for dim in page.dims]))
        return others, wire.decode(of.dtype, of.dim, page.vectors)

    # The new field ---------------------------------------------------------------------------------------------------

    def _taken(self, session: Transaction) -> list[str]:
        return [self._table.vector.name, "served", REHEARSAL]

    def _add(self, session: Transaction, new: Field) -> None:
        """Make the table of new vectors, and the view that shows the served ones."""
        for statement in self._queries.create(new):
            session.cursor.execute(statement)
        share(session.cursor, self._table, self._table.beside(new.name))
        self._write_roles(session, replace(session.roles, new=new))

    def _write(self, session: Transaction, new: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Copy new rows in; where some are there already, copy all over them, or only the others if the field follows.

        The server need not wait for its disk.
        """
        cursor, place = session.cursor, self._table.beside(new.name)
        rows = self._copied(new, keys, vectors)
        cursor.execute("SET LOCAL synchronous_commit = off")
        try:
            with cursor.connection.transaction():
                wire.copy_in(cursor, place, rows)
        except wire.psycopg().errors.UniqueViolation:
            wire.copy_over(cursor, place, rows, replace=not self._follows(session))

    def _overwrite(self, session: Transaction, served: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Update the vectors where they stand, beside the table or in it: what follows the view is not run."""
        wire.update_rows(session.cursor, self._table.place(served), self._copied(served, keys, vectors))

    def _copied(self, of: Field, keys: pa.Array, vectors: np.ndarray) -> wire.Rows:
        """Return rows to copy in, of keys that the table can have."""
        table = self._table
        self._check_keys(keys, pa.int64() if table.key.arrow == pa.int64() else pa.large_string())
        possible = wire.possible_keys(table.key.type, keys)
        if not possible.all():
            keys, vectors = keys.filter(pa.array(possible)), vectors[possible]
        return wire.copy_rows(table.key.type, of.dtype, keys, vectors)

    def flush(self) -> None:
        """Commit something that the server has to wait for: with it, all that was committed before is on the disk."""
        with self._connections.transaction() as cursor:
            cursor.execute("SELECT pg_logical_emit_message(true, 'relatent', 'flush')")

    def _remove_orphans(self, session: Transaction, new: Field, kept: frozenset[Any]) -> int:
        """Lock what looks like an orphan, and look again: an item of this key may have come meanwhile."""
        self._wait_for_writers(session)
        cursor, served = session.cursor, session.roles.served
        keys = (key for (key,) in cursor.execute(self._queries.lock_orphans(new, served)).fetchall())
        found = [key for key in keys if self._plain(key) not in kept]
        return int(cursor.execute(self._queries.delete_orphans(new, served, found)).rowcount)

    def _build_index(self, session: Transaction, of: Field) -> None:
        """Build an index of the new vectors like that of the served ones. The table's own indexes are its owner's."""
        if self._table.holds(of):
            return
        limit = MAX_INDEXED[of.dtype]
        if of.dim > limit:
            raise StoreError(
                f"{of.name!r} has {of.dim:,} coordinates: an index of pgvector takes up to {limit:,} of "
                f"{wire.VECTOR_TYPES[of.dtype]}. Add the field as float16, or with fewer coordinates."
            )
        for statement in self._queries.index(of, self._index(session, session.roles.served)):
            session.cursor.execute(statement)

    def _index(self, session: Transaction, of: Field) -> Index | None:
        """Return the approximate index of a field, if it has one."""
        found = vector_indexes(session.cursor, self._table, of)
        return next((index for index in found if index.method in EFFORTS), None)

    def _effort(self, session: Transaction, of: Field) -> Effort | None:
        index = self._index(session, of)
        if index is None:
            return None
        setting, _, maximum = EFFORTS[index.method]
        advice = f"SET {setting} = {{n}} in each session, or ALTER ROLE … SET {setting} = {{n}}"
        return Effort(setting, _setting(session.cursor, index.method), maximum, advice, _denser(index))

    def _search(
        self, session: Transaction, of: Field, queries: np.ndarray, k: int, exact: bool, effort: int | None
    ) -> list[Found]:
        """Search as an application would, all queries in one snapshot; ``exact`` forbids the use of indexes."""
        cursor = session.cursor
        if exact:
            cursor.execute("SET LOCAL enable_indexscan = off")
        else:
            index = None if effort is None else self._index(session, of)
            _widen(cursor, k, effort, "hnsw" if index is None else index.method)
        found = [cursor.execute(self._queries.search(of, k, text)).fetchall() for text in _literals(of, queries)]
        return [([self._plain(key) for key, _ in hits], [distance for _, distance in hits]) for hits in found]

    def score(self, distances: np.ndarray, of: Field) -> np.ndarray:
        """Return minus the distance, which of inner products is minus the product; of cosines, 1 minus it."""
        return (1.0 if of.metric == "cosine" else 0.0) - distances

    # Cutover ---------------------------------------------------------------------------------------------------------

    def _write_roles(self, session: Transaction, roles: Roles) -> None:
        """Have the view show what is served, in the transaction."""
        write_roles(session.cursor, self._table, session.roles, roles)
        follow = Follow.of(self._table, session.roles)
        if roles.second is not None and follow is not None and follow.is_on(session.cursor):
            follow.note_switch(session.cursor, roles.old is not None)

    def _drop_new(self, session: Transaction, new: Field) -> None:
        """Drop the table of new vectors. The view stays, for those who read it, and shows the table."""
        self._lock_tables(session)
        self._write_roles(session, replace(session.roles, new=None))
        Follow(self._table, session.roles.first, new).remove(session.cursor)
        Into(self._table, new).remove(session.cursor)
        session.cursor.execute(self._queries.drop(new))

    def _drop_old(self, session: Transaction, old: Field) -> None:
        """Drop the table's own vector column, or the table of an earlier migration. The view stays as it is.

        PostgreSQL refuses where something else needs the column, and then nothing is dropped.
        """
        cursor, served, writable = session.cursor, session.roles.served, is_writable(session.cursor, self._table)
        self._lock_tables(session)
        Follow(self._table, old, served).remove(cursor)
        keep_no_items(cursor, self._table, old)
        Into(self._table, served).remove(cursor)
        if writable:
            keep_items(cursor, self._table, served)
        cursor.execute(self._queries.drop(old))
        self._find_table(cursor)
        self._write_roles(session, session.roles.finished())

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
                with suppress(wire.psycopg().Error):
                    connection.execute(f"SELECT pg_advisory_unlock({LOCK_KEYS})", lock)


def _locked(connection: Any, lock: tuple[int, int]) -> bool:
    """Return whether the lock is ours now, after a wait: a server needs a moment to notice a killed process."""
    until = time.monotonic() + LOCK_WAIT
    while not connection.execute(f"SELECT pg_try_advisory_lock({LOCK_KEYS})", lock).fetchone()[0]:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _literals(of: Field, queries: np.ndarray) -> Iterator[str]:
    """Return vectors as PostgreSQL writes them."""
    if of.dtype == "bit":
        return ("".join("01"[int(bit)] for bit in row) for row in queries > 0)
    return (f"[{','.join(map(repr, row))}]" for row in queries.tolist())


def _widen(cursor: Any, k: int, effort: int | None, method: str) -> None:
    """Have an index examine as many as are asked for; an HNSW index returns as many as it examines, so at least k."""
    setting, _, maximum = EFFORTS[method]
    wanted, now = effort or 0, _setting(cursor, method)
    if method == "hnsw":
        wanted = max(wanted, k)
    if effort is not None or wanted > now:
        cursor.execute("SELECT set_config(%s, %s, true)", (setting, str(min(wanted, maximum))))


def _setting(cursor: Any, method: str) -> int:
    """Return what the server sets for this user; pgvector's default where it sets nothing."""
    setting, default, _ = EFFORTS[method]
    return int(cursor.execute("SELECT current_setting(%s, true)", (setting,)).fetchone()[0] or default)


def _denser(index: Index) -> str:
    given = dict(option.split("=", 1) for option in index.options)
    if index.method == "ivfflat":
        return f"drop the index {index.name} and create an HNSW index in its place"
    values = {name: min(2 * int(given.get(name, usual)), largest) for name, (usual, largest) in DENSITY.items()}
    options = ", ".join(f"{name} = {value}" for name, value in values.items())
    return f"drop the index {index.name} and create it again USING hnsw (vector {index.operators}) WITH ({options})"
