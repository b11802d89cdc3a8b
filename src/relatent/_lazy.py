"""Imports at first use: of the public names of a package, and of a heavy module that few functions need."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

LISTED = re.compile(r"^ *from (\S+) import (\w+) as \2$", re.MULTILINE)


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the imports that its source lists.

    The source lists each public name once, for type checkers and for this function alike::

        if TYPE_CHECKING:
            from relatent.spaces.space import Space as Space
        else:
            __getattr__, __dir__, __all__ = attach(__name__)

    A public name must not be that of a module of the package: once imported, the module would take its place.
    """
    module = sys.modules[package]
    source = module.__spec__.loader.get_source(package)  # type: ignore[union-attr]
    homes = {name: home for home, name in LISTED.findall(source)}
    names = sorted(homes)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    return get, lambda: names, names


class LazyModule:
    """A module that is imported when one of its names is first used; type checkers are shown the module itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value
