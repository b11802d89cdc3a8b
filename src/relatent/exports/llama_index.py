"""LlamaIndex: an embedding model that answers in the space of another. Importing it needs llama-index-core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relatent._errors import needs
from relatent.exports.formats import ROLES, Route

_LLAMA = needs("llama_index.core.base.embeddings.base", "llama-index", "wrap LlamaIndex embeddings")
_PYDANTIC = needs("pydantic", "llama-index", "wrap LlamaIndex embeddings")
BaseEmbedding: Any = _LLAMA.BaseEmbedding


class TranslatedEmbedding(BaseEmbedding):
    """LlamaIndex ``BaseEmbedding`` over that of the source, translated.

    ``TranslatedEmbedding(new_model, t)`` searches and extends an index of the old model with the new one. With
    ``translate=("query",)`` only queries are; texts are then embedded by ``target``, the old model, if it is there.
    """

    _route: Route = _PYDANTIC.PrivateAttr()

    def __init__(
        self, source: Any, translator: Any, *, target: Any = None, translate: Sequence[str] = ROLES, **options: Any
    ) -> None:
        options.setdefault("model_name", f"{source.model_name}, translated")
        super().__init__(**options)
        self._route = Route(translator, source, target, tuple(translate))

    @classmethod
    def class_name(cls) -> str:
        """Name the class in LlamaIndex's logs."""
        return "TranslatedEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._route.one(self._route.embedder("query").get_query_embedding(query), "query")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._route.one(await self._route.embedder("query").aget_query_embedding(query), "query")

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._route.lists(self._route.embedder("document").get_text_embedding_batch(texts), "document")

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors = await self._route.embedder("document").aget_text_embedding_batch(texts)
        return self._route.lists(vectors, "document")
