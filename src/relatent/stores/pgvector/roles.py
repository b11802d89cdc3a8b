"""Which vectors of a table are served: a view beside the table, and the note in its comment."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from relatent.stores.pgvector.connection import psycopg
from relatent.stores.pgvector.note import name_beside, read_note, view_name, write_note
from relatent.stores.pgvector.table import COLUMN, Table
from relatent.stores.pgvector.wire import VECTOR_TYPES
from relatent.stores.roles import Roles
from relatent.stores.store import Field


def beside(table: Table, what: str) -> Any:
    """Return the name of something beside a table, with the schema, quoted."""
    return psycopg().sql.Identifier(table.schema, name_beside(table.name, what))


def read_roles(cursor: Any, table: Table, own: Field | None) -> Roles:
    """Read the note in the view's comment; without a view, the table's own column is served."""
    note = read_note(cursor, table.schema, table.name)
    if note is not None:
        return Roles.of_note(note)
    assert own is not None  # a table without vectors of its own has a view
    return Roles(own)


def write_roles(cursor: Any, table: Table, roles: Roles) -> None:
    """Make the view show what is served, and note the roles: one step for every reader, when the transaction ends."""
    sql = psycopg().sql
    name = view_name(table.schema, table.name)
    before = read_roles(cursor, table, roles.first)
    if VECTOR_TYPES[before.served.dtype] != VECTOR_TYPES[roles.served.dtype]:  # a column of a view keeps its type
        cursor.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(name))
    cursor.execute(
        sql.SQL("CREATE OR REPLACE VIEW {} {} AS {}").format(name, _as_its_reader(cursor), _view(table, roles.served))
    )
    write_note(cursor, table.schema, table.name, {**roles.note(), COLUMN: asdict(table.vector)})


def _view(table: Table, served: Field) -> Any:
    """Select the table's columns in their order, with the served vectors under the name of the vector column.

    The vectors have no dimension in the view's type, so that those of another dimension can take their place.
    """
    sql = psycopg().sql
    own, kind = table.holds(served), VECTOR_TYPES[served.dtype]
    vectors = sql.SQL("b.{}").format(sql.Identifier(table.vector.name)) if own else sql.SQL("n.vector")
    shown = sql.SQL({"bit": "bit varying"}.get(kind, kind))
    columns = [
        sql.SQL("{}::{} AS {}").format(vectors, shown, sql.Identifier(column.name))
        if column == table.vector
        else sql.SQL("b.{}").format(sql.Identifier(column.name))
        for column in sorted((*table.columns, table.vector), key=lambda column: column.number)
    ]
    view = sql.SQL("SELECT {} FROM {} b").format(sql.SQL(", ").join(columns), sql.Identifier(table.schema, table.name))
    if own:
        return view
    joined = sql.SQL(" JOIN {} n ON n.key = b.{}")
    return view + joined.format(beside(table, served.name), sql.Identifier(table.key.name))


def _as_its_reader(cursor: Any) -> Any:
    """Return the option by which a view shows no one more than the tables would, where the server has it."""
    modern = cursor.connection.info.server_version >= 150_000
    return psycopg().sql.SQL("WITH (security_invoker = true)" if modern else "")
