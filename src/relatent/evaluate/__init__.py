"""MEASURE: compare two spaces and score a translation. Numbers, no decisions."""

from relatent._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
