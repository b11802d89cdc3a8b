"""What crosses the wire to PostgreSQL: connections, its errors in words, and rows in its binary format."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._errors import StoreError, needs
from relatent.stores.address import Address

OWN_OPTIONS = ("vector", "key")
Rows = bytes | memoryview
COPY_START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"
# The type of a column for each dtype of a field.
VECTOR_TYPES = {"float32": "vector", "float16": "halfvec", "bit": "bit"}
# What keys may be, and how they are written where their width is fixed.
KEY_TYPES = {"int2": ">i2", "int4": ">i4", "int8": ">i8", "uuid": "V16", "text": None, "varchar": None}
IS_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
# PostgreSQL's texts cannot hold a zero byte.
IS_TEXT = r"^[^\x00]*$"


class BlockedError(StoreError):
    """Another session has had a lock for too long: what was begun is undone, and can be tried again."""


def psycopg() -> Any:
    """Import psycopg at use."""
    return needs("psycopg", "pgvector", "connect to PostgreSQL")


class Connections:
    """One connection for short work, made again when it was lost, and others for what takes long."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._main: Any = None
        self._idle: list[Any] | None = []
        """Others that nobody uses now; None once all are closed."""

    @contextmanager
    def transaction(self, settings: str = "", *, another: bool = False, wait: int = 0) -> Iterator[Any]:
        """Yield a cursor in a transaction of the main connection, or of another one, for what stays open.

        It waits for a lock for that many milliseconds at most, unless that is 0.
        """
        with (
            self._reporting(),
            self._lent() if another else nullcontext(self._lasting()) as connection,
            connection.transaction(),
            connection.cursor(binary=True) as cursor,
        ):
            if settings:  # such as the isolation
                cursor.execute(f"SET TRANSACTION {settings}")
            if wait:
                wait_for_locks(cursor, wait)
            yield cursor

    def _lasting(self) -> Any:
        if self._main is None or self._main.closed or self._main.broken:
            self._main = self._connect()
        return self._main

    @contextmanager
    def _lent(self) -> Iterator[Any]:
        """Yield a connection that nobody else uses, and keep it for the next who needs one."""
        try:
            connection = (self._idle or []).pop()
        except IndexError:  # there is none, or another thread was faster
            connection = self._connect()
        try:
            yield connection
        finally:
            usable = connection.info.transaction_status == psycopg().pq.TransactionStatus.IDLE
            if usable and self._idle is not None:
                self._idle.append(connection)
            else:
                connection.close()

    @contextmanager
    def another(self) -> Iterator[Any]:
        """Yield a connection that is closed at the end, such as one for a lock."""
        with self._reporting(), closing(self._connect()) as connection:
            yield connection

    def close(self) -> None:
        """Close all connections but those that are in use."""
        idle, self._idle = self._idle or [], None
        for connection in (*idle, *([] if self._main is None else [self._main])):
            connection.close()

    def _connect(self) -> Any:
        address = self._address
        options = {name: value for name, value in address.options.items() if name not in OWN_OPTIONS}
        given = {
            "host": address.host,
            "port": address.port,
            "user": address.user,
            "password": address.password,
            "dbname": address.path.strip("/"),
            "application_name": "relatent",
        }
        known = {name: value for name, value in given.items() if value} | options
        return psycopg().connect(**known, autocommit=True)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Report which store failed and what to do, without the password even where libpq quotes it."""
        errors = psycopg()
        try:
            yield
        except errors.Error as error:
            said = " ".join(str(error).split()) or type(error).__name__
            if self._address.password:
                said = said.replace(self._address.password, "…")
            if isinstance(error, (errors.errors.LockNotAvailable, errors.errors.DeadlockDetected)):
                raise BlockedError(f"{self._address}: {said}.") from None
            raise StoreError(f"{self._address}: {said.rstrip('.')}. {_remedy(error)}") from None


def wait_for_locks(cursor: Any, milliseconds: int) -> None:
    """Wait no longer for a lock in this transaction: less than what the server waits before it looks for deadlocks.

    Then it is this transaction that steps back, and never one of an application.
    """
    shortest = "extract(epoch FROM current_setting('deadlock_timeout')::interval) * 1000 / 4"
    cursor.execute(
        f"SELECT set_config('lock_timeout', greatest(1, least(%s::int, {shortest}))::int::text, true)", (milliseconds,)
    )


def _remedy(error: Exception) -> str:
    errors = psycopg().errors
    if isinstance(error, errors.InvalidPassword) or "password" in str(error):
        return "Set PGPASSWORD to the password of this user."
    if isinstance(error, errors.InsufficientPrivilege):
        return "Ask for the right to read the table and to create tables beside it."
    if isinstance(error, errors.DiskFull):
        return "Free some space and run it again: what was written is kept."
    if isinstance(error, psycopg().OperationalError):
        return "If the server was restarted, run it again: what was written is kept."
    return "Check the URL and its options."


# Rows that are read --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Page:
    """Rows in order of their keys: many at a time as one row of the database, with all their vectors in one value.

    A value of megabytes crosses a socket in few steps, where rows of their own wake up both sides every few kilobytes.
    """

    dims: list[int | None]
    """The dimension of each row's vector, None where it is null."""
    vectors: bytes
    """The vectors of the field's dimension, one after the other."""
    columns: dict[str, list[Any]]
    """The values of the other columns, of every row."""


