"""Verifying: what is wrong is found and named, what is right passes."""

import numpy as np
import pytest
from tests.migrate.steps import NEW_DIM, ROWS, assert_translated, edited, new_vectors, old_vectors

import relatent as rl
from relatent.migrate import cut_over, verify_migration
from relatent.migrate.state import Work
from relatent.migrate.verify import recall
from relatent.stores import Hits, StoreError, open_store

pytestmark = pytest.mark.stores


def failed(found):
    return {check.name: check.found for check in found.checks if not check.passed}


def test_what_was_applied_passes(task):
    task.apply()
    found = verify_migration(task.url, work=task.work)
    assert found.passed, str(found)
    assert found.rows == (ROWS, ROWS)
    assert [check.name for check in found.checks] == ["complete", "counts", "source", "vectors", "search", "neighbors"]
    assert "Verified" in str(found)


def test_a_vector_that_is_not_the_translation_is_named(task):
    task.apply()
    key = task.items.keys[7]
    task.case.overwrite(task.url, key, np.random.default_rng(0).normal(size=NEW_DIM).astype(np.float32))
    found = verify_migration(task.url, work=task.work)
    assert list(failed(found)) == ["vectors"]
    assert f"1 of {ROWS:,} rows of 5 shards are wrong, first key {key!r}" in failed(found)["vectors"]
    assert "do not cut over" in str(found)
    results = {line.split()[0]: line.split()[1] for line in str(found).splitlines()[1:5]}
    assert results == {"complete": "ok", "counts": "ok", "source": "ok", "vectors": "FAILED"}


def test_rows_that_came_and_went_since_are_left_to_the_cutover(task):
    task.apply()
    now = edited(task)
    found = verify_migration(task.url, work=task.work)
    assert found.passed, str(found)
    cut_over(task.url, work=task.work)
    assert_translated(task.url, now, "served")


def test_a_vector_that_is_gone_is_named_and_written_again(light):
    light.apply()
    with open_store(light.url) as store:
        store.drop_new()
        store.add(Work(light.work).plan().field)
    found = verify_migration(light.url, work=light.work)
    assert "which has no new vector" in failed(found)["vectors"]
    light.apply()
    assert verify_migration(light.url, work=light.work).passed
    assert_translated(light.url, light.items)


def test_an_index_that_finds_less_than_the_old_one_fails(light, monkeypatch):
    light.apply()
    with open_store(light.url) as store:
        kind = type(store)
    search = kind.search

    def forgetful(self, vectors, k, *, of=None, exact=False, effort=None):
        """An approximate index over the new vectors that finds half of what is there."""
        hits = search(self, vectors, k, of=of, exact=exact)
        if exact or of.dim != NEW_DIM:
            return hits
        return Hits([keys[: k // 2] for keys in hits.keys], hits.scores)

    monkeypatch.setattr(kind, "search", forgetful)
    found = verify_migration(light.url, work=light.work)
    assert list(failed(found)) == ["search"]
    assert "against exact search: new index 0.500, old index 1.000" in failed(found)["search"]
    assert verify_migration(light.url, work=light.work, margin=0.6).passed


def test_queries_of_the_new_model_ask(light):
    light.apply()
    queries = rl.Space(new_vectors(old_vectors(30, seed=4)))
    found = verify_migration(light.url, work=light.work, queries=queries)
    assert found.passed
    assert "queries: the new model" in found.checks[-1].found


def test_there_must_be_something_to_verify(light, tmp_path):
    with pytest.raises(StoreError, match=r"holds no migration of faiss:.*call apply_migration first"):
        verify_migration(light.url, work=light.work)
    light.apply()
    (tmp_path / "b").mkdir()
    other = light.case.create(tmp_path / "b", light.items)
    with pytest.raises(StoreError, match="holds the migration of"):
        verify_migration(other, work=light.work)


def test_recall_is_the_share_of_the_exact_hits():
    exact = Hits([[1, 2, 3], [4, 5, 6]], np.zeros((2, 3)))
    assert recall(exact, exact) == 1
    assert recall(Hits([[1, 9, 8], [6, 5, 4]], np.zeros((2, 3))), exact) == pytest.approx(2 / 3)
    assert recall(Hits([[], []], np.zeros((2, 0))), exact) == 0
