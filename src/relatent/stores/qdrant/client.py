"""Qdrant by its client: a server, or a folder that the client serves itself."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from relatent._errors import StoreError, needs
from relatent.stores.address import Address
from relatent.stores.checks import lock_file
from relatent.stores.fields import Field
from relatent.stores.qdrant.engine import DTYPES, Engine, Key, Point, distance_of, engine_name, field_of, vector_of

MARK = "relatent"


class ClientEngine(Engine):
    """A collection behind qdrant-client."""

    def __init__(self, address: Address) -> None:
        client = needs("qdrant_client", "qdrant", "reach Qdrant")
        self._models, self._address, self._name = client.models, address, address.name
        self._open = ExitStack()
        self._folder = address.options.get("path")
        with self.reporting():
            try:
                self._client = self._connected(client.QdrantClient)
                self._client.get_collection(self._name)
            except BaseException:
                self.close()
                raise

    def _connected(self, connect: Any) -> Any:
        address = self._address
        if self._folder is not None:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            # The client refuses a second of its kind itself, but leaves a file open when it does.
            self._open.enter_context(lock_file(Path(self._folder, "relatent.lock"), address))
            client = connect(path=self._folder, force_disable_check_same_thread=True)
        else:
            client = connect(
                host=address.host,
                port=address.port or 6333,
                https=address.options.get("https", "false").lower() == "true",
                api_key=os.environ.get("QDRANT_API_KEY"),
                timeout=60,
                check_compatibility=False,  # it asks the server before anything can go wrong in our words
            )
        self._open.callback(client.close)
        return client

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self._name

    def on(self, collection: str) -> ClientEngine:
        """Return the same connection on another collection."""
        other = copy(self)
        other._name = collection
        return other

    def fields(self) -> list[Field]:
        """Return the dense vectors of the collection."""
        vectors = self._config().params.vectors
        named = vectors if isinstance(vectors, dict) else {"": vectors}
        return [
            field_of(self._address, name, v.size, v.distance.value, None if v.datatype is None else v.datatype.value)
            for name, v in named.items()
        ]

    def _config(self) -> Any:
        return self._ask(self._client.get_collection, self._name).config

    def read_note(self) -> dict[str, Any] | None:
        """Return our part of the collection's metadata."""
        noted = (self._config().metadata or {}).get(MARK)
        return dict(noted) if noted else None

    def write_note(self, note: dict[str, Any]) -> None:
        """Set our part of the collection's metadata; the rest is kept."""
        self._ask(self._client.update_collection, self._name, metadata={MARK: note})

    def scroll(
        self, start: Key | None, limit: int, vector: str | None, payload: bool
    ) -> tuple[list[Point], Key | None]:
        """Return points in order of their ids from a start on, and the id that comes next."""
        found, following = self._ask(
            self._client.scroll,
            self._name,
            offset=start,
            limit=limit,
            with_vectors=False if vector is None else [engine_name(vector)],
            with_payload=payload,
        )
        points = [Point(p.id, None if vector is None else vector_of(p.vector, vector), p.payload or {}) for p in found]
        return points, following

    def existing(self, ids: list[Key]) -> set[Key]:
        """Return which ids there are."""
        found = self._ask(self._client.retrieve, self._name, ids, with_payload=False, with_vectors=False)
        return {point.id for point in found}

    def set_vectors(self, name: str, ids: list[Key], vectors: np.ndarray) -> None:
        """Set a vector of points that are there, and wait until it is done."""
        points = [
            self._models.PointVectors(id=key, vector={engine_name(name): vector})
            for key, vector in zip(ids, vectors.tolist(), strict=True)
        ]
        self._ask(self._client.update_vectors, self._name, points, wait=True)

    def create(self, field: Field) -> None:
        """Create a named vector."""
        m = self._models
        dense = m.DenseVectorConfig(size=field.dim, distance=distance_of(field), datatype=DTYPES[field.dtype].lower())
        self._ask(
            self._client.create_vector_name, self._name, field.name, m.DenseVectorNameConfig(dense=dense), wait=True
        )

    def drop(self, name: str) -> None:
        """Remove a named vector."""
        with self.reporting():
            if engine_name(name) or self._folder is not None:
                self._client.delete_vector_name(self._name, engine_name(name), wait=True)
            else:  # a server's address of a vector ends in its name, and this one has none
                self._client.delete_vectors(self._name, [""], self._models.Filter(), wait=True)

    def alias_target(self, alias: str) -> str | None:
        """Return the collection that an alias stands for; None if there is no such alias."""
        aliases = self._ask(self._client.get_aliases).aliases
        return next((found.collection_name for found in aliases if found.alias_name == alias), None)

    def move_alias(self, alias: str) -> None:
        """Have an alias stand for this collection: in one step for every reader."""
        m = self._models
        gone = m.DeleteAliasOperation(delete_alias=m.DeleteAlias(alias_name=alias))
        here = m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name=self._name, alias_name=alias))
        self._ask(self._client.update_collection_aliases, [gone, here])

    def is_there(self) -> bool:
        """Return whether there is such a collection."""
        return bool(self._ask(self._client.collection_exists, self._name))

    def create_collection(self, field: Field, vector: str) -> None:
        """Create the collection with one vector, which has the properties of a field and a name of its own."""
        params = self._models.VectorParams(
            size=field.dim, distance=distance_of(field), datatype=DTYPES[field.dtype].lower()
        )
        config = {engine_name(vector): params} if engine_name(vector) else params
        self._ask(self._client.create_collection, self._name, vectors_config=config)

    def delete_collection(self) -> None:
        """Delete the collection."""
        self._ask(self._client.delete_collection, self._name)

    def put(self, name: str, points: list[Point]) -> None:
        """Write whole points, with their payload, over those that are there."""
        written = [
            self._models.PointStruct(id=p.id, vector={engine_name(name): p.vector}, payload=dict(p.payload))
            for p in points
        ]
        self._ask(self._client.upsert, self._name, written, wait=True)

    def payloads(self, ids: list[Key]) -> dict[Key, dict[str, Any]]:
        """Return the payload of the points that are there."""
        found = self._ask(self._client.retrieve, self._name, ids, with_payload=True, with_vectors=False)
        return {point.id: point.payload or {} for point in found}

    def delete(self, ids: list[Key]) -> None:
        """Delete points."""
        self._ask(self._client.delete, self._name, ids, wait=True)

    def search(self, name: str, queries: np.ndarray, k: int, exact: bool) -> list[list[tuple[Key, float]]]:
        """Ask all queries in one request."""
        m = self._models
        how = None if self._folder is not None else m.SearchParams(exact=exact)  # a folder is searched exactly anyway
        requests = [
            m.QueryRequest(query=query, using=engine_name(name), limit=k, params=how) for query in queries.tolist()
        ]
        found = self._ask(self._client.query_batch_points, self._name, requests)
        return [[(point.id, point.score) for point in response.points] for response in found]

    def count(self, name: str) -> int:
        """Count the points that have a vector."""
        m = self._models
        having = m.Filter(must=[m.HasVectorCondition(has_vector=engine_name(name))])
        with self.reporting():
            return int(self._client.count(self._name, count_filter=having, exact=True).count)

    def build_index(self) -> None:
        """Wait until the server has indexed what it indexes by itself."""
        with self.reporting():
            while self._client.get_collection(self._name).status != self._models.CollectionStatus.GREEN:
                time.sleep(0.5)

    def lock(self) -> AbstractContextManager[Any]:
        """Lock a file of this machine: a server has no locks. A folder is locked as long as it is open."""
        if self._folder is not None:
            return super().lock()
        place = f"{self._address.host}:{self._address.port}/{self._name}"
        name = f"relatent-{hashlib.sha256(place.encode()).hexdigest()[:16]}.lock"
        return lock_file(Path(tempfile.gettempdir(), name), self._address)

    def close(self) -> None:
        """Close the client."""
        self._open.close()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report which store failed and what to do."""
        http = needs("qdrant_client.http.exceptions", "qdrant", "reach Qdrant")
        try:
            yield
        except http.UnexpectedResponse as error:
            reason = "not found" if error.status_code == 404 else (error.content or b"").decode(errors="replace")
            key = " Set QDRANT_API_KEY." if error.status_code in (401, 403) else ""
            raise StoreError(f"{self._address} says {error.status_code}: {reason[:300]}.{key}") from None
        except http.ResponseHandlingException as error:
            raise StoreError(
                f"{self._address} cannot be reached ({error}). If the server was restarted, run it again: what was "
                "written is kept."
            ) from None
        except (ValueError, KeyError, RuntimeError) as error:  # what the folder mode raises
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{self._address}: {error}") from None
