"""Chroma: a new field is a companion collection, and serving it renames two collections, one after the other.

``chroma://host:8000/collection`` is a server, ``chroma:///folder/collection`` the folder of a ``PersistentClient``.
Keys are Chroma's ids, which are texts. A token is taken from the environment variable ``CHROMA_TOKEN``, or from the
password of the URL. Options: ``?ssl=1``, ``?tenant=`` and ``?database=``.

===========================  ======================================================================================
``items``                    what searches read
``items.FIELD``              the new field; its metadata records which collection it is for, and its provenance
``items.old``                after the switch: the collection that was served, untouched
===========================  ======================================================================================

The companion has copies of documents, metadata and URIs, as they were when its vectors were written: what is served
after the switch is a whole collection. An embedding function is not copied, since it is that of the old model.

Chroma renames one collection at a time. Between the two renames there is no collection of the served name: a client
that asks for it by name then is refused, and one that holds it goes on with the old vectors. No client gets a mixture.
A switch that died between the two is undone by the next one who opens the store, so that the old vectors are served.
"""

from __future__ import annotations

from relatent.stores.address import Address
from relatent.stores.chroma.store import ChromaStore

__all__ = ["ChromaStore", "open_store"]


def open_store(address: Address) -> ChromaStore:
    """Open a collection."""
    return ChromaStore(address)
