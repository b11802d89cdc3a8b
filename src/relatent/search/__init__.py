"""SEARCH: ask an index with queries of another model."""

from relatent.search.mixed import MixedIndex
from relatent.search.rerank import Cascade, Found, as_lookup

__all__ = ["Cascade", "Found", "MixedIndex", "as_lookup"]
