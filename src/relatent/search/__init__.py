"""SEARCH: ask an index with queries of another model."""

from relatent.search.backfill import Backfill, ExpectedError, backfill_order
from relatent.search.cascade import Cascade, Found
from relatent.search.lookup import as_lookup
from relatent.search.mixed import MixedIndex

__all__ = ["Backfill", "Cascade", "ExpectedError", "Found", "MixedIndex", "as_lookup", "backfill_order"]
