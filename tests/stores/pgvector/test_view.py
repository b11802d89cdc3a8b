"""PostgreSQL: applications write through the view, before and after the switch, and what they write is kept in step."""

from __future__ import annotations

import threading

import numpy as np
import psycopg
import pytest
from tests.stores.pgvector import traffic
from tests.stores.pgvector.traffic import BACK, NEW, STEPS, check, fill, numbers, run
from tests.stores.postgres import server

from relatent.steps import Step
from relatent.stores import Field, open_store

GIVEN = "[1,2,3,4,5,6]"
NEXT = Field("next", 5, "float32", "l2", {"model": "c"})
ONWARD = [Step("linear", {"matrix": np.random.default_rng(7).normal(size=(6, 5)).astype(np.float32)})]
RETURN = [Step("linear", {"matrix": np.linalg.pinv(ONWARD[0].arrays["matrix"]).astype(np.float32)})]


def migrate(store, new=NEW, steps=STEPS, back=BACK) -> None:
    store.add(new)
    assert store.follow(new, steps, back) is None
    fill(store, new, steps)


def test_before_the_switch_the_view_passes_old_vectors_on(sql, url):
    with open_store(url) as store:
        migrate(store)
        sql("INSERT INTO app.items__served VALUES (1001, 'a', '[1,2,3,4]')")
        sql("UPDATE app.items__served SET embedding = '[4,3,2,1]', title = 'b' WHERE id = 1")
        sql("UPDATE app.items__served SET id = 2002 WHERE id = 2")
        sql("DELETE FROM app.items__served WHERE id = 3")
        assert check(sql) == 50
        assert sql("SELECT title, embedding::text FROM app.items WHERE id = 1") == [("b", "[4,3,2,1]")]
        assert store.written_since() == {"old": pytest.approx([]), "new": pytest.approx([])}


def test_after_the_switch_an_item_and_its_new_vector_are_one_statement(sql, url):
    sql("ALTER TABLE app.items ALTER embedding SET NOT NULL")
    with open_store(url) as store:
        migrate(store)
        store.switch()
        returned = sql(f"INSERT INTO app.items__served VALUES (1001, 'a', '{GIVEN}') RETURNING id, embedding::text")
        assert returned == [(1001, GIVEN)]
        sql(f"UPDATE app.items__served SET embedding = '{GIVEN}' WHERE id = 1")
        sql("UPDATE app.items__served SET title = 'b' WHERE id = 2")
        sql("DELETE FROM app.items__served WHERE id = 3")
        new = sql("SELECT id, embedding::text FROM app.items__served WHERE id IN (1, 1001)")
        assert sorted(new) == [(1, GIVEN), (1001, GIVEN)]
        ((old,),) = sql("SELECT embedding::text FROM app.items WHERE id = 1001")
        np.testing.assert_allclose(numbers(old), run(BACK, numbers(GIVEN))[0], atol=1e-5)
        sql("INSERT INTO app.items VALUES (1002, 'late', '[1,2,3,4]')")  # a writer that has not changed over
        ((late,),) = sql("SELECT embedding::text FROM app.items__served WHERE id = 1002")
        np.testing.assert_allclose(numbers(late), run(STEPS, [1, 2, 3, 4])[0], atol=1e-5)
        since = store.written_since()
        assert (since["old"].to_pylist(), since["new"].to_pylist()) == ([1002], [1, 1001])
        sql("UPDATE app.items SET id = 3001 WHERE id = 1001")  # its new vector goes along
        assert sql("SELECT embedding::text FROM app.items__served WHERE id = 3001") == [(GIVEN,)]
        assert store.written_since()["new"].to_pylist() == [1, 3001]
        store.switch_back()
        assert store.written_since()["new"].to_pylist() == [1, 3001]
        assert sql("SELECT vector_dims(embedding) FROM app.items__served WHERE id = 3001") == [(4,)]
        sql("UPDATE app.items SET embedding = '[1,2,3,4]' WHERE id IN (1, 3001)")
        assert store.written_since()["new"].to_pylist() == []
        check(sql)
        store.switch()
        sql(f"UPDATE app.items__served SET embedding = '{GIVEN}' WHERE id = 1")
        sql("DELETE FROM app.items WHERE id = 1")
        assert store.written_since()["new"].to_pylist() == []


