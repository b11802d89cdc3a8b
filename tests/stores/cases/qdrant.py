from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import qdrant_edge as edge
from qdrant_client import QdrantClient, models
from tests.stores.case import Case, Items

from relatent.stores import Address, Field, Store


class Qdrant(Case):
    """The client on a folder, with one vector without a name."""

    kinds = ("integer", "uuid")
    codes: ClassVar = {"uint8": ("cosine", "l2")}
    codes_queries = True

    def create(self, folder: Path, items: Items) -> str:
        url = f"qdrant:///items?path={folder}/qdrant"
        with _opened(url) as client:
            config = models.VectorParams(size=items.vectors.shape[1], distance=models.Distance.COSINE)
            client.create_collection("items", vectors_config=config)
        self.insert(url, items)
        return url

    def insert(self, url: str, items: Items) -> None:
        rows = zip(items.keys, items.vectors.tolist(), items.payload, strict=True)
        with _opened(url) as client:
            client.upsert("items", [models.PointStruct(id=k, vector={"": v}, payload={"title": p}) for k, v, p in rows])

    def delete(self, url: str, keys: list[Any]) -> None:
        with _opened(url) as client:
            client.delete("items", keys)

    def unfill(self, url: str, key: Any) -> bool:
        with _opened(url) as client:
            client.delete_vectors("items", [""], [key])
        return True

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        """Search the served vector by its name, as the documentation asks of an application."""
        using = "" if served.name == "default" else served.name
        with _opened(url) as client:
            return [point.id for point in client.query_points("items", query=query, using=using, limit=k).points]

    def missing(self, folder: Path) -> str:
        return f"qdrant:///nothing?path={folder}/qdrant"

    def reader(self, url: str, store: Store) -> Store:
        return store


class QdrantEdge(Case):
    """The embedded engine, with one vector that has a name."""

    kinds = ("integer", "uuid")
    codes: ClassVar = {"uint8": ("cosine", "l2")}
    codes_queries = True

    def create(self, folder: Path, items: Items) -> str:
        url = f"qdrant+edge://{folder}/shard"
        (folder / "shard").mkdir()
        params = edge.EdgeVectorParams(size=items.vectors.shape[1], distance=edge.Distance.Cosine)
        edge.EdgeShard.create(str(folder / "shard"), edge.EdgeConfig(vectors={"text": params})).close()
        self.insert(url, items)
        return url

    def insert(self, url: str, items: Items) -> None:
        rows = zip(items.keys, items.vectors.tolist(), items.payload, strict=True)
        points = [edge.Point(k, {"text": v}, {"title": p}) for k, v, p in rows]
        self._update(url, edge.UpdateOperation.upsert_points(points))

    def delete(self, url: str, keys: list[Any]) -> None:
        self._update(url, edge.UpdateOperation.delete_points(keys))

    def unfill(self, url: str, key: Any) -> bool:
        self._update(url, edge.UpdateOperation.delete_vectors([key], ["text"]))
        return True

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        nearest = edge.Query.Nearest(query.tolist(), using=served.name)
        shard = edge.EdgeShard.load(str(Address.parse(url).file))
        found = [point.id for point in shard.query(edge.QueryRequest(limit=k, query=nearest))]
        shard.close()
        return found

    def missing(self, folder: Path) -> str:
        return f"qdrant+edge://{folder}/nothing"

    def reader(self, url: str, store: Store) -> Store:
        return store

    def _update(self, url: str, operation: Any) -> None:
        shard = edge.EdgeShard.load(str(Address.parse(url).file))
        shard.update(operation)
        shard.close()


@contextmanager
def _opened(url: str) -> Iterator[QdrantClient]:
    client = QdrantClient(path=Address.parse(url).options["path"])
    try:
        yield client
    finally:
        client.close()


class QdrantAlias(Qdrant):
    """The same by an alias of the collection."""

    def create(self, folder: Path, items: Items) -> str:
        url = super().create(folder, items)
        alias = models.CreateAlias(collection_name="items", alias_name="live")
        with _opened(url) as client:
            client.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
        return url.replace("/items?", "/live?")

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        with _opened(url) as client:
            return [point.id for point in client.query_points("live", query=query, limit=k).points]
