"""Public names of a package: listed once, for type checkers, and imported when they are first used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

LISTED = re.compile(r"^ *from (\S+) import (\w+) as \2$", re.MULTILINE)


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the imports that it lists.

    They are in its stub, or else in its source::

        if TYPE_CHECKING:
            from relatent.spaces.space import Space as Space
        else:
            __getattr__, __dir__, __all__ = attach(__name__)

    A public name must not be that of a module of the package: once imported, the module would take its place.
    """
    module = sys.modules[package]
    source, stub = Path(str(module.__file__)), Path(str(module.__file__)).with_suffix(".pyi")
    homes = {name: home for home, name in LISTED.findall((stub if stub.exists() else source).read_text("utf8"))}
    names = sorted(homes)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    return get, lambda: names, names
