"""The note in the comment of a table's view: what stands beside the table, and under which names."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from relatent.stores.address import StoreError
from relatent.stores.pgvector.connection import psycopg

MARK = "relatent"
# PostgreSQL cuts longer names.
NAME_BYTES = 63


def name_beside(table: str, what: str) -> str:
    """Return the name of something beside a table; one that is too long ends in its hash."""
    name = f"{table}__{what}"
    if len(name.encode()) <= NAME_BYTES:
        return name
    return f"{name.encode()[:40].decode(errors='ignore')}__{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def view_name(schema: str, table: str) -> Any:
    """Return the name of the view that shows what is served, quoted."""
    return psycopg().sql.Identifier(schema, name_beside(table, "served"))


def read_note(cursor: Any, schema: str, table: str) -> dict[str, Any] | None:
    """Read the note in the view's comment; None where there is no view."""
    name = view_name(schema, table).as_string()
    cursor.execute("SELECT obj_description(to_regclass(%s), 'pg_class'), to_regclass(%s) IS NULL", (name, name))
    text, absent = cursor.fetchone()
    if absent:
        return None
    try:
        return dict(json.loads(text or "")[MARK])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{name} is there and was not made by relatent: rename it, since its name is needed."
        ) from error


def write_note(cursor: Any, schema: str, table: str, note: dict[str, Any]) -> None:
    """Replace the note."""
    sql = psycopg().sql
    text = json.dumps({MARK: note}, ensure_ascii=False)
    cursor.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(view_name(schema, table), sql.Literal(text)))
