"""Rows into the table of a new field: by COPY, and over rows that are there already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent.stores.pgvector.connection import psycopg
from relatent.stores.pgvector.wire import COPY_END, COPY_START, KEY_TYPES, Rows

UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
# PostgreSQL's texts cannot hold a zero byte.
TEXT = r"^[^\x00]*$"


def copy_in(cursor: Any, place: Any, rows: Rows) -> None:
    """Copy rows; a key that is there already, or twice among them, is an error of the database."""
    statement = psycopg().sql.SQL("COPY {} (key, vector) FROM STDIN (FORMAT binary)").format(place)
    with cursor.copy(statement) as copy:
        copy.write(COPY_START)
        copy.write(rows)
        copy.write(COPY_END)


def copy_over(cursor: Any, place: Any, rows: Rows) -> None:
    """Copy rows into a table that lives as long as the transaction, and from there over those that are there.

    The last of a key that comes twice counts.
    """
    sql = psycopg().sql
    like = sql.SQL("CREATE TEMPORARY TABLE relatent_rows ON COMMIT DROP AS SELECT * FROM {} WITH NO DATA")
    cursor.execute(like.format(place))
    cursor.execute("ALTER TABLE relatent_rows ADD row bigint GENERATED ALWAYS AS IDENTITY")
    copy_in(cursor, sql.Identifier("relatent_rows"), rows)
    cursor.execute(
        sql.SQL(
            "INSERT INTO {} SELECT DISTINCT ON (key) key, vector FROM relatent_rows ORDER BY key, row DESC "
            "ON CONFLICT (key) DO UPDATE SET vector = excluded.vector"
        ).format(place)
    )


def possible_keys(key_type: str, keys: pa.Array) -> np.ndarray:
    """Return which keys a column of this type can hold; no other is in the table."""
    if key_type.startswith("int"):
        limits = np.iinfo(str(KEY_TYPES[key_type]).removeprefix(">"))
        values = keys.to_numpy(zero_copy_only=False)
        return np.asarray((values >= limits.min) & (values <= limits.max))
    matched = pc.match_substring_regex(keys, UUID if key_type == "uuid" else TEXT)
    return np.asarray(matched.to_numpy(zero_copy_only=False), bool)