def read_pages(
    cursor: Any, ask: Callable[[Any], Any], names: list[str], key: str, rows: int
) -> Generator[Page, None, None]:
    """Yield pages of rows; ``ask`` returns the statement of the page behind a key, of the first page for None."""
    after = None
    while True:
        dims, vectors, *columns = cursor.execute(ask(after)).fetchone()
        if dims is None:
            return
        page = Page(dims, vectors or b"", dict(zip(names, columns, strict=True)))
        yield page
        if len(dims) < rows:
            return
        after = page.columns[key][-1]
        if after is None:  # the next page would be the first again
            raise StoreError(
                f"The column {key!r} has rows without a key: expected a column that is unique and not null."
            )


def decode(dtype: str, dim: int, values: bytes) -> np.ndarray:
    """Return vectors of one size that follow each other as a matrix; bits as 0 and 1."""
    body = np.frombuffer(values, _value(dtype, dim))["body"]
    if dtype == "bit":
        return np.unpackbits(body, axis=1, count=dim).astype(np.float32)
    return body.astype(dtype)


# Rows that are written -----------------------------------------------------------------------------------------------


def copy_in(cursor: Any, place: Any, rows: Rows) -> None:
    """Copy rows; a key that is there already, or twice among them, is an error of the database."""
    statement = psycopg().sql.SQL("COPY {} (key, vector) FROM STDIN (FORMAT binary)").format(place)
    with cursor.copy(statement) as copy:
        copy.write(COPY_START)
        copy.write(rows)
        copy.write(COPY_END)


def copy_over(cursor: Any, place: Any, rows: Rows, *, replace: bool = True) -> None:
    """Copy rows into a table that lives as long as the transaction, and from there over those that are there.

    The last of a key that comes twice counts. Without ``replace``, those that are there stay as they are.
    """
    sql = psycopg().sql
    _copy_to_temporary(cursor, sql.SQL("SELECT * FROM {}").format(place), rows)
    cursor.execute(
        sql.SQL(
            "INSERT INTO {} SELECT DISTINCT ON (key) key, vector FROM relatent_rows ORDER BY key, row DESC "
            "ON CONFLICT (key) DO " + ("UPDATE SET vector = excluded.vector" if replace else "NOTHING")
        ).format(place)
    )


