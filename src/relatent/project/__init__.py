"""PROJECT: from absolute to relative and back."""

from relatent._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
