"""Which URLs and paths name a store of vectors rather than a file. The stores register themselves, from a higher room.

Whoever reads vectors asks here. The front page, which is above all rooms, sets ``load``, so that the stores are
imported when they are first asked for and no lower room names them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# What opens the rows of a store, given its URL and how to read it.
OpenRows = Callable[[str | os.PathLike[str], Any], Any]

_SCHEMES: dict[str, OpenRows] = {}
_SUFFIXES: dict[str, str] = {}


def load() -> object:
    """Import the stores, which register themselves. The front page replaces it."""
    return None


def register(schemes: Iterable[str], suffixes: Iterable[str], open_rows: OpenRows) -> None:
    """Register the schemes of a store; paths with one of the suffixes are of its first scheme."""
    schemes = tuple(schemes)
    _SCHEMES.update(dict.fromkeys(schemes, open_rows))
    _SUFFIXES.update(dict.fromkeys(suffixes, schemes[0]))


def known_schemes() -> list[str]:
    """Return the schemes of all stores."""
    load()
    return list(_SCHEMES)


def scheme_of(url: str | os.PathLike[str]) -> str | None:
    """Return the scheme of the store that a URL or path names; None for a file of vectors.

    >>> scheme_of("postgresql://db/shop/items"), scheme_of("new.faiss"), scheme_of("s3://bucket/old.parquet")
    ('postgresql', 'faiss', None)
    """
    text = os.fspath(url)
    load()
    scheme = text.split("://")[0] if "://" in text else _SUFFIXES.get(Path(text).suffix.lower())
    return scheme if scheme in _SCHEMES else None


def is_store(url: str | os.PathLike[str]) -> bool:
    """Return whether a path or URL names a store rather than a file of vectors."""
    return scheme_of(url) is not None


def open_store_rows(url: str | os.PathLike[str], options: Any) -> Any:
    """Open the served vectors of a store as rows."""
    scheme = scheme_of(url)
    assert scheme is not None  # whoever calls has asked is_store
    return _SCHEMES[scheme](url, options)
