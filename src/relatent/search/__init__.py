"""SEARCH: ask an index with queries of another model."""

from typing import TYPE_CHECKING

from relatent._lazy import attach

if TYPE_CHECKING:
    from relatent.search.mixed import MixedIndex as MixedIndex
    from relatent.search.rerank import Reranker as Reranker
    from relatent.search.rerank import RerankResult as RerankResult
else:
    __getattr__, __dir__, __all__ = attach(__name__)
