"""The view that shows the served vectors, through which applications write, and whose comment notes the roles."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from relatent.stores.fields import Field, Roles
from relatent.stores.pgvector.queries import Queries
from relatent.stores.pgvector.table import COLUMN, INVOKER_VERSION, MARK, Table, name_beside, read_note
from relatent.stores.pgvector.triggers import grant, granted, sql
from relatent.stores.pgvector.wire import VECTOR_TYPES, psycopg

WRITE = "served__write"


def read_roles(cursor: Any, table: Table, own: Field | None) -> Roles:
    """Read the note in the view's comment; without a view, the table's own column is served."""
    note = read_note(cursor, table.schema, table.name)
    if note is not None:
        return Roles.of_note(note)
    assert own is not None  # a table without vectors of its own has a view
    return Roles(own)


def write_roles(cursor: Any, table: Table, before: Roles, roles: Roles) -> None:
    """Make the view show what is served, and note the roles: one step for every reader, when the transaction ends."""
    name, literal, writable = table.beside("served"), psycopg().sql.Literal, is_writable(cursor, table)
    rights = granted(cursor, name) or granted(cursor, table.base)
    if VECTOR_TYPES[before.served.dtype] != VECTOR_TYPES[roles.served.dtype]:  # a column of a view keeps its type
        cursor.execute(sql("DROP VIEW IF EXISTS {}").format(name))
    # By this option, a view shows no one more than the tables would.
    option = "WITH (security_invoker = true)" if cursor.connection.info.server_version >= INVOKER_VERSION else ""
    shown = Queries(table).view(roles.served)
    cursor.execute(sql("CREATE OR REPLACE VIEW {} {} AS {}").format(name, sql(option), shown))
    column = asdict(replace(table.vector, number=table.position))
    note = json.dumps({MARK: {**roles.note(), COLUMN: column}}, ensure_ascii=False)
    cursor.execute(sql("COMMENT ON VIEW {} IS {}").format(name, literal(note)))
    grant(cursor, rights, name)
    if writable:
        make_writable(cursor, table, roles)


def is_writable(cursor: Any, table: Table) -> bool:
    """Return whether the view is there and applications can write through it."""
    name = table.beside("served").as_string()
    cursor.execute("SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass(%s))", (name,))
    return bool(cursor.fetchone()[0])


def make_writable(cursor: Any, table: Table, roles: Roles) -> None:
    """Have what is written to the view reach the table and the vectors beside it."""
    view, function, psql = table.beside("served"), table.beside(WRITE), psycopg().sql
    columns = _columns(cursor, table)
    body = _body(table, roles, columns)
    # With the rights and names of the application: what it may not do to the table, it may not do here.
    made = sql("CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS {}")
    cursor.execute(made.format(function, psql.Literal(body)))
    if not is_writable(cursor, table):
        trigger = psql.Identifier(name_beside(table.name, WRITE))
        each = "CREATE TRIGGER {} INSTEAD OF INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW EXECUTE FUNCTION {}()"
        cursor.execute(sql(each).format(trigger, view, function))
    for one in columns:
        if one.default is not None and not one.generated:
            set_default = sql("ALTER VIEW {} ALTER {} SET DEFAULT {}")
            cursor.execute(set_default.format(view, one.quoted, sql(one.default)))


@dataclass(frozen=True)
class Written:
    """A column of the table as the view writes it."""

    name: str
    default: str | None
    identity: str
    generated: bool

    @property
    def quoted(self) -> Any:
        """Its name, quoted."""
        return psycopg().sql.Identifier(self.name)


def _columns(cursor: Any, table: Table) -> list[Written]:
    cursor.execute(
        "SELECT a.attname, pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, a.attgenerated::text <> '' "
        "FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
        "WHERE a.attrelid = %s AND a.attname = ANY(%s) ORDER BY a.attnum",
        (table.oid, [column.name for column in (*table.columns, table.vector)]),
    )
    return [Written(*row) for row in cursor.fetchall()]


def _body(table: Table, roles: Roles, columns: list[Written]) -> str:
    """Return what the view's trigger does with a row that is inserted, changed or deleted."""
    psql = psycopg().sql
    vector = psql.Identifier(table.vector.name)
    served, old = roles.served, roles.old
    back = sql("NEW.{}").format(vector)
    if old is not None:
        back = sql("{}(NEW.{})").format(table.beside(f"{served.name}__back"), vector)
    # What goes where: the served vector as it is given, the old one by the way back.
    given = {field.name: sql("NEW.{}").format(vector) if field == served else back for field in (served, old) if field}
    own = next((given[field.name] for field in (served, old) if field and table.holds(field)), None)
    beside = [(field, given[field.name]) for field in (old, served) if field and not table.holds(field)]
    puts = [_put(table, field, value) for field, value in beside]
    if old is not None:
        puts.append(
            sql(
                "INSERT INTO {} VALUES (NEW.{}, 'new', pg_catalog.now()) "
                "ON CONFLICT (key) DO UPDATE SET model = excluded.model, at = excluded.at;"
            ).format(table.beside(f"{served.name}__log"), psql.Identifier(table.key.name))
        )
    plain = [column for column in columns if column.name != table.vector.name]
    names = {
        "items": table.base,
        "key": psql.Identifier(table.key.name),
        "vector": vector,
        "put": sql("\n    ").join([sql("NULL;"), *puts]),
        "insert": _insert(table, plain, own, table.holds(served)),
        "update": _update(table, plain, own, table.holds(served)),
    }
    return str(sql(BODY).format(**names).as_string())


