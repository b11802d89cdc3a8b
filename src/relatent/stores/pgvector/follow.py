"""Triggers that keep the vectors beside a table in step with it, in the transaction of whoever writes.

What belongs to a field ``new`` of ``items`` that follows the vectors of ``items``:

======================  =============================================================================
``items__new__map``     the rows of the map's matrices
``items__new__to``      a function: the translation of a vector, or NULL where it has none
``items__new__back``    a function: the way back
``items__new__follow``  triggers on the place of the served vectors: what is written there is translated
``items__new__log``     which model has written a vector since the switch, by key
``items__new__item``    triggers on ``items``: what is deleted there has no vector
======================  =============================================================================

Each works on what the table holds when it runs, not on what it is told of, so that their order does not matter. They
run with the rights of who made them: an application needs none on what stands beside its table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relatent.exports.sql import postgresql as translate
from relatent.steps import Step
from relatent.stores.fields import Field, Roles
from relatent.stores.pgvector import wire
from relatent.stores.pgvector.table import Place, Table
from relatent.stores.pgvector.triggers import (
    drop_triggers,
    enabled,
    extension,
    make_function,
    make_triggers,
    share,
    sql,
    vector_type,
)

# What tells the SQL of this version from that of another.
VERSION = 1


@dataclass(frozen=True)
class Follow:
    """The triggers by which the second field of a migration follows the first."""

    table: Table
    first: Field
    second: Field

    @staticmethod
    def of(table: Table, roles: Roles) -> Follow | None:
        """Return those of a migration, if there is one."""
        return None if roles.second is None else Follow(table, roles.first, roles.second)

    # Installing ------------------------------------------------------------------------------------------------------

    def install(self, cursor: Any, steps: Sequence[Step], back: Sequence[Step], switched: bool) -> str | None:
        """Make all of it, or return why it cannot be made; then nothing is left behind."""
        errors = wire.psycopg().errors
        programs = self._programs(steps, back)
        reason = programs if isinstance(programs, str) else self._reason(cursor)
        if reason is not None or isinstance(programs, str):
            return reason
        signed = f"relatent {VERSION} {translate.signature(*programs)}"
        if self.signed(cursor) == signed and self.is_on(cursor):
            return None
        try:
            with cursor.connection.transaction():
                self.remove(cursor)
                self._make(cursor, programs, signed, switched)
        except errors.InsufficientPrivilege as error:
            said = str(error).splitlines()[0]
            return f"this user may not create triggers on {self.table.name!r} or functions beside it ({said})"
        return None

    def _programs(self, steps: Sequence[Step], back: Sequence[Step]) -> tuple[translate.Program, ...] | str:
        there = translate.program(steps, self.first, self.second)
        if isinstance(there, str):
            return there
        again = translate.program(back, self.second, self.first, first=len(there.matrices))
        return again if isinstance(again, str) else (there, again)

    def _reason(self, cursor: Any) -> str | None:
        if self.table.is_foreign:
            return f"{self.table.name!r} stands on another server, which runs no triggers of this one"
        if not self.table.is_unique:
            return f"the keys {self.table.key.name!r} have no unique index of their own"
        _, version = extension(cursor)
        if tuple(int(part) for part in version.split(".")[:2]) < translate.MIN_VERSION:
            return f"pgvector {version} is older than {'.'.join(map(str, translate.MIN_VERSION))}"
        return None

    def _make(self, cursor: Any, programs: tuple[translate.Program, ...], signed: str, switched: bool) -> None:
        self._make_map(cursor, programs, signed)
        fields = (self.first, self.second)
        for what, one, given, wanted in zip(("to", "back"), programs, fields, fields[::-1], strict=True):
            self._translation(cursor, what, one.body(self._name("map").as_string(), given, wanted), given, wanted)
        cursor.execute(
            sql("CREATE TABLE {} AS SELECT key, ''::text AS model, now() AS at FROM {} WITH NO DATA").format(
                self._name("log"), self.table.beside(self.second.name)
            )
        )
        cursor.execute(sql("ALTER TABLE {} ADD PRIMARY KEY (key)").format(self._name("log")))
        share(cursor, self.table, self._name("log"))
        if not switched:  # what was written before may have changed since
            cursor.execute(sql("TRUNCATE {}").format(self.table.beside(self.second.name)))
        self.note_switch(cursor, switched)
        if not self.table.holds(self.first):
            keep_items(cursor, self.table, self.first)
        place, name = self.table.place(self.first), f"{self.second.name}__follow"
        make_triggers(cursor, self.table, place, name, ("INSERT", "DELETE"), place.vector)

    def _make_map(self, cursor: Any, programs: tuple[translate.Program, ...], signed: str) -> None:
        place, literal = self._name("map"), wire.psycopg().sql.Literal
        cursor.execute(
            sql(
                "CREATE TABLE {} (step int, row int, part int, weights vector NOT NULL, PRIMARY KEY (step, row, part))"
            ).format(place)
        )
        # Read where it lies on its page, not copied.
        cursor.execute(sql("ALTER TABLE {} ALTER weights SET STORAGE PLAIN").format(place))
        wire.copy_matrices(cursor, place, (row for one in programs for row in one.rows()))
        cursor.execute(sql("ANALYZE {}").format(place))
        cursor.execute(sql("COMMENT ON TABLE {} IS {}").format(place, literal(signed)))

    def _translation(self, cursor: Any, what: str, body: str, given: Field, wanted: Field) -> None:
        takes = sql("given {}").format(vector_type(cursor, given))
        returns = sql("RETURNS {}").format(vector_type(cursor, wanted))
        make_function(cursor, self.table, f"{self.second.name}__{what}", body, takes, returns, "STABLE")

    def note_switch(self, cursor: Any, switched: bool) -> None:
        """Have the triggers log from now on what is written with the old model, or not."""
        names = self._names(cursor) | {
            "noted": sql("INSERT INTO {log} VALUES (relatent_key, 'old', now()) ON CONFLICT (key) DO NOTHING").format(
                log=self._name("log")
            )
            if switched
            else sql("NULL")
        }
        body = sql(FOLLOW).format(**names).as_string()
        make_function(cursor, self.table, f"{self.second.name}__follow", body)

    def _names(self, cursor: Any) -> dict[str, Any]:
        place = self.table.place(self.first)
        return {
            "type": vector_type(cursor, self.second),
            "source": place.relation,
            "key": place.key,
            "given": place.vector,
            "new": self.table.beside(self.second.name),
            "log": self._name("log"),
            "to": self._name("to"),
        }

    def _name(self, what: str) -> Any:
        return self.table.beside(f"{self.second.name}__{what}")

    # Asking and removing ---------------------------------------------------------------------------------------------

    def signed(self, cursor: Any) -> str | None:
        """Return what tells which map was installed; None where there is none."""
        cursor.execute("SELECT obj_description(to_regclass(%s), 'pg_class')", (self._name("map").as_string(),))
        found = cursor.fetchone()[0]
        return None if found is None else str(found)

    def is_on(self, cursor: Any) -> bool:
        """Return whether its triggers are there and enabled."""
        found = enabled(cursor, self.table.place(self.first).relation, self.table, f"{self.second.name}__follow")
        if self.table.holds(self.first) or not found:
            return found
        return enabled(cursor, self.table.base, self.table, f"{self.first.name}__item")

    def written(self, cursor: Any) -> list[tuple[str, Any]]:
        """Return (model, key) of what was written since the switch."""
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", (self._name("log").as_string(),))
        if not cursor.fetchone()[0]:
            return []
        found = cursor.execute(sql("SELECT model, key FROM {} ORDER BY key").format(self._name("log"))).fetchall()
        return [(model, key) for model, key in found]

    def remove(self, cursor: Any) -> None:
        """Remove all of it, as far as it is there."""
        drop_triggers(cursor, self.table, self.table.place(self.first), f"{self.second.name}__follow")
        for what, given in (("follow", None), ("to", self.first), ("back", self.second)):
            takes = sql("") if given is None else vector_type(cursor, given)
            cursor.execute(sql("DROP FUNCTION IF EXISTS {}({})").format(self._name(what), takes))
        for what in ("map", "log"):
            cursor.execute(sql("DROP TABLE IF EXISTS {}").format(self._name(what)))


FOLLOW = """#variable_conflict use_column
DECLARE relatent_key {new}.key%TYPE; relatent_vector {type};
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    TRUNCATE {new}, {log};
    RETURN NULL;
  END IF;
  IF TG_OP = 'UPDATE' AND OLD.{key} IS DISTINCT FROM NEW.{key} THEN
    DELETE FROM {new} WHERE key = OLD.{key} RETURNING vector INTO relatent_vector;
    DELETE FROM {log} WHERE key = NEW.{key};
    UPDATE {log} SET key = NEW.{key} WHERE key = OLD.{key};
    relatent_key := OLD.{key};
    INSERT INTO {new} (key, vector) SELECT relatent_key, {to}(b.{given}) FROM {source} b
      WHERE b.{key} = relatent_key AND {to}(b.{given}) IS NOT NULL ON CONFLICT (key) DO NOTHING;
    IF relatent_vector IS NOT NULL AND EXISTS (SELECT FROM {source} b
      WHERE b.{key} = NEW.{key} AND b.{given} IS NOT DISTINCT FROM OLD.{given}) THEN
      INSERT INTO {new} (key, vector) VALUES (NEW.{key}, relatent_vector)
        ON CONFLICT (key) DO UPDATE SET vector = excluded.vector;
      RETURN NULL;
    END IF;
  END IF;
  relatent_key := CASE WHEN TG_OP = 'DELETE' THEN OLD.{key} ELSE NEW.{key} END;
  SELECT {to}(b.{given}) INTO relatent_vector FROM {source} b WHERE b.{key} = relatent_key;
  DELETE FROM {log} WHERE key = relatent_key;
  IF relatent_vector IS NULL THEN
    DELETE FROM {new} WHERE key = relatent_key;
  ELSE
    INSERT INTO {new} (key, vector) VALUES (relatent_key, relatent_vector)
      ON CONFLICT (key) DO UPDATE SET vector = excluded.vector;
    {noted};
  END IF;
  RETURN NULL;
