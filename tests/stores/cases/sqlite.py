from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import sqlite_vec
from tests.stores.case import Case, Items

from relatent.stores import Address, Field
from relatent.stores.sqlite import driver


class Vec0(Case):
    """A vec0 table of sqlite-vec in WAL mode, whose name would do harm if it were not quoted."""

    kinds = ("integer", "negative", "text", "uuid")
    bits = True
    codes: ClassVar = {"int8": ("cosine", "l2")}
    codes_queries = True
    table = 'items of "x"; --'
    schema = (
        "CREATE VIRTUAL TABLE {} USING vec0(id {} primary key, embedding float[{}] distance_metric=cosine, +title text)"
    )
    types: ClassVar = {int: "integer", str: "text"}

    def create(self, folder: Path, items: Items) -> str:
        url = f"sqlite://{folder}/items%20one.db/{quote_url(self.table)}"
        with connected(url, create=True) as db:
            self.prepare(db)
            kind = self.types[type(items.keys[0])]
            db.execute(self.schema.format(quoted(self.table), kind, items.vectors.shape[1]))
        self.insert(url, items)
        return url

    def prepare(self, db: Any) -> None:
        db.execute("PRAGMA journal_mode = wal")

    def insert(self, url: str, items: Items) -> None:
        rows = zip(items.keys, (v.astype("<f4").tobytes() for v in items.vectors), items.payload, strict=True)
        with connected(url) as db:
            db.execute("BEGIN")
            db.executemany(f"INSERT INTO {quoted(self.table)} (id, embedding, title) VALUES (?, ?, ?)", [*rows])
            db.execute("COMMIT")

    def delete(self, url: str, keys: list[Any]) -> None:
        with connected(url) as db:
            db.executemany(f"DELETE FROM {quoted(self.table)} WHERE id = ?", [(key,) for key in keys])

    def spoil(self, url: str, key: Any) -> bool:
        return self._set(url, key, np.full(8, np.nan, np.float32).tobytes())

    def _set(self, url: str, key: Any, vector: bytes | None) -> bool:
        with connected(url) as db:
            db.execute(f"UPDATE {quoted(self.table)} SET embedding = ? WHERE id = ?", (vector, key))
        return True

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        """Search the view, which is there once there was a new field."""
        view, asked = quoted(f"{self.table}__served"), query.astype("<f4").tobytes()
        statement = f"SELECT id FROM {view} WHERE embedding MATCH ? AND k = ?"
        if served.metric == "inner":
            return ask_by_distance(url, view, query, k, "inner")
        with connected(url) as db:
            return [key for (key,) in db.execute(statement, (asked, k)).fetchall()]

    def missing(self, folder: Path) -> str:
        return f"sqlite://:secret@/{folder}/nothing.db/items"


class Blobs(Vec0):
    """A plain table with BLOBs, not in WAL mode."""

    table = "items o'f x"
    schema = "CREATE TABLE {} (id {} PRIMARY KEY, embedding BLOB, title TEXT) -- of {} coordinates"
    types: ClassVar = {int: "INTEGER", str: "TEXT"}

    def prepare(self, db: Any) -> None:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)

    def spoil(self, url: str, key: Any) -> bool:
        return self._set(url, key, b"short")

    def unfill(self, url: str, key: Any) -> bool:
        return self._set(url, key, None)

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        return ask_by_distance(url, quoted(f"{self.table}__served"), query, k, served.metric)


def ask_by_distance(url: str, table: str, query: np.ndarray, k: int, metric: str) -> list[Any]:
    """Search by the scalar functions of sqlite-vec, as docs/stores.md shows it."""
    distance = {
        "cosine": "vec_distance_cosine(embedding, :q)",
        "l2": "vec_distance_L2(embedding, :q)",
        "inner": "pow(vec_distance_L2(embedding, :q), 2) - pow(vec_distance_L2(embedding, :zero), 2)",
    }[metric]
    given = {"q": query.astype("<f4").tobytes(), "zero": np.zeros(len(query), "<f4").tobytes(), "k": k}
    with connected(url) as db:
        return [key for (key,) in db.execute(f"SELECT id FROM {table} ORDER BY {distance} LIMIT :k", given).fetchall()]


@contextmanager
def connected(url: str, create: bool = False) -> Iterator[Any]:
    """Connect as an application does."""
    path = Address.parse(url).path
    assert create or Path(path).is_file()
    db = driver().connect(path, isolation_level=None)
    db.enable_load_extension(True)
    sqlite_vec.load(db)
    try:
        yield db
    finally:
        db.close()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_url(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
