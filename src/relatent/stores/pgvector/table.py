"""What a table holds, and the view beside it: the key, the vector column, and in a note which vectors are served."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from relatent._errors import StoreError
from relatent.spaces.io.columns import VECTOR_NAMES
from relatent.stores.address import Address
from relatent.stores.fields import Field, Roles
from relatent.stores.pgvector.wire import KEY_TYPES, VECTOR_TYPES, psycopg

MARK = "relatent"
# PostgreSQL cuts longer names.
MAX_NAME_BYTES = 63
# What the note calls the column that the view shows the served vectors as.
COLUMN = "column"
# PostgreSQL's letter for a table of another server.
FOREIGN = "f"
# Arrow's type of a column; what is not here is read as PostgreSQL writes it.
ARROW = {
    "int2": pa.int64(),
    "int4": pa.int64(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bytea": pa.binary(),
}


@dataclass(frozen=True)
class Column:
    """A column: its name, the name of its type, and the number in brackets behind the type."""

    name: str
    type: str
    size: int
    number: int

    @property
    def arrow(self) -> pa.DataType:
        """The type that it is read as."""
        return ARROW.get(self.type, pa.string())

    @property
    def is_cast(self) -> bool:
        """Whether it is read as text."""
        return self.type not in ARROW


@dataclass(frozen=True)
class Table:
    """A table, the columns that matter, and all others.

    Fields of migrations stand in tables of their own. Once its own vectors were dropped, ``vector`` is the column that
    the view shows in their place.
    """

    schema: str
    name: str
    oid: int
    key: Column
    vector: Column
    columns: tuple[Column, ...]
    has_vector: bool = True
    is_foreign: bool = False
    """Whether it stands on another server, so that nothing is known of the versions of its rows."""

    def holds(self, field: Field) -> bool:
        """Return whether a field is the table's own column."""
        return self.has_vector and field.name == self.vector.name

    @property
    def dtype(self) -> str:
        """The dtype of the vectors."""
        return next(dtype for dtype, name in VECTOR_TYPES.items() if name == self.vector.type)

    def payload(self, names: list[str]) -> list[Column]:
        """Return the columns of these names."""
        known = {column.name: column for column in self.columns}
        return [known[name] for name in names]

    def beside(self, what: str) -> Any:
        """Return the name of something beside the table, with the schema, quoted."""
        return _beside(self.schema, self.name, what)


def find_table(cursor: Any, address: Address) -> Table:
    """Find the table of a URL, its key and its vector column."""
    oid, schema, name, kind = _relation(cursor, address)
    cursor.execute(
        "SELECT a.attname, t.typname, a.atttypmod, a.attnum FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (oid,),
    )
    columns = tuple(Column(*row) for row in cursor.fetchall())
    key, noted = _key(cursor, address, oid, columns), _noted_vector(cursor, schema, name)
    if noted is not None and noted.name not in {column.name for column in columns}:
        return Table(schema, name, oid, key, noted, columns, has_vector=False, is_foreign=kind == FOREIGN)
    vector = _vector(address, columns)
    others = tuple(c for c in columns if c != vector)
    return Table(schema, name, oid, key, vector, others, is_foreign=kind == FOREIGN)


def index_classes(cursor: Any, table: Table) -> list[str]:
    """Return the operator classes of the indexes of the vector column, which tell its metric."""
    cursor.execute(
        "SELECT o.opcname FROM pg_index i JOIN pg_opclass o ON o.oid = i.indclass[0] "
        "WHERE i.indrelid = %s AND i.indkey[0] = %s",
        (table.oid, table.vector.number),
    )
    return [row[0] for row in cursor.fetchall()]


def _relation(cursor: Any, address: Address) -> tuple[int, str, str, str]:
    """Find a relation by its name as it is, else with a schema before the first dot."""
    schema, _, rest = address.name.partition(".")
    for namespace, name in ((None, address.name), (schema, rest)):
        cursor.execute(
            "SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relname = %s AND c.relkind IN ('r', 'p', 'f') "
            "AND CASE WHEN %s::text IS NULL THEN pg_table_is_visible(c.oid) ELSE n.nspname = %s END",
            (name, namespace, namespace),
        )
        found = cursor.fetchone()
        if found is not None:
            return int(found[0]), *found[1:]
    raise StoreError(f"{address}: there is no table {address.name!r}, or it is not visible to this user.")


