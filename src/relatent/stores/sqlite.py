"""SQLite: ``sqlite:///folder/items.db/table``, a ``vec0`` table of sqlite-vec or a plain one with vectors as BLOBs.

==============  ===============================================================================================
``?vector=``    the column of the vectors, where the guess by name is wrong
``?key=``       a unique column, of a plain table whose primary key is not one column
``?metric=``    cosine, inner or l2, for BLOBs; the default is cosine
``?dtype=``     float32, int8 or bit, for BLOBs; the default is float32
==============  ===============================================================================================

The table is not touched until the old vectors are dropped. What belongs to a migration of ``items`` to a field ``new``
stands beside it:

==================  =================================================================================
``items__new``      of ``vec0`` a table with the same columns, of which the vector has another type;
                    of BLOBs the new vectors by key
``items__served``   a view that shows what is served under the names of ``items``, for searching
                    (``MATCH`` reaches the ``vec0`` table) and, by triggers, for writing
``relatent``        a table of notes: the roles and the provenance of each migrated table
==================  =================================================================================

A switch replaces the view and the note in one transaction. No table is renamed: after ``ALTER TABLE … RENAME`` a
``vec0`` table cannot be read any more (sqlite-vec 0.1.9).

SQLite has one writer at a time. Each write here is a short transaction, waits up to a minute for its turn, and leaves
as much time to others as it took. A scan is a snapshot if the file is in WAL mode; else each of its pages is one, so
that nobody waits for it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._errors import StoreError, needs
from relatent.exports.sql.literals import quoted
from relatent.spaces.sample import sample_rows
from relatent.steps import Step
from relatent.stores.address import Address
from relatent.stores.base import Form, Found, Purpose, Rows, Scan, Session, Shard, Store, every_nth
from relatent.stores.fields import NUMERIC_METRICS, Field, Roles, decoded, encoded, is_coded, lock_file, read_as
from relatent.stores.sqlite_table import (
    INTEGERS,
    MADE,
    TEXTS,
    Table,
    find_table,
    own_field,
    size_of,
)
from relatent.stores.sqlite_view import read_note, write_roles

PURPOSE = "open SQLite tables of vectors"
# Seconds that a write waits for the writes of applications.
WAIT = 60.0
# After a write, others have as long for theirs, up to this: SQLite keeps no queue, and who waits looks every 0.1 s.
MAX_PAUSE = 0.2
# The largest k of sqlite-vec's own search.
MAX_K = 4_096
# Rows that are copied at a time.
BATCH = 1_000
DISTANCES = {"cosine": "vec_distance_cosine", "l2": "vec_distance_L2", "hamming": "vec_distance_hamming"}


@dataclass(frozen=True)
class Opened(Session):
    """A transaction, and the table as it shows it."""

    db: Any
    table: Table


class SqliteStore(Store):
    """A table of a SQLite file (:mod:`relatent.stores.sqlite`)."""

    schemes = ("sqlite",)
    extra = "sqlite"
    forms = (
        Form(
            "SQLite, sqlite-vec",
            "sqlite:///folder/items.db/table",
            "a table beside, `table__field`",
            "a view and a note replaced in one transaction",
            "reads and writes the view `table__served` in place of the table",
            "the `vec0` table, or the column of BLOBs; the new vectors stay in `table__field`, and the view stays",
        ),
    )
    holds = {"float32": NUMERIC_METRICS, "int8": ("cosine", "l2"), "bit": ("hamming",)}  # noqa: RUF012 (see Store)
    no_codes = "sqlite-vec has no uint8 and no inner product of codes: choose int8 with cosine or l2, or float32."
    writes_while_read = compares_codes = True
    # What is read at a time is written at a time, and keeps applications from writing meanwhile.
    chunk_bytes = 2**20

    def _open(self) -> None:
        self._idle: list[Any] = []
        self._closing.callback(self._close_idle)
        address = self.address
        if address.host or not address.path:
            raise StoreError(f"{address} names no file: expected sqlite:///, the path of the file, / and a table.")
        if not Path(address.path).is_file():
            raise StoreError(f"{address} is not there: {address.path} is not a file.")

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _session(self, purpose: Purpose = "read") -> Iterator[Opened]:
        with _transaction(self.address, self._idle, writes=purpose == "write") as db:
            note = read_note(db, self.address.name)
            table = find_table(db, self.address, note)
            roles = Roles(own_field(db, table, self.address)) if note is None else Roles.of_note(note["roles"])
            yield Opened(roles, table.key, db, table)

    # Rows ------------------------------------------------------------------------------------------------------------

    def _count(self, session: Opened, of: Field, shard: Shard) -> int:
        where, bounds = self._where(session, of, shard)
        return int(session.db.execute(f"SELECT count(*) {where}", bounds).fetchone()[0])

    def unfilled(self, of: Field) -> int:
        """Count the items that have no vector in a field."""
        with self._session() as session:
            table, field = session.table, self._find(session.roles, of)
            if table.is_vec0:
                return len(set(_keys(self, session, session.roles.served)) - set(_keys(self, session, field)))
            items = session.db.execute(f"SELECT count(*) FROM {quoted(table.name)}").fetchone()[0]
            return int(items) - self._count(session, field, Shard())

    def _where(self, session: Opened, of: Field, shard: Shard) -> tuple[str, list[Any]]:
        """Return which rows of a field have a vector and a key of a shard; texts are ordered by their bytes."""
        table, conditions, bounds = session.table, [session.table.has(of)], []
        key = f"b.{quoted(table.key)}" + (" COLLATE BINARY" if table.kind == TEXTS else "")
        for sign, bound in ((">=", shard.low), ("<", shard.high)):
            if bound is not None:
                conditions.append(f"{key} {sign} ?")
                bounds.append(bound)
        return f"FROM {table.source(of)} WHERE {' AND '.join(conditions)}", bounds

    def _keys_of(self, of: Field, shard: Shard | None) -> pa.Array:
        with self._session() as session:
            return pa.array(_keys(self, session, self._find(session.roles, of), shard), session.table.kind)

    def _bounds(self, session: Opened, rows: int) -> list[Any]:
        return every_nth(pa.array(_keys(self, session, session.roles.served), session.table.kind), rows)

    def _scan(self, session: Opened, asked: Scan) -> Rows:
        """Read the keys first, then the rows of each page by their keys."""
        table, db = session.table, session.db
        names = asked.names(session.key, table.payload)
        keys = _keys(self, session, asked.of, asked.shard)
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            db.execute("COMMIT")
        for first in range(0, len(keys), asked.rows):
            yield self._readable(_rows(session, asked.of, keys[first : first + asked.rows], names), names, table, asked)

    def _readable(self, rows: list[Any], names: list[str], table: Table, asked: Scan) -> tuple[pa.Table, np.ndarray]:
        """Return the rows whose vectors have the size of the field."""
        of, kept, at = asked.of, [], names.index(table.key)
        size = size_of(of)
        for row in rows:
            if isinstance(row[-1], bytes) and len(row[-1]) == size:
                kept.append(row)
            else:
                found = f"{len(row[-1])} bytes" if isinstance(row[-1], bytes) else f"a {type(row[-1]).__name__}"
                asked.skip(row[at], f"it is {found}, and one of {of.dim} coordinates is a BLOB of {size} bytes")
        columns = {name: _column([row[i] for row in kept], table.columns[name]) for i, name in enumerate(names)}
        return pa.table(columns), _vectors(of, b"".join(row[-1] for row in kept))

    # The new field ---------------------------------------------------------------------------------------------------

    def _taken(self, session: Opened) -> list[str]:
        return [session.table.vector, "served"]

    def _add(self, session: Opened, new: Field) -> None:
        """Make the table of new vectors, and the view that shows the served ones."""
        session.db.execute(session.table.create(new, session.table.place(new)))
        write_roles(session.db, session.table, replace(session.roles, new=new))

    def _write(self, session: Opened, new: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Write the vectors of items that there are; a vec0 table takes their other columns along, as they are now."""
        table, db = session.table, session.db
        self._check_keys(keys, table.kind)
        given = dict(zip(keys.to_pylist(), _bytes(new, vectors), strict=True))
        if table.is_vec0:
            rows = _rows(session, session.roles.served, list(given), table.payload)
            at = table.payload.index(table.key)
            _delete(session, new, [row[at] for row in rows])
            _insert(db, table, new, table.place(new), [(*row[:-1], given[row[at]]) for row in rows])
        else:
            key = quoted(table.key)
            db.executemany(
                f"INSERT OR REPLACE INTO {table.place(new)} SELECT {key}, ? FROM {quoted(table.name)} WHERE {key} = ?",
                [(vector, one) for one, vector in given.items()],
            )

    def _overwrite(self, session: Opened, served: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Update the vectors where they stand; the triggers of the view are not run."""
        table = session.table
        self._check_keys(keys, table.kind)
        rows = list(zip(_bytes(served, vectors), keys.to_pylist(), strict=True))
        beside = not table.is_vec0 and not table.holds(served)
        key, vector = ("key", "vector") if beside else (quoted(table.key), quoted(table.vector))
        value = MADE[served.dtype].format("?") if table.is_vec0 else "?"
        statement = f"UPDATE {table.place(served)} SET {vector} = {value} WHERE {key} = ? AND length({vector}) > 0"
        session.db.executemany(statement, rows)

    def _remove_orphans(self, session: Opened, new: Field, kept: frozenset[Any]) -> int:
        """Delete the new vectors whose items are gone."""
        table = session.table
        if table.is_vec0:
            gone = set(_keys(self, session, new)) - set(_keys(self, session, session.roles.served)) - kept
        else:
            items = f"SELECT {quoted(table.key)} FROM {quoted(table.name)}"
            found = session.db.execute(f"SELECT key FROM {table.place(new)} WHERE key NOT IN ({items})")
            gone = {key for (key,) in found.fetchall()}
        _delete(session, new, list(gone))
        return len(gone)

    def follow(self, new: Field, steps: Sequence[Step], back: Sequence[Step]) -> str | None:
        """Return why it does not: no trigger can stand on a virtual table, and a map is slow in plain SQL."""
        return "triggers of SQLite cannot, or would take too long"

    def _search(
        self, session: Opened, of: Field, queries: np.ndarray, k: int, exact: bool, effort: int | None
    ) -> list[Found]:
        """Search as an application does: a vec0 table by MATCH, BLOBs by the distance of every row."""
        table = session.table
        vector, key, source = table.vector_of(of), f"b.{quoted(table.key)}", table.source(of)
        query, stored = MADE[of.dtype].format(":q"), MADE[of.dtype].format(vector)
        if of.metric == "inner":  # |x - q|² - |x|² = |q|² - 2 x·q
            parts = [f"vec_distance_L2({stored}, vec_f32({one}))" for one in (":q", ":zero")]
            distance = f"{parts[0]} * {parts[0]} - {parts[1]} * {parts[1]}"
        else:
            distance = f"{DISTANCES[of.metric]}({stored}, {query})"
        statement = f"SELECT {key}, {distance} AS found FROM {source} WHERE length({vector}) = {size_of(of)}"
        statement += " AND found IS NOT NULL ORDER BY found LIMIT :k"
        if table.is_vec0 and of.metric != "inner" and k <= MAX_K:
            statement = f"SELECT {key}, b.distance FROM {source} WHERE {vector} MATCH {query} AND b.k = :k"
        asked = encoded(of, queries) if is_coded(of) else queries > 0 if of.dtype == "bit" else queries
        zero = np.zeros(of.dim, np.float32).tobytes()
        found: list[Found] = []
        for row, one in zip(queries.astype(np.float64), _bytes(of, asked), strict=True):
            given = {"q": one, "k": k} | ({"zero": zero} if of.metric == "inner" else {})
            hits = [hit for hit in session.db.execute(statement, given).fetchall() if hit[1] is not None]
            scores = [distance for _, distance in hits]
            if of.metric == "inner":
                scores = [(row @ row - distance) / 2 for distance in scores]
            found.append(([key for key, _ in hits], scores))
        return found

    def score(self, distances: np.ndarray, of: Field) -> np.ndarray:
        """Return 1 minus the distance of cosines, products as they are, else minus the distance of the vectors."""
        if of.metric in ("cosine", "inner"):
            return 1 - distances if of.metric == "cosine" else distances
        return -distances * (of.scale if is_coded(of) else 1)

    @contextmanager
    def rehearsal(self, rows: int) -> Iterator[str]:
        """Copy the table, with some items, into a file of a folder beside."""
        file = Path(self.address.path)
        with TemporaryDirectory(dir=file.parent, prefix=f"{file.stem}-rehearsal-") as folder:
            there = replace(self.address, path=str(Path(folder, file.name)))
            with self._session() as session:
                self._copy(session, there, rows)
            yield str(there)

    def _copy(self, session: Opened, there: Address, rows: int) -> None:
        table, served, name = session.table, session.roles.served, quoted(session.table.name)
        keys = _keys(self, session, served)
        chosen = [keys[row] for row in sample_rows(len(keys), rows, seed=0)]
        with closing(_connect(there, create=True)) as made, _transaction(there, [made], writes=True) as db:
            if table.is_vec0:
                db.execute(table.create(served, name))
            else:
                query = "SELECT sql FROM sqlite_master WHERE name = ?"
                db.execute(session.db.execute(query, (table.name,)).fetchone()[0])
                _add_column(db, table)
            _insert(db, table, served, name, _rows(session, served, chosen, table.payload))
            write_roles(db, replace(table, has_vector=True), Roles(replace(served, name=table.vector)))

    # Cutover ---------------------------------------------------------------------------------------------------------

    def _write_roles(self, session: Opened, roles: Roles) -> None:
        write_roles(session.db, session.table, roles)

    def _drop_new(self, session: Opened, new: Field) -> None:
        """Drop the table of new vectors. The view stays, for those who read it, and shows the served ones."""
        self._write_roles(session, replace(session.roles, new=None))
        session.db.execute(f"DROP TABLE {session.table.place(new)}")

    def _drop_old(self, session: Opened, old: Field) -> None:
        """Drop the vec0 table, the column of BLOBs, or the table of an earlier migration."""
        table, db = session.table, session.db
        own = table.holds(old)
        write_roles(db, replace(table, has_vector=table.has_vector and not own), session.roles.finished())
        if own and not table.is_vec0:
            db.execute(f"ALTER TABLE {quoted(table.name)} DROP COLUMN {quoted(table.vector)}")
        else:
            db.execute(f"DROP TABLE {table.place(old)}")

    def replace_old(self, advance: Callable[[int], None] | None = None) -> None:
        """Put the served vectors into the table itself, under the name of its column, in one transaction."""
        with self._session("write") as session:
            table, roles, db = session.table, session.roles, session.db
            if roles.old is None and table.holds(roles.served):
                return
            name, served = quoted(table.name), roles.served
            db.execute(f"DROP VIEW IF EXISTS {table.view}")
            if table.is_vec0:
                self._refill(session, name, advance)
            else:
                _add_column(db, table)
                key = f"{name}.{quoted(table.key)}"
                found = f"(SELECT vector FROM {table.place(served)} WHERE key = {key})"
                value = f"coalesce({found}, x'')" if table.is_required else found
                changed = db.execute(f"UPDATE {name} SET {quoted(table.vector)} = {value}").rowcount
                if advance is not None:
                    advance(changed)
            for one in filter(None, (served, roles.old)):
                if not table.holds(one):
                    db.execute(f"DROP TABLE {table.place(one)}")
            write_roles(db, replace(table, has_vector=True), Roles(replace(served, name=table.vector)))

    def _refill(self, session: Opened, name: str, advance: Callable[[int], None] | None) -> None:
        """Make a vec0 table again as the served one is, and copy that into it."""
        table, served = session.table, session.roles.served
        session.db.execute(f"DROP TABLE IF EXISTS {name}")
        session.db.execute(table.create(served, name))
        keys = _keys(self, session, served)
        for first in range(0, len(keys), BATCH):
            part = _rows(session, served, keys[first : first + BATCH], table.payload)
            _insert(session.db, table, served, name, part)
            if advance is not None:
                advance(len(part))

    def lock(self) -> AbstractContextManager[object]:
        """Lock a file beside: a lock of the file itself would be one for applications, too."""
        return lock_file(Path(f"{self.address.path}.relatent-lock"), self.address)


# Connections ---------------------------------------------------------------------------------------------------------


def driver() -> Any:
    """Return Python's own module for SQLite if it can load extensions, or pysqlite3, which can."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    return needs("pysqlite3", "sqlite", f"{PURPOSE} (this Python's sqlite3 cannot load extensions)")


