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

from relatent.steps import Step
from relatent.stores.fields import Field, Roles
from relatent.stores.pgvector import translate, wire
from relatent.stores.pgvector.table import Place, Table, name_beside

# What tells the SQL of this version from that of another.
VERSION = 1
PRIVILEGES = "'SELECT', 'INSERT', 'UPDATE', 'DELETE'"


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
        takes = sql("given {}").format(_type(cursor, given))
        returns = sql("RETURNS {}").format(_type(cursor, wanted))
        make_function(cursor, self.table, f"{self.second.name}__{what}", body, takes, returns, "STABLE")

    def note_switch(self, cursor: Any, switched: bool) -> None:
        """Have the triggers log from now on what is written with the old model, or not."""
        names = self._names(cursor) | {
            "noted": sql("INSERT INTO {log} VALUES (the_key, 'old', now()) ON CONFLICT (key) DO NOTHING").format(
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
            "type": _type(cursor, self.second),
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
            takes = sql("") if given is None else _type(cursor, given)
            cursor.execute(sql("DROP FUNCTION IF EXISTS {}({})").format(self._name(what), takes))
        for what in ("map", "log"):
            cursor.execute(sql("DROP TABLE IF EXISTS {}").format(self._name(what)))


FOLLOW = """#variable_conflict use_column
DECLARE the_key {new}.key%TYPE; done boolean; moved {type};
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    TRUNCATE {new}, {log};
    RETURN NULL;
  END IF;
  IF TG_OP = 'UPDATE' AND OLD.{key} IS DISTINCT FROM NEW.{key} THEN
    DELETE FROM {new} WHERE key = OLD.{key} RETURNING vector INTO moved;
    DELETE FROM {log} WHERE key = NEW.{key};
    UPDATE {log} SET key = NEW.{key} WHERE key = OLD.{key};
    the_key := OLD.{key};
    INSERT INTO {new} (key, vector) SELECT the_key, {to}(b.{given}) FROM {source} b
      WHERE b.{key} = the_key AND {to}(b.{given}) IS NOT NULL ON CONFLICT (key) DO NOTHING;
    IF moved IS NOT NULL AND OLD.{given} IS NOT DISTINCT FROM NEW.{given} THEN
      INSERT INTO {new} (key, vector) VALUES (NEW.{key}, moved)
        ON CONFLICT (key) DO UPDATE SET vector = excluded.vector;
      RETURN NULL;
    END IF;
  END IF;
  the_key := CASE WHEN TG_OP = 'DELETE' THEN OLD.{key} ELSE NEW.{key} END;
  SELECT {to}(b.{given}) INTO moved FROM {source} b WHERE b.{key} = the_key;
  DELETE FROM {log} WHERE key = the_key;
  IF moved IS NULL THEN
    DELETE FROM {new} WHERE key = the_key;
  ELSE
    INSERT INTO {new} (key, vector) VALUES (the_key, moved)
      ON CONFLICT (key) DO UPDATE SET vector = excluded.vector;
    {noted};
  END IF;
  RETURN NULL;
END"""

ITEM = """#variable_conflict use_column
DECLARE moved {type};
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    TRUNCATE {new};
  ELSIF TG_OP = 'DELETE' THEN
    DELETE FROM {new} WHERE key = OLD.{key} AND NOT EXISTS (SELECT FROM {items} b WHERE b.{key} = OLD.{key});
  ELSE
    BEGIN
      UPDATE {new} SET key = NEW.{key} WHERE key = OLD.{key};
    EXCEPTION WHEN unique_violation THEN
      DELETE FROM {new} WHERE key = OLD.{key} RETURNING vector INTO moved;
      UPDATE {new} SET vector = moved WHERE key = NEW.{key};
    END;
  END IF;
  RETURN NULL;
END"""


def keep_items(cursor: Any, table: Table, of: Field) -> None:
    """Have the vectors of a field beside the table go with the items that are deleted."""
    psql, name = wire.psycopg().sql, f"{of.name}__item"
    body = sql(ITEM).format(
        type=_type(cursor, of), new=table.beside(of.name), key=psql.Identifier(table.key.name), items=table.base
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


# Triggers, functions and rights --------------------------------------------------------------------------------------

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


def _type(cursor: Any, of: Field) -> Any:
    """Return the type of a field's vectors, of any dimension."""
    if of.dtype == "bit":
        return sql("bit varying")
    psql, (schema, _) = wire.psycopg().sql, extension(cursor)
    return psql.Identifier(schema, wire.VECTOR_TYPES[of.dtype])


def sql(text: str) -> Any:
    """Return a statement with places for names."""
    return wire.psycopg().sql.SQL(text)
