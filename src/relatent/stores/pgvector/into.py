"""Putting the served vectors into the table itself, under the name of the old column, while others write.

A column of another name is added, which triggers keep as the vectors beside the table are; it is filled in batches and
indexed, and takes the place of the old column in one short transaction. Each step can be done again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from relatent.stores.base import Shard
from relatent.stores.fields import Field, Roles, plain_field
from relatent.stores.pgvector import wire
from relatent.stores.pgvector.follow import Follow, keep_no_items
from relatent.stores.pgvector.locks import Concurrently
from relatent.stores.pgvector.queries import Queries
from relatent.stores.pgvector.table import MARK, UNFINISHED, Table, indexes_beside, name_beside, read_mark
from relatent.stores.pgvector.triggers import drop_triggers, enabled, make_function, make_triggers, sql

# What the note in a column's comment calls that the column is to be NOT NULL, and what its owner had noted.
REQUIRED, COMMENT = "required", "comment"

INTO = """BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    UPDATE {items} SET {column} = NULL WHERE {column} IS NOT NULL;
    RETURN NULL;
  END IF;
  UPDATE {items} b SET {column} = (SELECT n.vector FROM {new} n WHERE n.key = b.{key})
    WHERE TG_OP <> 'INSERT' AND b.{key} = OLD.key OR TG_OP <> 'DELETE' AND b.{key} = NEW.key;
  RETURN NULL;
END"""


@dataclass(frozen=True)
class Into:
    """The column that takes the vectors of the served field."""

    table: Table
    served: Field

    @property
    def column(self) -> Any:
        """Its name until it is the table's own."""
        return wire.psycopg().sql.Identifier(name_beside(self.table.vector.name, self.served.name))

    @property
    def _trigger(self) -> str:
        return f"{self.served.name}__into"

    @property
    def _names(self) -> dict[str, Any]:
        key = wire.psycopg().sql.Identifier(self.table.key.name)
        return {"items": self.table.base, "column": self.column, "new": self.table.beside(self.served.name), "key": key}

    def begin(self, cursor: Any) -> None:
        """Add the column, and triggers that write to it what is written beside the table."""
        place = self.table.place(self.served)
        kind = sql(f"{wire.VECTOR_TYPES[self.served.dtype]}({self.served.dim})")
        if not enabled(cursor, place.relation, self.table, self._trigger):
            added = sql("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
            cursor.execute(added.format(self.table.base, self.column, kind))
            noted = sql("COMMENT ON COLUMN {}.{} IS {}")
            cursor.execute(noted.format(self.table.base, self.column, wire.psycopg().sql.Literal(UNFINISHED)))
            make_function(cursor, self.table, self._trigger, sql(INTO).format(**self._names).as_string())
            drop_triggers(cursor, self.table, place, self._trigger)
            make_triggers(cursor, self.table, place, self._trigger, ("INSERT", "DELETE"), place.vector)

    def fill(self, shard: Shard, cursor: Any) -> int:
        """Set the vectors of a shard that are not set; return how many.

        The rows are locked first, so that the vectors that are read then are those of now.
        """
        self._spare_triggers(cursor)
        within = Queries(self.table).within(shard)
        names = self._names | {"within": within}
        cursor.execute(
            sql("SELECT FROM {items} b WHERE {column} IS NULL AND {within} ORDER BY {key} FOR NO KEY UPDATE").format(
                **names
            )
        )
        cursor.execute(
            sql(
                "UPDATE {items} b SET {column} = n.vector FROM {new} n "
                "WHERE n.key = b.{key} AND b.{column} IS NULL AND {within}"
            ).format(**names)
        )
        return int(cursor.rowcount)

    def _spare_triggers(self, cursor: Any) -> None:
        """Have the table's own triggers, such as one that sets the time of a change, not run for this, if we may."""
        try:
            with cursor.connection.transaction():
                cursor.execute("SET LOCAL session_replication_role = replica")
        except wire.psycopg().errors.InsufficientPrivilege:
            return

    def build_index(self, connection: Any) -> None:
        """Build indexes like those beside the table; for a table in parts, in each part first."""
        with connection.cursor() as cursor:
            leaves, partitioned = _leaves(cursor, self.table)
            indexes = indexes_beside(cursor, self.table, self.served)
            building = Concurrently(cursor)
            for number, definition in enumerate(indexes):
                for at, leaf in enumerate(leaves):
                    building.drop_broken(leaf)
                    name = self._index(number) if not partitioned else f"{self._index(number)}_{at}"
                    building.execute(self._indexed(leaf, name, definition))
                if partitioned:  # takes those of the parts for its own
                    cursor.execute(self._indexed(self.table.base, self._index(number), definition))

    def _index(self, number: int, end: str = "into") -> str:
        return name_beside(self.table.name, f"{self.table.vector.name}__{end}" + (f"_{number}" if number else ""))

    def _indexed(self, place: Any, name: str, definition: str) -> Any:
        made = sql("CREATE INDEX IF NOT EXISTS {} ON {} USING {}")
        return made.format(wire.psycopg().sql.Identifier(name), place, sql(definition).format(self.column))

    def end(self, cursor: Any, roles: Roles) -> Field:
        """Have the column take the place of the old one; return the field that it is. The view is not changed yet."""
        base, psql = self.table.base, wire.psycopg().sql
        name = psql.Identifier(self.table.vector.name)
        note = _column_note(cursor, self.table, replace(self.served, name=self.table.vector.name))
        if roles.old is not None:
            Follow(self.table, roles.old, self.served).remove(cursor)
            keep_no_items(cursor, self.table, roles.old)
            cursor.execute(Queries(self.table).drop(roles.old))
        keep_no_items(cursor, self.table, self.served)
        drop_triggers(cursor, self.table, self.table.place(self.served), self._trigger)
        cursor.execute(sql("DROP FUNCTION {}()").format(self.table.beside(self._trigger)))
        cursor.execute(sql("ALTER TABLE {} RENAME {} TO {}").format(base, self.column, name))
        for number, _ in enumerate(indexes_beside(cursor, self.table, self.served)):
            old, new = (
                psql.Identifier(self.table.schema, self._index(number)),
                psql.Identifier(self._index(number, "index")),
            )
            cursor.execute(sql("ALTER INDEX {} RENAME TO {}").format(old, new))
        cursor.execute(sql("COMMENT ON COLUMN {}.{} IS {}").format(base, name, psql.Literal(json.dumps(note))))
        return replace(self.served, name=self.table.vector.name)

    def remove(self, cursor: Any) -> None:
        """Remove all that was begun, as far as it is there."""
        drop_triggers(cursor, self.table, self.table.place(self.served), self._trigger)
        cursor.execute(sql("DROP FUNCTION IF EXISTS {}()").format(self.table.beside(self._trigger)))
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = %s AND attname = %s "
            "AND col_description(attrelid, attnum) = %s)",
            (self.table.oid, name_beside(self.table.vector.name, self.served.name), UNFINISHED),
        )
        if cursor.fetchone()[0]:
            cursor.execute(sql("ALTER TABLE {} DROP COLUMN {}").format(self.table.base, self.column))


