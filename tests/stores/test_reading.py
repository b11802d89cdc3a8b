"""Every store: items come in order of their keys, whole, once, and by shard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.stores.case import KEYS, Items, as_keys
from tests.stores.steps import NEW, fill, new_vectors, read

from relatent.stores import Store, StoreError, open_store


def test_scan_returns_every_item_in_order_of_its_key(store, items, case):
    keys, vectors = read(store, store.served)
    assert keys == sorted(items.keys)
    by_key = dict(zip(items.keys, items.vectors, strict=True))
    np.testing.assert_allclose(vectors, [by_key[key] for key in keys], rtol=1e-6)
    assert store.count(store.served) == len(items.keys)


def test_chunks_are_consecutive_and_not_larger_than_asked(store, items):
    chunks = list(store.scan(store.served, rows=7))
    assert [len(chunk) for chunk in chunks] == [7] * 6
    assert [chunk.start for chunk in chunks] == list(range(0, 42, 7))


def test_the_payload_comes_with_the_keys(store, items, case):
    if case.payload is None:
        pytest.skip("it keeps no payload")
    by_key = dict(zip(items.keys, items.payload, strict=True))
    for columns in (None, [case.payload]):
        (chunk,) = store.scan(store.served, columns=columns)
        assert chunk.others.column(case.payload).to_pylist() == [by_key[key] for key in chunk.keys.to_pylist()]
    (chunk,) = store.scan(store.served)
    assert chunk.others.column_names == [chunk.layout.key]


@pytest.mark.parametrize("rows", [1, 10, 42, 1000])
def test_shards_hold_every_key_once(store, items, rows):
    shards = store.shards(rows)
    found = [read(store, store.served, shard=shard)[0] for shard in shards]
    assert [key for keys in found for key in keys] == sorted(items.keys)
    assert [store.count(store.served, shard) for shard in shards] == [len(keys) for keys in found]
    assert max(len(keys) for keys in found) <= 2 * rows


def test_shards_hold_keys_that_come_and_go_later(case, url, store, items):
    shards = store.shards(9)
    store.close()
    fresh, gone = (list(map(case.key, numbers)) for numbers in ([1000, 999_999_999_999_999], [0, 20, 10**12]))
    case.insert(url, Items.draw(fresh, seed=1))
    case.delete(url, gone)
    with open_store(url) as store:
        found = [read(store, store.served, shard=shard)[0] for shard in shards]
        assert [key for keys in found for key in keys] == sorted({*items.keys, *fresh} - set(gone))


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_kind_come_back_as_they_are(case, kind, tmp_path):
    if kind not in case.kinds:
        pytest.skip(f"it has no {kind} keys")
    keys = [key for key in KEYS[kind] if key not in case.refused]
    url = case.create(tmp_path, Items.draw(keys))
    with open_store(url) as store:
        found = fill(store)
        assert sorted(found) == sorted(keys)
        assert [key for shard in store.shards(3) for key in read(store, NEW, shard=shard)[0]] == found
        assert store.search(new_vectors(keys[:4]), len(keys), of=NEW, exact=True).keys[0][0] in keys
        np.testing.assert_allclose(read(store, NEW)[1], new_vectors(found), rtol=1e-6)


def test_an_item_without_a_vector_is_left_out_and_counted(case, url, store, items):
    assert store.unfilled(store.served) == 0
    store.close()
    bare = case.key(7)
    if not case.unfill(url, bare):
        pytest.skip("every item has a vector")
    with open_store(url) as store:
        assert read(store, store.served)[0] == sorted(set(items.keys) - {bare})
        assert (store.count(store.served), store.unfilled(store.served)) == (len(items.keys) - 1, 1)
        store.add(NEW)
        store.write(NEW, as_keys(items.keys), new_vectors(items.keys))  # a new vector does not need an old one
        assert (store.unfilled(NEW), store.unfilled(store.served)) == (0, 1)


def test_items_that_have_no_new_vector_yet_are_counted(store):
    if type(store).unfilled is Store.unfilled:
        pytest.skip("it does not count them")
    fill(store, but=3)
    assert (store.unfilled(NEW), store.unfilled(store.served)) == (3, 0)


def test_the_keys_of_one_field_only(case, store):
    keys = fill(store, but=3)
    every = read(store, store.served)[0]
    assert store.only_in(store.served, NEW).to_pylist() == every[-3:]
    assert store.only_in(NEW, store.served).to_pylist() == []
    first, *_, last = store.shards(10)
    assert store.only_in(store.served, NEW, first).to_pylist() == []
    assert len(store.only_in(store.served, NEW, last)) > 0
    store.drop_new()
    store.add(NEW)
    assert store.only_in(store.served, NEW).to_pylist() == every
    assert store.only_in(NEW, store.served).to_pylist() == []
    assert keys == every[:-3]


def test_a_vector_that_cannot_be_read_is_named(case, url, store, items):
    store.close()
    spoilt = case.key(7)
    if not case.spoil(url, spoilt):
        pytest.skip("it keeps no such vectors")
    with open_store(url) as store:
        with pytest.raises(StoreError, match=rf"\b{spoilt}\b"):
            read(store, store.served)
        told: list[Any] = []
        keys, _ = read(store, store.served, unreadable=lambda key, reason: told.append((key, reason)))
        assert [key for key, _ in told] == [spoilt]
        assert told[0][1]
        assert keys == sorted(set(items.keys) - {spoilt})
