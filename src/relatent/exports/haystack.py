"""Haystack: components that translate what an embedder hands on. Importing it needs haystack-ai."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from relatent._errors import needs
from relatent.exports.formats import map_of
from relatent.translate.endpoints import Side

_HAYSTACK = needs("haystack", "haystack", "make Haystack components")
component: Any = _HAYSTACK.component
Document: Any = _HAYSTACK.Document


class _Component:
    """A fitted translator, or the path of its file: only a path can be written into a pipeline's YAML."""

    def __init__(self, translator: Any, side: Side = "source") -> None:
        self.path = os.fspath(translator) if isinstance(translator, str | os.PathLike) else None
        if self.path is not None:
            from relatent.translate import Translator

            translator = Translator.load(self.path)
        map_of(translator, side)
        self.translator, self.side = translator, side

    def to_dict(self) -> dict[str, Any]:
        """Write into a pipeline."""
        if self.path is None:
            raise ValueError("This component was made from a fitted translator: make it from the path of a saved one.")
        return dict(_HAYSTACK.default_to_dict(self, translator=self.path, side=self.side))

    def _rows(self, vectors: list[list[float]]) -> list[list[float]]:
        rows = np.asarray(vectors, dtype=np.float32)
        apply = self.translator.transform if self.side == "source" else self.translator.transform_target
        return list(apply(rows).tolist())


@component
class QueryTranslator(_Component):
    """Translates the embedding of a query: between a text embedder and a retriever."""

    @component.output_types(embedding=list[float])  # type: ignore[untyped-decorator]
    def run(self, embedding: list[float]) -> dict[str, Any]:
        """Translate one embedding."""
        return {"embedding": self._rows([embedding])[0]}


@component
class DocumentTranslator(_Component):
    """Translates the embeddings of documents: between a document embedder and a writer."""

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Return copies of the documents with translated embeddings."""
        missing = [d.id for d in documents if d.embedding is None]
        if missing:
            raise ValueError(f"Document {missing[0]} has no embedding: put this component after a document embedder.")
        rows = self._rows([d.embedding for d in documents]) if documents else []
        return {"documents": [replace(d, embedding=row) for d, row in zip(documents, rows, strict=True)]}
