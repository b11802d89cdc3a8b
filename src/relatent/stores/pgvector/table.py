"""What a table holds, the statements about it, and the view beside it, whose note says which vectors are served."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from relatent._errors import StoreError
from relatent.spaces.io.columns import VECTOR_NAMES
from relatent.stores.address import Address
from relatent.stores.base import Scan, Shard
from relatent.stores.fields import Field, Roles
from relatent.stores.pgvector.wire import KEY_TYPES, VECTOR_TYPES, psycopg

MARK = "relatent"
# PostgreSQL cuts longer names.
MAX_NAME_BYTES = 63
# What the note calls the column that the view shows the served vectors as.
COLUMN = "column"
# pgvector's operator of each metric, and how the names of its operator classes end.
OPERATORS = {"cosine": "<=>", "inner": "<#>", "l2": "<->", "hamming": "<~>"}
OPERATOR_CLASSES = {"cosine": "cosine_ops", "inner": "ip_ops", "l2": "l2_ops", "hamming": "hamming_ops"}
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
    has_vector: bool
    is_foreign: bool
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


@dataclass(frozen=True)
class Index:
    """An index of vectors: pgvector's method (hnsw, ivfflat), operator class, and options such as ``m=16``."""

    name: str
    method: str
    operators: str
    options: tuple[str, ...]


class Queries:
    """The statements about one table, which is called b in each, and the table n beside it.

    Every name and value in them is quoted by psycopg.
    """

    def __init__(self, table: Table) -> None:
        sql = psycopg().sql
        self._table = table
        self._base = sql.Identifier(table.schema, table.name)
        self._key = sql.Identifier("b", table.key.name)

    def count(self, of: Field, shard: Shard) -> Any:
        """Count the vectors of a field."""
        place, vector = self._place(of)
        return _sql("SELECT count({}) FROM {} WHERE {}").format(vector, place, self._within(shard))

    def bounds(self, rows: int) -> Any:
        """Select every n-th key but the first, in order."""
        return _sql(
            "SELECT key FROM (SELECT {0} AS key, row_number() OVER (ORDER BY {0}) AS row FROM {1} b) AS numbered "
            "WHERE row > 1 AND mod(row - 1, {2}) = 0 ORDER BY key"
        ).format(self._key, self._base, rows)

    def state(self, of: Field, shard: Shard) -> Any:
        """Count the rows of a shard, and add up hashes of where they stand and which transaction wrote them."""
        place, _ = self._place(of)
        tables = ("b",) if self._table.holds(of) else ("b", "n")
        version = " || ' ' || ".join(f"concat_ws(' ', {t}.tableoid, {t}.ctid, {t}.xmin)" for t in tables)
        query = _sql("SELECT count(*), sum(hashtextextended({}, 0))::text FROM {} WHERE {}")
        return query.format(_sql(version), place, self._within(shard))

    def page(self, asked: Scan, names: list[str], after: Any) -> Any:
        """Select rows behind a key as one row: dimensions, the vectors of the field's dimension, other columns.

        Rows that share the last key come, too, so that the next page can begin behind it.
        """
        of, sql, (place, vector) = asked.of, psycopg().sql, self._place(asked.of)
        values = [
            _sql("{}::text" if column.is_cast else "{}").format(sql.Identifier("b", column.name))
            for column in self._table.payload(names)
        ]
        labels = [sql.Identifier(f"column {i}") for i in range(len(values))]
        dims = _sql("length({})" if of.dtype == "bit" else "vector_dims({})").format(vector)
        listed = [_sql("{} AS vector, {} AS dims").format(vector, dims), *map(_sql("{} AS {}").format, values, labels)]
        behind = _sql("true") if after is None else _sql("{} > {}").format(self._key, sql.Literal(after))
        inner = _sql("SELECT {} FROM {} WHERE {} AND {} ORDER BY {} FETCH FIRST {} ROWS WITH TIES").format(
            _sql(", ").join(listed), place, self._within(asked.shard), behind, self._key, asked.rows
        )
        joined = _sql("string_agg({}(vector), '') FILTER (WHERE dims = {})").format(
            _sql(f"{VECTOR_TYPES[of.dtype]}_send"), of.dim
        )
        outer = [_sql("array_agg(dims)"), joined, *map(_sql("array_agg({})").format, labels)]
        return _sql("SELECT {} FROM ({}) AS page").format(_sql(", ").join(outer), inner)

    def search(self, of: Field, k: int, asked: str) -> Any:
        """Select the keys and distances of the k nearest vectors of what is asked, a vector as PostgreSQL writes it.

        It stands in the statement as a literal: with parameters, a % in a name would be taken for one.
        """
        place, vector = self._place(of)
        cast = _sql("{}::{}({})").format(psycopg().sql.Literal(asked), _sql(VECTOR_TYPES[of.dtype]), of.dim)
        distance = _sql("{} {} {}").format(vector, _sql(OPERATORS[of.metric]), cast)
        query = _sql("SELECT {}, {} FROM {} WHERE {} IS NOT NULL ORDER BY {} LIMIT {}")
        return query.format(self._key, distance, place, vector, distance, k)

    def dimension(self) -> Any:
        """Select the dimension of any vector of the table's own column."""
        dims = _sql("length" if self._table.vector.type == "bit" else "vector_dims")
        vector = psycopg().sql.Identifier(self._table.vector.name)
        return _sql("SELECT {}({}) FROM {} WHERE {} IS NOT NULL LIMIT 1").format(dims, vector, self._base, vector)

    def create(self, new: Field) -> list[Any]:
        """Create the table of a new field, whose keys have the type of the table's."""
        place = self._table.beside(new.name)
        made = _sql("CREATE TABLE {} AS SELECT {} AS key, NULL::{}({}) AS vector FROM {} b WITH NO DATA")
        keyed = _sql("ALTER TABLE {} ADD PRIMARY KEY (key), ALTER vector SET NOT NULL")
        kind = _sql(VECTOR_TYPES[new.dtype])
        return [made.format(place, self._key, kind, new.dim, self._base), keyed.format(place)]

    def index(self, of: Field, like: Index | None) -> list[Any]:
        """Build an index of a new field, for its metric, and let the planner know of it.

        It has the method and the options of another index; without one, it is HNSW as pgvector has it.
        """
        place, method = self._table.beside(of.name), "hnsw" if like is None else like.method
        name = psycopg().sql.Identifier(name_beside(self._table.name, f"{of.name}__{method}"))
        operators = f"{VECTOR_TYPES[of.dtype]}_{OPERATOR_CLASSES[of.metric]}"
        options = _sql(f" WITH ({', '.join(like.options)})" if like and like.options else "")
        built = _sql("CREATE INDEX IF NOT EXISTS {} ON {} USING {} (vector {}){}").format(
            name, place, _sql(method), _sql(operators), options
        )
        return [built, _sql("ANALYZE {}").format(place)]

    def delete_orphans(self, of: Field) -> Any:
        """Delete the vectors of keys that the table does not have."""
        query = _sql("DELETE FROM {} n WHERE NOT EXISTS (SELECT FROM {} b WHERE {} = n.key)")
        return query.format(self._table.beside(of.name), self._base, self._key)

    def drop(self, field: Field) -> Any:
        """Drop the table's own vector column, or the table beside it that holds a field."""
        if self._table.holds(field):
            column = psycopg().sql.Identifier(self._table.vector.name)
            return _sql("ALTER TABLE {} DROP COLUMN {}").format(self._base, column)
        return _sql("DROP TABLE {}").format(self._table.beside(field.name))

    def view(self, served: Field) -> Any:
        """Select the table's columns in their order, with the served vectors under the name of the vector column.

        The vectors have no dimension in the view's type, so that those of another dimension can take their place.
        """
        table, sql, (place, vectors) = self._table, psycopg().sql, self._place(served)
        kind = VECTOR_TYPES[served.dtype]
        shown = _sql("bit varying" if kind == "bit" else kind)
        columns = [
            _sql("{}::{} AS {}").format(vectors, shown, sql.Identifier(column.name))
            if column == table.vector
            else sql.Identifier("b", column.name)
            for column in sorted((*table.columns, table.vector), key=lambda column: column.number)
        ]
        return _sql("SELECT {} FROM {}").format(_sql(", ").join(columns), place)

    def _place(self, of: Field) -> tuple[Any, Any]:
        """Return what to select from for a field, and the expression of its vectors."""
        if self._table.holds(of):
            return _sql("{} b").format(self._base), psycopg().sql.Identifier("b", self._table.vector.name)
        joined = _sql("{} b JOIN {} n ON n.key = {}").format(self._base, self._table.beside(of.name), self._key)
        return joined, _sql("n.vector")

    def _within(self, shard: Shard) -> Any:
        bounds = [
            _sql("{} {} {}").format(self._key, _sql(sign), psycopg().sql.Literal(bound))
            for sign, bound in ((">=", shard.low), ("<", shard.high))
            if bound is not None
        ]
        return _sql(" AND ").join([_sql("true"), *bounds])