def _key(cursor: Any, address: Address, oid: int, columns: tuple[Column, ...]) -> Column:
    cursor.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
        "WHERE i.indrelid = %s AND i.indisprimary",
        (oid,),
    )
    primary = [row[0] for row in cursor.fetchall()]
    given = address.options.get("key")
    if given is None and len(primary) != 1:
        raise StoreError(
            f"{address} has a primary key of {len(primary)} columns: expected one. Name a column that is unique and "
            "not null with ?key=."
        )
    name = given or primary[0]
    column = next((c for c in columns if c.name == name), None)
    if column is None:
        raise StoreError(f"{address} has no column {name!r} for the keys.")
    if column.type not in KEY_TYPES:
        raise StoreError(f"The keys of {address} are {column.type}: expected one of {', '.join(KEY_TYPES)}.")
    return column


def _noted_vector(cursor: Any, schema: str, name: str) -> Column | None:
    """Return the column that the view beside a table shows the served vectors as, if there is a view."""
    note = _read_note(cursor, schema, name) or {}
    return Column(**note[COLUMN]) if COLUMN in note else None


def _vector(address: Address, columns: tuple[Column, ...]) -> Column:
    every = {column.name: column for column in columns if column.type in VECTOR_TYPES.values()}
    if not every:
        raise StoreError(f"{address} has no column of type vector, halfvec or bit.")
    given = address.options.get("vector")
    if given is not None and given not in every:
        raise StoreError(f"{given!r} is no vector column of {address}; such are: {', '.join(every)}.")
    usual = [name for name in VECTOR_NAMES if name in every]
    if given is None and not usual and len(every) > 1:
        raise StoreError(f"{address} has several vector columns: {', '.join(every)}. Name one with ?vector=.")
    return every[given or next(iter([*usual, *every]))]


# The view beside a table, and the note in its comment ----------------------------------------------------------------


def name_beside(table: str, what: str) -> str:
    """Return the name of something beside a table; one that is too long ends in its hash."""
    name = f"{table}__{what}"
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    return f"{name.encode()[:40].decode(errors='ignore')}__{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _beside(schema: str, table: str, what: str) -> Any:
    return psycopg().sql.Identifier(schema, name_beside(table, what))


def read_roles(cursor: Any, table: Table, own: Field | None) -> Roles:
    """Read the note in the view's comment; without a view, the table's own column is served."""
    note = _read_note(cursor, table.schema, table.name)
    if note is not None:
        return Roles.of_note(note)
    assert own is not None  # a table without vectors of its own has a view
    return Roles(own)


def write_roles(cursor: Any, table: Table, before: Roles, roles: Roles) -> None:
    """Make the view show what is served, and note the roles: one step for every reader, when the transaction ends."""
    sql, name = psycopg().sql, table.beside("served")
    if VECTOR_TYPES[before.served.dtype] != VECTOR_TYPES[roles.served.dtype]:  # a column of a view keeps its type
        cursor.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(name))
    cursor.execute(
        sql.SQL("CREATE OR REPLACE VIEW {} {} AS {}").format(name, _as_its_reader(cursor), _view(table, roles.served))
    )
    note = json.dumps({MARK: {**roles.note(), COLUMN: asdict(table.vector)}}, ensure_ascii=False)
    cursor.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(name, sql.Literal(note)))


def _read_note(cursor: Any, schema: str, table: str) -> dict[str, Any] | None:
    """Read the note in the view's comment; None where there is no view."""
    name = _beside(schema, table, "served").as_string()
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
    return view + joined.format(table.beside(served.name), sql.Identifier(table.key.name))


def _as_its_reader(cursor: Any) -> Any:
    """Return the option by which a view shows no one more than the tables would, where the server has it."""
    modern = cursor.connection.info.server_version >= 150_000
    return psycopg().sql.SQL("WITH (security_invoker = true)" if modern else "")
