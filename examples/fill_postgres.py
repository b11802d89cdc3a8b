"""Write a file of vectors into a new table of PostgreSQL with pgvector: ``fill_postgres.py old.parquet items``.

The server is the one that PGHOST, PGUSER, PGDATABASE and PGPASSWORD name. A table that is there is left as it is.
"""

from __future__ import annotations

import sys

import psycopg
from psycopg import sql

import relatent as rl


def fill(path: str, table: str, conninfo: str = "") -> int:
    """Return how many rows were written; 0 where the table is there."""
    space, name = rl.read_space(path), sql.Identifier(table)
    with psycopg.connect(conninfo) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        if cursor.execute("SELECT to_regclass(%s)", [table]).fetchone() != (None,):
            return 0
        cursor.execute(sql.SQL("CREATE TABLE {} (id text PRIMARY KEY, embedding vector({}))").format(name, space.dim))
        with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(name)) as copy:
            for key, vector in zip(space.keys, space.vectors, strict=True):
                copy.write_row((str(key), str(vector.tolist())))
    return len(space)


if __name__ == "__main__":
    print(f"{fill(*sys.argv[1:])} rows written")  # noqa: T201
