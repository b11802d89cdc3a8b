"""A table of PostgreSQL that an application writes to, a map between two models, and what must hold at the end."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from tests.stores.postgres import server

from relatent.steps import Step
from relatent.stores import Field, Store

DIM, NEW_DIM = 4, 6
NEW = Field("new", NEW_DIM, "float32", "cosine", {"model": "b"})
FRESH = itertools.count(1_000_000)
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(DIM, NEW_DIM)).astype(np.float32)
OFFSET = RNG.normal(size=NEW_DIM).astype(np.float32)
INVERSE = np.linalg.pinv(MATRIX).astype(np.float32)
STEPS = [Step("linear", {"matrix": MATRIX, "offset": OFFSET})]
BACK = [Step("linear", {"offset": -OFFSET}), Step("linear", {"matrix": INVERSE})]


def run(steps: list[Step], x: Any) -> np.ndarray:
    y = np.atleast_2d(np.asarray(x, np.float32))
    for step in steps:
        y = step(y)
    return y


def numbers(text: Any) -> np.ndarray:
    return np.asarray([float(one) for one in str(text).strip("[]").split(",")], np.float32)


def literal(vector: Any) -> str:
    return f"[{','.join(repr(float(one)) for one in np.ravel(vector))}]"


def make_items(rows: int, columns: str = "") -> str:
    """Make a schema of its own with a table of items, without an index of vectors, and return its URL."""
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS app CASCADE")
        connection.execute("CREATE SCHEMA app")
        connection.execute(f"CREATE TABLE app.items (id int PRIMARY KEY, title text, embedding vector({DIM}){columns})")
        with connection.cursor().copy("COPY app.items (id, title, embedding) FROM STDIN") as copy:
            for key, vector in enumerate(np.random.default_rng(1).normal(size=(rows, DIM)).astype(np.float32), 1):
                copy.write_row((key, f"t{key}", literal(vector)))
    return server().url("app.items")


def partition(sql: Callable[..., list[Any]]) -> None:
    """Put the items into a table of two partitions, of the same name."""
    sql("ALTER TABLE app.items RENAME TO first")
    sql("CREATE TABLE app.items (id int PRIMARY KEY, title text, embedding vector(4)) PARTITION BY RANGE (id)")
    for low in (0, 1000):
        sql(f"CREATE TABLE app.part{low} PARTITION OF app.items FOR VALUES FROM ({low}) TO ({low + 1000})")
    sql("INSERT INTO app.items SELECT * FROM app.first")


def fill(store: Store, new: Field = NEW, steps: list[Step] = STEPS, rows: int = 100) -> None:
    """Translate all that has no new vector yet, as a migration does."""
    for chunk in store.scan(store.served, rows=rows):
        store.write(new, chunk.keys, run(steps, chunk.vectors))
    store.remove_orphans(new)


def check(sql: Callable[..., list[Any]], tables: tuple[str, str] = ("app.items", "app.items__new")) -> int:
    """Check that every new vector is the translation of its item's, none is missing and none is left over."""
    items, new = tables
    old = sql(f"SELECT id, embedding::text FROM {items} WHERE embedding IS NOT NULL ORDER BY id")
    found = sql(f"SELECT key, vector::text FROM {new} ORDER BY key")
    assert [key for key, _ in found] == [key for key, _ in old]
    if old:
        expected = run(STEPS, np.stack([numbers(text) for _, text in old]))
        np.testing.assert_allclose(np.stack([numbers(text) for _, text in found]), expected, atol=1e-5)
    return len(old)


class Application:
    """Threads that write at random until they are stopped; an error of theirs is an error of the test."""

    def __init__(self, rows: int, write: Callable[[psycopg.Connection[Any], random.Random, int], None]) -> None:
        self.rows, self._write, self._done = rows, write, threading.Event()
        self.errors: list[BaseException] = []
        self.written = 0

    @contextmanager
    def running(self, threads: int = 3) -> Iterator[Application]:
        started = [threading.Thread(target=self._run, args=(seed,)) for seed in range(threads)]
        for thread in started:
            thread.start()
        try:
            yield self
        finally:
            self._done.set()
            for thread in started:
                thread.join()
        if self.errors:
            raise self.errors[0]
        assert self.written > 0

    def wait(self, n: int) -> None:
        """Return once so many more writes are done."""
        until = self.written + n
        while self.written < until and not self.errors:
            time.sleep(0.01)

    def _run(self, seed: int) -> None:
        chosen = random.Random(seed)
        try:
            with psycopg.connect(server().conninfo, autocommit=True) as connection:
                while not self._done.is_set():
                    self._write(connection, chosen, seed)
                    self.written += 1
        except BaseException as error:  # noqa: BLE001 (whatever fails for an application is what is tested)
            self.errors.append(error)


def drawn(chosen: random.Random, dim: int = DIM) -> str:
    return literal([chosen.gauss(0, 1) for _ in range(dim)])


def write_old(rows: int) -> Callable[[psycopg.Connection[Any], random.Random, int], None]:
    """Write to the table with the old model: one row or several in random order, in one transaction."""

    def write(connection: psycopg.Connection[Any], chosen: random.Random, seed: int) -> None:
        kind = chosen.choice(["insert", "update", "update", "null", "delete", "key", "many", "title"])
        key, fresh = chosen.randint(1, rows), next(FRESH)
        if kind == "insert":
            connection.execute(
                "INSERT INTO app.items VALUES (%s, 'new', %s) ON CONFLICT (id) DO NOTHING", (fresh, drawn(chosen))
            )
        elif kind == "delete":
            connection.execute("DELETE FROM app.items WHERE id = %s", (key,))
        elif kind == "key":
            connection.execute("UPDATE app.items SET id = %s WHERE id = %s", (fresh, key))
        elif kind == "title":
            connection.execute("UPDATE app.items SET title = 'x' WHERE id = %s", (key,))
        elif kind == "many":
            mine = [n for n in range(1, rows + 1) if n % 3 == seed]  # each thread its own, in any order
            with connection.transaction():
                for one in chosen.sample(mine, min(20, len(mine))):
                    connection.execute("UPDATE app.items SET embedding = %s WHERE id = %s", (drawn(chosen), one))
        else:
            vector = None if kind == "null" else drawn(chosen)
            connection.execute("UPDATE app.items SET embedding = %s WHERE id = %s", (vector, key))

    return write
