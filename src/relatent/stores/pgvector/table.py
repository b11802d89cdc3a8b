"""What a table holds, how it is found, and the note in the comment of the view beside it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relatent._errors import StoreError
from relatent.spaces.io.columns import VECTOR_NAMES
from relatent.stores.address import Address
from relatent.stores.fields import Field
from relatent.stores.pgvector.wire import KEY_TYPES, VECTOR_TYPES, psycopg

MARK = "relatent"
# The comment of a column that is being filled, and that is none of the table's yet.
UNFINISHED = "relatent: being filled"
# PostgreSQL cuts longer names.
MAX_NAME_BYTES = 63
# What the note calls the column that the view shows the served vectors as.
COLUMN = "column"
# How the names of pgvector's operator classes end, by metric.
OPERATOR_CLASSES = {"cosine": "cosine_ops", "inner": "ip_ops", "l2": "l2_ops", "hamming": "hamming_ops"}
# The first version of PostgreSQL in which a view can have the rights of its reader.
INVOKER_VERSION = 150_000
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
class Place:
    """Where vectors stand: a relation, and its columns of keys and vectors, quoted."""

    relation: Any
    key: Any
    vector: Any


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
    has_vector: bool
    is_foreign: bool
    """Whether it stands on another server, so that nothing is known of the versions of its rows."""
    is_unique: bool
    """Whether an index of its own makes the keys unique at once."""
    position: int
    """Where the view has the vectors among the columns."""

    def holds(self, field: Field) -> bool:
        """Return whether a field is the table's own column."""
        return self.has_vector and field.name == self.vector.name

    @property
    def base(self) -> Any:
        """Its name, with the schema, quoted."""
        return psycopg().sql.Identifier(self.schema, self.name)

    def place(self, field: Field) -> Place:
        """Return where the vectors of a field stand."""
        named = psycopg().sql.Identifier
        if self.holds(field):
            return Place(self.base, named(self.key.name), named(self.vector.name))
        return Place(self.beside(field.name), named("key"), named("vector"))

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


@dataclass(frozen=True)
class Index:
    """An index of vectors: pgvector's method (hnsw, ivfflat), operator class, and options such as ``m=16``."""

    name: str
    method: str
    operators: str
    options: tuple[str, ...]


def find_table(cursor: Any, address: Address) -> Table:
    """Find the table of a URL, its key and its vector column."""
    oid, schema, name, kind = _relation(cursor, address)
    cursor.execute(
        "SELECT a.attname, t.typname, a.atttypmod, a.attnum FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped "
        "AND col_description(a.attrelid, a.attnum) IS DISTINCT FROM %s ORDER BY a.attnum",
        (oid, UNFINISHED),
    )
    columns = tuple(Column(*row) for row in cursor.fetchall())
    key = _key(cursor, address, oid, columns)
    noted: Any = (read_note(cursor, schema, name) or {}).get(COLUMN)
    own = noted is None or noted["name"] in {column.name for column in columns}
    vector = _vector(address, columns, noted and noted["name"]) if own else Column(**noted)
    others = tuple(column for column in columns if column != vector)
    unique = _is_unique(cursor, address, psycopg().sql.Identifier(schema, name), oid, key)
    position = vector.number if noted is None else int(noted["number"])
    return Table(schema, name, oid, key, vector, others, own, kind == FOREIGN, unique, position)


def check_rows_shown(cursor: Any, table: Table, address: Address) -> None:
    """Refuse a table of which this user sees only some rows, or whose rules a view beside it would not keep."""
    cursor.execute("SELECT row_security_active(oid), relrowsecurity FROM pg_class WHERE oid = %s", (table.oid,))
    hidden, guarded = cursor.fetchone()
    if hidden:
        raise StoreError(
            f"{address} has row-level security, by which this user sees only part of the rows: expected all of them. "
            "Connect as the owner of the table, or as a role with BYPASSRLS."
        )
    if guarded and cursor.connection.info.server_version < INVOKER_VERSION:
        raise StoreError(
            f"{address} has row-level security, which views of PostgreSQL before 15 do not keep: expected version 15 "
            "or later. Upgrade the server, or migrate a copy of the table."
        )


def column_note(cursor: Any, table: Table) -> dict[str, Any]:
    """Read what is noted of the vector column in its comment: the field that it was before it came into the table."""
    cursor.execute("SELECT col_description(%s, %s)", (table.oid, table.vector.number))
    return read_mark(cursor.fetchone()[0]) or {}


def has_statistics(cursor: Any, relation: Any) -> bool:
    """Return whether the planner knows how many rows there are on a page of a table, or of each of its partitions."""
    cursor.execute(
        "SELECT bool_and(reltuples >= 0) FROM pg_class WHERE relkind = 'r' AND (oid = to_regclass(%s) "
        "OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s))))",
        (relation.as_string(),) * 2,
    )
    return bool(cursor.fetchone()[0])


