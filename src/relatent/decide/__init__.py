"""DECIDE: what to do about a new model: the options, the rule, the verdict, and what each costs."""

from relatent._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
