"""MONITOR: whether a system that runs still sees the model and the items it was built for."""

from relatent._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
