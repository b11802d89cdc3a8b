"""TRANSLATE: fit a closed-form map between two spaces from parallel anchors."""

from relatent._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
