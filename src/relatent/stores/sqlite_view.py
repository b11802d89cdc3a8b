"""The view of a SQLite table that shows what is served, through which applications write, and the note of the roles."""

from __future__ import annotations

import json
from typing import Any

from relatent.exports.sql.literals import quoted
from relatent.stores.fields import Field, Roles
from relatent.stores.sqlite_table import Table

NOTES = "relatent"


def read_note(db: Any, name: str) -> dict[str, Any] | None:
    """Return what an earlier migration noted of a table."""
    if db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (NOTES,)).fetchone() is None:
        return None
    found = db.execute(f"SELECT note FROM {NOTES} WHERE name = ?", (name,)).fetchone()
    return None if found is None else dict(json.loads(found[0]))


def write_roles(db: Any, table: Table, roles: Roles) -> None:
    """Show what is served and note the roles, in the transaction."""
    for statement in (*shown(table, roles.served), *writable(table, roles)):
        db.execute(statement)
    db.execute(f"CREATE TABLE IF NOT EXISTS {NOTES} (name TEXT PRIMARY KEY NOT NULL, note TEXT NOT NULL)")
    note = json.dumps({"roles": roles.note(), "table": table.note()}, ensure_ascii=False)
    db.execute(f"INSERT OR REPLACE INTO {NOTES} VALUES (?, ?)", (table.name, note))


def shown(table: Table, served: Field) -> list[str]:
    """Return the statements that make the view of a field, and let applications write through it."""
    columns = [quoted(name) for name in table.columns]
    if table.is_vec0:
        listed = [f"{name} AS {name}" for name in (*columns, "distance", "k")]
    else:
        of = table.vector_of(served)
        listed = [f"{of if name == table.vector else 'b.' + quoted(name)} AS {quoted(name)}" for name in table.columns]
    return [
        f"DROP VIEW IF EXISTS {table.view}",
        f"CREATE VIEW {table.view} AS SELECT {', '.join(listed)} FROM {table.source(served, 'LEFT JOIN')}",
    ]


def writable(table: Table, roles: Roles) -> list[str]:
    """Return the triggers of the view: what is written to it reaches the tables.

    A vector that is changed has none in the other field any more: a translation of what it was, or an old vector
    of another text, would be found by what the item no longer says.
    """
    bodies = _vec0_bodies(table, roles) if table.is_vec0 else _plain_bodies(table, roles)
    names = {event: quoted(f"{table.name}__served__{event.lower()}") for event in bodies}
    return [
        f"CREATE TRIGGER {names[event]} INSTEAD OF {event} ON {table.view} BEGIN {'; '.join(body)}; END"
        for event, body in bodies.items()
    ]


def _vec0_bodies(table: Table, roles: Roles) -> dict[str, list[str]]:
    key, place, served = quoted(table.key), table.place(roles.served), roles.served
    names = ", ".join(quoted(name) for name in table.columns)
    values = ", ".join(table.value(name, served, f"NEW.{quoted(name)}") for name in table.columns)
    insert = f"INSERT INTO {place} ({names}) VALUES ({values})"
    every = [f"DELETE FROM {table.place(one)} WHERE {key} = OLD.{key}" for one in roles.fields.values()]
    stale = [f"DELETE FROM {table.place(one)} WHERE {key} = OLD.{key}" for one in (roles.new,) if one is not None]
    if roles.old is not None:
        vector = quoted(table.vector)
        stale.append(
            f"DELETE FROM {table.place(roles.old)} WHERE {key} = OLD.{key} AND NEW.{vector} IS NOT OLD.{vector}"
        )
    return {
        "INSERT": [insert],
        "UPDATE": [*stale, f"DELETE FROM {place} WHERE {key} = OLD.{key}", insert],
        "DELETE": every,
    }


def _plain_bodies(table: Table, roles: Roles) -> dict[str, list[str]]:
    key, vector, items = quoted(table.key), quoted(table.vector), quoted(table.name)
    changed, none = f"NEW.{vector} IS NOT OLD.{vector}", "x''" if table.is_required else "NULL"
    given = {name: f"NEW.{quoted(name)}" for name in table.payload}
    insert = given | {name: f"coalesce(NEW.{quoted(name)}, {default})" for name, default in table.defaults}
    if table.holds(roles.served):
        given, insert = given | {table.vector: f"NEW.{vector}"}, insert | {table.vector: f"NEW.{vector}"}
    elif table.has_vector:
        given[table.vector] = f"CASE WHEN {changed} THEN {none} ELSE {vector} END"
        insert[table.vector] = none
    sets = ", ".join(f"{quoted(name)} = {value}" for name, value in given.items())
    beside = [one for one in roles.fields.values() if not table.holds(one)]
    gone = [f"DELETE FROM {table.place(one)} WHERE key = OLD.{key}" for one in beside]
    moved = f"({changed} OR NEW.{key} IS NOT OLD.{key})"
    stale = [line if one == roles.served else f"{line} AND {moved}" for one, line in zip(beside, gone, strict=True)]
    put = [
        f"INSERT OR REPLACE INTO {table.place(one)} (key, vector) "
        f"SELECT coalesce(NEW.{key}, last_insert_rowid()), NEW.{vector} WHERE NEW.{vector} IS NOT NULL"
        for one in beside
        if one == roles.served
    ]
    names, values = ", ".join(quoted(name) for name in insert), ", ".join(insert.values())
    return {
        "INSERT": [f"INSERT INTO {items} ({names}) VALUES ({values})", *put],
        "UPDATE": [*stale, f"UPDATE {items} SET {sets} WHERE {key} = OLD.{key}", *put],
        "DELETE": [*gone, f"DELETE FROM {items} WHERE {key} = OLD.{key}"],
    }
