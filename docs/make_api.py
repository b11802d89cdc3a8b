"""Write the API reference, one page per public package, from its ``__all__``.

Sphinx calls it before every build, so no name can be missing or stale.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import relatent

# In the order of the stages of the data.
PACKAGES = (
    *("spaces", "anchors", "project", "evaluate", "translate", "nn", "stitching", "encode", "exports", "stores"),
    *("monitor", "decide", "search", "migrate", "report", "serve", "explore", "engines"),
)
INDEX = """API
===

Names that are also in ``relatent`` itself are listed without their package: ``import relatent as rl; rl.Translator``.

.. toctree::
   :maxdepth: 1

"""


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    made = {package: page(package) for package in PACKAGES}
    return {"index": INDEX + "".join(f"   {package}\n" for package in PACKAGES), **made}


def page(package: str) -> str:
    """Return the page of one package: its docstring, and an entry for every name."""
    title = f"relatent.{package}"
    head = f"{title}\n{'=' * len(title)}\n\n.. automodule:: {title}\n   :no-members:\n"
    return "\n".join([head, *(entry(path, value) for path, value in public_names(package))])


def public_names(package: str) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a package, each with its shortest path."""
    yield from _names(import_module(f"relatent.{package}"), f"relatent.{package}")
    if package == "spaces":  # load reads what every package saves, and is listed with the other readers
        yield "relatent.load", relatent.load


def _names(module: Any, base: str) -> Iterator[tuple[str, Any]]:
    for name in module.__all__:
        value = getattr(module, name)
        on_front = name in relatent.__all__ and getattr(relatent, name) is value
        path = f"relatent.{name}" if on_front else f"{base}.{name}"
        if inspect.ismodule(value):
            yield from _names(value, path)
        else:
            yield path, value


def entry(path: str, value: Any) -> str:
    """Return the directive that documents one name."""
    if inspect.isclass(value):
        return f".. autoclass:: {path}\n   :members:\n"
    if callable(value):
        return f".. autofunction:: {path}\n"
    # A table: its own docstring would be that of dict or tuple.
    home, _, name = path.rpartition(".")
    return f".. py:data:: {name}\n   :module: {home}\n\n   {', '.join(f'``{one}``' for one in value)}\n"


def write(folder: Path) -> None:
    """Write every page into a folder; unchanged files keep their date, so that Sphinx skips them."""
    folder.mkdir(exist_ok=True)
    made = pages()
    for stale in set(folder.glob("*.rst")) - {folder / f"{name}.rst" for name in made}:
        stale.unlink()
    for name, text in made.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf8") != text:
            path.write_text(text, encoding="utf8")


if __name__ == "__main__":
    write(Path(__file__).parent / "api")
