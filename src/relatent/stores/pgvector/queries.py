"""The statements about one table. Every name and value in them is quoted by psycopg."""

from __future__ import annotations

from typing import Any

from relatent.stores.base import Scan, Shard
from relatent.stores.fields import Field
from relatent.stores.pgvector.table import OPERATOR_CLASSES, Index, Table, name_beside
from relatent.stores.pgvector.triggers import sql as _sql
from relatent.stores.pgvector.wire import VECTOR_TYPES, psycopg

# pgvector's operator of each metric.
OPERATORS = {"cosine": "<=>", "inner": "<#>", "l2": "<->", "hamming": "<~>"}


class Queries:
    """The statements about one table, which is called b in each, and the table n beside it.

    Every name and value in them is quoted by psycopg.
    """

    def __init__(self, table: Table) -> None:
        sql = psycopg().sql
        self._table = table
        self._base = table.base
        self._key = sql.Identifier("b", table.key.name)

    def count(self, of: Field, shard: Shard) -> Any:
        """Count the vectors of a field."""
        place, vector = self._place(of)
        return _sql("SELECT count({}) FROM {} WHERE {}").format(vector, place, self.within(shard))

    def estimate(self, of: Field) -> Any:
        """Have the planner estimate the vectors of a field, from its statistics and the size of the files now."""
        place = self._table.place(of)
        return _sql("EXPLAIN (FORMAT JSON) SELECT FROM {} WHERE {} IS NOT NULL").format(place.relation, place.vector)

    def sampled_keys(self, percent: float) -> Any:
        """Select the keys of some pages of the table, in order."""
        query = _sql("SELECT {0} FROM {1} b TABLESAMPLE SYSTEM ({2}) REPEATABLE (0) ORDER BY {0}")
        return query.format(self._key, self._base, psycopg().sql.Literal(percent))

    def bounds(self, rows: int) -> Any:
        """Select every n-th key but the first, in order."""
        return _sql(
            "SELECT key FROM (SELECT {0} AS key, row_number() OVER (ORDER BY {0}) AS row FROM {1} b) AS numbered "
            "WHERE row > 1 AND mod(row - 1, {2}) = 0 ORDER BY key"
        ).format(self._key, self._base, rows)

    def state(self, of: Field, shard: Shard) -> Any:
        """Count the rows of a shard, and add up hashes of where they stand and which transaction wrote them."""
        place, _ = self._place(of)
        tables = ("b",) if self._table.holds(of) else ("b", "f")
        version = " || ' ' || ".join(f"concat_ws(' ', {t}.tableoid, {t}.ctid, {t}.xmin)" for t in tables)
        query = _sql("SELECT count(*), sum(hashtextextended({}, 0))::text FROM {} WHERE {}")
        return query.format(_sql(version), place, self.within(shard))

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
        dims = _sql("{}({})").format(_sql(_dims(of.dtype)), vector)
        listed = [_sql("{} AS vector, {} AS dims").format(vector, dims), *map(_sql("{} AS {}").format, values, labels)]
        behind = _sql("true") if after is None else _sql("{} > {}").format(self._key, sql.Literal(after))
        inner = _sql(
            "SELECT {} FROM {} WHERE {} AND {} AND {} IS NOT NULL ORDER BY {} FETCH FIRST {} ROWS WITH TIES"
        ).format(_sql(", ").join(listed), place, self.within(asked.shard), behind, vector, self._key, asked.rows)
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
        known = _sql("{} IS NOT NULL").format(vector)
        if self._table.holds(of) and self._table.vector.size < 0:  # of any dimension: what has another has no distance
            known = _sql("{}({}) = {}").format(_sql(_dims(of.dtype)), vector, of.dim)
        query = _sql("SELECT {}, {} FROM {} WHERE {} ORDER BY {} LIMIT {}")
        return query.format(self._key, distance, place, known, distance, k)

    def dimension(self) -> Any:
        """Select the dimension of any vector of the table's own column."""
        dims = _sql(_dims(self._table.dtype))
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

    def lock_orphans(self, of: Field, served: Field) -> Any:
        """Select and lock the keys of vectors that look like orphans; those that others have locked are in use."""
        query = _sql("SELECT n.key FROM {} n WHERE {} FOR UPDATE SKIP LOCKED")
        return query.format(self._table.beside(of.name), self._is_orphan(served))

    def delete_orphans(self, of: Field, served: Field, keys: list[Any]) -> Any:
        """Delete the vectors of these keys that are orphans now: the table has no served vector of them."""
        query = _sql("DELETE FROM {} n WHERE n.key = ANY({}) AND {}")
        key = _sql(self._table.key.type)
        listed = _sql("{}::{}[]").format(psycopg().sql.Literal([str(key) for key in keys]), key)
        return query.format(self._table.beside(of.name), listed, self._is_orphan(served))

    def _is_orphan(self, served: Field) -> Any:
        place, vector = self._place(served)
        query = _sql("NOT EXISTS (SELECT FROM {} WHERE {} = n.key AND {} IS NOT NULL)")
        return query.format(place, self._key, vector)

    def only_in(self, of: Field, other: Field, shard: Shard) -> Any:
        """Select the keys of a shard that have a vector in one field and none in another."""
        place, vector = self._place(of)
        query = _sql("SELECT {} FROM {} WHERE {} AND {} IS NOT NULL AND {} ORDER BY 1")
        return query.format(self._key, place, self.within(shard), vector, self._lacks(other))

    def _lacks(self, of: Field) -> Any:
        """Return the condition that a row of the table b has no vector of a field."""
        if self._table.holds(of):
            return _sql("{} IS NULL").format(psycopg().sql.Identifier("b", self._table.vector.name))
        return _sql("NOT EXISTS (SELECT FROM {} o WHERE o.key = {})").format(self._table.beside(of.name), self._key)

    def tally(self, of: Field, other: Field) -> Any:
        """Count the items, those that have a vector of a field, of this and of one beside the table, and orphans."""
        name, key = self._table.beside(of.name), self._key
        source, has = _sql("{} b").format(self._base), psycopg().sql.Identifier("b", self._table.vector.name)
        if not self._table.holds(of):
            source = _sql("{} b LEFT JOIN {} f ON f.key = {}").format(self._base, name, key)
            has = _sql("f.key")
        return _sql(
            "SELECT count(i.key), count(*) FILTER (WHERE i.has), count(*) FILTER (WHERE i.has AND n.key IS NOT NULL), "
            "count(*) FILTER (WHERE n.key IS NOT NULL AND i.has IS NOT TRUE) "
            "FROM (SELECT {} AS key, {} IS NOT NULL AS has FROM {}) AS i FULL JOIN {} n ON n.key = i.key"
        ).format(key, has, source, self._table.beside(other.name))

    def unfilled(self, of: Field) -> Any:
        """Count the items that have no vector in a field."""
        if self._table.holds(of):
            vector = psycopg().sql.Identifier(self._table.vector.name)
            return _sql("SELECT count(*) FROM {} WHERE {} IS NULL").format(self._base, vector)
        query = _sql("SELECT count(*) FROM {} b WHERE NOT EXISTS (SELECT FROM {} n WHERE n.key = {})")
        return query.format(self._base, self._table.beside(of.name), self._key)

    def first_rows(self, of: Field, names: list[str], place: Any, rows: int) -> Any:
        """Copy the first rows that have a vector of a field, with other columns, to a table like this one."""
        sql, (source, vector) = psycopg().sql, self._place(of)
        names = [name for name in names if name != self._table.vector.name]
        listed = [sql.Identifier(name) for name in [*names, self._table.vector.name]]
        values = [*(sql.Identifier("b", name) for name in names), vector]
        return _sql(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} WHERE {} IS NOT NULL ORDER BY {} LIMIT {}"
        ).format(place, _sql(", ").join(listed), _sql(", ").join(values), source, vector, self._key, sql.Literal(rows))

    def lock(self, relation: Any) -> Any:
        """Lock a table, or a view and the tables that it shows, for changes of their columns and triggers."""
        return _sql("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(relation)

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
            for column in sorted(
                (*table.columns, table.vector), key=lambda c: table.position if c == table.vector else c.number
            )
        ]
        return _sql("SELECT {} FROM {}").format(_sql(", ").join(columns), place)

    def _place(self, of: Field) -> tuple[Any, Any]:
        """Return what to select from for a field, and the expression of its vectors."""
        sql = psycopg().sql
        if self._table.holds(of):
            return _sql("{} b").format(self._base), sql.Identifier("b", self._table.vector.name)
        joined = _sql("{} b JOIN {} f ON f.key = {}").format(self._base, self._table.beside(of.name), self._key)
        return joined, sql.Identifier("f", "vector")

    def within(self, shard: Shard) -> Any:
        """Return the condition that a row of the table b belongs to a shard."""
        bounds = [
            _sql("{} {} {}").format(self._key, _sql(sign), psycopg().sql.Literal(bound))
            for sign, bound in ((">=", shard.low), ("<", shard.high))
            if bound is not None
        ]
        return _sql(" AND ").join([_sql("true"), *bounds])


def _dims(dtype: str) -> str:
    """Return the function that counts the coordinates of a vector."""
    return "length" if dtype == "bit" else "vector_dims"