def _column_note(cursor: Any, table: Table, field: Field) -> dict[str, Any]:
    """Return the note for the comment of the column: the field, what its owner had noted, and if it was NOT NULL."""
    comment, required = "", False
    if table.has_vector:
        cursor.execute(
            "SELECT col_description(attrelid, attnum), attnotnull FROM pg_attribute "
            "WHERE attrelid = %s AND attnum = %s",
            (table.oid, table.vector.number),
        )
        comment, required = cursor.fetchone()
    if read_mark(comment) is not None:
        comment = json.loads(comment).get(COMMENT)
    return {MARK: plain_field(field), REQUIRED: required, COMMENT: comment}


def restore_required(cursor: Any, table: Table) -> list[Any]:
    """Return the statements that make the column NOT NULL again, if it was, without a scan that stops others."""
    cursor.execute("SELECT col_description(%s, %s)", (table.oid, table.vector.number))
    comment = cursor.fetchone()[0]
    if read_mark(comment) is None or not json.loads(comment).get(REQUIRED):
        return []
    psql = wire.psycopg().sql
    name = psql.Identifier(table.vector.name)
    names = {"items": table.base, "column": name, "check": psql.Identifier(name_beside(table.vector.name, "required"))}
    done = json.dumps({**json.loads(comment), REQUIRED: False})
    cursor.execute(sql("SELECT EXISTS (SELECT FROM {items} WHERE {column} IS NULL)").format(**names))
    statements = [
        "ALTER TABLE {items} DROP CONSTRAINT IF EXISTS {check}",
        "ALTER TABLE {items} ADD CONSTRAINT {check} CHECK ({column} IS NOT NULL) NOT VALID",
        "ALTER TABLE {items} VALIDATE CONSTRAINT {check}",
        "ALTER TABLE {items} ALTER {column} SET NOT NULL",
        "ALTER TABLE {items} DROP CONSTRAINT {check}",
    ]
    if cursor.fetchone()[0]:
        statements = statements[:1]
    noted = sql("COMMENT ON COLUMN {}.{} IS {}").format(table.base, name, psql.Literal(done))
    return [*(sql(statement).format(**names) for statement in statements), noted]


def _leaves(cursor: Any, table: Table) -> tuple[list[Any], bool]:
    """Return the tables that hold the rows, and whether the table is in parts."""
    cursor.execute("SELECT relkind = 'p' FROM pg_class WHERE oid = %s", (table.oid,))
    if not cursor.fetchone()[0]:
        return [table.base], False
    cursor.execute(
        "SELECT n.nspname, c.relname FROM pg_partition_tree(%s::oid::regclass) t JOIN pg_class c ON c.oid = t.relid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE t.isleaf ORDER BY c.oid",
        (table.oid,),
    )
    return [wire.psycopg().sql.Identifier(*row) for row in cursor.fetchall()], True
