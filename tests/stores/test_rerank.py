"""Every store can be the index of a rerank."""

from __future__ import annotations

import numpy as np

import relatent as rl


def test_a_cascade_over_a_store_is_one_over_its_vectors(store, items):
    new = (items.vectors @ np.random.default_rng(2).normal(size=(8, 6))).astype(np.float32)
    translator = rl.Translator("retrieval", map="ridge", frozen_target=True).fit(new, items.vectors)
    rows = {key: row for row, key in enumerate(items.keys)}

    def embed(keys):
        return new[[rows[key] for key in keys]]

    over_store, over_array = (
        rl.Reranker(translator, index, embed, candidates=7)
        for index in (store, lambda queries, k: _nearest(items, queries, k))
    )
    found, expected = over_store.search(new[:5], k=3), over_array.search(new[:5], k=3)
    assert (found.keys, found.embedded) == (expected.keys, expected.embedded)
    assert set(over_store.backfilled().keys.tolist()) == set(over_array.backfilled().keys.tolist())


def _nearest(items, queries, k):
    best = np.argsort(-queries @ items.vectors.T, axis=1)[:, :k]
    return [[items.keys[i] for i in row] for row in best]
