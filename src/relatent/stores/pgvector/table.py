"""What a table holds: its key, its vector column, and how the others come to Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relatent.spaces.io.columns import VECTOR_NAMES
from relatent.stores.address import Address, StoreError
from relatent.stores.pgvector.note import read_note
from relatent.stores.pgvector.wire import KEY_TYPES, VECTOR_TYPES
from relatent.stores.store import Field

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
class Metric:
    """How pgvector names a metric: the operator, the end of the operator class, and the score of a distance d."""

    operator: str
    operator_class: str
    one: float
    """The score is ``one - d``."""


METRICS = {
    "cosine": Metric("<=>", "cosine_ops", 1.0),
    "inner": Metric("<#>", "ip_ops", 0.0),
    "l2": Metric("<->", "l2_ops", 0.0),
    "hamming": Metric("<~>", "hamming_ops", 0.0),
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
        missing = [name for name in names if name not in known]
        if missing:
            raise StoreError(f"{self.name} has no column {missing[0]!r}; it has: {', '.join(known)}.")
        return [known[name] for name in names]


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
    note = read_note(cursor, schema, name) or {}
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
        raise StoreError(f"{address} has several vector columns: {', '.join(every)}. Say which one with ?vector=.")
    return every[given or next(iter([*usual, *every]))]
