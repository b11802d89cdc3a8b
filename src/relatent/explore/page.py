"""The page: one HTML file that is built from ``web/``, served as it is, or written with its data inside."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from relatent._atomic import FileError, atomic_write
from relatent.explore.exploration import Exploration

__all__ = ["MARK", "page", "page_with_data", "write_page"]

BUNDLE = Path(__file__).parent / "static" / "explorer.html"
# Where the built page has room for data; see web/src/index.html.
MARK = '<script type="application/json" id="data"></script>'


def page() -> str:
    """Return the page as it was built; it asks a server for its data."""
    if not BUNDLE.exists():
        raise FileError(
            "The page of the explorer was not built: run `make explore` in the repository, which needs Node.js and "
            "npm, or install a released wheel, which holds it."
        )
    return BUNDLE.read_text(encoding="utf8")


def page_with_data(data: dict[str, Any]) -> str:
    """Return the page with its data inside, which needs no server."""
    # "<" ends a script early in HTML and is the same character as \u003c in JSON.
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return page().replace(MARK, MARK.replace("></", f">{content}</"))


def write_page(
    exploration: Exploration, path: str | os.PathLike[str], *, k: int | None = None, overwrite: bool = False
) -> None:
    """Write one HTML file with data and program, to be opened without a server. It holds keys, labels and positions.

    ``k`` is the number of anchors to fit on, by default what the page begins with.
    """
    text = page_with_data(exploration.everything(exploration.start_k if k is None else k))
    with atomic_write(path, overwrite=overwrite) as aside:
        aside.write_text(text, encoding="utf8")