def _sql(text: str) -> Any:
    return psycopg().sql.SQL(text)


def find_table(cursor: Any, address: Address) -> Table:
    """Find the table of a URL, its key and its vector column."""
    oid, schema, name, kind = _relation(cursor, address)
    cursor.execute(
        "SELECT a.attname, t.typname, a.atttypmod, a.attnum FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (oid,),
    )
    columns = tuple(Column(*row) for row in cursor.fetchall())
    key = _key(cursor, address, oid, columns)
    noted: Any = (_read_note(cursor, schema, name) or {}).get(COLUMN)
    own = noted is None or noted["name"] in {column.name for column in columns}
    vector = _vector(address, columns) if own else Column(**noted)
    others = tuple(column for column in columns if column != vector)
    return Table(schema, name, oid, key, vector, others, has_vector=own, is_foreign=kind == FOREIGN)


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
    name, literal = table.beside("served"), psycopg().sql.Literal
    if VECTOR_TYPES[before.served.dtype] != VECTOR_TYPES[roles.served.dtype]:  # a column of a view keeps its type
        cursor.execute(_sql("DROP VIEW IF EXISTS {}").format(name))
    # By this option, a view shows no one more than the tables would.
    option = "WITH (security_invoker = true)" if cursor.connection.info.server_version >= 150_000 else ""
    shown = Queries(table).view(roles.served)
    cursor.execute(_sql("CREATE OR REPLACE VIEW {} {} AS {}").format(name, _sql(option), shown))
    note = json.dumps({MARK: {**roles.note(), COLUMN: asdict(table.vector)}}, ensure_ascii=False)
    cursor.execute(_sql("COMMENT ON VIEW {} IS {}").format(name, literal(note)))


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