def test_a_null_vector_and_one_of_another_dimension(sql, url):
    with open_store(url) as store:
        migrate(store)
        store.switch()
        sql("UPDATE app.items__served SET embedding = NULL WHERE id = 1")
        assert sql("SELECT embedding FROM app.items WHERE id = 1") == [(None,)]
        assert store.count(NEW) == 49
        with pytest.raises(psycopg.errors.DataException, match="dimensions"):
            sql("INSERT INTO app.items__served VALUES (1001, 'a', '[1,2]')")
        assert store.count(NEW) == 49


@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
def test_defaults_identities_and_generated_columns_work_through_the_view(sql, url, kind):
    sql("DROP TABLE app.items CASCADE")
    sql(
        f"CREATE TABLE app.items (id int GENERATED {kind} AS IDENTITY PRIMARY KEY, title text DEFAULT '50%s {{}}', "
        "embedding vector(4) NOT NULL, n serial, at timestamptz DEFAULT now(), j json, "
        "size int GENERATED ALWAYS AS (length(title)) STORED)"
    )
    sql("INSERT INTO app.items (embedding) SELECT '[1,2,3,4]' FROM generate_series(1, 5)")
    with open_store(url) as store:
        migrate(store)
        for statement in (
            "INSERT INTO app.items__served (embedding) VALUES ('{}') RETURNING id, title, n, at IS NOT NULL, size",
            "UPDATE app.items__served SET title = 'abc', j = '{{\"a\": 1}}', embedding = '{}' WHERE id = 6 "
            "RETURNING id, title, n, at IS NOT NULL, size",
        ):
            (row,) = sql(statement.format("[1,2,3,4]"))
            assert row == (6, row[1], 6, True, len(row[1]))
        store.switch()
        (row,) = sql(f"INSERT INTO app.items__served (embedding) VALUES ('{GIVEN}') RETURNING id, title, n, size")
        assert row == (7, "50%s {}", 7, 7)
        assert sql(f"INSERT INTO app.items__served (id, embedding) VALUES (99, '{GIVEN}') RETURNING id") == [(99,)]
        assert store.count(NEW) == 8


def test_two_changes_of_one_item_at_once_are_both_kept(sql, url):
    sql("ALTER TABLE app.items ADD note text")
    with open_store(url) as store:
        migrate(store)
        store.switch()
        with psycopg.connect(server().conninfo) as first:
            first.execute("UPDATE app.items__served SET title = 'x' WHERE id = 1")
            other = threading.Thread(target=lambda: sql("UPDATE app.items__served SET note = 'y' WHERE id = 1"))
            other.start()
            other.join(0.3)
            first.commit()
            other.join()
    assert sql("SELECT title, note FROM app.items WHERE id = 1") == [("x", "y")]


def test_after_the_old_column_is_dropped_the_view_stays_writable_and_another_migration_follows(sql, url):
    with open_store(url) as store:
        migrate(store)
        store.switch()
        store.drop_old()
        assert sql("SELECT count(*) FROM pg_proc WHERE proname LIKE 'items\\_\\_new\\_\\_follow'") == [(0,)]
        sql(f"INSERT INTO app.items__served VALUES (1001, 'a', '{GIVEN}')")
        sql(f"UPDATE app.items__served SET embedding = '{GIVEN}' WHERE id = 1")
        sql("DELETE FROM app.items__served WHERE id = 2")
        sql("DELETE FROM app.items WHERE id = 3")
        sql("UPDATE app.items SET id = 4004 WHERE id = 4")
        keys = sql("SELECT key FROM app.items__new ORDER BY key")
        assert keys == sql("SELECT id FROM app.items ORDER BY id")
        assert (4004,) in keys
    with open_store(url) as store:
        migrate(store, NEXT, ONWARD, RETURN)
        sql(f"INSERT INTO app.items__served VALUES (1005, 'a', '{GIVEN}')")
        sql("INSERT INTO app.items VALUES (1006, 'a')")
        sql(f"INSERT INTO app.items__new VALUES (1006, '{GIVEN}')")
        sql("DELETE FROM app.items WHERE id = 5")
        sql("UPDATE app.items SET id = 7007 WHERE id = 7")
        _check_next(sql)
        store.switch()
        sql("INSERT INTO app.items__served VALUES (1008, 'a', '[1,2,3,4,5]')")
        sql("UPDATE app.items SET id = 9009 WHERE id = 1008")
        sql(f"UPDATE app.items__new SET vector = '{GIVEN}' WHERE key = 8")
        sql("DELETE FROM app.items WHERE id = 9")
        assert sql("SELECT embedding::text FROM app.items__served WHERE id = 9009") == [("[1,2,3,4,5]",)]
        since = store.written_since()
        assert (since["old"].to_pylist(), since["new"].to_pylist()) == ([8], [9009])
        sql("DELETE FROM app.items WHERE id = 9009")
        _check_next(sql)
        store.drop_old()
        sql("INSERT INTO app.items__served VALUES (1010, 'a', '[1,2,3,4,5]')")
        sql("DELETE FROM app.items WHERE id = 10")
        assert sql("SELECT key FROM app.items__next ORDER BY key") == sql("SELECT id FROM app.items ORDER BY id")
        sql("TRUNCATE app.items")
        assert store.count(store.served) == 0
        assert sql("SELECT count(*) FROM app.items__next") == [(0,)]


