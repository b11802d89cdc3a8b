"""FAISS index files: ``faiss:///folder/index.faiss``, or the path.

Keys stand in a file beside (``index.keys.parquet``, ``index.ids.txt`` and the other names that go with an .npy), row i
for FAISS's id i; without such a file the ids are the keys. Old and new index share it, so one rename switches both.

What belongs to a migration is in the folder ``index.faiss.relatent``:

=================  ==================================================================================
fields.json        the field that was served first, and the one that was added
parts/             one file per write, whole or absent
built.json         which parts the new index holds
new-KEYS.faiss     the new index, as the served one has it; KEYS is the hash of the keys it was built for
old-KEYS.faiss     after the switch: the index that was served, the very file
=================  ==================================================================================

Codes are kept in FAISS's scalar quantizers, whose files hold the scale: queries are asked as they are.

The path itself is what is served, for every reader: a switch links the old file into the folder, then renames the new
one onto the path.
"""

from __future__ import annotations

from relatent.stores.address import Address
from relatent.stores.faiss.store import FaissStore

__all__ = ["FaissStore", "open_store"]


def open_store(address: Address) -> FaissStore:
    """Open an index file."""
    return FaissStore(address)