BODY = """#variable_conflict use_column
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM {items} b WHERE b.{key} = OLD.{key};
    IF NOT FOUND THEN RETURN NULL; END IF;
    RETURN OLD;
  END IF;
  IF TG_OP = 'INSERT' THEN
    {insert}
  ELSE
    {update}
  END IF;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF TG_OP = 'INSERT' OR pg_catalog.record_image_ne(ROW(NEW.{vector}), ROW(OLD.{vector})) THEN
    {put}
  END IF;
  RETURN NEW;
END"""


def _insert(table: Table, columns: list[Written], own: Any, shown: bool) -> Any:
    """Insert the item; where a number of its own is not given, the table counts on."""
    numbered = next((column for column in columns if column.identity), None)
    every = _insertion(table, columns, own, shown, [c for c in columns if not c.generated])
    if numbered is None:
        return every
    others = _insertion(table, columns, own, shown, [c for c in columns if not c.generated and c != numbered])
    return sql("IF NEW.{} IS NULL THEN {} ELSE {} END IF;").format(numbered.quoted, others, every)


def _insertion(table: Table, columns: list[Written], own: Any, shown: bool, given: list[Written]) -> Any:
    vector = psycopg().sql.Identifier(table.vector.name)
    names = [c.quoted for c in given] + ([vector] if own is not None else [])
    values = [sql("NEW.{}").format(c.quoted) for c in given] + ([own] if own is not None else [])
    return sql("INSERT INTO {} AS b ({}) OVERRIDING SYSTEM VALUE VALUES ({}) {};").format(
        table.base, _list(names), _list(values), _returning(table, columns, shown)
    )


def _update(table: Table, columns: list[Written], own: Any, shown: bool) -> Any:
    """Change what is changed, and leave the rest as it is now, which may be newer than what the view has shown."""
    psql = psycopg().sql
    change = "{0} = CASE WHEN pg_catalog.record_image_ne(ROW(NEW.{0}), ROW(OLD.{0})) THEN {1} ELSE b.{0} END"
    settable = [c for c in columns if not c.generated and c.identity != "a"]
    sets = [sql(change).format(c.quoted, sql("NEW.{}").format(c.quoted)) for c in settable]
    if own is not None:
        sets.append(sql(change).format(psql.Identifier(table.vector.name), own))
    key = psql.Identifier(table.key.name)
    if not sets:
        return sql("PERFORM FROM {} b WHERE b.{} = OLD.{} FOR NO KEY UPDATE;").format(table.base, key, key)
    return sql("UPDATE {} AS b SET {} WHERE b.{} = OLD.{} {};").format(
        table.base, _list(sets), key, key, _returning(table, columns, shown)
    )


def _returning(table: Table, columns: list[Written], shown: bool) -> Any:
    """Return the row as the table has it: with numbers counted on, and what triggers of its own have changed."""
    names = [column.quoted for column in columns]
    if shown:
        names.append(psycopg().sql.Identifier(table.vector.name))
    return sql("RETURNING {} INTO {}").format(
        _list([sql("b.{}").format(name) for name in names]), _list([sql("NEW.{}").format(name) for name in names])
    )


def _put(table: Table, field: Field, value: Any) -> Any:
    """Set the vector of an item beside the table, or remove it."""
    key, place = psycopg().sql.Identifier(table.key.name), table.beside(field.name)
    return sql(
        "IF {0} IS NULL THEN DELETE FROM {1} WHERE key = NEW.{2}; "
        "ELSE INSERT INTO {1} (key, vector) VALUES (NEW.{2}, {0}) "
        "ON CONFLICT (key) DO UPDATE SET vector = excluded.vector; END IF;"
    ).format(value, place, key)


def _list(parts: list[Any]) -> Any:
    return sql(", ").join(parts)
