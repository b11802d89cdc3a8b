"""Which vectors of a table are served: a view beside the table, and the note in its comment."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from relatent.stores.address import StoreError
from relatent.stores.pgvector.connection import psycopg
from relatent.stores.pgvector.table import Table
from relatent.stores.pgvector.wire import VECTOR_TYPES
from relatent.stores.roles import Roles
from relatent.stores.store import Field

__all__ = ["beside", "name_beside", "read_roles", "write_roles"]

MARK = "relatent"
# PostgreSQL cuts longer names.
NAME_BYTES = 63


def name_beside(table: Table, what: str) -> str:
    """Return the name of something beside the table; one that is too long ends in its hash."""
    name = f"{table.name}__{what}"
    if len(name.encode()) <= NAME_BYTES:
        return name
    return f"{name.encode()[:40].decode(errors='ignore')}__{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def beside(table: Table, what: str) -> Any:
    """Return the same with the schema, quoted."""
    return psycopg().sql.Identifier(table.schema, name_beside(table, what))


def read_roles(cursor: Any, table: Table, first: Field) -> Roles:
    """Read the note in the view's comment; without a view, the table's own column is served."""
    name = beside(table, "served").as_string()
    cursor.execute("SELECT obj_description(to_regclass(%s), 'pg_class'), to_regclass(%s) IS NULL", (name, name))
    note, absent = cursor.fetchone()
    if absent:
        return Roles(first)
    try:
        noted = json.loads(note or "")[MARK]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{name} is there and was not made by relatent: rename it, since its name is needed."
        ) from error
    return Roles.of_note(noted)


def write_roles(cursor: Any, table: Table, roles: Roles) -> None:
    """Make the view show what is served, and note the roles: one step for every reader, when the transaction ends."""
    sql = psycopg().sql
    name = beside(table, "served")
    before = read_roles(cursor, table, roles.first)
    if VECTOR_TYPES[before.served.dtype] != VECTOR_TYPES[roles.served.dtype]:  # a column of a view keeps its type
        cursor.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(name))
    cursor.execute(
        sql.SQL("CREATE OR REPLACE VIEW {} {} AS {}").format(name, _as_its_reader(cursor), _view(table, roles))
    )
    note = json.dumps({MARK: roles.note()}, ensure_ascii=False)
    cursor.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(name, sql.Literal(note)))


def _view(table: Table, roles: Roles) -> Any:
    """Select the table's columns in their order, with the served vectors under the name of the vector column.

    The vectors have no dimension in the view's type, so that those of another dimension can take their place.
    """
    sql = psycopg().sql
    served = sql.SQL("n.vector") if roles.switched else sql.SQL("b.{}").format(sql.Identifier(table.vector.name))
    kind = sql.SQL({"bit": "bit varying"}.get(VECTOR_TYPES[roles.served.dtype], VECTOR_TYPES[roles.served.dtype]))
    columns = [
        sql.SQL("{}::{} AS {}").format(served, kind, sql.Identifier(column.name))
        if column == table.vector
        else sql.SQL("b.{}").format(sql.Identifier(column.name))
        for column in sorted((*table.columns, table.vector), key=lambda column: column.number)
    ]
    view = sql.SQL("SELECT {} FROM {} b").format(sql.SQL(", ").join(columns), sql.Identifier(table.schema, table.name))
    if roles.switched and roles.second is not None:
        view += sql.SQL(" JOIN {} n ON n.key = b.{}").format(
            beside(table, roles.second.name), sql.Identifier(table.key.name)
        )
    return view


def _as_its_reader(cursor: Any) -> Any:
    """Return the option by which a view shows no one more than the tables would, where the server has it."""
    modern = cursor.connection.info.server_version >= 150_000
    return psycopg().sql.SQL("WITH (security_invoker = true)" if modern else "")
