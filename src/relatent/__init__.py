"""relatent lets independently trained models understand each other's vectors.

The public names are listed once, in ``__init__.pyi``, for type checkers and for this module alike. Each is imported
when it is first used, so that ``import relatent`` costs nothing.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from relatent import _schemes

__version__ = "0.1.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text("utf8")
_HOME = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, re.MULTILINE)}
__all__ = sorted([*_HOME, "__version__"])
_schemes.load = lambda: import_module("relatent.stores")  # when a path is first asked whether it names a store


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'relatent' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"relatent.{name}") if home == "relatent" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
