"""SEARCH: ask an index with queries of another model."""

from relatent._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
