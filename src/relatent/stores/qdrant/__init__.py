"""Qdrant: ``qdrant://host:6333/collection``, and its embedded engine ``qdrant+edge:///folder``.

``?vector=`` names the vector where a collection has several; ``?https=true`` goes to a server with TLS. The API key is
read from ``QDRANT_API_KEY``. ``qdrant:///collection?path=/folder`` opens the client's own folder mode, which is slow:
for tests. Ids are integers from 0 on, or UUIDs.

Where the URL names a collection, the new field is a named vector of the same points, so payload and ids stay in one
place, and what is deleted goes with all its vectors. Which vector is served is noted in the collection's metadata (the
embedded engine: in the file ``relatent.json`` of its folder), so a switch is one update of that note. Applications name
the vector that they search (``using=``): they change it together with the model of their queries.

Where the URL names an alias, the new field is a collection of its own (``collection__field``) with a copy of the
payload, and a switch moves the alias (:mod:`relatent.stores.qdrant.alias`): applications that search the alias change
nothing but the model of their queries.

A server has no locks: two migrations are kept apart on one machine only.
"""

from __future__ import annotations

from relatent.stores.address import Address
from relatent.stores.qdrant.alias import AliasStore
from relatent.stores.qdrant.client import ClientEngine
from relatent.stores.qdrant.store import QdrantStore

__all__ = ["AliasStore", "QdrantStore", "open_store"]


def open_store(address: Address) -> QdrantStore:
    """Connect to a server, or open a folder of the client."""
    engine = ClientEngine(address)
    collection = engine.alias_target(address.name)
    if collection is None:
        return QdrantStore(address, engine)
    return AliasStore(address, engine, collection)
