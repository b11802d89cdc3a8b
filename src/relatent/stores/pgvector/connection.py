"""Connections to PostgreSQL, and its errors in words that name the store and not the password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from relatent._errors import needs
from relatent.stores.address import Address, StoreError

OWN_OPTIONS = ("vector", "key")


def psycopg() -> Any:
    """Import psycopg at use."""
    return needs("psycopg", "pgvector", "connect to PostgreSQL")


class Connections:
    """One connection for short work, made again when it was lost, and others for what takes long."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._main: Any = None

    @contextmanager
    def transaction(self, settings: str = "") -> Iterator[Any]:
        """Yield a cursor in a transaction of the main connection; settings such as the isolation go with it."""
        with self._told():
            if self._main is None or self._main.closed or self._main.broken:
                self._main = self._connect()
            with self._main.transaction(), self._main.cursor(binary=True) as cursor:
                if settings:
                    cursor.execute(f"SET TRANSACTION {settings}")
                yield cursor

    @contextmanager
    def another(self) -> Iterator[Any]:
        """Yield a connection that is closed at the end: for a cursor that stays open, or a lock."""
        with self._told():
            connection = self._connect()
            try:
                yield connection
            finally:
                connection.close()

    def close(self) -> None:
        """Close the main connection."""
        if self._main is not None:
            self._main.close()

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
    def _told(self) -> Iterator[None]:
        """Say which store failed and what to do, without the password even where libpq quotes it."""
        errors = psycopg()
        try:
            yield
        except errors.Error as error:
            said = " ".join(str(error).split()) or type(error).__name__
            if self._address.password:
                said = said.replace(self._address.password, "…")
            raise StoreError(f"{self._address}: {said.rstrip('.')}. {_remedy(error)}") from None


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