def update_rows(cursor: Any, place: Any, rows: Rows) -> None:
    """Set the vectors of rows that are there; ``place`` is a relation with its columns of keys and vectors."""
    sql = psycopg().sql
    alike = sql.SQL("SELECT {} AS key, {} AS vector FROM {}").format(place.key, place.vector, place.relation)
    _copy_to_temporary(cursor, alike, rows)
    cursor.execute(
        sql.SQL(
            "UPDATE {} AS t SET {} = r.vector FROM (SELECT DISTINCT ON (key) key, vector FROM relatent_rows "
            "ORDER BY key, row DESC) r WHERE t.{} = r.key"
        ).format(place.relation, place.vector, place.key)
    )


def _copy_to_temporary(cursor: Any, alike: Any, rows: Rows) -> None:
    """Copy rows of a key and a vector into a table of this transaction; a number tells their order."""
    sql = psycopg().sql
    cursor.execute(sql.SQL("CREATE TEMPORARY TABLE relatent_rows ON COMMIT DROP AS {} WITH NO DATA").format(alike))
    cursor.execute("ALTER TABLE relatent_rows ADD row bigint GENERATED ALWAYS AS IDENTITY")
    copy_in(cursor, sql.Identifier("relatent_rows"), rows)


def copy_matrices(cursor: Any, place: Any, rows: Iterable[tuple[int, int, int, np.ndarray]]) -> None:
    """Copy rows of matrices: three numbers that say which, and a vector."""
    with cursor.copy(psycopg().sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(place)) as copy:
        copy.write(COPY_START)
        for step, row, part, values in rows:
            head = struct.pack(">hiiiiiiihh", 4, 4, step, 4, row, 4, part, 4 + 4 * len(values), len(values), 0)
            copy.write(head + values.astype(">f4").tobytes())
        copy.write(COPY_END)


def copy_rows(key_type: str, dtype: str, keys: pa.Array, vectors: np.ndarray) -> Rows:
    """Return rows of a key and a vector for COPY, without its first and last bytes."""
    kind = KEY_TYPES[key_type]
    head: list[Any] = [] if kind is None else [("fields", ">i2"), ("key_size", ">i4"), ("key", kind)]
    value = _value(dtype, vectors.shape[1])
    rows = np.zeros(len(vectors), [*head, ("size", ">i4"), ("value", value)])
    rows["size"] = value.itemsize
    rows["value"]["dim"] = vectors.shape[1]
    rows["value"]["body"] = np.packbits(vectors, axis=1) if dtype == "bit" else vectors
    if kind is None:
        texts = [text.encode() for text in keys.to_pylist()]
        return b"".join(struct.pack(">hi", 2, len(t)) + t + row.tobytes() for t, row in zip(texts, rows, strict=True))
    rows["fields"], rows["key_size"] = 2, np.dtype(kind).itemsize
    rows["key"] = _fixed(keys, key_type)
    return rows.view(np.uint8).data  # as it stands in memory: a copy of it would take as long as the rest


def possible_keys(key_type: str, keys: pa.Array) -> np.ndarray:
    """Return which keys a column of this type can hold; no other is in the table."""
    if key_type.startswith("int"):
        limits = np.iinfo(str(KEY_TYPES[key_type]).removeprefix(">"))
        values = keys.to_numpy(zero_copy_only=False)
        return np.asarray((values >= limits.min) & (values <= limits.max))
    matched = pc.match_substring_regex(keys, IS_UUID if key_type == "uuid" else IS_TEXT)
    return np.asarray(matched.to_numpy(zero_copy_only=False), bool)


def _value(dtype: str, dim: int) -> np.dtype:
    """Return how a vector is laid out: the number of its coordinates or bits, then these."""
    if dtype == "bit":
        return np.dtype([("dim", ">i4"), ("body", "u1", (-(-dim // 8),))])
    return np.dtype([("dim", ">i2"), ("unused", ">i2"), ("body", ">f2" if dtype == "float16" else ">f4", (dim,))])


def _fixed(keys: pa.Array, key_type: str) -> np.ndarray:
    if key_type == "uuid":
        return np.frombuffer(b"".join(UUID(key).bytes for key in keys.to_pylist()), "V16")
    return np.asarray(keys.to_numpy(zero_copy_only=False))
