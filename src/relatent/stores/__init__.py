"""Vectors where they live: one small module per store, found by the scheme of a URL or the suffix of a path."""

from __future__ import annotations

import os
from importlib import import_module

from relatent.spaces.io.schemes import SCHEMES, is_store
from relatent.stores.address import Address, StoreError
from relatent.stores.codes import calibrated
from relatent.stores.store import Field, Hits, Shard, Store

__all__ = ["Address", "Field", "Hits", "Shard", "Store", "StoreError", "calibrated", "is_store", "open_store"]


def open_store(url: str | os.PathLike[str] | Address) -> Store:
    """Open a store by its URL, or by an address that was parsed.

    ============================================  ===================================================
    ``postgresql://user@host/database/table``     PostgreSQL with pgvector; ``?vector=`` and ``?key=``
    ``qdrant://host:6333/collection``             Qdrant; ``qdrant+edge:///folder`` its embedded engine
    ``lance:///folder/table.lance``               Lance and LanceDB
    ``chroma://host:8000/collection``             Chroma; ``chroma:///folder/collection`` embedded
    ``faiss:///folder/index.faiss``               a FAISS index file, with its keys beside it
    ============================================  ===================================================

    A password is better given in the environment than in the URL: see each store's module.
    """
    address = url if isinstance(url, Address) else Address.parse(url)
    store: Store = import_module(f"relatent.stores.{SCHEMES[address.scheme]}").open_store(address)
    return store
