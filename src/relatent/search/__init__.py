"""SEARCH: ask an index with queries of another model."""

from relatent.search.cascade import Cascade, Found
from relatent.search.lookup import as_lookup

__all__ = ["Cascade", "Found", "as_lookup"]
