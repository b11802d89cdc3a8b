"""Every store: a small copy beside it, for a rehearsal, of which nothing is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.stores.steps import NEW, fill, read, snapshot

from relatent.stores import Store, StoreError, open_store


@pytest.fixture(autouse=True)
def copies(store: Store) -> None:
    if type(store).rehearsal is Store.rehearsal:
        pytest.skip("it makes no copies")


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.iterdir()}


def test_a_copy_has_some_items_with_their_payload(store):
    before = {row[0]: row for row in snapshot(store, store.served)}
    with store.rehearsal(20) as url, open_store(url) as copy:
        # Of a server of Chroma, the collection's name is the field's.
        assert replace(copy.served, name=store.served.name) == store.served
        rows = snapshot(copy, copy.served)
        assert len(rows) == 20
        for row in rows:
            assert row[:-1] == before[row[0]][:-1]
            vectors = (np.frombuffer(one, np.float32) for one in (row[-1], before[row[0]][-1]))
            np.testing.assert_allclose(*vectors, rtol=1e-6)  # a store may bring it to norm 1 again
    assert {row[0]: row for row in snapshot(store, store.served)} == before


def test_of_a_small_store_all_is_copied(store, items):
    with store.rehearsal(1_000) as url, open_store(url) as copy:
        assert read(copy, copy.served)[0] == sorted(items.keys)


def test_a_copy_can_be_migrated_and_leaves_nothing(case, url, store, tmp_path):
    left = everything(tmp_path.parent), everything(tmp_path)
    with store.rehearsal(20) as copied:
        assert copied != url
        with open_store(copied) as copy:
            keys = fill(copy)
            copy.build_index(NEW)
            copy.switch()
        with open_store(copied) as copy:
            assert copy.served == NEW
            assert read(copy, NEW)[0] == keys
    assert (everything(tmp_path.parent), everything(tmp_path)) == left
    assert (store.new, store.old) == (None, None)
    with pytest.raises(StoreError):
        open_store(copied)


def test_an_error_leaves_nothing_either(store, tmp_path):
    left = everything(tmp_path.parent), everything(tmp_path)
    with pytest.raises(ValueError, match="ours"), store.rehearsal(20) as copied:
        raise ValueError("ours")
    assert (everything(tmp_path.parent), everything(tmp_path)) == left
    with pytest.raises(StoreError):
        open_store(copied)


def test_what_is_served_since_a_migration_is_copied_as_it_is(store):
    fill(store)
    store.build_index(NEW)
    store.switch()
    with store.rehearsal(10) as url, open_store(url) as copy:
        served = replace(NEW, name=copy.served.name)  # PostgreSQL has it in the column of the table
        assert (copy.served, copy.new, copy.old) == (served, None, None)
        assert len(read(copy, served)[0]) == 10
