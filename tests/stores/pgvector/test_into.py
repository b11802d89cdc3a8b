"""PostgreSQL: the new vectors come into the table itself under the old name, and a rehearsal beside it."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from tests.stores.pgvector import traffic
from tests.stores.pgvector.test_view import GIVEN, NEXT, ONWARD, RETURN, migrate
from tests.stores.pgvector.traffic import NEW, STEPS, numbers, partition, run

from relatent.stores import StoreError, open_store
from relatent.stores.pgvector import into, live


def test_the_served_vectors_come_into_the_table_under_the_old_name(sql, url):
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
def test_killed_at_any_step_it_is_completed_by_another_call(sql, url, monkeypatch, step):
    monkeypatch.setattr(live, "INTO_ROWS", 20)
    sql("ALTER TABLE app.items ALTER embedding SET NOT NULL")
    with open_store(url) as store:
        migrate(store)
        store.build_index(NEW)
        store.switch()
        expected = sql("SELECT id, embedding::text FROM app.items__served ORDER BY id")
    with open_store(url) as store, monkeypatch.context() as broken:
        place: Any = into.Into if hasattr(into.Into, step) else live
        before, calls = getattr(place, step), []

        def killed(*given: Any) -> Any:
            calls.append(given)
            if len(calls) == 1 and step in ("fill", "build_index"):
                return before(*given)
            raise KeyboardInterrupt

        broken.setattr(place, step, killed)
        with suppress(KeyboardInterrupt):
            store.replace_old()
        assert sql("SELECT id, embedding::text FROM app.items__served ORDER BY id") == expected
    with open_store(url) as store:
        store.replace_old()
        assert sql("SELECT id, embedding::text FROM app.items ORDER BY id") == expected
    required = "SELECT attnotnull FROM pg_attribute WHERE attrelid = 'app.items'::regclass AND attname = 'embedding'"
    assert sql(required) == [(True,)]


def test_the_triggers_of_the_table_do_not_run_for_rows_that_only_move(sql, url):
    sql("ALTER TABLE app.items ADD changed timestamptz DEFAULT now()")
    sql(
        "CREATE FUNCTION app.touch() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NEW.changed := clock_timestamp(); RETURN NEW; END$$"
    )
    sql("CREATE TRIGGER touch BEFORE UPDATE ON app.items FOR EACH ROW EXECUTE FUNCTION app.touch()")
    before = sql("SELECT id, changed FROM app.items ORDER BY id")
    with open_store(url) as store:
        migrate(store)
        store.switch()
        store.replace_old()
        assert sql("SELECT id, changed FROM app.items ORDER BY id") == before
        sql(f"UPDATE app.items__served SET embedding = '{GIVEN}' WHERE id = 1")
        assert sql("SELECT changed FROM app.items__served WHERE id = 1")[0] > before[0][1:]


def test_what_was_begun_is_removed_when_the_field_is_dropped_instead(sql, url):
    columns = (
        "SELECT attname FROM pg_attribute WHERE attrelid = 'app.items'::regclass AND attnum > 0 AND NOT attisdropped"
    )
    with open_store(url) as store:
        migrate(store)
        store.switch()
        store._run(into.Into(store._table, NEW).begin)
    with open_store(url) as store:
        store.switch_back()
        store.drop_new()
    assert sql(columns) == [("id",), ("title",), ("embedding",)]


def test_there_must_be_something_to_replace(sql, url):
    with open_store(url) as store:
        store.replace_old()  # it is in the table already
        store.add(NEW)
        with pytest.raises(StoreError, match="no old field"):
            store.replace_old()
        store.follow(NEW, STEPS, traffic.BACK)
        store.switch()
        store.drop_old()
        store.add(NEXT)
        with pytest.raises(StoreError, match="no old field"):  # it would take the next field away
            store.replace_old()
        assert store.new == NEXT


def test_a_table_in_parts(sql, url):
    partition(sql)
    with open_store(url) as store:
        migrate(store)
        store.build_index(NEW)
        store.switch()
        store.replace_old()
        assert store.count(store.served) == 50
        assert store.served.metric == "cosine"
    found = sql("SELECT indisvalid FROM pg_index WHERE indexrelid = 'app.items__embedding__index'::regclass")
    assert found == [(True,)]


def write_new(rows: int, record: dict[int, str | None]) -> Any:
    """Write with the new model through the view, each thread to items of its own, and record what they are then."""

    def write(connection: psycopg.Connection[Any], chosen: random.Random, seed: int) -> None:
        kind = chosen.choice(["insert", "update", "delete", "key"])
        key, fresh, vector = 3 * chosen.randint(1, rows // 3) - seed, next(traffic.FRESH), traffic.drawn(chosen, 6)
        if kind == "insert":
            statement, values = (
                "INSERT INTO app.items__served (id, title, embedding) VALUES (%s, 'v', %s)",
                (fresh, vector),
            )
            record[fresh] = vector
        elif kind == "update":
            statement, values = "UPDATE app.items__served SET embedding = %s WHERE id = %s", (vector, key)
        elif kind == "key":
            statement, values = "UPDATE app.items__served SET id = %s WHERE id = %s", (fresh, key)
        else:
            statement, values = "DELETE FROM app.items__served WHERE id = %s", (key,)
        found = connection.execute(statement, values).rowcount
        if kind == "update" and found:
            record[key] = vector
        elif kind == "key" and found:
            record[fresh], record[key] = record.get(key), None
        elif kind == "delete":
            record[key] = None

    return write


@pytest.mark.stores
def test_a_journey_under_traffic(sql):
    """Every row is right at each stop and at the end, and no transaction of the application fails."""
    rows = 3000
    url = traffic.make_items(rows)
    with open_store(url) as store:
        with traffic.Application(rows, traffic.write_old(rows)).running() as application:
            store.add(NEW)
            assert store.follow(NEW, STEPS, traffic.BACK) is None
            traffic.fill(store)
            store.build_index(NEW)
            store.switch()
            application.wait(100)
        assert len(store.written_since()["old"]) > 0
        _check_both(sql, [])
        record = dict(sql("SELECT id, embedding::text FROM app.items__served"))
        with traffic.Application(rows, write_new(rows, record)).running() as application:
            application.wait(200)
        _check_served(sql, record)
        _check_both(sql, store.written_since()["new"].to_pylist())
        with traffic.Application(rows, traffic.write_old(rows)).running() as application:
            store.switch_back()
            application.wait(100)
            store.switch()
        _check_both(sql, store.written_since()["new"].to_pylist())
        record = dict(sql("SELECT id, embedding::text FROM app.items__served"))
        with traffic.Application(rows, write_new(rows, record)).running() as application:
            store.replace_old()
            application.wait(100)
        _check_served(sql, record)
        assert store.served.provenance == NEW.provenance
    view, table = (
        sql(f"SELECT id, embedding::text FROM app.{place} WHERE embedding IS NOT NULL ORDER BY id")
        for place in ("items__served", "items")
    )
    assert view == table


def _check_served(sql: Any, record: dict[int, str | None]) -> None:
    """The view shows what was written last to each item."""
    served = dict(sql("SELECT id, embedding::text FROM app.items__served WHERE embedding IS NOT NULL"))
    wanted = {key: vector for key, vector in record.items() if vector is not None}
    assert served.keys() == wanted.keys()
    found, expected = (np.stack([numbers(rows[key]) for key in wanted]) for rows in (served, wanted))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def _check_both(sql: Any, new: list[int]) -> None:
    """Each row of one model is the translation of the other: there, and for those of the new model, back."""
    rows = sql(
        "SELECT id, b.embedding::text, n.vector::text FROM app.items b FULL JOIN app.items__new n ON n.key = b.id "
        "WHERE b.embedding IS NOT NULL OR n.key IS NOT NULL"
    )
    by_new = set(new)
    for wanted, steps, given, found in ((False, STEPS, 1, 2), (True, traffic.BACK, 2, 1)):
        some = [row for row in rows if (row[0] in by_new) == wanted]
        if not some:
            continue
        expected = run(steps, np.stack([numbers(row[given]) for row in some]))
        np.testing.assert_allclose(np.stack([numbers(row[found]) for row in some]), expected, atol=1e-4)


def test_a_rehearsal_on_the_first_rows_leaves_nothing(sql, url):
    sql("CREATE INDEX ON app.items USING hnsw (embedding vector_l2_ops) WITH (m = 8)")
    sql("ALTER TABLE app.items ADD n serial, ADD size int GENERATED ALWAYS AS (length(title)) STORED")
    sql("UPDATE app.items SET embedding = NULL WHERE id = 2")
    before = _objects(sql)
    with open_store(url) as store:
        with store.rehearsal(20) as there:
            with open_store(there) as small:
                assert small.count(small.served) == 20
                assert small.served.metric == "l2"
                migrate(small)
                small.build_index(NEW)
                small.switch()
                small.switch_back()
                small.switch()
            assert len(_objects(sql)) > len(before)
        assert _objects(sql) == before
        migrate(store)
        store.build_index(NEW)
        store.switch()
        store.drop_old()
        before = _objects(sql)
        with pytest.raises(RuntimeError), store.rehearsal(20) as there, open_store(there) as small:  # noqa: PT012
            assert (small.served.name, small.served.dim, small.served.provenance) == ("embedding", 6, NEW.provenance)
            assert small.count(small.served) == 20
            migrate(small, NEXT, ONWARD, RETURN)
            raise RuntimeError
        assert _objects(sql) == before
        with pytest.raises(StoreError, match="taken"):
            store.add(replace(NEW, name="rehearsal"))


def _objects(sql: Any) -> list[Any]:
    return sql(
        "SELECT relname FROM pg_class WHERE relnamespace = 'app'::regnamespace "
        "UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'app'::regnamespace "
        "UNION ALL SELECT tgname FROM pg_trigger WHERE tgrelid = 'app.items'::regclass ORDER BY 1"
    )
