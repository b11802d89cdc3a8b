"""A store that is written to while it is migrated: apply converges, verify passes, and what is served is up to date."""

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import numpy as np
import psycopg
import pytest
from tests.migrate.conftest import case_of, make_task
from tests.migrate.steps import DIM, Task, items_of, new_vectors, old_vectors, save_translator, space_of, vectors_of
from tests.stores.case import Items

import relatent as rl
from relatent.migrate import cut_over, verify_migration

pytestmark = pytest.mark.stores
SERVED_BY_OTHERS = ("pgvector", "sqlite-vec0", "sqlite-blobs", "lance", "chroma-http")


class Application:
    """Writes ten times a second, as the owner of a store does: it adds, changes and deletes items."""

    def __init__(self, task):
        self._task, self._stop, self.error = task, threading.Event(), None
        self.items = dict(zip(task.items.keys, task.items.vectors, strict=True))
        self._numbers = count(10_000)

    def write(self, seed):
        rng = np.random.default_rng(seed)
        case, url, vector = self._task.case, self._task.url, old_vectors(1, seed=1_000 + seed)
        key = rng.choice(list(self.items)[:50]).item() if seed % 2 else case.key(next(self._numbers))
        if key in self.items:
            case.delete(url, [key])
            del self.items[key]
        if seed % 5:
            case.insert(url, Items([key], vector, ["written"]))
            self.items[key] = vector[0]

    def run(self):
        for seed in count():
            if self._stop.wait(0.1):
                return
            try:
                self.write(seed)
            except Exception as error:  # noqa: BLE001 (whatever it is, the test asserts that there was none)
                self.error = error
                return

    @contextmanager
    def writing(self):
        self._stop.clear()
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
        assert self.error is None, repr(self.error)


def wrong_keys(task, items, of="served"):
    """Return the keys whose vector is not the translation of the item's, whose item is gone, or that have none."""
    found = vectors_of(task.url, of)
    keys = [key for key in items if key in found]
    expected, stored = new_vectors(np.asarray([items[key] for key in keys])), np.asarray([found[key] for key in keys])
    cosines = np.sum(expected * stored, axis=1) / np.linalg.norm(expected, axis=1) / np.linalg.norm(stored, axis=1)
    off = {key for key, cosine in zip(keys, cosines, strict=True) if cosine < 1 - 1e-5}
    return off | (found.keys() ^ items.keys())


@pytest.mark.parametrize("name", SERVED_BY_OTHERS)
def test_ten_writes_a_second_converge(name, tmp_path):
    task = make_task(name, tmp_path)
    application = Application(task)
    with application.writing():
        for _ in range(3):
            done = task.apply(shard_rows=50_000)
            assert done.converged, str(done)
            found = verify_migration(task.url, work=task.work)
            assert found.passed, str(found)
    cut_over(task.url, work=task.work)
    assert wrong_keys(task, application.items) == set()


def test_what_is_written_during_the_cutover_is_named(tmp_path, monkeypatch):
    """A store that cannot tell whether it has changed: rows that come between the last pass and the switch."""
    task = make_task("chroma-http", tmp_path)
    task.apply()
    assert verify_migration(task.url, work=task.work).passed
    application = Application(task)
    from relatent.stores.chroma import ChromaStore

    switch = ChromaStore.switch

    def late(self):
        for seed in (1, 2, 3):
            application.write(seed)
        switch(self)

    monkeypatch.setattr(ChromaStore, "switch", late)
    done = cut_over(task.url, work=task.work)
    named = {json.loads(line) for line in (task.work / "late-keys.txt").read_text().splitlines()}
    assert "out of date" in done.done
    served = vectors_of(task.url, "served")
    assert {key for key in wrong_keys(task, application.items) if key in application.items} <= named
    assert named <= served.keys() | application.items.keys()


