"""Waiting for locks without making others wait: not long, many times, and then by name."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from relatent._errors import StoreError
from relatent.stores.pgvector.wire import BlockedError

T = TypeVar("T")
# Milliseconds to wait for a lock: who comes later waits as long.
WAIT = 200
TRIES = 30
MAX_PAUSE = 2.0


def patiently(work: Callable[[], T], holders: Callable[[], list[str]]) -> T:
    """Do something that needs locks; where others have them, try again, a little later each time."""
    for attempt in range(TRIES):
        try:
            return work()
        except BlockedError as error:
            if attempt == TRIES - 1:
                raise _given_up(error, holders()) from None
            time.sleep(min(MAX_PAUSE, 0.05 * 1.5**attempt) * random.uniform(0.5, 1))
    raise AssertionError


def _given_up(error: BlockedError, holders: list[str]) -> StoreError:
    listed = "; ".join(holders) or "none is left now"
    return StoreError(
        f"{error} It was tried {TRIES} times, and nothing is changed. Sessions that hold locks: {listed}. Wait until "
        "they end their transactions, or end one with SELECT pg_terminate_backend(pid), and run it again."
    )


def holders(cursor: Any, names: list[str]) -> list[str]:
    """Return who holds locks on tables, and what they ran last."""
    cursor.execute(
        "SELECT DISTINCT a.pid, coalesce(a.usename, ''), coalesce(a.state, ''), "
        "coalesce(extract(epoch FROM now() - a.xact_start)::int, 0), left(a.query, 120) "
        "FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
        "WHERE l.granted AND a.pid <> pg_backend_pid() AND l.database = (SELECT oid FROM pg_database "
        "WHERE datname = current_database()) AND l.relation IN (SELECT to_regclass(n)::oid FROM unnest(%s::text[]) n) "
        "ORDER BY 4 DESC",
        (names,),
    )
    return [
        f"pid {pid} of {user} ({state} for {seconds} s: {' '.join(query.split())})"
        for pid, user, state, seconds, query in cursor.fetchall()
    ]


def writers(cursor: Any, names: list[str]) -> set[str]:
    """Return the transactions of others that write to tables or their partitions and have not ended."""
    cursor.execute(
        "SELECT DISTINCT l.virtualtransaction FROM pg_locks l WHERE l.mode = 'RowExclusiveLock' AND l.granted "
        "AND l.pid <> pg_backend_pid() "
        "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "AND l.relation IN (SELECT to_regclass(n)::oid FROM unnest(%(names)s::text[]) n UNION ALL "
        "SELECT t.relid::oid FROM unnest(%(names)s::text[]) n, pg_partition_tree(to_regclass(n)) t)",
        {"names": names},
    )
    return {transaction for (transaction,) in cursor.fetchall()}


def wait_for_writers(cursor: Any, names: list[str]) -> None:
    """Wait until the transactions of others that write to tables now have ended; later ones are ignored."""
    before = writers(cursor, names)
    for _ in range(TRIES):
        before &= writers(cursor, names)
        if not before:
            return
        time.sleep(WAIT / 1000)
    raise BlockedError("Transactions that write to the table have not ended.")


class Concurrently:
    """A cursor outside of transactions whose indexes are built while others write."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, statement: Any, values: Any = None) -> Any:
        """Run a statement; an index is created concurrently."""
        if not isinstance(statement, str):
            statement = statement.as_string(self._cursor).replace("CREATE INDEX ", "CREATE INDEX CONCURRENTLY ", 1)
        return self._cursor.execute(statement, values)

    def drop_broken(self, place: Any) -> None:
        """Drop what is left of an index whose building was killed."""
        self._cursor.execute(
            "SELECT format('DROP INDEX CONCURRENTLY %%I.%%I', n.nspname, c.relname) FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE i.indrelid = to_regclass(%s) AND NOT i.indisvalid",
            (place.as_string(),),
        )
        for (statement,) in self._cursor.fetchall():
            self._cursor.execute(statement)

    def __iter__(self) -> Iterator[Any]:
        """Return the rows of the last statement."""
        return iter(self._cursor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)
