"""Every store: a field beside the served one, written by key, and nothing else touched."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.stores.case import Items, as_keys
from tests.stores.steps import NEW, fill, new_vectors, read, snapshot

from relatent.stores import Shard, StoreError, open_store


def test_a_new_field_is_empty_beside_the_served_one(store, again):
    served = store.served
    assert (store.new, store.old) == (None, None)
    assert store.add(NEW) == NEW
    assert store.count(NEW) == 0
    assert read(store, NEW)[0] == []
    with again(store) as store:
        assert (store.served, store.new, store.old) == (served, NEW, None)
        assert store.new.provenance == NEW.provenance


def test_adding_twice_keeps_what_was_written(store):
    keys = fill(store)
    assert store.add(NEW) == NEW
    assert store.count(NEW) == len(keys)


def test_another_new_field_is_refused(store):
    store.add(NEW)
    with pytest.raises(StoreError, match="'new'"):
        store.add(replace(NEW, name="other"))
    with pytest.raises(StoreError, match="'new'"):
        store.add(replace(NEW, dim=6))


def test_what_is_written_is_read_back(store, again):
    keys = fill(store)
    with again(store) as store:
        found, vectors = read(store, NEW)
        assert found == keys
        np.testing.assert_allclose(vectors, new_vectors(keys), rtol=1e-6)
        assert store.count(NEW) == len(keys)


def test_writing_twice_is_writing_once_and_the_last_counts(store):
    keys = fill(store)
    store.write(NEW, as_keys(keys[:9]), new_vectors(keys[:9]))
    assert store.count(NEW) == len(keys)
    store.write(NEW, as_keys(keys[3:5]), np.ones((2, 5), np.float32))
    expected = new_vectors(keys)
    expected[3:5] = 1
    np.testing.assert_allclose(read(store, NEW)[1], expected, rtol=1e-6)


def test_keys_that_the_store_does_not_have_are_ignored(case, store, items):
    store.add(NEW)
    keys = [case.key(number) for number in (3, 77_777, 5)]
    store.write(NEW, as_keys(keys), new_vectors(keys))
    assert read(store, NEW)[0] == [case.key(3), case.key(5)]
    assert store.count(NEW) == 2
    assert store.count(store.served) == len(items.keys)


def test_writing_nothing_is_nothing(store):
    store.add(NEW)
    store.write(NEW, pa.array([], pa.int64()), np.empty((0, 5), np.float32))
    assert store.count(NEW) == 0


def test_half_a_field_is_counted_shard_by_shard(store):
    keys = fill(store, but=10)
    shards = store.shards(8)
    assert sum(store.count(NEW, shard) for shard in shards) == len(keys) == store.count(NEW)
    assert store.count(NEW, Shard(keys[2], keys[5])) == 3


@pytest.mark.parametrize("vectors", [np.ones((2, 6)), np.ones(5), np.full((2, 5), np.nan)])
def test_vectors_that_do_not_fit_are_refused_and_nothing_is_written(case, store, vectors):
    store.add(NEW)
    with pytest.raises(StoreError):
        store.write(NEW, as_keys([case.key(3), case.key(5)]), vectors)
    assert store.count(NEW) == 0


def test_only_the_new_field_is_written(case, store):
    keys = as_keys([case.key(3)])
    with pytest.raises(StoreError):
        store.write(NEW, keys, np.ones((1, 5)))
    store.add(NEW)
    with pytest.raises(StoreError):
        store.write(store.served, keys, np.ones((1, 8)))


def test_items_that_come_and_go_meanwhile(case, url, store):
    keys = fill(store)
    store.close()
    gone, fresh = [case.key(0), case.key(20)], case.key(1000)
    case.delete(url, gone)
    case.insert(url, Items.draw([fresh], seed=1))
    with open_store(url) as store:
        assert store.remove_orphans(NEW) in (0, 2)  # a column goes with its row, a file of its own does not
        assert store.remove_orphans(NEW) == 0
        alive = sorted(set(keys) - set(gone))
        assert read(store, NEW)[0] == alive
        store.write(NEW, as_keys([fresh]), new_vectors([fresh]))
        store.build_index(NEW)
        assert read(store, NEW)[0] == sorted([*alive, fresh])
        store.switch()
        assert read(store, store.served)[0] == sorted([*alive, fresh])


def test_the_state_of_a_shard_changes_with_its_items_and_not_with_the_new_field(case, url, store):
    if store.state(Shard()) is None:
        pytest.skip("only reading tells whether something has changed")
    before = store.state(Shard())
    fill(store)
    store.remove_orphans(NEW)
    store.build_index(NEW)
    assert store.state(Shard()) == before
    store.close()
    for change in (
        lambda: case.insert(url, Items.draw([case.key(1000)], seed=1)),
        lambda: case.delete(url, [case.key(1000)]),
        lambda: case.insert(url, Items.draw([case.key(1000)], seed=2)),  # the same key with another vector
    ):
        change()
        with open_store(url) as store:
            now = store.state(Shard())
        assert now != before
        before = now


# Writes one item after the other, and says of each that it is written.
WRITER = """
import sys
from relatent.stores import open_store
from tests.stores.case import as_keys
from tests.stores.steps import NEW, new_vectors, read
with open_store(sys.argv[1]) as store:
    store.add(NEW)
    for row, key in enumerate(read(store, store.served)[0]):
        store.write(NEW, as_keys([key]), new_vectors([key]))
        print(row, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 7])
def test_a_writer_that_is_killed_loses_nothing_that_it_said_was_written(url, store, items, lines):
    before = snapshot(store, store.served)
    store.close()
    root = Path(__file__).parents[2]
    command = [sys.executable, "-W", "ignore", "-c", WRITER, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as writer:
        said = [int(writer.stdout.readline()) for _ in range(lines)]
        writer.kill()
        said += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    with open_store(url) as store:
        keys, vectors = read(store, NEW)
        assert keys[: len(said)] == sorted(items.keys)[: len(said)]
        assert len(keys) <= len(said) + 1
        np.testing.assert_allclose(vectors, new_vectors(keys), rtol=1e-6)
        assert snapshot(store, store.served) == before
        fill(store)
        assert store.count(NEW) == len(before)
