"""The statements of the store. Every name and value in them is quoted by psycopg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relatent.stores.base import Scan, Shard
from relatent.stores.fields import Field
from relatent.stores.pgvector.table import Table, name_beside
from relatent.stores.pgvector.wire import VECTOR_TYPES, psycopg


@dataclass(frozen=True)
class Metric:
    """How pgvector names a metric: the operator, and the end of the operator class."""

    operator: str
    operator_class: str


METRICS = {
    "cosine": Metric("<=>", "cosine_ops"),
    "inner": Metric("<#>", "ip_ops"),
    "l2": Metric("<->", "l2_ops"),
    "hamming": Metric("<~>", "hamming_ops"),
}


class Queries:
    """What is asked of one table, which is called b in every statement, and of the table n beside it."""

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
        distance = _sql("{} {} {}").format(vector, _sql(METRICS[of.metric].operator), cast)
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

    def index(self, of: Field) -> list[Any]:
        """Build an HNSW index of a new field, for its metric, and let the planner know of it."""
        place = self._table.beside(of.name)
        name = psycopg().sql.Identifier(name_beside(self._table.name, f"{of.name}__hnsw"))
        operators = _sql(f"{VECTOR_TYPES[of.dtype]}_{METRICS[of.metric].operator_class}")
        built = _sql("CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw (vector {})").format(name, place, operators)
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

    def _place(self, of: Field) -> tuple[Any, Any]:
        """Return what to select from for a field, and the expression of its vectors."""
        if self._table.holds(of):
            return _sql("{} b").format(self._base), psycopg().sql.Identifier("b", self._table.vector.name)
        joined = _sql("{} b JOIN {} n ON n.key = {}").format(self._base, self._table.beside(of.name), self._key)
        return joined, _sql("n.vector")

    def _within(self, shard: Shard) -> Any:
        """Return the condition that a key is in a shard."""
        bounds = [
            _sql("{} {} {}").format(self._key, _sql(sign), psycopg().sql.Literal(bound))
            for sign, bound in ((">=", shard.low), ("<", shard.high))
            if bound is not None
        ]
        return _sql(" AND ").join([_sql("true"), *bounds])


def _sql(text: str) -> Any:
    return psycopg().sql.SQL(text)
