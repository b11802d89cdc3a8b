"""What Lance has of its own: versions, data files that nobody rewrites, indexes, and LanceDB beside us."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from tests.stores.case import Items, as_keys
from tests.stores.steps import NEW, fill, new_vectors, read

from relatent.spaces.io.columns import as_lists
from relatent.stores import Field, StoreError, open_store

lance = pytest.importorskip("lance")

N = 300
ITEMS = Items.draw(list(range(N)))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "items.lance"
    lance.write_dataset(table(), str(path), max_rows_per_file=100)
    return path


def table(**columns):
    return pa.table({"id": as_keys(ITEMS.keys), "vector": as_lists(ITEMS.vectors), "title": ITEMS.payload} | columns)


def checksums(file):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (file / "data").iterdir()}


def test_a_switch_is_one_version_and_the_one_before_is_tagged(file):
    with open_store(file) as store:
        fill(store)
        store.build_index(NEW)
        before = lance.dataset(str(file))
        store.switch()
        after = lance.dataset(str(file))
        assert after.version == before.version + 1
        assert after.tags.list()["relatent-before-switch"]["version"] == before.version
        assert before.schema.names == ["id", "vector", "title", "new"]
        assert after.schema.names == ["id", "vector_old", "title", "vector"]
        store.switch_back()
        assert lance.dataset(str(file)).schema.names == before.schema.names
        assert not lance.dataset(str(file)).tags.list()


def test_no_data_file_is_rewritten(file):
    before = checksums(file)
    with open_store(file) as store:
        fill(store)
        store.build_index(NEW)
        store.switch()
    after = checksums(file)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 3  # one file per fragment, with the new column alone


def test_all_writes_are_merged_in_one_version(file):
    with open_store(file) as store:
        store.add(NEW)
        before = lance.dataset(str(file)).version
        for keys in np.array_split(np.arange(N), 30):
            store.write(NEW, as_keys(keys.tolist()), new_vectors(keys.tolist()))
        assert lance.dataset(str(file)).version == before
        assert store.count(NEW) == N
        store.build_index(NEW)
        assert lance.dataset(str(file)).version == before + 1
        assert not list(file.glob("_relatent/parts/*.arrow"))


def test_a_second_pass_writes_only_the_fragments_that_it_touches(file):
    with open_store(file) as store:
        fill(store)
        store.build_index(NEW)
        before = checksums(file)
        store.write(NEW, as_keys(ITEMS.keys[:3]), np.ones((3, 5), np.float32))  # rows of the first fragment
        keys, vectors = read(store, NEW)
        expected = new_vectors(keys)
        expected[ITEMS.keys[:3]] = 1
        np.testing.assert_allclose(vectors, expected, rtol=1e-6)
        assert len(checksums(file)) == len(before) + 1


def test_what_waits_survives_compaction_deletion_and_cleaning_up(file):
    with open_store(file) as store:
        keys = fill(store)
        dataset = lance.dataset(str(file))
        dataset.delete("id >= 90 AND id < 110")
        dataset.optimize.compact_files()
        dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
        alive = [key for key in keys if not 90 <= key < 110]
        assert store.count(NEW) == len(alive)
        found, vectors = read(store, NEW)
        assert found == alive
        np.testing.assert_allclose(vectors, new_vectors(alive), rtol=1e-6)
        dataset = lance.dataset(str(file))
        dataset.optimize.compact_files()  # now the old and the new column share a file
        store.write(NEW, as_keys([1]), np.ones((1, 5), np.float32))
        found, vectors = read(store, NEW)
        np.testing.assert_allclose(vectors[2:], new_vectors(alive)[2:], rtol=1e-6)
        assert vectors[1].tolist() == [1] * 5
        lance.dataset(str(file)).validate()


def test_rows_that_the_application_adds_while_a_merge_is_under_way_are_kept(file, monkeypatch):
    """Whoever comes second begins again: the merge, when the table has changed under it."""
    from relatent.stores import lance as module

    merge, calls = module.merge, []

    def late(table, *given):
        calls.append(table.version)
        if len(calls) == 1:
            lance.dataset(str(file)).delete("id = 5")
        merge(table, *given)

    monkeypatch.setattr(module, "merge", late)
    with open_store(file) as store:
        keys = fill(store)
        found, vectors = read(store, NEW)
    assert len(calls) == 2
    assert found == [key for key in keys if key != 5]
    np.testing.assert_allclose(vectors, new_vectors(found), rtol=1e-6)


def test_an_index_takes_in_what_was_replaced(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3_000, 8)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 8)
    lance.write_dataset(pa.table({"id": range(3_000), "vector": vectors}), tmp_path / "t.lance")
    new = Field("new", 8, "float32", "l2", {"translator": "a-to-b"})
    with open_store(f"lance://{tmp_path}/t.lance?index=IVF_FLAT") as store:
        store.add(new)
        store.write(new, pa.array(range(3_000)), y)
        store.build_index(new)
        store.switch()
        for first in (0, 500):
            keys = np.arange(first, first + 500)
            y[keys] = rng.normal(size=(500, 8)) + 9
            store.overwrite(pa.array(keys), y[keys])
            for indexed in (False, True):
                if indexed:
                    store.build_index(store.served)
                assert [hit[0] for hit in store.search(y[keys], 1).keys] == keys.tolist()
        stats = lance.dataset(str(tmp_path / "t.lance")).stats.index_stats("new_idx")
        assert stats["num_unindexed_rows"] == 0
        assert store.effort(store.served) is not None


@pytest.mark.parametrize(("asked", "expected"), [("?index=IVF_FLAT", "IVF_FLAT"), ("", "IVF_HNSW_SQ")])
def test_the_index_is_the_one_asked_for_or_that_of_the_served_column(file, asked, expected):
    lance.dataset(str(file)).create_index("vector", "IVF_HNSW_SQ", metric="dot", num_partitions=1)
    with open_store(f"lance://{file}{asked}") as store:
        assert store.served.metric == "inner"  # as the index has it
        fill(store)
        store.build_index(NEW)
        store.build_index(NEW)
        kinds = {index.field_names[0]: index.index_type for index in lance.dataset(str(file)).describe_indices()}
        assert kinds == {"vector": "IVF_HNSW_SQ", "new": expected}
        queries = new_vectors([1, 2, 3])
        exact, fast = (store.search(queries, 10, of=NEW, exact=one) for one in (True, False))
        assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact.keys, fast.keys, strict=True)]) >= 0.8
        store.write(NEW, as_keys([7]), 100 * queries[:1])
        assert store.search(queries[:1], 1, of=NEW).keys == [[7]]  # rows that changed are not served from the index
        store.switch()
        assert store.search(queries[:1], 1).keys == [[7]]


def test_lancedb_sees_the_table_and_its_switch(file):
    lancedb = pytest.importorskip("lancedb")
    db = lancedb.connect(str(file.parent))
    reader = db.open_table("items")
    with open_store(file) as store:
        fill(store)
        store.build_index(NEW)
        store.switch()
    assert reader.search(ITEMS.vectors[0], vector_column_name="vector").limit(1).to_list()[0]["id"] == ITEMS.keys[0]
    reader.checkout_latest()
    found = reader.search(9 * new_vectors([4])[0], vector_column_name="vector").metric("cosine").limit(1).to_list()[0]
    assert found["id"] == 4
    assert found["title"] == "text of 4"


def test_half_precision_is_kept_as_such(tmp_path):
    file = tmp_path / "half.lance"
    lance.write_dataset(table(vector=as_lists(ITEMS.vectors.astype(np.float16))), str(file))
    new = Field("new", 5, "float16", "l2")
    with open_store(file) as store:
        assert store.served.dtype == "float16"
        keys = fill(store, new)
        _, vectors = read(store, new)
        assert vectors.dtype == np.float16
        assert (vectors == new_vectors(keys).astype(np.float16)).all()


def test_lists_of_any_length_are_read_and_the_odd_one_is_named(tmp_path):
    file = tmp_path / "lists.lance"
    vectors = pa.array([*ITEMS.vectors[:-1].tolist(), [1.0, 2.0]], pa.list_(pa.float32()))
    lance.write_dataset(table(vector=vectors), str(file))
    with open_store(file) as store:
        assert store.served.dim == 8
        told = []
        keys, _ = read(store, store.served, unreadable=lambda key, reason: told.append((key, reason)))
        assert told == [(ITEMS.keys[-1], "it has 2 coordinates, not 8")]
        assert len(keys) == N - 1


def test_names_are_only_names(tmp_path):
    file, vector, key = tmp_path / "odd.lance", 'x"; DROP TABLE y; --', "the 'key'"
    lance.write_dataset(table().rename_columns([key, vector, "title"]), str(file))
    new = Field("new'; --", 5, "float32", "l2")
    with open_store(f"lance://{file}?key=the%20%27key%27") as store:
        keys = fill(store, new)
        assert store.count(new) == N
        store.switch()
        assert read(store, store.served)[0] == keys
        assert store.search(new_vectors([3]), 1).keys == [[3]]
        store.switch_back()
        store.drop_new()
    assert lance.dataset(str(file)).schema.names == [key, vector, "title"]


def test_a_table_that_cannot_be_migrated_says_why(tmp_path):
    file = tmp_path / "bad.lance"
    lance.write_dataset(table(id=as_keys([0, *range(N - 1)])), str(file))
    with open_store(file) as store, pytest.raises(StoreError, match="0 is the key of several rows"):
        list(store.scan(store.served))
    lance.write_dataset(table().drop_columns("id"), str(file), mode="overwrite")
    with pytest.raises(StoreError, match=r"\?key="):
        open_store(file)
    with open_store(f"lance://{file}?key=title") as store, pytest.raises(StoreError, match="int8"):
        store.add(Field("new", 5, "int8"))


def test_migrating_twice(file):
    """When the old column was deleted, the served one, which was added, is beside another new one."""
    second = Field("newer", 3, "float32", "l2", {"model": "c"})
    with open_store(file) as store:
        fill(store)
        store.switch()
        with pytest.raises(StoreError, match="'vector'"):
            store.add(second)
        lance.dataset(str(file)).drop_columns(["vector_old"])
        assert (store.served, store.new, store.old) == (NEW, None, None)
        with pytest.raises(StoreError, match="'new'"):
            store.add(NEW)
        fill(store, second)
        assert (store.served, store.new, store.old) == (NEW, second, None)
        store.switch()
        assert (store.served, store.new, store.old) == (second, None, NEW)
        store.switch_back()
        assert (store.served, store.new, store.old) == (NEW, second, None)


def test_a_change_is_noticed_in_the_shards_of_its_fragments_only(tmp_path):
    """Rows that come at the end of the keys leave all other shards as they are."""
    file = str(tmp_path / "items.lance")
    rows = pa.table({"id": range(64), "vector": as_lists(ITEMS.vectors[:64])})
    lance.write_dataset(rows, file, max_rows_per_file=16)
    with open_store(file) as store:
        shards = store.shards(16)

        def changed(before):
            now = [store.state(shard) for shard in shards]
            return now, [a != b for a, b in zip(before, now, strict=True)]

        states, _ = changed([None] * 4)
        lance.write_dataset(rows[:1].set_column(0, "id", pa.array([100])), file, mode="append")
        states, found = changed(states)
        assert found == [False, False, False, True]
        lance.dataset(file).delete("id = 0")
        states, found = changed(states)
        assert found == [True, False, False, False]
        lance.dataset(file).update({"vector": "vector"}, where="id = 40")  # which moves the row into another fragment
        states, found = changed(states)
        assert found == [False, False, True, False]
