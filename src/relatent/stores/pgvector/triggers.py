"""Triggers, functions and rights beside a table: the statements that make, find and drop them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relatent.stores.fields import Field
from relatent.stores.pgvector import wire
from relatent.stores.pgvector.table import Place, Table, name_beside

PRIVILEGES = "'SELECT', 'INSERT', 'UPDATE', 'DELETE'"
# The ends of the names of the triggers that belong together.
ENDS = ("", "_update", "_truncate")


def make_triggers(cursor: Any, table: Table, place: Place, name: str, rows: tuple[str, ...], vector: Any) -> None:
    """Run a function of this name after rows, keys and vectors change."""
    row, update, truncate = _trigger_names(table, name)
    changes = [sql("OLD.{0} IS DISTINCT FROM NEW.{0}").format(one) for one in (place.key, vector) if one is not None]
    for trigger, event, each in (
        (row, sql(" OR ".join(rows)), sql("ROW")),
        (update, sql("UPDATE"), sql("ROW WHEN ({})").format(sql(" OR ").join(changes))),
        (truncate, sql("TRUNCATE"), sql("STATEMENT")),
    ):
        cursor.execute(
            sql("CREATE TRIGGER {} AFTER {} ON {} FOR EACH {} EXECUTE FUNCTION {}()").format(
                trigger, event, place.relation, each, table.beside(name)
            )
        )
        # Also for what comes by logical replication.
        cursor.execute(sql("ALTER TABLE {} ENABLE ALWAYS TRIGGER {}").format(place.relation, trigger))


def drop_triggers(cursor: Any, table: Table, place: Place, name: str) -> None:
    """Drop the triggers of a name, as far as they and their table are there."""
    cursor.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s)", (place.relation.as_string(),))
    found = {row[0] for row in cursor.fetchall()}
    for trigger in (name_beside(table.name, name + end) for end in ENDS):
        if trigger in found:
            named = wire.psycopg().sql.Identifier(trigger)
            cursor.execute(sql("DROP TRIGGER {} ON {}").format(named, place.relation))


def enabled(cursor: Any, relation: Any, table: Table, name: str) -> bool:
    """Return whether all triggers of a name are there and enabled."""
    names = [name_beside(table.name, name + end) for end in ENDS]
    cursor.execute(
        "SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgname = ANY(%s) "
        "AND tgenabled IN ('O', 'A')",
        (relation.as_string(), names),
    )
    return bool(cursor.fetchone()[0] == len(ENDS))


def _trigger_names(table: Table, name: str) -> list[Any]:
    return [wire.psycopg().sql.Identifier(name_beside(table.name, name + end)) for end in ENDS]


def make_function(
    cursor: Any, table: Table, name: str, body: str, takes: Any = None, returns: Any = None, kind: str = ""
) -> None:
    """Make a function, or change what it does. It has the rights of its owner, and names mean what they do now."""
    psql, (schema, _) = wire.psycopg().sql, extension(cursor)
    cursor.execute(
        sql(
            "CREATE OR REPLACE FUNCTION {}({}) {} LANGUAGE plpgsql {} SECURITY DEFINER "
            "SET search_path = pg_catalog, {}, {}, pg_temp AS {}"
        ).format(
            table.beside(name),
            takes or sql(""),
            returns or sql("RETURNS trigger"),
            sql(kind),
            psql.Identifier(schema),
            psql.Identifier(table.schema),
            psql.Literal(body),
        )
    )
    if returns is None:  # or who may create a table could run it by a trigger of their own
        cursor.execute(sql("REVOKE EXECUTE ON FUNCTION {}() FROM PUBLIC").format(table.beside(name)))


def share(cursor: Any, table: Table, place: Any) -> None:
    """Grant on something beside the table what is granted on the table, and show of its rows what the table shows."""
    grant(cursor, granted(cursor, table.base), place)
    cursor.execute("SELECT relrowsecurity FROM pg_class WHERE oid = %s", (table.oid,))
    if cursor.fetchone()[0]:
        psql = wire.psycopg().sql
        seen = sql("EXISTS (SELECT FROM {} b WHERE b.{} = {}.key)").format(
            table.base, psql.Identifier(table.key.name), place
        )
        cursor.execute(sql("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(place))
        cursor.execute(sql("CREATE POLICY relatent ON {} USING ({})").format(place, seen))


def granted(cursor: Any, place: Any) -> list[tuple[str, str | None]]:
    """Return what others may do with a table or view: (privilege, role), with None for everybody."""
    cursor.execute(
        "SELECT a.privilege_type, r.rolname FROM pg_class c, "
        "aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a LEFT JOIN pg_roles r ON r.oid = a.grantee "
        f"WHERE c.oid = to_regclass(%s) AND a.privilege_type IN ({PRIVILEGES}) "
        "AND r.rolname IS DISTINCT FROM current_user",
        (place.as_string(),),
    )
    return [(privilege, role) for privilege, role in cursor.fetchall()]


def grant(cursor: Any, privileges: Sequence[tuple[str, str | None]], place: Any) -> None:
    """Grant what :func:`granted` returned."""
    for privilege, role in privileges:
        to = sql("PUBLIC") if role is None else wire.psycopg().sql.Identifier(role)
        cursor.execute(sql("GRANT {} ON {} TO {}").format(sql(privilege), place, to))


def extension(cursor: Any) -> tuple[str, str]:
    """Return the schema and the version of pgvector."""
    cursor.execute(
        "SELECT n.nspname, e.extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'vector'"
    )
    schema, version = cursor.fetchone()
    return schema, version


def vector_type(cursor: Any, of: Field) -> Any:
    """Return the type of a field's vectors, of any dimension."""
    if of.dtype == "bit":
        return sql("bit varying")
    psql, (schema, _) = wire.psycopg().sql, extension(cursor)
    return psql.Identifier(schema, wire.VECTOR_TYPES[of.dtype])


def sql(text: str) -> Any:
    """Return a statement with places for names."""
    return wire.psycopg().sql.SQL(text)
