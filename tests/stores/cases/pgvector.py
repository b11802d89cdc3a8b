from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from tests.stores.case import Case, Items
from tests.stores.postgres import server

from relatent.stores import Address, Field
from relatent.stores.pgvector.table import name_beside

TYPES = {int: "bigint", str: "text"}


class Pgvector(Case):
    """A table with a key, a text and a vector, whose name would do harm if it were not quoted."""

    kinds = ("integer", "negative", "text", "uuid")
    bits = True

    def create(self, folder: Path, items: Items) -> str:
        name = f'50%s of {folder.name}"; DROP TABLE y; --'
        with _connected() as cursor:
            table = sql.Identifier(name)
            kind = "uuid" if _are_uuids(items.keys) else TYPES[type(items.keys[0])]
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(table))
            cursor.execute(
                sql.SQL("CREATE TABLE {} (id {} PRIMARY KEY, title text, embedding vector({}))").format(
                    table, sql.SQL(kind), sql.Literal(items.vectors.shape[1])
                )
            )
        url = server().url(name)
        self.insert(url, items)
        return url

    def insert(self, url: str, items: Items) -> None:
        rows = zip(items.keys, items.payload, map(str, items.vectors.tolist()), strict=True)
        values = sql.SQL(", ").join(sql.SQL("({}, {}, {})").format(*map(sql.Literal, row)) for row in rows)
        self._run(url, "INSERT INTO {} VALUES {}", values)

    def delete(self, url: str, keys: list[Any]) -> None:
        self._run(url, "DELETE FROM {} WHERE id = ANY({})", sql.Literal(keys))

    def spoil(self, url: str, key: Any) -> bool:
        self._run(url, "UPDATE {} SET embedding = NULL WHERE id = {}", sql.Literal(key))
        return True

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        """Search the view, which is there once there was a new field."""
        view = sql.Identifier(name_beside(Address.parse(url).name, "served"))
        operator = sql.SQL({"cosine": "<=>", "inner": "<#>", "l2": "<->"}[served.metric])
        asked = sql.Literal(str(query.tolist()))
        statement = sql.SQL("SELECT id FROM {} ORDER BY embedding {} {}::vector LIMIT {}")
        with _connected() as cursor:
            return [key for (key,) in cursor.execute(statement.format(view, operator, asked, k)).fetchall()]

    def _run(self, url: str, statement: str, *values: sql.Composable) -> None:
        """Run a statement without parameters, which would take the % in the table's name for one of them."""
        with _connected() as cursor:
            cursor.execute(sql.SQL(statement).format(sql.Identifier(Address.parse(url).name), *values))

    def missing(self, folder: Path) -> str:
        return server().url(f"nothing of {folder.name}")


@contextmanager
def _connected() -> Iterator[psycopg.Cursor[Any]]:
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        yield connection.cursor()


def _are_uuids(keys: list[Any]) -> bool:
    return isinstance(keys[0], str) and len(keys[0]) == 36