def index_classes(cursor: Any, table: Table) -> list[str]:
    """Return the operator classes of the indexes of the vector column, which tell its metric."""
    return [index.operators for index in vector_indexes(cursor, table)]


def vector_indexes(cursor: Any, table: Table, of: Field | None = None) -> list[Index]:
    """Return the indexes of a field that searches can use; without one, those of the table's own column."""
    own = of is None or table.holds(of)
    place = psycopg().sql.Identifier(table.schema, table.name) if own or of is None else table.beside(of.name)
    cursor.execute(
        "SELECT c.relname, m.amname, o.opcname, c.reloptions FROM pg_index i "
        "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam "
        "JOIN pg_opclass o ON o.oid = i.indclass[0] "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
        "WHERE i.indrelid = to_regclass(%s) AND a.attname = %s AND i.indisvalid ORDER BY c.oid",
        (place.as_string(), table.vector.name if own else "vector"),
    )
    return [Index(name, method, operators, tuple(options or ())) for name, method, operators, options in cursor]


def indexes_beside(cursor: Any, table: Table, of: Field) -> list[str]:
    """Return the indexes of a field beside the table, as they are created, with a place for another column's name."""
    cursor.execute(
        "SELECT m.amname || ' ({} ' || o.opcname || ')' || coalesce(' WITH (' || array_to_string(c.reloptions, ', ') "
        "|| ')', '') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam "
        "JOIN pg_opclass o ON o.oid = i.indclass[0] "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
        "WHERE i.indrelid = to_regclass(%s) AND a.attname = 'vector' AND i.indisvalid ORDER BY c.oid",
        (table.beside(of.name).as_string(),),
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


def _is_unique(cursor: Any, address: Address, table: Any, oid: int, key: Column) -> bool:
    """Return whether an index keeps the keys unique; refuse keys that are null, or that are not unique as they are."""
    cursor.execute(
        "SELECT a.attnotnull, EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique "
        "AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) "
        "FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum = %s",
        (oid, key.number),
    )
    required, unique = cursor.fetchone()
    twice = "" if unique else " OR {0} IN (SELECT {0} FROM {1} GROUP BY {0} HAVING count(*) > 1)"
    wrong = psycopg().sql.SQL("SELECT {0}::text FROM {1} WHERE {0} IS NULL" + twice + " LIMIT 1")
    if required and unique:
        return True
    found = cursor.execute(wrong.format(psycopg().sql.Identifier(key.name), table)).fetchone()
    if found is not None:
        reason = "null in some rows" if found[0] is None else f"not unique: {found[0]!r} is there twice"
        raise StoreError(
            f"The keys {key.name!r} of {address} are {reason}. Name a column that is unique and not null with ?key=."
        )
    return bool(unique)


def _vector(address: Address, columns: tuple[Column, ...], noted: str | None) -> Column:
    every = {column.name: column for column in columns if column.type in VECTOR_TYPES.values()}
    if not every:
        raise StoreError(f"{address} has no column of type vector, halfvec or bit.")
    given = address.options.get("vector") or noted
    if given is not None and given not in every:
        raise StoreError(f"{given!r} is no vector column of {address}; such are: {', '.join(every)}.")
    usual = [name for name in VECTOR_NAMES if name in every]
    if given is None and not usual and len(every) > 1:
        raise StoreError(f"{address} has several vector columns: {', '.join(every)}. Name one with ?vector=.")
    return every[given or next(iter([*usual, *every]))]


# What stands beside a table, and the note in the comment of its view -------------------------------------------------


def name_beside(table: str, what: str) -> str:
    """Return the name of something beside a table; one that is too long ends in its hash."""
    name = f"{table}__{what}"
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    return f"{name.encode()[:40].decode(errors='ignore')}__{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _beside(schema: str, table: str, what: str) -> Any:
    return psycopg().sql.Identifier(schema, name_beside(table, what))


def read_note(cursor: Any, schema: str, table: str) -> dict[str, Any] | None:
    """Read the note in the view's comment; None where there is no view."""
    name = _beside(schema, table, "served").as_string()
    cursor.execute("SELECT obj_description(to_regclass(%s), 'pg_class'), to_regclass(%s) IS NULL", (name, name))
    text, absent = cursor.fetchone()
    if absent:
        return None
    found = read_mark(text)
    if found is None:
        raise StoreError(f"{name} is there and was not made by relatent: rename it, since its name is needed.")
    return found


def read_mark(text: str | None) -> dict[str, Any] | None:
    """Read the note of relatent in a comment; None where it is someone else's."""
    try:
        return dict(json.loads(text or "")[MARK])
    except (ValueError, KeyError, TypeError):
        return None
