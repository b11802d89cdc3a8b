from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tests.stores.case import Case, Items
from tests.stores.chroma_server import chromadb, quiet, shared_server

from relatent.stores import Address, Field


class Chroma(Case):
    """A collection in a folder. Its ids are texts."""

    kinds = ("text", "uuid")
    refused = ("",)

    def key(self, number: int) -> str:
        return f"{number:016d}"

    def create(self, folder: Path, items: Items) -> str:
        url = self.url(folder)
        with self.client(folder) as client:
            client.create_collection(
                Address.parse(url).name, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
            )
        self.insert(url, items)
        return url

    def insert(self, url: str, items: Items) -> None:
        payload = {"documents": items.payload, "metadatas": [{"title": text} for text in items.payload]}
        with self.collection(url) as collection:
            collection.add(ids=items.keys, embeddings=items.vectors, **payload)

    def delete(self, url: str, keys: list[Any]) -> None:
        with self.collection(url) as collection:
            collection.delete(ids=keys)

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        with self.collection(url) as collection:
            return collection.query(query_embeddings=[query], n_results=k)["ids"][0]

    def missing(self, folder: Path) -> str:
        return f"chroma://{folder}/nothing"

    def url(self, folder: Path) -> str:
        return f"chroma://{folder}/items"

    @contextmanager
    def client(self, folder: Path) -> Iterator[Any]:
        """Open the folder, and close it: a process that keeps it open does not see what another one writes."""
        client = chromadb.PersistentClient(str(folder), settings=quiet())
        yield client
        client.close()

    @contextmanager
    def collection(self, url: str) -> Iterator[Any]:
        address = Address.parse(url)
        with self.client(Path(address.path)) as client:
            yield client.get_collection(address.name, embedding_function=None)


class ChromaHttp(Chroma):
    """A collection of Chroma's own server."""

    def url(self, folder: Path) -> str:
        return f"chroma://127.0.0.1:{shared_server().port}/{self.name(folder)}"

    def name(self, folder: Path) -> str:
        return f"items-{folder.name}"[:200].rstrip("_-.")

    def missing(self, folder: Path) -> str:
        return f"chroma://:secret@127.0.0.1:{shared_server().port}/nothing"

    @contextmanager
    def client(self, folder: Path) -> Iterator[Any]:
        yield shared_server().client()
