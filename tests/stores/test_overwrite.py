"""Every store: served vectors of a migration are replaced one by one, and all else stays as it is."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stores.case import as_keys
from tests.stores.steps import NEW, fill, new_vectors, read, snapshot

from relatent.stores import StoreError


@pytest.fixture
def switched(store, case):
    fill(store)
    store.build_index(NEW)
    store.switch()
    if type(case).__name__ == "Faiss":  # an index file is written as a whole
        keys, vectors = read(store, NEW)
        with pytest.raises(StoreError, match="cannot replace single vectors"):
            store.overwrite(as_keys(keys), vectors)
        pytest.skip("FAISS replaces no single vectors")
    return store


def payload(store, of):
    return [row for chunk in store.scan(of, columns=None) for row in chunk.others.to_pylist()]


@pytest.mark.parametrize("finished", [False, True])
def test_served_vectors_are_replaced_and_the_old_field_is_not(switched, again, finished):
    store, old = switched, switched.old
    before, said = snapshot(store, old), payload(store, NEW)
    if finished:
        store.drop_old()
    keys, vectors = read(store, NEW)
    fresh = new_vectors(keys[3:9], NEW.dim, seed=77)
    for _ in range(2):  # idempotent
        store.overwrite(as_keys(keys[3:9]), fresh)
    with again(store) as store:
        found, now = read(store, store.served)
        assert found == keys
        np.testing.assert_allclose(now[3:9], fresh, rtol=1e-6)
        np.testing.assert_array_equal(np.delete(now, np.s_[3:9], axis=0), np.delete(vectors, np.s_[3:9], axis=0))
        assert payload(store, store.served) == said
        best = np.argmax(now @ now.T, axis=1)
        assert [hit[0] for hit in store.search(now * 9, 1, exact=True).keys] == [keys[j] for j in best]
        if not finished:
            assert snapshot(store, store.old) == before
            store.switch_back()
            assert snapshot(store, store.served) == before


def test_unknown_keys_are_ignored_and_the_last_of_a_key_counts(switched, case):
    store = switched
    keys = read(store, NEW)[0]
    unknown = case.key(123_456)
    assert unknown not in keys
    fresh = new_vectors(["one", "two", "three"], NEW.dim)
    store.overwrite(as_keys([keys[0], unknown, keys[0]]), fresh)
    found, now = read(store, NEW)
    assert found == keys
    np.testing.assert_allclose(now[0], fresh[2], rtol=1e-6)


def test_only_what_a_migration_added_is_replaced(store):
    keys, vectors = read(store, store.served)
    with pytest.raises(StoreError, match="no migration has added"):
        store.overwrite(as_keys(keys), vectors)


def test_vectors_that_do_not_fit_are_refused(switched):
    keys, vectors = read(switched, NEW)
    for bad in (vectors[:, :3], np.full_like(vectors, np.nan)):
        with pytest.raises(StoreError):
            switched.overwrite(as_keys(keys), bad)
    np.testing.assert_array_equal(read(switched, NEW)[1], vectors)
