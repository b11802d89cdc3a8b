"""Qdrant's embedded engine: one folder, opened by one process at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from relatent._errors import StoreError, needs
from relatent._files import atomic_write
from relatent.stores.address import Address
from relatent.stores.fields import Field, is_coded
from relatent.stores.qdrant.client import (
    DTYPES,
    Key,
    Point,
    distance_of,
    engine_name,
    field_of,
    folder_beside,
    vector_of,
)

NOTE = "relatent.json"
# What the config says of how a vector is indexed.
INDEX = ("hnsw_config", "on_disk", "quantization_config")
# Candidates that are examined where the config does not say.
DEFAULT_EF = 100
CONFIG, READY = "edge_config.json", "relatent-config.json"


class EdgeEngine:
    """A shard in a folder. The engine itself keeps a second process out, as long as it is open."""

    def __init__(self, address: Address) -> None:
        self._edge = needs("qdrant_edge", "qdrant", "open Qdrant's embedded engine")
        self._address, self._folder = address, address.file
        self._shard: Any = None
        if not (self._folder / CONFIG).is_file():
            raise StoreError(f"{address} is not there, or no folder of Qdrant's embedded engine: check the path.")
        with self.reporting():
            self._shard = self._loaded()

    def _loaded(self) -> Any:
        """Load the folder; one in which a drop was killed by the config that the engine had not written yet."""
        ready = self._folder / READY
        try:
            shard = self._edge.EdgeShard.load(str(self._folder))
        except Exception as error:
            if "Incompatible configs" not in str(error) or not ready.is_file():
                raise
            ready.replace(self._folder / CONFIG)
            shard = self._edge.EdgeShard.load(str(self._folder))
        ready.unlink(missing_ok=True)
        return shard

    @contextmanager
    def beside(self) -> Iterator[Address]:
        """Yield the address of a folder beside, which is removed at the end."""
        with folder_beside(self._folder) as folder:
            yield replace(self._address, path=str(Path(folder).parent), name=Path(folder).name)

    def copy_to(self, address: Address, field: Field, vector: str, collection: str) -> EdgeEngine:
        """Make an empty folder at an address, with one vector and indexes like those of a vector here."""
        e, name, config = self._edge, engine_name(vector), self._config()
        params = e.EdgeVectorParams(field.dim, getattr(e.Distance, distance_of(field)), datatype=self._datatype(field))
        with self.reporting():
            e.EdgeShard.create(str(address.file), e.EdgeConfig(vectors={name: params})).close()
        _write_config(address.file / CONFIG, {**config, "vectors": {name: config["vectors"][name]}})
        return EdgeEngine(address)

    def _datatype(self, field: Field) -> Any:
        return getattr(self._edge.VectorStorageDatatype, DTYPES[field.dtype])

    def _config(self) -> dict[str, Any]:
        """Read what the engine notes in its folder."""
        return dict(json.loads((self._folder / CONFIG).read_text("utf8")))

    def fields(self) -> list[Field]:
        """Return the dense vectors."""
        known = self._config()["vectors"]
        return [field_of(self._address, n, v["size"], v["distance"], v.get("datatype")) for n, v in known.items()]

    def ef(self, name: str) -> int | None:
        """Return how many candidates a search of a vector examines."""
        config = self._config()
        own = config["vectors"][engine_name(name)].get("hnsw_config") or config.get("hnsw_config") or {}
        return int(own.get("ef_construct") or DEFAULT_EF)

    def read_note(self) -> dict[str, Any] | None:
        """Read our file in the folder."""
        try:
            return dict(json.loads((self._folder / NOTE).read_text("utf8")))
        except FileNotFoundError:
            return None

    def write_note(self, note: dict[str, Any]) -> None:
        """Replace our file in the folder."""
        with atomic_write(self._folder / NOTE) as tmp:
            tmp.write_text(json.dumps(note, indent=1), "utf8")

    def scroll(
        self, start: Key | None, limit: int, vector: str | None, payload: bool, having: str | None = None
    ) -> tuple[list[Point], Key | None]:
        """Return points in order of their ids from a start on, and the id that comes next.

        Only those that have the vector ``having``, where it is given.
        """
        asked = self._edge.ScrollRequest(
            offset=start,
            limit=limit,
            with_vector=False if vector is None else [engine_name(vector)],
            with_payload=payload,
            filter=None if having is None else self._having(having),
        )
        with self.reporting():
            found, following = self._shard.scroll(asked)
        points = [
            Point(_plain(p.id), None if vector is None else vector_of(p.vector, vector), p.payload or {}) for p in found
        ]
        return points, None if following is None else _plain(following)

    def existing(self, ids: list[Key]) -> set[Key]:
        """Return which ids there are."""
        with self.reporting():
            return {_plain(point.id) for point in self._shard.retrieve(ids, False, False)}

    def _having(self, name: str) -> Any:
        return self._edge.Filter(must=[self._edge.HasVectorCondition(engine_name(name))])

    def retrieve(self, ids: list[Key], vector: str | None = None) -> list[Point]:
        """Return the points that are there with their payload, and a vector where one is asked for."""
        names = False if vector is None else [engine_name(vector)]
        with self.reporting():
            found = self._shard.retrieve(ids, True, names)
        return [
            Point(_plain(p.id), None if vector is None else vector_of(p.vector, vector), p.payload or {}) for p in found
        ]

    def put(self, name: str, points: list[Point]) -> None:
        """Write whole points, with their payload, over those that are there."""
        written = [self._edge.Point(p.id, {engine_name(name): p.vector}, dict(p.payload)) for p in points]
        self._update(self._edge.UpdateOperation.upsert_points(written))

    def set_vectors(self, name: str, ids: list[Key], vectors: np.ndarray) -> None:
        """Set a vector of points that are there, and write it to the disk."""
        points = [
            self._edge.PointVectors(key, {engine_name(name): vector})
            for key, vector in zip(ids, vectors.tolist(), strict=True)
        ]
        self._update(self._edge.UpdateOperation.update_vectors(points))

    def create(self, field: Field, like: str) -> None:
        """Create a named vector, indexed like another; the engine reads how from its config, when it is loaded."""
        create, distance = (
            self._edge.UpdateOperation.create_dense_vector,
            getattr(self._edge.Distance, distance_of(field)),
        )
        self._update(create(field.name, field.dim, distance, datatype=self._datatype(field)))
        config = self._config()
        known, options = config["vectors"][engine_name(like)], INDEX[:-1] if is_coded(field) else INDEX
        index = {option: known[option] for option in options if known.get(option) is not None}
        if index:
            config["vectors"][field.name].update(index)
            self.close()
            _write_config(self._folder / CONFIG, config)
            with self.reporting():
                self._shard = self._loaded()

    def drop(self, name: str) -> None:
        """Remove a named vector. The engine cannot be loaded if it is killed before its config: that is made ready."""
        config = self._config()
        config["vectors"].pop(engine_name(name))
        _write_config(self._folder / READY, config)
        self._update(self._edge.UpdateOperation.delete_vector_name(engine_name(name)))
        (self._folder / READY).unlink()

    def search(
        self, name: str, queries: np.ndarray, k: int, exact: bool, ef: int | None
    ) -> list[list[tuple[Key, float]]]:
        """Ask one query after the other."""
        e, how = self._edge, self._edge.SearchParams(exact=exact, hnsw_ef=ef)
        using = engine_name(name) or None
        with self.reporting():
            found = [
                self._shard.query(e.QueryRequest(limit=k, query=e.Query.Nearest(query, using=using), params=how))
                for query in queries.tolist()
            ]
        return [[(_plain(point.id), point.score) for point in points] for points in found]

    def count(self, name: str | None) -> int:
        """Count the points that have a vector, or all points."""
        having = None if name is None else self._having(name)
        with self.reporting():
            return int(self._shard.count(self._edge.CountRequest(filter=having)))

    def build_index(self) -> None:
        """Run the engine's optimizers, which build its indexes."""
        with self.reporting():
            self._shard.optimize()
            self._shard.flush()

    def lock(self) -> AbstractContextManager[Any]:
        """Do nothing: whoever has the folder open has it alone."""
        return nullcontext()

    def close(self) -> None:
        """Close the folder."""
        if self._shard is not None:
            self._shard.close()
            self._shard = None

    def _update(self, operation: Any) -> None:
        with self.reporting():
            self._shard.update(operation)
            self._shard.flush()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report which store failed. The engine raises nothing more special than Exception."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            if "WouldBlock" in str(error):
                raise StoreError(f"Another process has {self._address} open: wait for it to end.") from error
            raise StoreError(f"{self._address}: {error}") from error


def _write_config(file: Path, config: dict[str, Any]) -> None:
    with atomic_write(file) as tmp:
        tmp.write_text(json.dumps(config), "utf8")


def _plain(key: Any) -> Key:
    return str(key) if isinstance(key, UUID) else key
