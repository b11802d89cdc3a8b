"""A connection to Chroma, embedded or a server: collections by name, and errors in a store's words."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relatent._errors import needs
from relatent.spaces.keys import key_hashes
from relatent.stores.address import Address, StoreError
from relatent.stores.locks import busy, file_lock

PORT = 8000
DATABASE_FILE = "chroma.sqlite3"


class Connection:
    """A client of one database of Chroma."""

    def __init__(self, address: Address) -> None:
        self.address = address
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
            if not Path(address.path, DATABASE_FILE).is_file():
                raise StoreError(f"{address} is not there: {address.path} is not the folder of a Chroma database.")
            return self._chroma.PersistentClient(address.path, **shared)
        token = address.password or os.environ.get("CHROMA_TOKEN")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        ssl = options.get("ssl") == "1"
        return self._chroma.HttpClient(address.host, address.port or PORT, ssl=ssl, headers=headers, **shared)

    def find(self, name: str) -> Any | None:
        """Return a collection, or None if there is none of that name."""
        with self.reporting():
            try:
                return self._client.get_collection(name, embedding_function=None)
            except self._chroma.errors.NotFoundError:
                return None

    def every(self) -> list[Any]:
        """Return all collections."""
        with self.reporting():
            return list(self._client.list_collections())

    def create(self, name: str, metric: str, metadata: dict[str, Any]) -> Any:
        """Make a collection."""
        with self.reporting():
            return self._client.create_collection(
                name, configuration={"hnsw": {"space": metric}}, metadata=metadata, embedding_function=None
            )

    def rename(self, collection: Any, name: str) -> None:
        """Give a collection another name, which must be free."""
        with self.reporting():
            collection.modify(name=name)

    def delete(self, name: str) -> None:
        """Delete a collection."""
        with self.reporting():
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
        with file_lock(folder / f"relatent-{hashed:016x}.lock", self.address):
            if not self.address.host:
                yield
                return
            self._claim(f"{self.address.name}.lock")
            try:
                yield
            finally:
                self.delete(f"{self.address.name}.lock")

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
        """Say in a store's words what Chroma, or the connection to it, refuses. Errors of Chroma hold no token."""
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
