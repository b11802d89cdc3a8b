"""Qdrant: ``qdrant://host:6333/collection``, and its embedded engine ``qdrant+edge:///folder``.

``?vector=`` names the vector where a collection has several; ``?https=true`` goes to a server with TLS. The API key is
read from ``QDRANT_API_KEY``. ``qdrant:///collection?path=/folder`` opens the client's own folder mode, which is slow:
for tests. Ids are integers from 0 on, or UUIDs.

Where the URL names a collection, the new field is a named vector of the same points, so payload and ids stay in one
place, and what is deleted goes with all its vectors. Which vector is served is noted in the collection's metadata (the
embedded engine: in the file ``relatent.json`` of its folder), so a switch is one update of that note. Applications name
the vector that they search (``using=``): they change it together with the model of their queries.

Where the URL names an alias, the new field is a collection of its own (``collection__field``) with a copy of the
payload, and a switch moves the alias (:class:`relatent.stores.qdrant.store.AliasStore`): applications that search the
alias change nothing but the model of their queries.

A server has no locks: two migrations are kept apart on one machine only.
"""

from relatent.stores.qdrant.store import EdgeStore, QdrantStore

__all__ = ["EdgeStore", "QdrantStore"]
