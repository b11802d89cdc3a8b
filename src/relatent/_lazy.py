"""Public names of a package: listed once, in its ``__init__.pyi``, and imported when they are first used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

LISTED = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the names in its stub.

    Type checkers read the same stub. A public name must not be that of a module of the package: once imported, the
    module would take its place.
    """
    stub = Path(str(sys.modules[package].__file__)).with_suffix(".pyi").read_text("utf8")
    homes = {name: home for home, name in LISTED.findall(stub)}

    def __getattr__(name: str) -> Any:  # noqa: N807 - a module attribute
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__, lambda: sorted(homes), sorted(homes)
