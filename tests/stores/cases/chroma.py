from __future__ import annotations

from pathlib import Path
from typing import Any

import chromadb
from tests.stores.case import Case, Items
from tests.stores.chroma_server import quiet

from relatent.stores import Address


class Chroma(Case):
    """A collection in a folder. Its ids are texts."""

    kinds = ("text", "uuid")
    refused = ("",)

    def key(self, number: int) -> str:
        return f"{number:016d}"

    def create(self, folder: Path, items: Items) -> str:
        url = self.url(folder)
        self.client(folder).create_collection(
            Address.parse(url).name, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        self.insert(url, items)
        return url

    def insert(self, url: str, items: Items) -> None:
        payload = {"documents": items.payload, "metadatas": [{"title": text} for text in items.payload]}
        self._collection(url).add(ids=items.keys, embeddings=items.vectors, **payload)

    def delete(self, url: str, keys: list[Any]) -> None:
        self._collection(url).delete(ids=keys)

    def missing(self, folder: Path) -> str:
        return f"chroma://{folder}/nothing"

    def url(self, folder: Path) -> str:
        return f"chroma://{folder}/items"

    def client(self, folder: Path) -> Any:
        return chromadb.PersistentClient(str(folder), settings=quiet())

    def _collection(self, url: str) -> Any:
        address = Address.parse(url)
        return self.client(Path(address.path)).get_collection(address.name, embedding_function=None)
