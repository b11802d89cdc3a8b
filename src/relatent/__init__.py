"""relatent lets independently trained models understand each other's vectors.

The public names are listed once, in ``__init__.pyi``, for type checkers and for this module alike. Each is imported
when it is first used, so that ``import relatent`` costs nothing.
"""

from relatent._lazy import attach

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = attach(__name__)
