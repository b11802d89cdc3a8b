"""Vectors where they live: one small module per store, found by the scheme of a URL or the suffix of a path.

Nothing that a store needs is imported before it is opened.
"""

from __future__ import annotations

import os
from functools import partial

from relatent._errors import StoreError
from relatent._schemes import is_store, register
from relatent.stores.address import Address
from relatent.stores.base import Hits, Shard, Store
from relatent.stores.chroma import ChromaStore
from relatent.stores.faiss import FaissStore
from relatent.stores.fields import Field, Roles, calibrated
from relatent.stores.lance import LanceStore
from relatent.stores.pgvector import PgvectorStore
from relatent.stores.qdrant import EdgeStore, QdrantStore
from relatent.stores.rows import open_rows
from relatent.stores.sqlite import SqliteStore

__all__ = [
    "STORES",
    "Address",
    "Field",
    "Hits",
    "Roles",
    "Shard",
    "Store",
    "StoreError",
    "calibrated",
    "is_store",
    "open_store",
]

# Every store, in the order of the documentation.
STORES: tuple[type[Store], ...] = (
    PgvectorStore,
    SqliteStore,
    QdrantStore,
    EdgeStore,
    LanceStore,
    ChromaStore,
    FaissStore,
)


def open_store(url: str | os.PathLike[str] | Address) -> Store:
    """Open a store by its URL, by a path that ends as a store does, or by an address that was parsed.

    ``postgresql://user@host/database/table`` is a table with pgvector, ``index.faiss`` an index file; the page on
    stores lists the URLs of each. Passwords are better given in the environment than in a URL: see each store's module.
    """
    address = url if isinstance(url, Address) else Address.parse(url)
    return next(store for store in STORES if address.scheme in store.schemes).at(address)


for _store in STORES:
    register(_store.schemes, _store.suffixes, partial(open_rows, _store))