class Shop:
    """An application on PostgreSQL that writes twenty times a second, and remembers what items should be found by."""

    def __init__(self, task, server):
        self._server, self._stop, self.errors, self.writes = server, threading.Event(), [], 0
        self.translator, self.model, self.place = rl.load(task.translator), "old", "items"
        self.expected = {k: ("old", v) for k, v in zip(task.items.keys, task.items.vectors, strict=True)}
        self._fresh, self.late = count(1_000_000), 0.2

    def _write(self, connection, seed):
        rng = np.random.default_rng(seed)
        model, place = self.model, self.place
        if model == "new" and rng.random() < self.late:
            model, place = "old", "items"  # a part of the application that was not changed over yet
        vector = old_vectors(1, seed=10_000 + seed)
        vector = (vector if model == "old" else new_vectors(vector) + 0.1)[0].astype(np.float32)
        known = list(self.expected)
        what, key = rng.choice(["insert", "update", "delete"], p=[0.3, 0.6, 0.1]), known[rng.integers(len(known))]
        if what == "delete":
            connection.execute(f"DELETE FROM {place} WHERE id = %s", (key,))
            del self.expected[key]
            return
        if what == "insert":
            key = next(self._fresh)
            connection.execute(f"INSERT INTO {place} VALUES (%s, 'x', %s)", (key, str(vector.tolist())))
        else:
            connection.execute(f"UPDATE {place} SET embedding = %s WHERE id = %s", (str(vector.tolist()), key))
        self.expected[key] = (model, vector)

    def run(self):
        with psycopg.connect(self._server.conninfo, autocommit=True) as connection:
            for seed in count():
                if self._stop.wait(0.05):
                    return
                try:
                    self._write(connection, seed)
                    self.writes += 1
                except psycopg.Error as error:
                    self.errors.append(error)

    writing = Application.writing

    @property
    def error(self):
        return self.errors[0] if self.errors else None

    def found_by(self):
        """Return the vector that each item should be found by: its own of the new model, or the translation."""
        keys = [key for key, (model, _) in self.expected.items() if model == "old"]
        moved = self.translator.transform(np.asarray([self.expected[key][1] for key in keys]))
        given = {key: vector for key, (model, vector) in self.expected.items() if model == "new"}
        return given | dict(zip(keys, moved, strict=True))


@pytest.mark.slow
def test_a_soak_of_postgresql_through_every_step(tmp_path):
    """Twenty writes a second for three minutes, from plan to finish: no write fails, and every row is right."""
    from tests.stores.postgres import server

    task = make_soak(tmp_path, server(), rows=30_000)
    shop = Shop(task, server())
    sample = [tmp_path / "old.parquet", tmp_path / "new.parquet"]
    for path, new in zip(sample, (False, True), strict=True):
        rl.write_space(space_of(items_of([f"held out {i}" for i in range(300)], seed=7), new=new), path)

    def step(verb, *words, seconds=15):
        done = task.run(verb, *words)
        print(f"$ relatent migrate {verb}\n{done.stdout}{done.stderr}")  # noqa: T201 (pytest -s shows the journey)
        assert done.returncode == 0, done.stderr
        time.sleep(seconds)

    with shop.writing():
        step("plan", *sample, "--min-overlap", 0.9)
        step("rehearse")
        step("apply", "--max-rate", 5_000)
        step("status")
        step("verify")
        step("cutover")
        shop.model, shop.place = "new", "items__served"
        step("status", seconds=30)
        shop.model, shop.place = "old", "items"
        time.sleep(1)  # the application changes over first
        step("rollback")
        step("cutover")
        shop.model, shop.place = "new", "items__served"
        time.sleep(15)
        shop.late = 0.0  # the old column goes: by now all of the application writes with the new model
        time.sleep(1)
        step("finish", "--into-table", "--yes")
        shop.place = "items"
        time.sleep(5)
    with psycopg.connect(server().conninfo) as connection:
        rows = connection.execute("SELECT id, embedding::text FROM items").fetchall()
    expected, found = shop.found_by(), {key: np.asarray(json.loads(text)) for key, text in rows}
    assert found.keys() == expected.keys()
    off = max(np.abs(found[key] - expected[key]).max() for key in expected)
    print(f"{shop.writes} writes, none failed; {len(found)} rows, largest error {off:.1e}")  # noqa: T201
    assert off < 1e-5


def make_soak(folder, server, rows):
    """Make a plain table with an HNSW index, and a task of it."""
    items = items_of(list(range(rows)))
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS items CASCADE")
        connection.execute(f"CREATE TABLE items (id bigint PRIMARY KEY, title text, embedding vector({DIM}) NOT NULL)")
        with connection.cursor().copy("COPY items FROM STDIN") as copy:
            for key, vector in zip(items.keys, items.vectors.tolist(), strict=True):
                copy.write_row((key, "x", str(vector)))
        connection.execute("CREATE INDEX ON items USING hnsw (embedding vector_cosine_ops)")
    known = replace(items, keys=items.keys[:500], vectors=items.vectors[:500])
    translator = save_translator(folder / "t.safetensors", known)
    return Task(case_of("pgvector"), server.url("items"), items, translator, folder / "work")
