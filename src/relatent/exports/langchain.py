"""LangChain: embeddings that answer in the space of another model. Importing it needs langchain-core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relatent._errors import needs
from relatent.exports.formats import ROLES, Route

Embeddings: Any = needs("langchain_core.embeddings", "langchain", "wrap LangChain embeddings").Embeddings


class TranslatedEmbeddings(Embeddings):
    """LangChain ``Embeddings`` over those of the source, translated.

    ``TranslatedEmbeddings(new_model, t)`` searches and extends an index of the old model with the new one. With
    ``translate=("query",)`` only queries are; documents are then embedded by ``target``, the old model, if it is there.
    """

    def __init__(self, source: Any, translator: Any, *, target: Any = None, translate: Sequence[str] = ROLES) -> None:
        self.route = Route(translator, source, target, tuple(translate))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents."""
        return self.route.lists(self.route.embedder("document").embed_documents(texts), "document")

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return self.route.one(self.route.embedder("query").embed_query(text), "query")

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents, as the embedder does it asynchronously."""
        return self.route.lists(await self.route.embedder("document").aembed_documents(texts), "document")

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a query, as the embedder does it asynchronously."""
        return self.route.one(await self.route.embedder("query").aembed_query(text), "query")
