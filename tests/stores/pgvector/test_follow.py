"""PostgreSQL: triggers translate what is written, exactly, for whoever writes, and never in the way of the writer."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from tests.stores.pgvector import traffic
from tests.stores.pgvector.traffic import BACK, NEW, NEW_DIM, STEPS, check, fill, literal, numbers, partition, run
from tests.stores.postgres import server

from relatent.steps import Step
from relatent.stores import Field, StoreError, open_store
from relatent.stores.base import Tally
from relatent.stores.pgvector import locks, table


def rng(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


KINDS = {
    "matrix": [Step("linear", {"matrix": rng(5, 7), "offset": rng(7)})],
    "matrix of many columns": [Step("linear", {"matrix": rng(5, 4001)}), Step("linear", {"matrix": rng(4001, 3) / 60})],
    "diagonal": [Step("linear", {"matrix": rng(5), "offset": rng(5)})],
    "tiny diagonal": [Step("linear", {"matrix": np.asarray([1e-30, 1, 1, 1, 1], np.float32)})],
    "offset": [Step("linear", {"offset": rng(5)})],
    "unit": [Step("unit")],
    "length": [Step("length", {"length": 1.3, "power": 0.5}), Step("linear", {"offset": rng(5)}), Step("unit")],
    "gaussian": [Step("unit"), Step("gaussian", {"centers": rng(300, 5), "width": 1.7})],
    "far centers": [Step("gaussian", {"centers": rng(3, 5) * 100, "width": 0.1}), Step("linear", {"offset": rng(8)})],
    "gaussian of many": [
        Step("linear", {"matrix": rng(5, 2100) / 5}),
        Step("gaussian", {"centers": rng(4, 2100), "width": 900.0}),
        Step("linear", {"matrix": rng(2104, 3) / 50}),
    ],
    "squares": [Step("squares", {"weights": rng(5)})],
    "hubness": [
        Step(
            "hubness",
            {"weights": rng(5), "queries": rng(40, 5), "offsets": rng(40), "weight": 0.5, "neighbors": 7},
        )
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_computed_by_the_database_as_by_numpy(sql, kind):
    steps = KINDS[kind]
    rows = np.random.default_rng(5).normal(size=(20, 5)).astype(np.float32)
    rows[0] = 0
    expected = run(steps, rows)
    sql("DROP SCHEMA IF EXISTS app CASCADE")
    sql("CREATE SCHEMA app")
    sql("CREATE TABLE app.items (id int PRIMARY KEY, embedding vector(5))")
    new = Field("new", expected.shape[1])
    back = [Step("linear", {"matrix": np.ones((new.dim, 5), np.float32)})]
    with open_store(server().url("app.items")) as store:
        store.add(new)
        assert store.follow(new, steps, back) is None
        for key, row in enumerate(rows):
            sql("INSERT INTO app.items VALUES (%s, %s)", key, literal(row))
    found = np.stack([numbers(text) for (text,) in sql("SELECT vector::text FROM app.items__new ORDER BY key")])
    error = np.linalg.norm(found - expected, axis=1)
    assert np.all(error <= 1e-5 * np.maximum(np.linalg.norm(expected, axis=1), 1e-6))


@pytest.mark.parametrize(
    ("old", "new"), [("vector", "float16"), ("halfvec", "float32"), ("bit", "bit"), ("vector", "bit")]
)
def test_vectors_of_every_type_are_translated(sql, url, old, new):
    sql("DROP TABLE app.items CASCADE")
    sql(f"CREATE TABLE app.items (id int PRIMARY KEY, embedding {old}(4))")
    field = Field("new", NEW_DIM, new, "hamming" if new == "bit" else "cosine")
    with open_store(url) as store:
        store.add(field)
        assert store.follow(field, STEPS, BACK) is None
        sql("INSERT INTO app.items VALUES (1, %s)" % ("B'0110'" if old == "bit" else "'[0,1,1,0]'"))
        ((_, vectors),) = [(c.keys, c.vectors) for c in store.scan(field)]
    expected = run(STEPS, [[0, 1, 1, 0]])
    np.testing.assert_allclose(vectors, expected > 0 if new == "bit" else expected, atol=1e-2)


def test_inserts_updates_deletes_and_new_keys_are_followed(sql, url):
    with open_store(url) as store:
        store.add(NEW)
        assert not store.follows()
        assert store.follow(NEW, STEPS, BACK) is None
        assert store.follows()
        sql("INSERT INTO app.items VALUES (1001, 'a', '[1,2,3,4]')")
        sql("UPDATE app.items SET embedding = '[4,3,2,1]' WHERE id = 1")
        assert sql("SELECT key FROM app.items__new ORDER BY key") == [(1,), (1001,)]
        fill(store)
        assert check(sql) == 51
        sql("UPDATE app.items SET id = id + 5000 WHERE id <= 10")
        sql("UPDATE app.items SET id = id + 6000, embedding = '[0,0,0,1]' WHERE id = 11")
        sql("UPDATE app.items SET embedding = NULL WHERE id = 12")
        sql("UPDATE app.items SET title = 'changed'")
        sql("DELETE FROM app.items WHERE id BETWEEN 20 AND 25")
        assert check(sql) == 44
        sql("UPDATE app.items SET id = id - 1 WHERE id > 6000")
        sql("TRUNCATE app.items")
        assert check(sql) == 0
        assert store.follows()


def test_filling_never_replaces_what_the_triggers_wrote(sql, url):
    with open_store(url) as store:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        chunk = next(store.scan(store.served))
        sql("UPDATE app.items SET embedding = '[9,9,9,9]' WHERE id = 3")
        sql("DELETE FROM app.items WHERE id = 4")
        sql("UPDATE app.items SET embedding = NULL WHERE id = 5")
        store.write(NEW, chunk.keys, run(STEPS, chunk.vectors))
        assert store.remove_orphans(NEW) == 2
        assert check(sql) == 48
        assert store.unfilled(store.served) == 1
        assert store.unfilled(NEW) == 1


@pytest.mark.parametrize("statement", ["DELETE FROM app.items", "UPDATE app.items SET embedding = NULL"])
@pytest.mark.parametrize("ask", ["remove_orphans", "tally"])
def test_a_deletion_that_is_not_committed_yet_leaves_no_orphan(sql, url, statement, ask):
    with open_store(url) as store, psycopg.connect(server().conninfo) as application:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        application.execute(f"{statement} WHERE id = 3")  # its trigger finds no new vector
        chunk = next(store.scan(store.served))
        store.write(NEW, chunk.keys, run(STEPS, chunk.vectors))
        threading.Timer(0.3, application.commit).start()
        if ask == "tally":
            assert store.tally(store.served, NEW).orphans == 1
        assert store.remove_orphans(NEW) == 1
        assert check(sql) == 49


def test_a_second_call_changes_nothing_and_disabled_triggers_are_noticed(sql, url):
    objects = "SELECT oid::int8, xmin::text FROM pg_trigger WHERE tgrelid = 'app.items'::regclass ORDER BY 1"
    with open_store(url) as store:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        fill(store)
        before = sql(objects)
        assert store.follow(NEW, STEPS, BACK) is None
        assert sql(objects) == before
        assert store.count(NEW) == 50
        sql("ALTER TABLE app.items DISABLE TRIGGER ALL")
        assert not store.follows()
        sql("UPDATE app.items SET embedding = '[9,9,9,9]' WHERE id = 3")
        assert store.follow(NEW, STEPS, BACK) is None  # what it held may have changed since: it is filled again
        assert store.follows()
        fill(store)
        assert check(sql) == 50
        store.drop_new()
    left = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = 'app'"
    assert sql(left + " AND proname <> 'items__served__write'") == [(0,)]
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'app'::regnamespace AND relkind = 'r'"
    assert sql(tables) == [("items",)]
    assert sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.items'::regclass") == [(0,)]


@pytest.mark.parametrize(
    "vector",
    ["[1,2]", "[3e38,3e38,3e38,3e38]", None],
)
def test_what_cannot_be_translated_is_written_all_the_same_and_has_no_new_vector(sql, url, vector):
    sql("ALTER TABLE app.items ALTER embedding TYPE vector")
    with open_store(url) as store:
        store.add(NEW)
        store.follow(NEW, [Step("linear", {"matrix": traffic.MATRIX * 100})], BACK)
        fill(store)
        sql("UPDATE app.items SET embedding = %s WHERE id = 7", vector)
        assert sql("SELECT embedding::text IS NOT DISTINCT FROM %s FROM app.items WHERE id = 7", vector) or vector
        assert sql("SELECT count(*) FROM app.items__new WHERE key = 7") == [(0,)]


def test_a_trigger_of_the_table_that_writes_again_is_followed_too(sql, url):
    """Whatever the order of triggers: what the table holds at the end is what is translated."""
    sql(
        "CREATE FUNCTION app.again() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
        "UPDATE app.items SET embedding = embedding + '[1,1,1,1]' WHERE id = NEW.id; RETURN NULL; END$$"
    )
    for name in ("a_first", "zz_last"):
        sql(f"CREATE TRIGGER {name} AFTER INSERT ON app.items FOR EACH ROW EXECUTE FUNCTION app.again()")
        sql(
            f"CREATE TRIGGER {name}_key AFTER UPDATE ON app.items FOR EACH ROW WHEN (OLD.id <> NEW.id) "
            "EXECUTE FUNCTION app.again()"
        )
    with open_store(url) as store:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        sql("INSERT INTO app.items VALUES (1001, 'a', '[1,2,3,4]')")
        fill(store)
        assert sql("SELECT embedding::text FROM app.items WHERE id = 1001") == [("[3,4,5,6]",)]
        check(sql)
        sql("UPDATE app.items SET id = 1002 WHERE id = 1001")
        assert sql("SELECT embedding::text FROM app.items WHERE id = 1002") == [("[5,6,7,8]",)]
        check(sql)


def test_the_application_needs_no_rights_on_what_stands_beside(sql, url):
    sql("DROP ROLE IF EXISTS app_writer")
    sql("CREATE ROLE app_writer LOGIN")
    sql("GRANT USAGE ON SCHEMA app TO app_writer")
    sql("GRANT INSERT, UPDATE, DELETE, SELECT ON app.items TO app_writer")
    with open_store(url) as store:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        fill(store)
        with psycopg.connect(server().conninfo.replace("user=postgres", "user=app_writer"), autocommit=True) as theirs:
            theirs.execute("INSERT INTO app.items VALUES (1001, 'a', '[1,2,3,4]')")
            theirs.execute("DELETE FROM app.items WHERE id = 1")
            check(sql)
            store.switch()
            theirs.execute("INSERT INTO app.items__served VALUES (1002, 'b', '[1,2,3,4,5,6]')")
            theirs.execute("UPDATE app.items__served SET embedding = '[6,5,4,3,2,1]' WHERE id = 2")
            assert theirs.execute("SELECT count(*) FROM app.items__served").fetchone() == (51,)
    assert sql("SELECT has_table_privilege('app_writer', 'app.items__new__map', 'SELECT')") == [(False,)]
    assert sql("SELECT has_function_privilege('app_writer', 'app.items__new__follow()', 'EXECUTE')") == [(False,)]
    sql("DROP SCHEMA app CASCADE")
    sql("DROP ROLE app_writer")


def test_a_user_without_the_right_to_create_triggers_is_told_and_nothing_is_left(sql, url):
    sql("DROP ROLE IF EXISTS guest")
    sql("CREATE ROLE guest LOGIN")
    sql("GRANT USAGE, CREATE ON SCHEMA app TO guest")
    sql("GRANT SELECT ON app.items TO guest")
    with open_store(server().url("app.items", user="guest")) as store:
        store.add(NEW)
        reason = store.follow(NEW, STEPS, BACK)
        assert "may not create triggers" in reason
        assert not store.follows()
        assert sql("SELECT to_regclass('app.items__new__map')::text") == [(None,)]
        fill(store)
        store.switch()
        assert store.served == NEW
        assert store.written_since() == {}
        store.switch_back()
        store.drop_new()
    sql("DROP SCHEMA app CASCADE")
    sql("DROP ROLE guest")


def test_what_cannot_be_followed_is_told(sql, url):
    with open_store(url) as store:
        store.add(NEW)
        assert "cannot compute the step 'other'" in store.follow(NEW, [Step("other")], BACK)
        assert "coordinates" in store.follow(NEW, [Step("linear", {"offset": np.zeros(4)})], BACK)
        wide = [Step("gaussian", {"centers": np.zeros((16_000, 4), np.float32), "width": 1.0})]
        assert "16,000" in store.follow(NEW, wide, BACK)
        assert "not finite" in store.follow(NEW, [Step("linear", {"offset": np.full(4, np.nan)})], BACK)
    sql("ALTER TABLE app.items DROP CONSTRAINT items_pkey")
    with open_store(url + "&key=id") as store:
        assert "unique index" in store.follow(NEW, STEPS, BACK)


def test_a_partitioned_table_is_followed(sql, url):
    partition(sql)
    with open_store(url) as store:
        store.add(NEW)
        assert store.follow(NEW, STEPS, BACK) is None
        fill(store)
        sql("INSERT INTO app.items VALUES (1001, 'a', '[1,2,3,4]')")
        sql("INSERT INTO app.part1000 VALUES (1002, 'a', '[1,2,3,4]')")
        sql("UPDATE app.items SET id = id + 1007 WHERE id = 7")  # from one part to another
        sql("CREATE TABLE app.part2000 PARTITION OF app.items FOR VALUES FROM (2000) TO (3000)")
        sql("INSERT INTO app.items VALUES (2001, 'a', '[1,2,3,4]')")
        assert check(sql) == 53


def test_names_that_need_quotes_are_followed(sql, url):
    sql('ALTER TABLE app.items RENAME TO "50%s ""of"" {} it"')
    sql('ALTER TABLE app."50%s ""of"" {} it" RENAME embedding TO "a %s {x} vector"')
    sql('ALTER TABLE app."50%s ""of"" {} it" RENAME id TO "the \'key"')
    new = Field("n {} \"'%s" + "x" * 50, NEW_DIM)
    with open_store(server().url('app.50%s "of" {} it')) as store:
        store.add(new)
        assert store.follow(new, STEPS, BACK) is None
        assert store.follows()
        sql('INSERT INTO app."50%s ""of"" {} it" VALUES (1001, \'x\', \'[1,2,3,4]\')')
        fill(store, new)
        assert store.count(new) == 51
        store.switch()
        sql('INSERT INTO app."50%s ""of"" {} it__served" VALUES (1002, \'x\', \'[1,2,3,4,5,6]\')')
        assert store.count(new) == 52
        assert store.written_since()["new"].to_pylist() == [1002]
        store.switch_back()
        store.drop_new()


def test_no_transaction_of_an_application_is_aborted_and_every_row_is_right_at_the_end(sql):
    rows = 1500
    url = traffic.make_items(rows)
    application = traffic.Application(rows, traffic.write_old(rows))
    with open_store(url) as store, application.running():
        store.add(NEW)
        assert store.follow(NEW, STEPS, BACK) is None
        for _ in range(3):
            fill(store)
            assert store.follow(NEW, STEPS, BACK) is None
        with store.at_one_moment():  # old and new vectors agree while the application writes
            old, new = (list(store.scan(field)) for field in (store.served, NEW))
            keys = [[key for chunk in chunks for key in chunk.keys.to_pylist()] for chunks in (old, new)]
            expected = run(STEPS, np.concatenate([chunk.vectors for chunk in old]))
            assert keys[0] == keys[1]
            assert store.count(NEW) == len(keys[1])
            assert len(store.only_in(store.served, NEW)) == 0
            np.testing.assert_allclose(np.concatenate([chunk.vectors for chunk in new]), expected, atol=1e-5)
    assert check(sql) > rows / 2


def test_what_is_only_in_one_field_is_found_by_the_server(sql, url):
    with open_store(url) as store:
        store.add(NEW)
        store.write(NEW, *_some(store, 40))
        assert store.only_in(store.served, NEW).to_pylist() == list(range(41, 51))
        assert store.only_in(NEW, store.served).to_pylist() == []
        sql("UPDATE app.items SET embedding = NULL WHERE id = 3")
        assert store.only_in(NEW, store.served).to_pylist() == [3]


@pytest.mark.parametrize("second", [False, True])
def test_a_tally_counts_what_two_fields_have_in_common(sql, url, second):
    """Of 50 items, 40 are written; one loses its vector, two are deleted, and two come without one."""
    with open_store(url) as store:
        if second:  # the served vectors stand beside the table, too
            (chunk,) = store.scan(store.served)
            store.add(earlier := replace(store.served, name="earlier"))
            store.write(earlier, chunk.keys, chunk.vectors)
            store.switch()
            store.drop_old()
        store.add(NEW)
        store.write(NEW, *_some(store, 40))
        assert store.tally(store.served, NEW) == Tally(items=50, first=50, both=40, orphans=0)
        sql("DELETE FROM app.items WHERE id IN (1, 50)")
        sql("INSERT INTO app.items (id) VALUES (101), (102)")
        lost = "DELETE FROM app.items__earlier WHERE key = 3"
        sql(lost if second else "UPDATE app.items SET embedding = NULL WHERE id = 3")
        assert store.tally(store.served, NEW) == Tally(items=50, first=47, both=38, orphans=2)
        assert store.tally(store.served, NEW).lacking == len(store.only_in(store.served, NEW)) == 9


def _some(store: Any, n: int) -> tuple[Any, np.ndarray]:
    chunk = next(store.scan(store.served))
    return chunk.keys[:n], run(STEPS, chunk.vectors[:n])


def test_a_reader_that_holds_the_view_is_named_and_stops_no_one_for_long(sql, url, monkeypatch):
    monkeypatch.setattr(locks, "WAIT", 20)
    monkeypatch.setattr(locks, "MAX_PAUSE", 0.01)
    with open_store(url) as store, psycopg.connect(server().conninfo) as idle:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        fill(store)
        idle.execute("SELECT count(*) FROM app.items__served")
        with pytest.raises(StoreError, match=rf"pid {idle.info.backend_pid} .*items__served.*pg_terminate_backend"):
            store.switch()
        assert sql("SELECT count(*) FROM app.items__served") == [(50,)]  # later readers are served
        assert store.new == NEW
        idle.rollback()
        store.switch()
        idle.execute("UPDATE app.items SET title = 'x' WHERE id = 1")
        with pytest.raises(StoreError, match=f"pid {idle.info.backend_pid} "):
            store.drop_old()
        assert store.old is not None
        idle.rollback()
        store.drop_old()


def test_row_level_security_that_hides_rows_is_refused_and_kept_for_readers(sql, url):
    for role in ("tenant", "owner_of_items"):
        sql(f"DROP ROLE IF EXISTS {role}")
        sql(f"CREATE ROLE {role} LOGIN")
        sql(f"GRANT USAGE, CREATE ON SCHEMA app TO {role}")
    sql("ALTER TABLE app.items OWNER TO owner_of_items")
    sql("GRANT SELECT, INSERT, UPDATE, DELETE ON app.items TO tenant")
    sql("ALTER TABLE app.items ENABLE ROW LEVEL SECURITY")
    sql("CREATE POLICY few ON app.items USING (id <= 10 OR id > 1000)")
    with pytest.raises(StoreError, match="BYPASSRLS"):
        open_store(server().url("app.items", user="tenant"))
    with open_store(server().url("app.items", user="owner_of_items")) as store:
        store.add(NEW)
        assert store.follow(NEW, STEPS, BACK) is None
        fill(store)
        store.switch()
        assert store.count(NEW) == 50
        theirs = psycopg.connect(server().conninfo.replace("user=postgres", "user=tenant"), autocommit=True)
        for place in ("items__served", "items__new"):
            assert theirs.execute(f"SELECT count(*) FROM app.{place}").fetchone() == (10,)
        theirs.execute("INSERT INTO app.items__served VALUES (1002, 'b', '[1,2,3,4,5,6]')")
        assert theirs.execute("UPDATE app.items__served SET title = 'x'").rowcount == 11
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            theirs.execute("INSERT INTO app.items__served VALUES (999, 'b', '[1,2,3,4,5,6]')")
        theirs.close()
        assert store.count(NEW) == 51
    sql("DROP SCHEMA app CASCADE")
    sql("DROP ROLE tenant, owner_of_items")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE app.items SET other = NULL WHERE id = 9", "null"),
        ("UPDATE app.items SET other = 3", "'3' is there twice"),
    ],
)
def test_keys_that_are_null_or_repeat_are_refused(sql, url, change, message):
    sql("ALTER TABLE app.items ADD other int")
    sql("UPDATE app.items SET other = id")
    open_store(url + "&key=other").close()
    sql(change)
    with pytest.raises(StoreError, match=message):
        open_store(url + "&key=other")


def test_pages_never_begin_again(sql, url):
    """A key that becomes null after the store was opened ends the scan."""
    sql("ALTER TABLE app.items ADD other int UNIQUE")
    sql("UPDATE app.items SET other = id")
    with open_store(url + "&key=other") as store:
        sql("UPDATE app.items SET other = NULL WHERE id > 10")
        with pytest.raises(StoreError, match="without a key"):
            list(store.scan(store.served, rows=11))


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("text", ["", "é", "a'b", 'a"b', "a\\b,{}"]),
        ("varchar(9)", ["a", "b", "c", "d", "e"]),
        ("uuid", [f"0000000{i}-0000-4000-8000-00000000000{i}" for i in range(5)]),
        ("bigint", [-(2**53), -1, 0, 1, 2**53 + 1]),
    ],
)
def test_keys_of_every_type_are_followed(sql, url, kind, keys):
    sql("DROP TABLE app.items CASCADE")
    sql(f"CREATE TABLE app.items (id {kind} PRIMARY KEY, embedding vector(4))")
    with open_store(url) as store:
        for key in keys[:3]:
            sql("INSERT INTO app.items VALUES (%s, '[1,2,3,4]')", key)
    with open_store(url) as store:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        chunk = next(store.scan(store.served))
        sql("INSERT INTO app.items VALUES (%s, '[1,2,3,4]')", keys[3])
        sql("UPDATE app.items SET id = %s WHERE id = %s", keys[4], keys[0])
        sql("DELETE FROM app.items WHERE id = %s", keys[1])
        store.write(NEW, chunk.keys, run(STEPS, chunk.vectors))
        assert store.remove_orphans(NEW) == 2
        assert check(sql) == 3
        assert len(store.only_in(store.served, NEW)) == 0
        store.switch()
        sql("INSERT INTO app.items__served VALUES (%s, '[1,2,3,4,5,6]')", keys[0])
        assert store.written_since()["new"].to_pylist() == [keys[0]]
        store.replace_old()
        assert store.count(store.served) == 4


def test_a_table_of_another_server_is_not_followed(sql, url):
    sql("CREATE EXTENSION IF NOT EXISTS postgres_fdw")
    sql("DROP SERVER IF EXISTS far CASCADE")
    sql(f"CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{server().socket}', dbname 'postgres')")
    sql("CREATE USER MAPPING FOR postgres SERVER far OPTIONS (user 'postgres')")
    sql(
        "CREATE FOREIGN TABLE app.far_items (id int NOT NULL, title text, embedding vector(4)) SERVER far "
        "OPTIONS (schema_name 'app', table_name 'items')"
    )
    with open_store(server().url("app.far_items", key="id")) as store:
        store.add(NEW)
        assert "another server" in store.follow(NEW, STEPS, BACK)
        fill(store)
        store.switch()
        assert store.count(store.served) == 50
        store.switch_back()
        store.drop_new()
    sql("DROP SERVER far CASCADE")


def test_what_comes_by_replication_is_followed(sql, url):
    with open_store(url) as store:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        sql("SET session_replication_role = replica")
        sql("INSERT INTO app.items VALUES (1001, 'a', '[1,2,3,4]')")
        fill(store)
        sql("UPDATE app.items SET embedding = '[4,3,2,1]' WHERE id = 3")
        assert check(sql) == 51


def test_row_level_security_needs_views_that_keep_it(sql, url, monkeypatch):
    monkeypatch.setattr(table, "INVOKER_VERSION", 10**9)
    open_store(url).close()
    sql("ALTER TABLE app.items ENABLE ROW LEVEL SECURITY")
    with pytest.raises(StoreError, match="before 15"):
        open_store(url)


def test_a_write_waits_for_the_application_and_never_makes_it_fail(sql, url):
    """A transaction that holds new vectors and wants more: the filling steps back, again and again, until it ends."""
    with open_store(url) as store, psycopg.connect(server().conninfo) as application:
        store.add(NEW)
        store.follow(NEW, STEPS, BACK)
        chunk = next(store.scan(store.served))
        application.execute("UPDATE app.items SET embedding = '[1,1,1,1]' WHERE id = 50")
        filling = threading.Thread(target=store.write, args=(NEW, chunk.keys, run(STEPS, chunk.vectors)))
        filling.start()
        for key in (49, 30, 1):
            time.sleep(0.3)
            application.execute("UPDATE app.items SET embedding = '[2,2,2,2]' WHERE id = %s", (key,))
        assert filling.is_alive()
        application.commit()
        filling.join()
    assert check(sql) == 50
