"""PostgreSQL: the new vectors come into the table itself under the old name, and a rehearsal beside it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import psycopg
import pytest
from tests.stores import traffic
from tests.stores.test_pgvector_follow import sql, url  # noqa: F401 (fixtures)
from tests.stores.test_pgvector_view import GIVEN, NEXT, ONWARD, RETURN, migrate
from tests.stores.traffic import NEW, STEPS, check, numbers, run

from relatent.stores import StoreError, open_store
from relatent.stores.pgvector import into, store as store_module


def test_the_served_vectors_come_into_the_table_under_the_old_name(sql, url):  # noqa: F811
    sql("ALTER TABLE app.items ALTER embedding SET NOT NULL")
    sql("COMMENT ON COLUMN app.items.embedding IS 'of the shop'")
    told: list[int] = []
    with open_store(url) as store:
        migrate(store)
        store.build_index(NEW)
        store.switch()
        sql("ALTER INDEX app.items__new__hnsw SET (ef_construction = 99)")
        sql(f"INSERT INTO app.items__served VALUES (1001, 'a', '{GIVEN}')")
        before = sql("SELECT id, title, embedding::text FROM app.items__served ORDER BY id")
        store.replace_old(told.append)
        assert sum(told) == 51
        assert sql("SELECT id, title, embedding::text FROM app.items ORDER BY id") == before
        assert sql("SELECT id, title, embedding::text FROM app.items__served ORDER BY id") == before
        assert (store.served.name, store.served.dim, store.old, store.new) == ("embedding", 6, None, None)
        assert store.served.provenance == NEW.provenance
        store.replace_old()  # again is no error
        sql(f"INSERT INTO app.items__served VALUES (1002, 'a', '{GIVEN}')")
        sql(f"INSERT INTO app.items VALUES (1003, 'a', '{GIVEN}')")
        assert sql("SELECT count(*) FROM app.items__served") == [(53,)]
    with pytest.raises(psycopg.errors.NotNullViolation):
        sql("INSERT INTO app.items VALUES (1004, 'a', NULL)")
    index = sql("SELECT indexdef FROM pg_indexes WHERE schemaname = 'app' AND indexdef LIKE '%hnsw%'")
    assert len(index) == 1
    assert "(embedding vector_cosine_ops) WITH (ef_construction='99')" in index[0][0]
    left = "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'app'"
    assert sql(left + " AND relkind IN ('r', 'v') ORDER BY 1") == [("items",), ("items__served",)]
    assert sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.items'::regclass") == [(0,)]
    sql("DROP VIEW app.items__served")
    with open_store(url) as store:  # the column itself knows where its vectors come from
        assert (store.served.provenance, store.served.metric) == (NEW.provenance, "cosine")
        migrate(store, NEXT, ONWARD, RETURN)
        store.switch()
        store.drop_old()
        store.replace_old()
        assert store.served.provenance == NEXT.provenance
        assert store.count(store.served) == 53
        sql("INSERT INTO app.items VALUES (2001, 'a', '[1,2,3,4,5]')")


@pytest.mark.parametrize("step", ["begin", "fill", "build_index", "end", "restore_required"])
def test_killed_at_any_step_it_is_completed_by_another_call(sql, url, monkeypatch, step):  # noqa: F811
    monkeypatch.setattr(store_module, "INTO_ROWS", 20)
    sql("ALTER TABLE app.items ALTER embedding SET NOT NULL")
    with open_store(url) as store:
        migrate(store)
        store.build_index(NEW)
        store.switch()
        expected = sql("SELECT id, embedding::text FROM app.items__served ORDER BY id")
    with open_store(url) as store, monkeypatch.context() as broken:
        place: Any = into.Into if hasattr(into.Into, step) else store_module
        before, calls = getattr(place, step), []

        def killed(*given: Any) -> Any:
            calls.append(given)
            if len(calls) == 1 and step in ("fill", "build_index"):
                return before(*given)
            raise KeyboardInterrupt

        broken.setattr(place, step, killed)
        try:
            store.replace_old()
        except KeyboardInterrupt:
            pass
        assert sql("SELECT id, embedding::text FROM app.items__served ORDER BY id") == expected
    with open_store(url) as store:
        store.replace_old()
        assert sql("SELECT id, embedding::text FROM app.items ORDER BY id") == expected
    required = "SELECT attnotnull FROM pg_attribute WHERE attrelid = 'app.items'::regclass AND attname = 'embedding'"
    assert sql(required) == [(True,)]


def test_what_was_begun_is_removed_when_the_field_is_dropped_instead(sql, url):  # noqa: F811
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = 'app.items'::regclass AND attnum > 0 AND NOT attisdropped"
    with open_store(url) as store:
        migrate(store)
        store.switch()
        store._run(into.Into(store._table, NEW).begin)
    with open_store(url) as store:
        store.switch_back()
        store.drop_new()
    assert sql(columns) == [("id",), ("title",), ("embedding",)]


def test_there_must_be_something_to_replace(sql, url):  # noqa: F811
    with open_store(url) as store:
        store.replace_old()  # it is in the table already
        store.add(NEW)
        with pytest.raises(StoreError, match="no old field"):
            store.replace_old()


def test_a_table_in_parts(sql, url):  # noqa: F811
    sql("ALTER TABLE app.items RENAME TO first")
    sql("CREATE TABLE app.items (id int PRIMARY KEY, title text, embedding vector(4)) PARTITION BY RANGE (id)")
    for low in (0, 1000):
        sql(f"CREATE TABLE app.part{low} PARTITION OF app.items FOR VALUES FROM ({low}) TO ({low + 1000})")
    sql("INSERT INTO app.items SELECT * FROM app.first")
    with open_store(url) as store:
        migrate(store)
        store.build_index(NEW)
        store.switch()
        store.replace_old()
        assert store.count(store.served) == 50
        assert store.served.metric == "cosine"
    found = sql("SELECT indisvalid FROM pg_index WHERE indexrelid = 'app.items__embedding__hnsw'::regclass")
    assert found == [(True,)]


def write_both(rows: int, state: dict[str, str]) -> Any:
    """Write with the old model to the table, and with the new one through the view, once it shows new vectors."""
    old = traffic.write_old(rows)

    def write(connection: psycopg.Connection[Any], chosen: random.Random, seed: int) -> None:
        if state["model"] == "old" or state["model"] == "both" and chosen.random() < 0.5:
            old(connection, chosen, seed)
            return
        kind, key, fresh = chosen.choice(["insert", "update", "delete", "key"]), chosen.randint(1, rows), chosen.randint(1, 10**9)
        vector = traffic.drawn(chosen, 6)
        if kind == "insert":
            connection.execute("INSERT INTO app.items__served (id, title, embedding) VALUES (%s, 'v', %s)", (fresh, vector))
        elif kind == "update":
            connection.execute("UPDATE app.items__served SET embedding = %s, title = 'v' WHERE id = %s", (vector, key))
        elif kind == "key":
            connection.execute("UPDATE app.items__served SET id = %s WHERE id = %s", (fresh, key))
        else:
            connection.execute("DELETE FROM app.items__served WHERE id = %s", (key,))

    return write


def test_a_journey_under_traffic(sql):  # noqa: F811
    """Every row is right at each stop and at the end, and no transaction of the application fails."""
    rows = 3000
    url = traffic.make_items(rows)
    state = {"model": "old"}

    def stop(model: str) -> None:
        state["model"] = model

    with open_store(url) as store:
        with traffic.Application(rows, write_both(rows, state)).running():
            store.add(NEW)
            assert store.follow(NEW, STEPS, traffic.BACK) is None
            traffic.fill(store)
            store.build_index(NEW)
        check(sql)
        store.switch()
        with traffic.Application(rows, write_both(rows, {"model": "both"})).running():
            wait(sql, store, 150)
        since = store.written_since()
        assert len(since["old"]) > 0
        assert len(since["new"]) > 0
        _check_both(sql, since["new"].to_pylist())
        store.switch_back()
        with traffic.Application(rows, write_both(rows, {"model": "old"})).running():
            wait(sql, store, 20)
        _check_both(sql, store.written_since()["new"].to_pylist())
        store.switch()
        with traffic.Application(rows, write_both(rows, {"model": "new"})).running() as application:
            into_table = into.Into(store._table, NEW)
            store._run(into_table.begin)
            for shard in store.shards(300):
                store._patiently(lambda at=shard: store._run(lambda cursor: into_table.fill(cursor, at)), 60)
            with store._connections.another() as connection:
                into_table.build_index(connection)
            application.stop()
        served = sql("SELECT id, embedding::text FROM app.items__served ORDER BY id")
        store.replace_old()
    assert sql("SELECT id, embedding::text FROM app.items WHERE embedding IS NOT NULL ORDER BY id") == served


def wait(sql: Any, store: Any, n: int) -> None:  # noqa: F811
    while sum(map(len, store.written_since().values())) < n:
        sql("SELECT pg_sleep(0.05)")


def _check_both(sql: Any, new: list[int]) -> None:  # noqa: F811
    """Each row of one model is the translation of the other: there, and for those of the new model, back."""
    rows = sql(
        "SELECT id, b.embedding::text, n.vector::text FROM app.items b FULL JOIN app.items__new n ON n.key = b.id "
        "WHERE b.embedding IS NOT NULL OR n.key IS NOT NULL"
    )
    by_new = set(new)
    for wanted, steps, given, found in ((False, STEPS, 1, 2), (True, traffic.BACK, 2, 1)):
        some = [row for row in rows if (row[0] in by_new) == wanted]
        expected = run(steps, np.stack([numbers(row[given]) for row in some]))
        np.testing.assert_allclose(np.stack([numbers(row[found]) for row in some]), expected, atol=1e-4)
