"""Qdrant by its client: a server, or a folder that the client serves itself; and its words for fields and points."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from relatent._errors import StoreError, needs
from relatent.stores.address import Address
from relatent.stores.fields import Field, is_coded, lock_file

MARK = "relatent"
# What the vector without a name is called here. A collection that has one has no other vector of that name.
DEFAULT = "default"
# Qdrant's names of metrics and datatypes.
DISTANCES = {"cosine": "Cosine", "inner": "Dot", "l2": "Euclid"}
DTYPES = {"float32": "Float32", "float16": "Float16", "uint8": "Uint8"}

Key = int | str


@dataclass(frozen=True)
class Point:
    """A point: its id, the vector that was asked for if it has one, and its payload."""

    id: Key
    vector: Sequence[float] | None
    payload: Mapping[str, Any]


def engine_name(name: str) -> str:
    """Return Qdrant's name of a vector."""
    return "" if name == DEFAULT else name


def distance_of(field: Field) -> str:
    """Return Qdrant's name of what a field is compared by; at norm 1, distances rank as cosines do."""
    return DISTANCES["l2" if is_coded(field) else field.metric]


def field_of(address: Address, name: str, size: int, distance: str, datatype: str | None) -> Field:
    """Describe a vector by Qdrant's words for it."""
    metrics = {theirs: ours for ours, theirs in DISTANCES.items()}
    dtypes = {theirs.lower(): ours for ours, theirs in DTYPES.items()}
    dtype = dtypes.get((datatype or "Float32").lower())
    if distance not in metrics or dtype is None:
        raise StoreError(
            f"The vector {name or DEFAULT!r} of {address} is {datatype or 'Float32'} with the distance {distance}: "
            f"expected one of {', '.join(DTYPES.values())} and one of {', '.join(metrics)}."
        )
    return Field(name or DEFAULT, size, dtype, metrics[distance])  # type: ignore[arg-type]


def vector_of(found: Any, name: str) -> Sequence[float] | None:
    """Return one vector of what Qdrant returns: a list where there is only the default one, else a dictionary."""
    if isinstance(found, dict):
        vector: Sequence[float] | None = found.get(engine_name(name))
        return vector
    return found if name == DEFAULT and found else None


