"""What PostgreSQL has of its own: types, names, passwords, a view, and a server that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.stores.case import KEYS, Items
from tests.stores.cases.pgvector import Pgvector
from tests.stores.postgres import server
from tests.stores.steps import NEW, NEXT, fill, new_vectors, read

from relatent.migrate.side import sample_vectors
from relatent.stores import Field, StoreError, open_store
from relatent.stores.base import Size


@pytest.fixture
def sql() -> Iterator[Any]:
    """Run a statement as the owner of the database."""
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        yield lambda text, *values: _rows(connection.execute(text, values))


def _rows(cursor: Any) -> list[Any]:
    return cursor.fetchall() if cursor.description else []


@pytest.fixture
def items(sql) -> str:
    """A table with a name that needs no quotes, and its URL."""
    sql("DROP VIEW IF EXISTS items__served")
    sql("DROP TABLE IF EXISTS items, items__new CASCADE")
    sql("CREATE TABLE items (id int PRIMARY KEY, title text, embedding vector(3))")
    sql("INSERT INTO items SELECT i, 't' || i, ARRAY[i, 1, -i]::vector FROM generate_series(1, 9) i")
    return server().url("items")


@pytest.mark.parametrize(("kind", "dtype"), [("vector", "float32"), ("halfvec", "float16"), ("bit", "bit")])
def test_vectors_of_every_type_are_read_and_written(sql, items, kind, dtype):
    sql("DROP TABLE items CASCADE")
    sql(f"CREATE TABLE items (id int PRIMARY KEY, embedding {kind}(11))")
    values = np.random.default_rng(0).integers(0, 2, size=(6, 11))
    texts = ["".join(map(str, row)) if kind == "bit" else str(row.tolist()) for row in values]
    for i, text in enumerate(texts):
        sql(f"INSERT INTO items VALUES (%s, %s::{kind}(11))", i, text)
    new = Field("new", 13, dtype, "hamming" if kind == "bit" else "l2")
    vectors = np.random.default_rng(1).normal(size=(6, 13)).astype(np.float32)
    expected = (vectors > 0).astype(np.float32) if kind == "bit" else vectors.astype(dtype)
    with open_store(items) as store:
        assert (store.served.dim, store.served.dtype) == (11, dtype)
        np.testing.assert_array_equal(read(store, store.served)[1], values)
        store.add(new)
        store.write(new, pa.array(range(6)), vectors)
        np.testing.assert_array_equal(read(store, new)[1], expected)
        store.build_index(new)
        for exact in (False, True):
            hits = store.search(vectors[2:3], 1, of=new, exact=exact)
            assert (hits.keys, hits.scores[0, 0]) == ([[2]], pytest.approx(0, abs=1e-2))
        store.switch()
        assert sql("SELECT count(embedding) FROM items__served") == [(6,)]


def test_types_can_change_with_the_field(sql, items):
    new = Field("new", 5, "float16", "l2")
    with open_store(items) as store:
        fill(store, new)
        store.switch()
        assert sql("SELECT pg_typeof(embedding)::text FROM items__served LIMIT 1") == [("halfvec",)]
        store.switch_back()
        assert sql("SELECT pg_typeof(embedding)::text FROM items__served LIMIT 1") == [("vector",)]


def test_a_name_is_a_name_and_no_statement(sql, tmp_path):
    sql("CREATE TABLE IF NOT EXISTS y (id int)")
    url = Pgvector().create(tmp_path, Items.draw(KEYS["integer"]))
    field = Field('n"; DROP TABLE y; --', 5, "float32", "l2", {"model": "m'; DROP TABLE y; --"})
    with open_store(url) as store:
        fill(store, field)
        store.build_index(field)
        store.switch()
        assert store.served == field
        store.switch_back()
        store.drop_new()
    assert sql("SELECT count(*) FROM y") == [(0,)]


def test_names_that_are_too_long_do_not_meet(sql, items):
    name = "t" * 62
    sql(f"DROP TABLE IF EXISTS {name} CASCADE")
    sql(f"CREATE TABLE {name} AS SELECT * FROM items")
    sql(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    with open_store(server().url(name)) as store:
        fill(store)
        store.build_index(NEW)
        store.switch()
        assert store.count(NEW) == 9
        store.switch_back()
        store.drop_new()


def test_the_table_itself_is_not_touched(sql, items):
    """Not even its rows are rewritten: their places and transactions stay, and so do its columns and indexes."""
    sql("CREATE INDEX ON items USING hnsw (embedding vector_ip_ops)")
    everything = "SELECT ctid::text, xmin::text, xmax::text, i::text FROM items i"
    about = "SELECT attname, atttypid::int8 FROM pg_attribute WHERE attrelid = 'items'::regclass ORDER BY attnum"
    before = sql(everything), sql(about), sql("SELECT indexname FROM pg_indexes WHERE tablename = 'items'")
    with open_store(items) as store:
        assert store.served.metric == "inner"
        fill(store)
        store.build_index(NEW)
        store.switch()
        store.switch_back()
        store.drop_new()
    after = sql(everything), sql(about), sql("SELECT indexname FROM pg_indexes WHERE tablename = 'items'")
    assert after == before


def test_applications_read_the_view(sql, items):
    with open_store(items) as store:
        fill(store)
        first = "SELECT id, title, vector_dims(embedding) FROM items__served ORDER BY id LIMIT 1"
        assert sql(first) == [(1, "t1", 3)]
        sql("GRANT SELECT ON items__served TO pg_monitor")
        store.build_index(NEW)
        store.switch()
        assert sql(first) == [(1, "t1", 5)]
        assert sql("SELECT has_table_privilege('pg_monitor', 'items__served', 'SELECT')") == [(True,)]
        store.switch_back()
        assert sql(first) == [(1, "t1", 3)]
        store.drop_new()
        assert sql(first) == [(1, "t1", 3)]


def test_dropping_the_old_vectors_drops_the_column_and_the_view_goes_on(sql, items):
    first = "SELECT id, title, vector_dims(embedding) FROM items__served ORDER BY id LIMIT 1"
    with open_store(items) as store:
        fill(store)
        sql("GRANT SELECT ON items__served TO pg_monitor")
        store.switch()
        store.drop_old()
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = 'items'::regclass AND attnum > 0 AND NOT attisdropped"
    assert sql(columns) == [("id",), ("title",)]
    assert sql(first) == [(1, "t1", 5)]
    assert sql("SELECT has_table_privilege('pg_monitor', 'items__served', 'SELECT')") == [(True,)]
    sql("INSERT INTO items VALUES (77, 't77')")
    sql("INSERT INTO items__new VALUES (77, '[1,2,3,4,5]')")
    with open_store(items) as store:
        assert read(store, store.served)[0][-1] == 77
        fill(store, NEXT)
        store.switch()
        assert sql(first) == [(1, "t1", 7)]
        store.drop_old()
    assert sql("SELECT to_regclass('items__new')::text") == [(None,)]


def test_what_others_need_is_not_dropped(sql, items):
    """PostgreSQL refuses to drop a column that a view reads: all stays as it was, and can still be switched back."""
    sql("CREATE VIEW report AS SELECT embedding FROM items")
    with open_store(items) as store:
        served = store.served
        fill(store)
        store.switch()
        with pytest.raises(StoreError, match="report"):
            store.drop_old()
        assert (store.served, store.old) == (NEW, served)
        store.switch_back()
        assert store.served == served
    sql("DROP VIEW report")


def test_a_search_through_the_view_uses_the_new_index(sql, items):
    sql("INSERT INTO items SELECT i, 't', ARRAY[i, 1, -i]::vector FROM generate_series(10, 3000) i")
    with open_store(items) as store:
        fill(store)
        store.build_index(NEW)
        store.switch()
        plan = sql("EXPLAIN SELECT id FROM items__served ORDER BY embedding <#> '[1,2,3,4,5]' LIMIT 5")
    assert "items__new__hnsw" in str(plan)


def test_a_view_of_someone_else_is_not_replaced(sql, items):
    sql("CREATE VIEW items__served AS SELECT 1 AS one")
    with pytest.raises(StoreError, match="rename"):
        open_store(items)
    assert sql("SELECT one FROM items__served") == [(1,)]


def test_a_scan_is_of_one_moment_and_writing_meanwhile_is_not_part_of_it(sql, items):
    with open_store(items) as store:
        store.add(NEW)
        chunks = store.scan(store.served, rows=2)
        keys = next(chunks).keys.to_pylist()
        store.write(NEW, pa.array(keys), new_vectors(keys))
        sql("DELETE FROM items WHERE id > 5")
        assert sql("SELECT count(*) FROM items__new") == [(2,)]  # others see it: it is durable
        assert [len(chunk) for chunk in chunks] == [2, 2, 2, 1]
        assert store.count(store.served) == 5


def test_columns_of_every_type_come_along(sql, items):
    sql("ALTER TABLE items ADD n float8 DEFAULT 1.5, ADD b bool DEFAULT true, ADD j jsonb DEFAULT '{\"a\": 1}'")
    sql("ALTER TABLE items ADD t timestamptz DEFAULT '2026-01-02 03:04:05+00', ADD w varchar(9), ADD a int[]")
    with open_store(items) as store:
        (chunk,) = store.scan(store.served, columns=None)
    row = chunk.others.to_pylist()[0]
    assert {name: row[name] for name in "nbjwa"} == {"n": 1.5, "b": True, "j": '{"a": 1}', "w": None, "a": None}
    assert row["t"].startswith("2026-01-02")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ("ALTER TABLE items DROP CONSTRAINT items_pkey", {}, "key="),
        ("ALTER TABLE items DROP CONSTRAINT items_pkey, ADD PRIMARY KEY (id, title)", {}, "2 columns"),
        ("ALTER TABLE items ADD other vector(2)", {"vector": "nothing"}, "nothing"),
        ("ALTER TABLE items RENAME embedding TO a; ALTER TABLE items ADD b vector(2)", {}, "vector="),
        ("ALTER TABLE items DROP embedding", {}, "vector, halfvec or bit"),
        ("ALTER TABLE items ADD at timestamp", {"key": "at"}, "timestamp"),
        ("SELECT 1", {"key": "nothing"}, "nothing"),
        ("SELECT 1", {"sslmode": "nonsense"}, "sslmode"),
    ],
)
def test_what_is_not_clear_is_asked_for(sql, items, change, options, message):
    for statement in change.split("; "):
        sql(statement)
    with pytest.raises(StoreError, match=message):
        open_store(server().url("items", **options))


def test_columns_and_schemas_can_be_named(sql, items):
    sql("DROP SCHEMA IF EXISTS shop CASCADE")
    sql("CREATE SCHEMA shop")
    sql("CREATE TABLE shop.things (code text UNIQUE NOT NULL, a vector(2), b vector(4))")
    sql("INSERT INTO shop.things VALUES ('x', '[1,2]', '[1,2,3,4]'), ('y', '[1,2]', '[4,3,2,1]')")
    with open_store(server().url("shop.things", key="code", vector="b")) as store:
        assert (read(store, store.served)[0], store.served.dim) == (["x", "y"], 4)
        fill(store)
        assert sql("SELECT count(*) FROM shop.things__new") == [(2,)]


def test_keys_that_the_column_cannot_hold_are_unknown_keys(sql, items):
    with open_store(items) as store:
        store.add(NEW)
        store.write(NEW, pa.array([1, 2**32 + 1]), new_vectors([1, 2**32 + 1]))
        assert read(store, NEW)[0] == [1]
        np.testing.assert_allclose(read(store, NEW)[1], new_vectors([1]))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 100])
def test_pages_lose_no_row_and_leave_out_what_has_no_vector(sql, items, rows):
    sql("UPDATE items SET embedding = NULL WHERE title IN ('t4', 't9')")
    with open_store(items) as store:
        chunks = list(store.scan(store.served, rows=rows, columns=None))
        assert (store.unfilled(store.served), store.count(store.served)) == (2, 7)
    titles = [title for chunk in chunks for title in chunk.others["title"].to_pylist()]
    assert titles == ["t1", "t2", "t3", "t5", "t6", "t7", "t8"]


def test_a_row_of_another_dimension_is_named(sql, items):
    sql("ALTER TABLE items ALTER embedding TYPE vector")
    sql("UPDATE items SET embedding = '[1,2]' WHERE id = 7")
    with open_store(items) as store:
        with pytest.raises(StoreError, match=r"7 .*dimension"):
            read(store, store.served)
        assert len(store.search(np.ones((1, 3)), 9, exact=True).keys[0]) == 8


def test_more_coordinates_than_an_index_takes(sql, items):
    new = Field("wide", 2001)
    with open_store(items) as store:
        store.add(new)
        with pytest.raises(StoreError, match="float16"):
            store.build_index(new)
        store.drop_new()


@pytest.fixture
def guarded(sql, items) -> Iterator[str]:
    """A user who needs a password."""
    sql("DROP ROLE IF EXISTS ann")
    sql("CREATE ROLE ann LOGIN PASSWORD 'right-secret' SUPERUSER")
    with server().passwords_for("ann"):
        yield server().url("items", user="ann")


def test_a_wrong_password_is_refused_and_not_repeated(guarded, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "wrong-secret")
    for url in (guarded, guarded.replace("ann@", "ann:wrong-secret@"), guarded + "&password=wrong-secret"):
        with pytest.raises(StoreError, match="PGPASSWORD") as refused:
            open_store(url)
        assert "wrong-secret" not in f"{refused.value}{refused.value.__cause__}{refused.value.__context__}"


def test_the_right_password_is_taken_from_the_environment_or_the_url(guarded, monkeypatch):
    for url in (guarded.replace("ann@", "ann:right-secret@"), guarded + "&password=right-secret"):
        with open_store(url) as store:
            assert store.count(store.served) == 9
            assert "secret" not in f"{store.address}{store.address!r}"
    monkeypatch.setenv("PGPASSWORD", "right-secret")
    with open_store(guarded) as store:
        assert store.count(store.served) == 9


def test_a_server_that_goes_away_says_to_run_again_and_then_it_works(sql, items):
    with open_store(items) as store:
        store.add(NEW)
        store.write(NEW, pa.array([1, 2]), new_vectors([1, 2]))
        store.flush()  # from here on, no crash of the server loses it
        chunks = store.scan(store.served, rows=1)
        next(chunks)
        server().restart()
        with pytest.raises(StoreError, match="run it again"):
            list(chunks)
        with pytest.raises(StoreError, match="run it again"):
            store.write(NEW, pa.array([3]), new_vectors([3]))
        store.write(NEW, pa.array([3]), new_vectors([3]))
        assert read(store, NEW)[0] == [1, 2, 3]


def test_a_server_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"postgresql://ann@/shop/items"):
        open_store(f"postgresql://ann:secret@/shop/items?host={tmp_path}")


@pytest.mark.parametrize("parts", [0, 2])
def test_rows_are_estimated_where_there_are_many_and_statistics(sql, items, parts, monkeypatch):
    monkeypatch.setattr("relatent.stores.pgvector.store.COUNTED_ROWS", 1_000)
    sql("DROP TABLE items CASCADE")
    alone = "WITH (autovacuum_enabled = off)"
    sql(
        "CREATE TABLE items (id bigint PRIMARY KEY, embedding vector(3)) "
        + ("PARTITION BY HASH (id)" if parts else alone)
    )
    for part in range(parts):
        values = f"FOR VALUES WITH (MODULUS {parts}, REMAINDER {part})"
        sql(f"CREATE TABLE items_{part} PARTITION OF items {values} {alone}")
    sql("INSERT INTO items SELECT n, CASE WHEN n > 10000 THEN '[1,2,3]'::vector END FROM generate_series(1, 20000) n")
    with open_store(items) as store:
        assert store.size(store.served) == Size(10_000, is_exact=True)  # without statistics, a guess is far off
        sql("ANALYZE items")
        about = store.size(store.served)
        assert (about.is_exact, about.rows) == (False, pytest.approx(10_000, rel=0.1))
        places = [place.low for place in store.places(8)]
        assert places == sorted(places)
        assert len(places) == 8
        assert min(places) < 5_000 < 15_000 < max(places)
        assert len(sample_vectors(store, 80)) >= 40  # the last place may be the end of the table
