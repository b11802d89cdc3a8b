"""SEARCH: ask an index with queries of another model."""

from relatent.search.mixed import MixedIndex
from relatent.search.rerank import Found, Reranker, as_lookup

__all__ = ["Found", "MixedIndex", "Reranker", "as_lookup"]