END"""

ITEM = """#variable_conflict use_column
DECLARE relatent_vector {type};
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    TRUNCATE {new};
  ELSIF TG_OP = 'DELETE' THEN
    DELETE FROM {new} WHERE key = OLD.{key} AND NOT EXISTS (SELECT FROM {items} b WHERE b.{key} = OLD.{key});
  ELSE
    BEGIN
      UPDATE {new} SET key = NEW.{key} WHERE key = OLD.{key};
    EXCEPTION WHEN unique_violation THEN
      DELETE FROM {new} WHERE key = OLD.{key} RETURNING vector INTO relatent_vector;
      UPDATE {new} SET vector = relatent_vector WHERE key = NEW.{key};
    END;
  END IF;
  RETURN NULL;
END"""


def keep_items(cursor: Any, table: Table, of: Field) -> None:
    """Have the vectors of a field beside the table go with the items that are deleted."""
    psql, name = wire.psycopg().sql, f"{of.name}__item"
    body = sql(ITEM).format(
        type=vector_type(cursor, of), new=table.beside(of.name), key=psql.Identifier(table.key.name), items=table.base
    )
    make_function(cursor, table, name, body.as_string())
    if not enabled(cursor, table.base, table, name):
        place = Place(table.base, psql.Identifier(table.key.name), None)
        drop_triggers(cursor, table, place, name)
        make_triggers(cursor, table, place, name, ("DELETE",), None)


def keep_no_items(cursor: Any, table: Table, of: Field) -> None:
    """Remove what :func:`keep_items` made, as far as it is there."""
    drop_triggers(cursor, table, Place(table.base, None, None), f"{of.name}__item")
    cursor.execute(sql("DROP FUNCTION IF EXISTS {}()").format(table.beside(f"{of.name}__item")))
