"""Lance and LanceDB: a new field is a new column of the table, and serving it renames two columns in one version.

``lance:///folder/table.lance`` or a path that ends in ``.lance``; a table of LanceDB is such a folder.

==============  ===============================================================================================
``?vector=``    the column of the vectors, where the guess by name is wrong
``?key=``       the column of the keys, likewise; they must be unique
``?metric=``    cosine, inner or l2, for a vector column without an index; the default is cosine
``?index=``     the index to build for the new column (IVF_HNSW_SQ, IVF_PQ, …); the default is the served one's
==============  ===============================================================================================

What is written waits in ``table.lance/_relatent/parts``, one file per write, whole or absent: a column of a fragment is
one file in Lance, so that writing into the table each time would write that file anew each time. Reading, indexing or
serving the new column merges all of it in one version. Nothing that the table holds is rewritten; searching, scanning
and going back to an earlier version work as before.
"""

from __future__ import annotations

from relatent.stores.address import Address
from relatent.stores.lance.store import LanceStore

__all__ = ["LanceStore", "open_store"]


def open_store(address: Address) -> LanceStore:
    """Open a table."""
    return LanceStore(address)
