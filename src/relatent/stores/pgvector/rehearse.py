"""A small table beside a table, for a rehearsal: its first rows, the served vectors, and an index of the same kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from relatent._errors import StoreError
from relatent.stores.address import Address
from relatent.stores.fields import Field, Roles, plain_field
from relatent.stores.pgvector.follow import Follow, keep_no_items
from relatent.stores.pgvector.queries import Queries
from relatent.stores.pgvector.table import (
    MARK,
    Table,
    find_table,
    indexes_beside,
    name_beside,
    read_mark,
    read_note,
)
from relatent.stores.pgvector.triggers import sql
from relatent.stores.pgvector.view import WRITE
from relatent.stores.pgvector.wire import VECTOR_TYPES, Connections, psycopg

REHEARSAL = "rehearsal"


@contextmanager
def rehearsed(connections: Connections, table: Table, served: Field, address: Address, rows: int) -> Iterator[str]:
    """Make the table, yield its URL, and drop it with all that stands beside it."""
    name = name_beside(table.name, REHEARSAL)
    there = replace(address, name=f"{table.schema}.{name}", options=_options(address, table))
    with connections.transaction() as cursor:
        drop(cursor, table, there)
        make(cursor, table, served, rows)
    try:
        yield str(there)
    finally:
        with connections.transaction() as cursor:
            drop(cursor, table, there)


def _options(address: Address, table: Table) -> dict[str, str]:
    """Return what the URL needs beside the name: a password that was given has to be in it."""
    given = {**address.options, "key": table.key.name, "vector": table.vector.name}
    return given | ({"password": address.password} if address.password else {})


def make(cursor: Any, table: Table, served: Field, rows: int) -> None:
    """Copy the definition of the table and its first rows; served vectors from beside it become a column."""
    psql, place = psycopg().sql, table.beside(REHEARSAL)
    cursor.execute(sql("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(place, table.base))
    marked = psql.Literal(json.dumps({MARK: {REHEARSAL: table.name}}))
    cursor.execute(sql("COMMENT ON TABLE {} IS {}").format(place, marked))
    vector = psql.Identifier(table.vector.name)
    if not table.holds(served):
        if table.has_vector:
            cursor.execute(sql("ALTER TABLE {} DROP COLUMN {}").format(place, vector))
        kind = sql(f"{VECTOR_TYPES[served.dtype]}({served.dim})")
        cursor.execute(sql("ALTER TABLE {} ADD COLUMN {} {}").format(place, vector, kind))
    noted = psql.Literal(json.dumps({MARK: plain_field(replace(served, name=table.vector.name))}))
    cursor.execute(sql("COMMENT ON COLUMN {}.{} IS {}").format(place, vector, noted))
    cursor.execute(Queries(table).first_rows(served, _given(cursor, table), place, rows))
    if not table.holds(served):
        for definition in indexes_beside(cursor, table, served):
            cursor.execute(sql("CREATE INDEX ON {} USING {}").format(place, sql(definition).format(vector)))
    cursor.execute(sql("ANALYZE {}").format(place))


def _given(cursor: Any, table: Table) -> list[str]:
    """Return the columns that can be copied: what is generated comes by itself."""
    cursor.execute(
        "SELECT attname FROM pg_attribute "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
        (table.oid,),
    )
    names = {row[0] for row in cursor.fetchall()}
    return [column.name for column in table.columns if column.name in names]


def drop(cursor: Any, table: Table, address: Address) -> None:
    """Drop a table of an earlier rehearsal and all beside it, if it is there; refuse one that is not ours."""
    place = table.beside(REHEARSAL)
    cursor.execute("SELECT to_regclass(%s) IS NULL, obj_description(to_regclass(%s))", (place.as_string(),) * 2)
    absent, comment = cursor.fetchone()
    if absent:
        return
    if read_mark(comment) is None:
        raise StoreError(
            f"{place.as_string()} is there and was not made by relatent: rename it, since its name is needed."
        )
    found = find_table(cursor, address)
    note = read_note(cursor, found.schema, found.name)
    if note is not None:
        _drop_beside(cursor, found, Roles.of_note(note))
    cursor.execute(sql("DROP TABLE {} CASCADE").format(place))


def _drop_beside(cursor: Any, table: Table, roles: Roles) -> None:
    cursor.execute(sql("DROP VIEW {}").format(table.beside("served")))
    cursor.execute(sql("DROP FUNCTION IF EXISTS {}()").format(table.beside(WRITE)))
    follow = Follow.of(table, roles)
    if follow is not None:
        follow.remove(cursor)
    for field in roles.fields.values():
        keep_no_items(cursor, table, field)
        if not table.holds(field):
            cursor.execute(sql("DROP TABLE IF EXISTS {} CASCADE").format(table.beside(field.name)))
