"""PostgreSQL with pgvector: ``postgresql://user@host:port/database/table``.

The table may be ``schema.table``. ``?vector=`` and ``?key=`` name the columns where there are several vector columns or
no primary key of one column; every other option goes to libpq (``sslmode``, ``host`` for a Unix socket). The password
is read from ``PGPASSWORD``, a ``.pgpass`` file, or the URL. Columns may be ``vector``, ``halfvec`` or ``bit``.

Until the old vectors are dropped, the rows of the table are not touched. What belongs to a migration of ``items`` to a
field ``new`` stands beside it:

==================  =================================================================================
``items__new``      the new vectors by key, filled by COPY, with an HNSW index of its own
``items__served``   a view of ``items`` whose vector column is the one that is served, for reading and
                    writing; its comment holds the roles and the provenance
``items__new__…``   what triggers need to translate what is written meanwhile (:mod:`.follow`)
==================  =================================================================================

An UPDATE of a new column would rewrite every row, and enter each again into the HNSW index of the old vectors:
``benchmarks/stores_pgvector.py`` measures it. A switch replaces the view, in one transaction: applications that use
``items__served`` change over with it, and back.

Dropping the old vectors drops the column of ``items``, which frees its place as rows are rewritten (``VACUUM FULL``
does it at once). From then on ``items__new`` holds the vectors, and the next migration makes another table beside it;
or they come into the table under the old name (:mod:`.into`).
"""

from relatent.stores.pgvector.store import PgvectorStore

__all__ = ["PgvectorStore"]