@contextmanager
def _transaction(address: Address, idle: list[Any], *, writes: bool) -> Iterator[Any]:
    """Begin a transaction on a connection that is idle or new; report what SQLite refuses."""
    error = driver().Error
    try:
        db = idle.pop() if idle else _connect(address)
        try:
            db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            began = time.monotonic()
            yield db
            if db.in_transaction:
                db.execute("COMMIT")
            if writes:
                time.sleep(min(time.monotonic() - began, MAX_PAUSE))
        except BaseException:
            db.close()  # which rolls back
            raise
        idle.append(db)
    except error as refused:
        raise StoreError(f"{address} was refused by SQLite: {refused}") from refused


def _connect(address: Address, create: bool = False) -> Any:
    vec = needs("sqlite_vec", "sqlite", PURPOSE)
    uri = f"{Path(address.path).absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    db = driver().connect(uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
    db.enable_load_extension(True)
    vec.load(db)
    db.enable_load_extension(False)
    db.execute("PRAGMA synchronous = FULL")  # what was written is durable when it returns, in WAL mode, too
    return db


# Statements ----------------------------------------------------------------------------------------------------------


def _keys(store: SqliteStore, session: Opened, of: Field, shard: Shard | None = None) -> list[Any]:
    """Return keys in order; refuse what is none."""
    where, bounds = store._where(session, of, shard or Shard())
    key = f"b.{quoted(session.table.key)}" + (" COLLATE BINARY" if session.table.kind == TEXTS else "")
    keys = [key for (key,) in session.db.execute(f"SELECT {key} {where} ORDER BY 1", bounds)]
    kind = int if session.table.kind == INTEGERS else str
    wrong = next((key for key in keys if not isinstance(key, kind)), keys)
    if wrong is not keys:
        raise StoreError(
            f"{wrong!r} is a key of {store.address}, whose first key is of another type: expected integers or texts, "
            "and all of one kind. Change it, or name another column with ?key=."
        )
    return keys


