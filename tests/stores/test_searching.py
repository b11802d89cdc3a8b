"""Every store: an exact search is brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.stores.case import as_keys
from tests.stores.steps import NEW, brute_force, fill, new_vectors, read

from relatent.stores import StoreError


@pytest.mark.parametrize("metric", ["cosine", "inner", "l2"])
@pytest.mark.parametrize("built", [False, True])
def test_an_exact_search_is_brute_force(case, store, metric, built):
    if metric not in case.metrics:
        pytest.skip(f"it has no {metric}")
    new = replace(NEW, metric=metric)
    fill(store, new)
    if built:
        store.build_index(new)
        store.build_index(new)
    keys, vectors = read(store, new)
    queries = np.random.default_rng(4).normal(size=(6, 5)).astype(np.float32)
    scores = brute_force(metric, queries, vectors)
    hits = store.search(queries, 5, of=new, exact=True)
    assert hits.keys == [[keys[j] for j in np.argsort(-row)[:5]] for row in scores]
    np.testing.assert_allclose(hits.scores, -np.sort(-scores, axis=1)[:, :5], rtol=1e-4, atol=1e-5)


def test_the_served_field_is_searched_by_default(store, items):
    queries = items.vectors[:4]
    for exact in (False, True):
        assert [found[0] for found in store.search(queries, 3, exact=exact).keys] == items.keys[:4]


def test_asking_for_more_than_there_is(case, store):
    store.add(NEW)
    keys = [case.key(3), case.key(5)]
    store.write(NEW, as_keys(keys), new_vectors(keys))
    hits = store.search(new_vectors(keys[:1]), 4, of=NEW, exact=True)
    assert sorted(hits.keys[0]) == keys
    assert hits.scores.shape == (1, 4)
    assert np.isneginf(hits.scores[0, 2:]).all()


def test_queries_of_another_space_are_refused(store):
    with pytest.raises(StoreError, match="8"):
        store.search(np.ones((1, 5), np.float32), 3)