@contextmanager
def folder_beside(folder: Path) -> Iterator[str]:
    """Make a folder beside another, and remove it with all that it holds."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-rehearsal-") as made:
        yield made


class ClientEngine:
    """The collection ``name`` behind qdrant-client."""

    def __init__(self, address: Address, *, is_there: bool = True) -> None:
        client = needs("qdrant_client", "qdrant", "reach Qdrant")
        self._models, self._address, self.name = client.models, address, address.name
        self._open = ExitStack()
        self._folder = address.options.get("path")
        with self.reporting():
            try:
                self._client = self._connected(client.QdrantClient)
                if is_there:
                    self._client.get_collection(self.name)
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

    def on(self, collection: str) -> ClientEngine:
        """Return the same connection on another collection."""
        other = copy(self)
        other.name = collection
        return other

    @contextmanager
    def beside(self) -> Iterator[Address]:
        """Yield the address of what can be made beside: a collection, or one in a folder of its own.

        At the end, it is removed with every collection whose name begins like its own.
        """
        if self._folder is not None:
            with folder_beside(Path(self._folder)) as folder:
                yield replace(self._address, options={**self._address.options, "path": folder})
            return
        name = f"{self._address.name}-rehearsal-{token_hex(4)}"
        try:
            yield replace(self._address, name=name)
        finally:
            known = [one.name for one in self._ask(self._client.get_collections).collections]
            for made in (one for one in known if one.startswith(name)):
                self.on(made).delete_collection()

    def copy_to(self, address: Address, field: Field, vector: str, collection: str) -> ClientEngine:
        """Make an empty collection at an address, with one vector and indexes like those of a vector here."""
        made = ClientEngine(address, is_there=False).on(collection)
        made.create_collection(field, vector, self)
        return made

    def fields(self) -> list[Field]:
        """Return the dense vectors of the collection."""
        return [
            field_of(self._address, name, v.size, v.distance.value, None if v.datatype is None else v.datatype.value)
            for name, v in self._vectors().items()
        ]

    def _vectors(self) -> dict[str, Any]:
        vectors = self._config().params.vectors
        return vectors if isinstance(vectors, dict) else {"": vectors}

    def ef(self, name: str) -> int | None:
        """Return how many candidates a search of a vector examines; None in a folder, which has no index."""
        if self._folder is not None:
            return None
        own = self._vectors()[engine_name(name)].hnsw_config
        return int((own and own.ef_construct) or self._config().hnsw_config.ef_construct)

    def _index_of(self, name: str, new: Field) -> dict[str, Any]:
        """Return how a vector is indexed, for another; codes are not quantized again."""
        params = self._vectors()[engine_name(name)]
        options = ("hnsw_config", "on_disk") if is_coded(new) else ("hnsw_config", "on_disk", "quantization_config")
        return {option: value for option in options if (value := getattr(params, option)) is not None}

    def _config(self) -> Any:
        return self._ask(self._client.get_collection, self.name).config

    def read_note(self) -> dict[str, Any] | None:
        """Return our part of the collection's metadata."""
        noted = (self._config().metadata or {}).get(MARK)
        return dict(noted) if noted else None

    def write_note(self, note: dict[str, Any]) -> None:
        """Set our part of the collection's metadata; the rest is kept."""
        self._ask(self._client.update_collection, self.name, metadata={MARK: note})

    def scroll(
        self, start: Key | None, limit: int, vector: str | None, payload: bool, having: str | None = None
    ) -> tuple[list[Point], Key | None]:
        """Return points in order of their ids from a start on, and the id that comes next.

        Only those that have the vector ``having``, where it is given.
        """
        found, following = self._ask(
            self._client.scroll,
            self.name,
            offset=start,
            limit=limit,
            with_vectors=False if vector is None else [engine_name(vector)],
            with_payload=payload,
            scroll_filter=None if having is None else self._having(having),
        )
        points = [Point(p.id, None if vector is None else vector_of(p.vector, vector), p.payload or {}) for p in found]
        return points, following

    def existing(self, ids: list[Key]) -> set[Key]:
        """Return which ids there are."""
        found = self._ask(self._client.retrieve, self.name, ids, with_payload=False, with_vectors=False)
        return {point.id for point in found}

    def set_vectors(self, name: str, ids: list[Key], vectors: np.ndarray) -> None:
        """Set a vector of points that are there, and wait until it is done."""
        points = [
            self._models.PointVectors(id=key, vector={engine_name(name): vector})
            for key, vector in zip(ids, vectors.tolist(), strict=True)
        ]
        self._ask(self._client.update_vectors, self.name, points, wait=True)

    def _having(self, name: str) -> Any:
        return self._models.Filter(must=[self._models.HasVectorCondition(has_vector=engine_name(name))])

    def create(self, field: Field, like: str) -> None:
        """Create a named vector, indexed like another."""
        m = self._models
        dense = m.DenseVectorConfig(size=field.dim, distance=distance_of(field), datatype=DTYPES[field.dtype].lower())
        self._ask(
            self._client.create_vector_name, self.name, field.name, m.DenseVectorNameConfig(dense=dense), wait=True
        )
        if index := self._index_of(like, field):
            options = {field.name: m.VectorParamsDiff(**index)}
            self._ask(self._client.update_collection, self.name, vectors_config=options)

    def drop(self, name: str) -> None:
        """Remove a named vector."""
        with self.reporting():
            if engine_name(name) or self._folder is not None:
                self._client.delete_vector_name(self.name, engine_name(name), wait=True)
            else:  # a server's address of a vector ends in its name, and this one has none
                self._client.delete_vectors(self.name, [""], self._models.Filter(), wait=True)

    def alias_target(self, alias: str) -> str | None:
        """Return the collection that an alias stands for; None if there is no such alias."""
        aliases = self._ask(self._client.get_aliases).aliases
        return next((found.collection_name for found in aliases if found.alias_name == alias), None)

    def move_alias(self, alias: str) -> None:
        """Have an alias stand for this collection: in one step for every reader."""
        m = self._models
        gone = m.DeleteAliasOperation(delete_alias=m.DeleteAlias(alias_name=alias))
        here = m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name=self.name, alias_name=alias))
        known = self.alias_target(alias) is not None
        self._ask(self._client.update_collection_aliases, [gone, here] if known else [here])

    def is_there(self) -> bool:
        """Return whether there is such a collection."""
        return bool(self._ask(self._client.collection_exists, self.name))

    def create_collection(self, field: Field, vector: str, like: ClientEngine) -> None:
        """Create the collection with one vector, which has the properties of a field and a name of its own.

        It is indexed like the vector of that name in another collection.
        """
        m, known = self._models, like._config()
        params = m.VectorParams(
            size=field.dim,
            distance=distance_of(field),
            datatype=DTYPES[field.dtype].lower(),
            **like._index_of(vector, field),
        )
        self._ask(
            self._client.create_collection,
            self.name,
            vectors_config={engine_name(vector): params} if engine_name(vector) else params,
            hnsw_config=m.HnswConfigDiff(**known.hnsw_config.model_dump(exclude_none=True)),
            optimizers_config=m.OptimizersConfigDiff(**known.optimizer_config.model_dump(exclude_none=True)),
            quantization_config=None if is_coded(field) else known.quantization_config,
        )

    def delete_collection(self) -> None:
        """Delete the collection."""
        self._ask(self._client.delete_collection, self.name)

    def put(self, name: str, points: list[Point]) -> None:
        """Write whole points, with their payload, over those that are there."""
        written = [
            self._models.PointStruct(id=p.id, vector={engine_name(name): p.vector}, payload=dict(p.payload))
            for p in points
        ]
        self._ask(self._client.upsert, self.name, written, wait=True)

    def retrieve(self, ids: list[Key], vector: str | None = None) -> list[Point]:
        """Return the points that are there with their payload, and a vector where one is asked for."""
        names = False if vector is None else [engine_name(vector)]
        found = self._ask(self._client.retrieve, self.name, ids, with_payload=True, with_vectors=names)
        return [Point(p.id, None if vector is None else vector_of(p.vector, vector), p.payload or {}) for p in found]

    def delete(self, ids: list[Key]) -> None:
        """Delete points."""
        self._ask(self._client.delete, self.name, ids, wait=True)

    def search(
        self, name: str, queries: np.ndarray, k: int, exact: bool, ef: int | None
    ) -> list[list[tuple[Key, float]]]:
        """Ask all queries in one request."""
        m = self._models
        # a folder is searched exactly anyway
        how = None if self._folder is not None else m.SearchParams(exact=exact, hnsw_ef=ef)
        requests = [
            m.QueryRequest(query=query, using=engine_name(name), limit=k, params=how) for query in queries.tolist()
        ]
        found = self._ask(self._client.query_batch_points, self.name, requests)
        return [[(point.id, point.score) for point in response.points] for response in found]

    def count(self, name: str | None) -> int:
        """Count the points that have a vector, or all points."""
        having = None if name is None else self._having(name)
        return int(self._ask(self._client.count, self.name, count_filter=having, exact=True).count)

    def build_index(self) -> None:
        """Wait until the server has indexed what it indexes by itself."""
        while self._ask(self._client.get_collection, self.name).status != self._models.CollectionStatus.GREEN:
            time.sleep(0.5)

    def lock(self) -> AbstractContextManager[Any]:
        """Lock a file of this machine: a server has no locks. A folder is locked as long as it is open."""
        if self._folder is not None:
            return nullcontext()
        place = f"{self._address.host}:{self._address.port}/{self.name}"
        name = f"relatent-{hashlib.sha256(place.encode()).hexdigest()[:16]}.lock"
        return lock_file(Path(tempfile.gettempdir(), name), self._address)

    def _ask(self, question: Callable[..., Any], *given: Any, **options: Any) -> Any:
        with self.reporting():
            return question(*given, **options)

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
