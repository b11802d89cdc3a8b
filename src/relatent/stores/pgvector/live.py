"""What the store does while others write: triggers, one moment for all reads, patience with locks, and a rehearsal."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from relatent.steps import Step
from relatent.stores.base import Session, Shard, Store, Tally, Writer
from relatent.stores.fields import Field, Roles
from relatent.stores.pgvector import locks, wire
from relatent.stores.pgvector.follow import Follow
from relatent.stores.pgvector.into import Into, restore_required
from relatent.stores.pgvector.queries import Queries
from relatent.stores.pgvector.rehearse import rehearsed
from relatent.stores.pgvector.table import Table
from relatent.stores.pgvector.view import is_writable, make_writable

T = TypeVar("T")
SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Rows that are put into the table in one transaction.
INTO_ROWS = 500


@dataclass(frozen=True)
class Transaction(Session):
    """A transaction, in which the roles were read."""

    cursor: Any


class Live(Store):
    """A table that applications write to."""

    _connections: wire.Connections
    _table: Table
    _queries: Queries
    _moment: str
    """The snapshot that all reads share; none if empty."""

    @abstractmethod
    def _find_table(self, cursor: Any) -> None:
        """Read again what the table holds."""

    def follow(self, new: Field, steps: Sequence[Step], back: Sequence[Step]) -> str | None:
        """Have triggers translate what is written, inside the database (:mod:`relatent.stores.pgvector.follow`).

        Where they were not there before, the new field is emptied: what it held may have changed since.
        """
        return self._patiently(partial(self._follow, new, steps, back))

    def _follow(self, new: Field, steps: Sequence[Step], back: Sequence[Step]) -> str | None:
        with self._session("write") as session:
            roles = session.roles
            if roles.old is None:
                self._new(roles, new)
            follow = Follow(self._table, roles.first, self._find(roles, new))
            reason = follow.install(session.cursor, steps, back, switched=roles.old is not None)
            if reason is None and not is_writable(session.cursor, self._table):
                make_writable(session.cursor, self._table, roles)
            return reason

    def follows(self) -> bool:
        """Return whether the triggers are there and enabled."""
        with self._session() as session:
            return self._follows(session)

    def _follows(self, session: Transaction) -> bool:
        follow = Follow.of(self._table, session.roles)
        return follow is not None and follow.is_on(session.cursor)

    def written_since(self) -> Mapping[Writer, pa.Array]:
        """Return the keys that the triggers have logged since the switch."""
        with self._session() as session:
            follow = Follow.of(self._table, session.roles)
            if follow is None or not follow.is_on(session.cursor):
                return {}
            rows = follow.written(session.cursor)
        models: tuple[Writer, ...] = ("old", "new")
        return {model: self._listed(key for by, key in rows if by == model) for model in models}

    def _listed(self, keys: Iterable[Any]) -> pa.Array:
        kind = pa.int64() if self._table.key.arrow == pa.int64() else pa.large_string()
        return pa.array([self._plain(key) for key in keys], kind)

    def _plain(self, key: Any) -> Any:
        return str(key) if self._table.key.type == "uuid" else key

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        """Have all that is read inside share one snapshot, which a connection of its own keeps."""
        if self._moment:
            yield
            return
        with self._connections.transaction(SNAPSHOT, another=True) as cursor:
            self._moment = cursor.execute("SELECT pg_export_snapshot()").fetchone()[0]
            try:
                yield
            finally:
                self._moment = ""

    def only_in(self, of: Field, other: Field, shard: Shard | None = None) -> pa.Array:
        """Return the keys that have a vector in one field and none in another, found by the server."""
        with self._session() as session:
            one, two = self._find(session.roles, of), self._find(session.roles, other)
            found = session.cursor.execute(self._queries.only_in(one, two, shard or Shard())).fetchall()
        return self._listed(key for (key,) in found)

    def tally(self, of: Field, other: Field) -> Tally:
        """Count in one pass over the table and the one beside it, once the transactions that write now have ended."""
        return self._patiently(partial(self._tally, of, other))

    def _tally(self, of: Field, other: Field) -> Tally:
        with self._session("write") as session:  # in which each statement sees what is committed by then
            self._wait_for_writers(session)
            one, two = self._find(session.roles, of), self._find(session.roles, other)
            return Tally(*session.cursor.execute(self._queries.tally(one, two)).fetchone())

    def _wait_for_writers(self, session: Transaction) -> None:
        """Wait until the transactions that write to the table now have ended, where triggers follow them.

        One that deletes an item removes its new vector only if it sees it. A vector that is committed between that and
        the end of the transaction stays, and until then nobody sees that it is an orphan.
        """
        if self._follows(session):
            place = self._table.place(session.roles.first).relation
            locks.wait_for_writers(session.cursor, [self._table.base.as_string(), place.as_string()])

    @contextmanager
    def rehearsal(self, rows: int) -> Iterator[str]:
        """Make a table of the first rows, `items__rehearsal`; it is dropped at the end with all beside it."""
        with rehearsed(self._connections, self._table, self.served, self.address, rows) as url:
            yield url

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do something that needs locks, and try again where others have them."""
        return locks.patiently(work, self._holders)

    def _holders(self) -> list[str]:
        with self._session() as session:
            beside = [self._table.beside(name) for name in ("served", *session.roles.fields)]
            return locks.holders(session.cursor, [name.as_string() for name in (self._table.base, *beside)])

    def add(self, new: Field) -> Field:
        """Add an empty field, as every store does."""
        return self._patiently(partial(super().add, new))

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Set vectors, as every store does; who writes to the same items is let go first."""
        self._patiently(partial(super().write, into, keys, vectors))

    def overwrite(self, keys: pa.Array, vectors: np.ndarray) -> None:
        """Replace served vectors, as every store does; who writes to the same items is let go first."""
        self._patiently(partial(super().overwrite, keys, vectors))

    def remove_orphans(self, of: Field, kept: Collection[Any] = ()) -> int:
        """Remove the vectors of items that are gone, or that have no vector any more."""
        return self._patiently(partial(super().remove_orphans, of, kept))

    def build_index(self, of: Field) -> None:
        """Build an index, as every store does; while triggers write to the field, without stopping them."""
        self._patiently(partial(self._build_or_follow, of))

    def _build_or_follow(self, of: Field) -> None:
        with self._session("write") as session:
            roles, field = session.roles, self._find(session.roles, of)
            if not self._follows(session):
                self._build_index(session, field)
                return
        with self._connections.another() as connection:
            cursor = locks.Concurrently(connection.cursor(binary=True))
            cursor.drop_broken(self._table.beside(field.name))
            self._build_index(Transaction(roles, self._table.key.name, cursor), field)

    def switch(self) -> None:
        """Serve the new field, as every store does."""
        self._patiently(super().switch)

    def switch_back(self) -> None:
        """Serve the old field again, as every store does."""
        self._patiently(super().switch_back)

    def drop_new(self) -> None:
        """Remove the new field, as every store does."""
        self._patiently(super().drop_new)

    def drop_old(self) -> None:
        """Remove the old field, as every store does."""
        self._patiently(super().drop_old)

    def _lock_tables(self, session: Transaction) -> None:
        """Lock the view and with it the tables that it shows, in the order in which who reads it does.

        Where there are no triggers, none is dropped, and this user may not have the right to lock the table.
        """
        if not is_writable(session.cursor, self._table):
            return
        for relation in (self._table.beside("served"), self._table.base):
            session.cursor.execute(self._queries.lock(relation))

    def replace_old(self, advance: Callable[[int], None] | None = None) -> None:
        """Put the served vectors into the table, under the name of its vector column (:mod:`.into`).

        While others write; what triggers of the table do at an update they do not do for this, if this user may say so.
        """
        roles = self.roles()
        if roles.new is not None:
            self._old(roles)
        if not self._table.holds(roles.served):
            self._put_into(Into(self._table, roles.served), advance)
        with self._connections.transaction() as cursor:
            statements = restore_required(cursor, self._table)
        for statement in statements:
            self._patiently(partial(self._run, partial(_execute, statement)))

    def _put_into(self, into: Into, advance: Callable[[int], None] | None) -> None:
        self._patiently(partial(self._run, into.begin))
        for shard in self.shards(INTO_ROWS):
            done = self._patiently(partial(self._run, partial(into.fill, shard)))
            if advance is not None:
                advance(done)
        with self._connections.another() as connection:
            into.build_index(connection)
        self._patiently(partial(self._end_into, into))

    def _run(self, work: Callable[[Any], T]) -> T:
        with self._connections.transaction(wait=locks.WAIT) as cursor:
            return work(cursor)

    def _end_into(self, into: Into) -> None:
        with self._session("write") as session:
            self._lock_tables(session)
            field = into.end(session.cursor, session.roles)
            self._find_table(session.cursor)
            self._write_roles(session, Roles(field))
            session.cursor.execute(self._queries.drop(into.served))


def _execute(statement: Any, cursor: Any) -> None:
    cursor.execute(statement)
