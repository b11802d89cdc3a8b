"""Every store: one step to the new field and back, and the old data as it was."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from tests.stores.steps import NEW, NEXT, fill, new_vectors, read, snapshot

from relatent.stores import StoreError, open_store


def test_switch_there_and_back(store, again, items):
    served, before = store.served, snapshot(store, store.served)
    fill(store)
    store.build_index(NEW)
    store.switch()
    assert (store.served, store.new, store.old) == (NEW, None, served)
    with again(store) as store:
        assert (store.served, store.new, store.old) == (NEW, None, served)
        keys, vectors = read(store, store.served)
        np.testing.assert_allclose(vectors, new_vectors(keys), rtol=1e-6)
        assert [found[0] for found in store.search(vectors * 9, 1, exact=True).keys] == [
            keys[j] for j in np.argmax(vectors @ vectors.T, axis=1)
        ]
        assert snapshot(store, store.old) == before
        store.switch_back()
        assert (store.served, store.new, store.old) == (served, NEW, None)
        assert store.count(NEW) == len(items.keys)
    with open_store(str(store.address)) as store:
        assert (store.served, store.new, store.old) == (served, NEW, None)
        assert snapshot(store, store.served) == before
        store.switch()
        assert store.served == NEW
        store.switch_back()
        store.drop_new()
        assert (store.served, store.new, store.old) == (served, None, None)
        assert snapshot(store, store.served) == before


def test_what_was_dropped_is_gone(store, again):
    before = snapshot(store, store.served)
    fill(store)
    store.build_index(NEW)
    store.drop_new()
    with again(store) as store:
        assert (store.new, store.old) == (None, None)
        assert snapshot(store, store.served) == before
        store.add(NEW)
        assert store.count(NEW) == 0
        fill(store)
        assert store.count(NEW) == len(before)


def test_there_must_be_something_to_switch_to(store):
    for change in (store.switch, store.switch_back, store.drop_new, store.drop_old):
        with pytest.raises(StoreError):
            change()


def test_the_old_field_is_dropped_and_another_migration_follows(store, again):
    """There is no way back to what was dropped; the next field stands beside the served one as the first one did."""
    fill(store)
    store.build_index(NEW)
    store.switch()
    rows = snapshot(store, NEW)
    store.drop_old()
    assert (store.served, store.new, store.old) == (NEW, None, None)
    for change in (store.switch, store.switch_back, store.drop_new, store.drop_old):
        with pytest.raises(StoreError):
            change()
    with again(store) as store:
        assert (store.served, store.new, store.old) == (NEW, None, None)
        assert store.served.provenance == NEW.provenance
        assert snapshot(store, NEW) == rows  # keys, payload and vectors
        fill(store, NEXT)
        store.build_index(NEXT)
        store.switch()
        assert (store.served, store.new, store.old) == (NEXT, None, NEW)
        assert snapshot(store, NEW) == rows
        store.switch_back()
        assert (store.served, store.new, store.old) == (NEW, NEXT, None)
        store.drop_new()
        assert (store.served, store.new, store.old) == (NEW, None, None)
        fill(store, NEXT)
        store.build_index(NEXT)
        store.switch()
        store.drop_old()
    with open_store(str(store.address)) as store:
        assert (store.served, store.new, store.old) == (NEXT, None, None)
        keys, vectors = read(store, NEXT)
        assert keys == [row[0] for row in rows]
        np.testing.assert_allclose(vectors, new_vectors(keys, NEXT.dim), rtol=1e-6)
        found = store.search(vectors[:9], 1, exact=True).keys
        assert [one[0] for one in found] == keys[:9]


def test_a_reader_sees_all_old_or_all_new(case, url, store):
    new = replace(NEW, dim=8, metric=store.served.metric)
    fill(store, new)
    store.build_index(new)
    query = np.ones((1, 8), np.float32)
    whole = {name: store.search(query, 42, of=field).keys[0] for name, field in (("old", store.served), ("new", new))}
    assert whole["old"] != whole["new"]
    seen, failed, done = [], [], threading.Event()

    def watch() -> None:
        reader = case.reader(url, store)
        try:
            while not done.is_set():
                seen.append(reader.search(query, 42).keys[0])
        except Exception as error:  # noqa: BLE001 (whatever goes wrong for a reader is what is tested)
            failed.append(error)
        finally:
            if reader is not store:
                reader.close()

    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(5):
        store.switch()
        store.switch_back()
    while len(seen) < 20 and thread.is_alive():
        pass
    done.set()
    thread.join()
    assert not failed
    assert all(keys in whole.values() for keys in seen)
