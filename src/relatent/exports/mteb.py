"""MTEB: a model of two, so that old, translated and new stand side by side on any task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relatent._errors import needs
from relatent.exports.formats import Route


class TranslatedEncoder:
    """An MTEB encoder: the roles in ``translate`` come from ``source`` and the map, the others from ``target``.

    An index of the old model that is translated, asked by the new model, is
    ``TranslatedEncoder(old, t, target=new, translate=("document",))``; beside it, evaluate ``old`` and ``new`` alone.
    Queries of the new model into an index of the old one are
    ``TranslatedEncoder(new, t, target=old, translate=("query",))``. Tasks without roles count as documents.
    """

    def __init__(
        self, source: Any, translator: Any, *, target: Any = None, translate: Sequence[str] = ("document",)
    ) -> None:
        self.route = Route(translator, source, target, tuple(translate))

    def encode(self, inputs: Any, *, prompt_type: Any = None, **task: Any) -> Any:
        """Encode as the model of the role does, and translate where the role is translated."""
        role = "document" if prompt_type is None else str(getattr(prompt_type, "value", prompt_type))
        found = self.route.embedder(role).encode(inputs, prompt_type=prompt_type, **task)
        return self.route.rows(getattr(found, "cpu", lambda: found)(), role)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Compare all with all, by the cosine or, where both are mapped into a shared space, by inner product."""
        return self._functions[0](embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Compare row by row."""
        return self._functions[1](embeddings1, embeddings2)

    @property
    def _functions(self) -> tuple[Any, Any]:
        known = needs("mteb.similarity_functions", "mteb", "compare translated vectors in MTEB")
        if getattr(self.route.translator, "metric_", "cosine") == "inner":
            return known.dot_score, known.pairwise_dot_score
        return known.cos_sim, known.pairwise_cos_sim

    @property
    def mteb_model_meta(self) -> Any:
        """Name the model in MTEB's tables, after both."""
        meta = needs("mteb.models", "mteb", "name a model in MTEB").ModelMeta
        names = [_name(model) for model in (self.route.source, self.route.target) if model is not None]
        joined = "-and-".join(names)
        return meta.create_empty({"name": f"relatent/{joined}-translated-{'-'.join(self.route.translate)}"})


def _name(model: Any) -> str:
    """Return the last part of a model's name."""
    name = getattr(getattr(model, "mteb_model_meta", None), "name", None)
    return str(name or type(model).__name__).rpartition("/")[2]