def _check_next(sql) -> None:
    rows = sql("SELECT key, vector::text FROM app.items__new ORDER BY key")
    found = sql("SELECT key, vector::text FROM app.items__next ORDER BY key")
    assert [key for key, _ in rows] == [key for key, _ in found]
    expected = run(ONWARD, np.stack([numbers(text) for _, text in rows]))
    np.testing.assert_allclose(np.stack([numbers(text) for _, text in found]), expected, atol=1e-4)


def test_rights_on_the_view_survive_a_change_of_its_type(sql, url):
    sql("GRANT SELECT ON app.items TO pg_monitor")
    half = Field("new", 6, "float16", "l2")
    with open_store(url) as store:
        store.add(half)
        sql("GRANT SELECT ON app.items__served TO pg_read_all_stats")
        store.follow(half, STEPS, BACK)
        store.switch()
        for role, table in (("pg_monitor", "served"), ("pg_monitor", "new"), ("pg_read_all_stats", "served")):
            assert sql(f"SELECT has_table_privilege('{role}', 'app.items__{table}', 'SELECT')") == [(True,)]
        sql(f"INSERT INTO app.items__served VALUES (1001, 'a', '{GIVEN}')")
        assert store.count(half) == 1


def test_the_index_is_built_while_the_application_writes(sql, url):
    rows = 1500
    url = traffic.make_items(rows)
    with open_store(url) as store:
        migrate(store)
        with (
            psycopg.connect(server().conninfo) as writer,
            traffic.Application(rows, traffic.write_old(rows)).running(2),
        ):
            writer.execute("UPDATE app.items SET title = 'x' WHERE id = -1")
            writer.commit()
            store.build_index(NEW)
            store.build_index(NEW)
        assert sql("SELECT indisvalid FROM pg_index WHERE indexrelid = 'app.items__new__hnsw'::regclass") == [(True,)]
        check(sql)
        sql(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'app.items__new__hnsw'::regclass"
        )  # as if killed
        store.build_index(NEW)
        assert sql("SELECT indisvalid FROM pg_index WHERE indexrelid = 'app.items__new__hnsw'::regclass") == [(True,)]


def test_merge_through_the_view(sql, url):
    """ON CONFLICT needs an index, which a view has not; MERGE does without, from PostgreSQL 17 on."""
    if sql("SELECT current_setting('server_version_num')::int < 170000")[0][0]:
        pytest.skip("a server without MERGE into views")
    merge = (
        "MERGE INTO app.items__served s USING (VALUES (1, '{0}'::vector), (1001, '{0}'::vector)) v(id, embedding) "
        "ON s.id = v.id WHEN MATCHED THEN UPDATE SET embedding = v.embedding "
        "WHEN NOT MATCHED THEN INSERT (id, embedding) VALUES (v.id, v.embedding)"
    )
    with open_store(url) as store:
        migrate(store)
        store.switch()
        sql(merge.format(GIVEN))
        assert store.written_since()["new"].to_pylist() == [1, 1001]
        assert sql("SELECT embedding::text FROM app.items__served WHERE id IN (1, 1001)") == [(GIVEN,)] * 2