def _rows(session: Opened, of: Field, keys: list[Any], names: list[str]) -> list[Any]:
    """Return columns of these items, and their vectors last, in the order of the keys."""
    table = session.table
    listed = ", ".join([*(f"b.{quoted(name)}" for name in names), table.vector_of(of)])
    source = table.source(of, on=f" ON b.{quoted(table.key)} = j.value")
    statement = f"SELECT {listed} FROM json_each(?) AS j CROSS JOIN {source} WHERE {table.has(of)} ORDER BY j.key"
    found: list[Any] = session.db.execute(statement, (json.dumps(keys, ensure_ascii=False),)).fetchall()
    return found


def _insert(db: Any, table: Table, of: Field, place: str, rows: list[Any]) -> None:
    """Insert rows of all columns, of which the vector comes last."""
    names = [*table.payload, table.vector]
    values = ", ".join(table.value(name, of) for name in names) if table.is_vec0 else ", ".join("?" * len(names))
    db.executemany(f"INSERT INTO {place} ({', '.join(map(quoted, names))}) VALUES ({values})", rows)


def _delete(session: Opened, of: Field, keys: list[Any]) -> None:
    key = quoted(session.table.key) if session.table.is_vec0 else "key"
    session.db.executemany(f"DELETE FROM {session.table.place(of)} WHERE {key} = ?", [(one,) for one in keys])


