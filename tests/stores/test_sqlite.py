"""What SQLite has of its own: the view that is searched and written to, complete vec0 tables, locks, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stores.case import Items
from tests.stores.cases.sqlite import connected
from tests.stores.steps import NEW, NEXT, fill, new_vectors, read

from relatent.stores import Field, StoreError, open_store
from relatent.stores.sqlite import driver

ITEMS = Items.draw(list(range(1, 41)))
COSINE = Field("new", 5, "float32", "cosine", {"model": "b"})
MATCH = "SELECT id FROM memories__served WHERE embedding MATCH ? AND k = ? ORDER BY distance"
VEC0 = (
    "CREATE VIRTUAL TABLE memories USING vec0(id integer primary key, embedding float[8] distance_metric=cosine, "
    "user text partition key, kind text, +body text, chunk_size=64)"
)
PLAIN = (
    "CREATE TABLE memories (id INTEGER PRIMARY KEY, body TEXT, embedding BLOB NOT NULL, "
    "user TEXT NOT NULL DEFAULT 'nobody', kind TEXT, words INT AS (length(body)))"
)

Sql = Callable[..., list[Any]]


@pytest.fixture(params=[VEC0, PLAIN], ids=["vec0", "plain"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return made(tmp_path, request.param)


def made(folder: Path, schema: str) -> str:
    url = f"sqlite://{folder}/agent.db/memories"
    with connected(url, create=True) as db:
        db.execute("BEGIN")
        db.execute(schema)
        rows = [
            (key, blob(v), f"user {key % 2}", "fact", f"text {key}")
            for key, v in zip(ITEMS.keys, ITEMS.vectors, strict=True)
        ]
        db.executemany("INSERT INTO memories (id, embedding, user, kind, body) VALUES (?, ?, ?, ?, ?)", rows)
        db.execute("COMMIT")
    return url


@pytest.fixture
def sql(url: str) -> Sql:
    def run(statement: str, *given: Any) -> list[Any]:
        with connected(url) as db:
            return db.execute(statement, given).fetchall()

    return run


def blob(vector: np.ndarray) -> bytes:
    return np.asarray(vector, "<f4").tobytes()


def migrated(url: str, new: Field = COSINE) -> None:
    with open_store(url) as store:
        fill(store, new)
        store.switch()


def is_vec0(url: str) -> bool:
    with open_store(url) as store, store._session() as session:
        return bool(session.table.is_vec0)


def test_the_view_is_searched_as_the_table_was(tmp_path):
    url = made(tmp_path, VEC0)
    with connected(url) as db:
        plain = [db.execute(MATCH.replace("__served", ""), (blob(v), 7)).fetchall() for v in ITEMS.vectors[:5]]
        filtered = "SELECT id FROM memories WHERE embedding MATCH ? AND k = 5 AND user = 'user 1' AND kind = 'fact'"
        chosen = db.execute(filtered, (blob(ITEMS.vectors[0]),)).fetchall()
    with open_store(url) as store:
        fill(store, COSINE)
    with connected(url) as db:
        assert [db.execute(MATCH, (blob(v), 7)).fetchall() for v in ITEMS.vectors[:5]] == plain
        assert (
            db.execute(filtered.replace("memories", "memories__served"), (blob(ITEMS.vectors[0]),)).fetchall() == chosen
        )
    with open_store(url) as store:
        store.switch()
    query = new_vectors([7])[0]
    with connected(url) as db:
        found = db.execute(MATCH.replace("id", "id, user, kind, body"), (blob(query), 3)).fetchall()
        ranked = db.execute(MATCH, (blob(query), 40)).fetchall()
        joined = "SELECT t.body FROM memories__served s JOIN (SELECT 7 AS id, 'seven' AS body) t USING (id)"
        joined += " WHERE s.embedding MATCH ? AND s.k = 3"
        assert db.execute(joined, (blob(query),)).fetchall() == [("seven",)]
    assert found[0] == (7, "user 1", "fact", "text 7")
    vectors = new_vectors(list(range(1, 41)))
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1)
    assert [key for (key,) in ranked] == (1 + np.argsort(-cosines)).tolist()


@pytest.mark.parametrize("switched", [False, True])
def test_what_is_written_to_the_view_reaches_the_tables(url, sql, switched):
    """Inserted, changed and deleted as in the table, on either side of a switch; a changed vector is never stale."""
    new = COSINE
    with open_store(url) as store:
        served = store.served
        fill(store, new)
        if switched:
            store.switch()
    fresh = np.linspace(1, 2, 5 if switched else 8).astype(np.float32)
    insert = "INSERT INTO memories__served (id, body, embedding, user, kind) VALUES (?, ?, ?, 'user 1', 'fact')"
    sql(insert, 500, "fresh", blob(fresh))
    sql("UPDATE memories__served SET embedding = ?, body = 'other' WHERE id = 3", blob(fresh))
    sql("UPDATE memories__served SET body = 'edited' WHERE id = 4")
    sql("DELETE FROM memories__served WHERE id = 5")
    shown = dict(sql("SELECT id, body FROM memories__served"))
    assert (shown[500], shown[3], shown[4], 5 in shown, len(shown)) == ("fresh", "other", "edited", False, 40)
    with open_store(url) as store:
        assert (store.served, store.old if switched else store.new) == ((new, served) if switched else (served, new))
        keys, vectors = read(store, store.served)
        by_key = dict(zip(keys, vectors, strict=True))
        assert keys == [*(key for key in range(1, 41) if key != 5), 500]
        np.testing.assert_array_equal([by_key[3], by_key[500]], [fresh, fresh])
        other = store.old if switched else store.new
        there = set(read(store, other)[0])
        assert {3, 5, 500} & there == set()
        assert there >= set(range(6, 41))
        assert switched is (4 in there) or not is_vec0(
            url
        )  # of an edited text before the switch, the copy is made again
        assert store.remove_orphans(other) == 0 if not switched else True


def test_a_plain_view_has_the_defaults_and_numbers_of_the_table(tmp_path):
    url = made(tmp_path, PLAIN)
    migrated(url)
    with connected(url) as db:
        db.execute("INSERT INTO memories__served (body, embedding) VALUES ('numbered', ?)", (blob(np.ones(5)),))
        db.execute(
            "INSERT OR REPLACE INTO memories__served (id, body, embedding) VALUES (7, 'again', ?)", (blob(np.ones(5)),)
        )
        rows = db.execute(
            "SELECT id, user, length(embedding) FROM memories__served WHERE body IN ('numbered', 'again')"
        )
        assert rows.fetchall() == [(7, "nobody", 20), (41, "nobody", 20)]
    with open_store(url) as store:
        assert store.only_in(store.served, store.old).to_pylist() == [7, 41]  # NOT NULL, and no vector


@pytest.mark.parametrize("dropped", [False, True])
def test_the_served_vectors_come_into_the_table_under_its_own_names(url, sql, dropped):
    """Also where the old vectors are gone already, and then the next migration begins as the first one did."""
    migrated(url)
    columns = "SELECT id, embedding, user, kind, body FROM "
    before = sql(columns + "memories__served ORDER BY id")
    told: list[int] = []
    with open_store(url) as store:
        if dropped:
            store.drop_old()
            assert sql(columns + "memories__served ORDER BY id") == before
        store.replace_old(told.append)
        store.replace_old(told.append)  # again is no error
        assert sum(told) == 40
        assert (store.served.name, store.served.dim, store.served.metric) == ("embedding", 5, "cosine")
        assert (store.old, store.new, store.served.provenance) == (None, None, {"model": "b"})
    for table in ("memories", "memories__served"):
        assert sql(columns + table + " ORDER BY id") == before
    left = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name LIKE 'memories\\_\\_%' ESCAPE '\\'"
    assert sql(left) == [("memories__served",)]
    with open_store(url) as store:
        fill(store, NEXT)
        store.switch()
        store.drop_old()
        assert read(store, NEXT)[0] == list(range(1, 41))


def test_a_name_of_the_view_stands_where_it_stood_after_the_column_is_dropped(tmp_path):
    url = made(tmp_path, PLAIN)
    migrated(url)
    with open_store(url) as store:
        store.drop_old()
    with connected(url) as db:
        columns = db.execute("SELECT name FROM pragma_table_xinfo('memories__served')").fetchall()
        assert [name for (name,) in columns] == ["id", "body", "embedding", "user", "kind"]
        assert ("embedding",) not in db.execute("SELECT name FROM pragma_table_xinfo('memories')").fetchall()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_scan_that_pauses_keeps_no_application_from_writing(url, sql, mode):
    sql(f"PRAGMA journal_mode = {mode}")
    application = driver().connect(
        url.removeprefix("sqlite://").removesuffix("/memories"), timeout=0, isolation_level=None
    )
    application.execute("CREATE TABLE notes (text)")
    with open_store(url) as store:
        chunks = store.scan(store.served, rows=5)
        keys = next(chunks).keys.to_pylist()
        application.execute("INSERT INTO notes VALUES ('written')")
        sql("DELETE FROM memories WHERE id = 40")
        keys += [key for chunk in chunks for key in chunk.keys.to_pylist()]
    assert keys == list(range(1, 41 if mode == "wal" else 40))  # a snapshot, or the pages of each moment
    application.close()


def test_a_write_waits_for_that_of_an_application_and_says_when_it_waited_too_long(url, monkeypatch):
    monkeypatch.setattr("relatent.stores.sqlite.WAIT", 0.05)
    with open_store(url) as store, connected(url) as application:
        application.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="database is locked"):
            store.add(NEW)
        application.execute("ROLLBACK")
        store.add(NEW)


def test_rows_without_a_declared_key_are_numbered_by_vec0(tmp_path):
    url = made(tmp_path, "CREATE TABLE memories (id INTEGER PRIMARY KEY, embedding BLOB, user, kind, body)")
    with connected(url) as db:
        db.execute("CREATE VIRTUAL TABLE vectors USING vec0(embedding float[8])")
        db.execute("INSERT INTO vectors (rowid, embedding) SELECT id, embedding FROM memories")
    url = url.replace("/memories", "/vectors")
    with open_store(url) as store:
        assert (store.served.metric, store.served.dim) == ("l2", 8)
        keys = fill(store, COSINE)
        store.switch()
    with connected(url) as db:
        served = db.execute(
            "SELECT rowid FROM vectors__served WHERE embedding MATCH ? AND k = 1", (blob(new_vectors([9])[0]),)
        )
        assert served.fetchall() == [(9,)]
        db.execute("INSERT INTO vectors__served (embedding) VALUES (?)", (blob(np.ones(5)),))
        assert db.execute("SELECT max(rowid) FROM vectors__served").fetchone() == (max(keys) + 1,)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("CREATE TABLE t (body TEXT, embedding BLOB)", r"no primary key of one column.*VACUUM"),
        ("CREATE TABLE t (a INT, b INT, embedding BLOB, PRIMARY KEY (a, b))", "no primary key of one column"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, one BLOB, two BLOB)", r"one, two\. Name one of them with \?vector="),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY)", "none. Name one"),
        ("CREATE VIEW t AS SELECT 1 AS id", "is a view"),
        ("CREATE VIRTUAL TABLE t USING fts5(body)", "another module"),
        ("CREATE VIRTUAL TABLE t USING vec0(embedding float[8] distance_metric=l1)", "compares by l1"),
        ("CREATE TABLE tt (id INTEGER PRIMARY KEY)", "no table 't'. Did you mean 'tt'"),
    ],
)
def test_what_cannot_be_migrated_is_refused(tmp_path, schema, says):
    url = f"sqlite://{tmp_path}/x.db/t"
    with connected(url, create=True) as db:
        db.execute(schema)
    with pytest.raises(StoreError, match=says):
        open_store(url)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("?key=body", "unique index"),
        ("?vector=no", "'no' was asked for"),
        ("?dtype=float64", "'float64'"),
        ("?metric=l1", "'l1'"),
    ],
)
def test_options_that_name_nothing_are_refused(tmp_path, options, says):
    with pytest.raises(StoreError, match=says):
        open_store(made(tmp_path, PLAIN) + options)


def test_a_file_that_is_no_database_and_a_url_without_a_file_are_refused(tmp_path):
    (tmp_path / "x.db").write_text("no database, " * 100)
    with pytest.raises(StoreError, match="not a database"):
        open_store(f"sqlite://{tmp_path}/x.db/t")
    with pytest.raises(StoreError, match="expected sqlite:///"):
        open_store("sqlite://x.db/t")
    assert not (tmp_path / "nothing.db").exists()
    with pytest.raises(StoreError, match="is not a file"):
        open_store(f"sqlite://{tmp_path}/nothing.db/t")
    assert not (tmp_path / "nothing.db").exists()


def test_keys_of_two_kinds_are_refused(tmp_path):
    url = f"sqlite://{tmp_path}/x.db/t"
    with connected(url, create=True) as db:
        db.execute("CREATE TABLE t (id PRIMARY KEY, embedding BLOB)")
        db.executemany("INSERT INTO t VALUES (?, ?)", [(key, blob(np.ones(4))) for key in (1, "a")])
    with open_store(url) as store, pytest.raises(StoreError, match=r"'a' is a key of .* of another type"):
        read(store, store.served)


def test_a_unique_column_can_be_the_key(tmp_path):
    url = f"sqlite://{tmp_path}/x.db/t?key=name&metric=l2&vector=v"
    with connected(url, create=True) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE, v BLOB, embedding TEXT)")
        db.executemany("INSERT INTO t (name, v) VALUES (?, ?)", [(key, blob(np.ones(4))) for key in ("b", "A", "c")])
    with open_store(url) as store:
        assert (store.served.metric, fill(store, NEW)) == ("l2", ["A", "b", "c"])
        assert [shard.low for shard in store.shards(1)] == [None, "b", "c"]
        store.switch()
    with open_store(url) as store:
        assert read(store, store.served)[0] == ["A", "b", "c"]


def test_the_note_tells_the_roles(url, sql):
    migrated(url)
    ((name, note),) = sql("SELECT name, note FROM relatent")
    assert name == "memories"
    assert json.loads(note)["roles"]["switched"] is True
