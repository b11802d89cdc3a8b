"""Every store as a space: ``rl.read_space(URL)``, and what takes files takes it too."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.stores.steps import NEW, fill, new_vectors

import relatent as rl
from relatent.stores import open_store, rows


def test_a_store_is_read_as_a_space(url, items, case):
    space = rl.read_space(url)
    keys = sorted(items.keys)
    by_key = dict(zip(items.keys, items.vectors, strict=True))
    assert space.shape == (42, 8)
    assert space.keys.tolist() == keys
    np.testing.assert_allclose(space.vectors, [by_key[key] for key in keys], rtol=1e-6)
    np.testing.assert_array_equal(space.take([41, 3]), space.vectors[[41, 3]])
    assert space.by_keys([case.key(5)])[0].tolist() == space.vectors[5].tolist()
    if case.payload is not None:
        titles = dict(zip(items.keys, items.payload, strict=True))
        assert space.others.column(case.payload).to_pylist() == [titles[key] for key in keys]


def test_rows_are_found_by_number(url, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 5)
    space = rl.read_space(url)
    whole = space.vectors
    for start, stop in ((0, 42), (0, 1), (4, 6), (17, 42), (41, 42), (3, 3)):
        chunks = list(space._rows.chunks(start, stop, 4))
        np.testing.assert_array_equal(np.concatenate([chunk.vectors for chunk in chunks]), whole[start:stop])
        assert [chunk.start for chunk in chunks if len(chunk)] == sorted({c.start for c in chunks if len(c)})
    parts = [chunk.vectors for i in range(3) for chunk in space.chunks(rows=4, shard=(i, 3))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_pickled_space_opens_its_store_again(url):
    space = rl.read_space(url)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(space)).vectors, space.vectors)


def test_what_is_served_is_read_with_what_is_known_of_it(url, store):
    fill(store)
    store.build_index(NEW)
    store.switch()
    store.close()
    space = rl.read_space(url)
    assert (space.dim, space.fingerprint.model, space.fingerprint.revision) == (5, "b", "1")
    np.testing.assert_allclose(space.vectors, new_vectors(space.keys.tolist()), rtol=1e-6)
    with open_store(url) as store:
        store.switch_back()
        store.drop_new()
    assert rl.read_space(url).dim == 8


def test_a_store_is_not_written_as_a_file(url, tmp_path):
    before = sorted(path.name for path in tmp_path.iterdir())
    space = rl.Space(np.eye(3), keys=[1, 2, 3])
    for path in (url, tmp_path / "new.faiss"):
        with pytest.raises(ValueError, match=r"relatent\.migrate"):
            rl.write_space(space, path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
