"""Conditions on rows, in the SQL that Lance understands."""

from __future__ import annotations

from typing import Any

from relatent.stores.store import Shard


def quoted(name: str) -> str:
    """Return a column name for SQL. Lance itself cannot read columns whose names hold a backtick."""
    return f"`{name.replace('`', '``')}`"


def within(key: str, shard: Shard | None) -> str | None:
    """Return the condition that keys are in a shard, or None where all are.

    >>> within("id", Shard("it's", None))
    "`id` >= 'it''s'"
    """
    bounds = () if shard is None else ((">=", shard.low), ("<", shard.high))
    return all_of(*(None if bound is None else f"{quoted(key)} {sign} {_literal(bound)}" for sign, bound in bounds))


def all_of(*conditions: str | None) -> str | None:
    """Return the condition that all of these hold; None is no condition."""
    return " AND ".join(one for one in conditions if one is not None) or None


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'{}'".format(str(value).replace("'", "''"))
