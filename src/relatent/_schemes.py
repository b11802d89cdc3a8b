"""Which URLs and paths name a store of vectors rather than a file, and what of a URL may be shown.

The stores register themselves, from a higher room.
Whoever reads vectors asks here. The front page, which is above all rooms, sets ``load``, so that the stores are
imported when they are first asked for and no lower room names them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# What opens the rows of a store, given its URL and how to read it.
OpenRows = Callable[[str | os.PathLike[str], Any], Any]

_SCHEMES: dict[str, OpenRows] = {}
_SUFFIXES: dict[str, str] = {}

# A URL, also with one slash, as pathlib writes it: scheme and slashes, host with user and password, the rest.
_START = r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/{1,2}"
_URL_IN_TEXT = re.compile(_START + r"[^\s'\"<>]+")
_URL = re.compile(_START + r"(?P<rest>.*)", re.DOTALL)
# A host, and a user with a password that holds a slash, a question mark or a number sign as it is.
_HOST = re.compile(r"[^/?#]*:(?!\d*(?:[/?#]|$))[^@]*@[^/?#]*|[^/?#]*")
# Options: those of a pattern of files, such as part-?.parquet, have no value.
_QUERY = re.compile(r"[?#](?=[^/]*=).*", re.DOTALL)
_SECRET_OPTION = re.compile(r"[^=]*(password|secret|token|api[-_]?key|signature)[^=]*=", re.IGNORECASE)


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


def public_url(word: str) -> str:
    """Return a URL, or an argument that ends with one, without what may be secret: password and signature.

    Of a store the user and the options are kept, unless an option is called a secret. Of any other URL the host and
    the path are kept.

    >>> public_url("--out=https://key:secret@host/a.parquet?X-Amz-Signature=x"), public_url("s3://bucket/part-?.npy")
    ('--out=https://host/a.parquet', 's3://bucket/part-?.npy')
    >>> public_url("postgresql://ann:pass/word@db/shop/items?key=id")
    'postgresql://ann@db/shop/items?key=id'
    """
    return _URL.sub(_public, word, count=1)


def without_secrets(text: str) -> str:
    """Return a text in which every URL is as :func:`public_url` shows it; there, a URL ends at a space or a quote.

    >>> without_secrets("cannot open 'https://me:pw@host/a.npy?sig=x' twice")
    "cannot open 'https://host/a.npy' twice"
    """
    return _URL_IN_TEXT.sub(lambda found: public_url(found[0]), text)


def _public(url: re.Match[str]) -> str:
    start, rest = url[0][: url.start("rest") - url.start()], url["rest"]
    host = _HOST.match(rest)
    assert host is not None  # it may be empty
    user, _, name = host[0].rpartition("@")
    path = rest[host.end() :]
    load()
    if url["scheme"] in _SCHEMES:
        path, _, options = path.partition("?")
        kept = "&".join(option for option in options.split("&") if not _SECRET_OPTION.match(option))
        named = f"{user.partition(':')[0]}@{name}" if user else name
        return f"{start}{named}{path}?{kept}" if kept else f"{start}{named}{path}"
    return start + name + _QUERY.sub("", path)
