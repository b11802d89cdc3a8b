"""Which URLs and paths name a store of vectors rather than a file: the stores themselves are in a higher room."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from relatent._files import FileError
from relatent.spaces.chunks import Rows

# Which module of relatent.stores serves a scheme.
SCHEMES = {
    "postgresql": "pgvector",
    "postgres": "pgvector",
    "qdrant": "qdrant",
    "qdrant+edge": "qdrant.edge",
    "lance": "lance",
    "chroma": "chroma",
    "faiss": "faiss",
}
# A path that ends so is a store, without a scheme.
SUFFIXES = {".faiss": "faiss", ".lance": "lance"}


def is_store(url: str | os.PathLike[str]) -> bool:
    """Return whether a path or URL names a store rather than a file of vectors.

    >>> is_store("postgresql://db/shop/items"), is_store("new.faiss"), is_store("s3://bucket/old.parquet")
    (True, True, False)
    """
    text = os.fspath(url)
    return text.split("://")[0] in SCHEMES if "://" in text else Path(text).suffix.lower() in SUFFIXES


def open_store_rows(url: str | os.PathLike[str], options: Any) -> Rows:
    """Open the served vectors of a store as rows."""
    rows: Rows = import_module("relatent.stores.rows").open_rows(url, options)
    return rows


def refuse_store(path: str | os.PathLike[str]) -> None:
    """Refuse to write to a store as if it were a file."""
    if is_store(path):
        raise FileError(
            f"{Path(os.fspath(path).split('?')[0]).name} is in a store, where vectors are added beside the old and "
            "then switched to: use relatent migrate. To write a file, give a path that ends in .parquet."
        )