def _add_column(db: Any, table: Table) -> None:
    """Give a plain table its column of vectors back, if it was dropped."""
    if not table.has_vector:
        db.execute(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {quoted(table.vector)} BLOB")


# Vectors -------------------------------------------------------------------------------------------------------------


def _bytes(of: Field, vectors: np.ndarray) -> list[bytes]:
    """Return vectors as sqlite-vec keeps them: little-endian numbers, or bits from the lowest of each byte on."""
    if of.dtype == "bit":
        return [row.tobytes() for row in np.packbits(vectors.astype(bool), axis=1, bitorder="little")]
    if of.dtype == "int8":
        return [row.tobytes() for row in np.clip(np.rint(vectors), -128, 127).astype(np.int8)]
    return [row.tobytes() for row in np.ascontiguousarray(vectors, "<f4")]


def _vectors(of: Field, stored: bytes) -> np.ndarray:
    if of.dtype == "bit":
        bits = np.frombuffer(stored, np.uint8).reshape(-1, size_of(of))
        return np.unpackbits(bits, axis=1, count=of.dim, bitorder="little").astype(read_as(of))
    numbers = np.frombuffer(stored, "<f4" if of.dtype == "float32" else np.int8).reshape(-1, of.dim)
    return decoded(of, numbers).astype(read_as(of), copy=False)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column of the declared type; SQLite keeps others there, too, which are read as texts."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], TEXTS)
