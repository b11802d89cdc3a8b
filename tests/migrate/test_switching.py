"""Cutting over and back: refused unless verified, one step for every reader, and at any time undone."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.migrate.conftest import make_task
from tests.migrate.steps import (
    DIM,
    NEW_DIM,
    ROWS,
    assert_translated,
    contents,
    items_of,
    new_vectors,
    save_second_translator,
    third_vectors,
)

from relatent.migrate import cut_over, finish_migration, migration_status, old_field, roll_back, verify_migration
from relatent.migrate.state import Work
from relatent.stores import StoreError, open_store

pytestmark = pytest.mark.stores


def prepared(task):
    task.apply()
    assert verify_migration(task.url, work=task.work).passed


def test_there_and_back(task):
    before = contents(task.url, "served", None)
    prepared(task)
    done = cut_over(task.url, work=task.work)
    assert "query with vectors of new-model, as they are" in done.done
    assert_translated(task.url, task.items, "served")
    assert contents(task.url, "old", None) == before
    with open_store(task.url) as store:
        found = store.search(new_vectors(task.items.vectors[:9]), 1, exact=True).keys
    assert [keys[0] for keys in found] == task.items.keys[:9]
    assert cut_over(task.url, work=task.work).served == done.served  # again is no error
    roll_back(task.url, work=task.work)
    assert contents(task.url, "served", None) == before
    assert_translated(task.url, task.items)
    cut_over(task.url, work=task.work)
    roll_back(task.url, work=task.work, drop=True)
    with open_store(task.url) as store:
        assert (store.new, store.old) == (None, None)
    assert contents(task.url, "served", None) == before
    assert task.apply().resumed == 0


def test_a_second_migration_after_the_first_is_finished(task, tmp_path):
    """From the new model to a third one, in the same store."""
    prepared(task)
    cut_over(task.url, work=task.work)
    third = save_second_translator(tmp_path / "third.safetensors", task.url, task.items)
    again = replace(task, translator=third)
    with pytest.raises(StoreError, match="finish"):
        again.apply()
    found = old_field(task.url)
    assert (found.rows, found.old.dim, found.served.dim) == ((ROWS, ROWS), DIM, NEW_DIM)
    assert finish_migration(task.url, work=task.work).dropped == found.old.name
    assert old_field(task.url) is None
    with pytest.raises(StoreError, match="nothing to roll back"):
        roll_back(task.url, work=task.work)
    assert_translated(task.url, task.items, "served")
    titles = contents(task.url, "served", None)
    prepared(again)
    cut_over(again.url, work=again.work)
    with open_store(task.url) as store:
        assert store.served.provenance["source"] == "new-model@translated from old-model"
        found = store.search(third_vectors(task.items.vectors[:9]), 1, exact=True).keys
    assert [keys[0] for keys in found] == task.items.keys[:9]
    finish_migration(again.url, work=again.work)
    now = contents(task.url, "served", None)
    assert {key: row[1:] for key, row in now.items()} == {key: row[1:] for key, row in titles.items()}


def test_finishing_what_lacks_rows(tmp_path):
    task = make_task("pgvector", tmp_path)
    task.apply()
    cut_over(task.url, work=task.work, force=True)
    task.case.insert(task.url, items_of([10_000], seed=1))  # someone keeps writing old vectors
    with pytest.raises(StoreError, match=f"has {ROWS + 1} vectors and .* {ROWS}: .* Write the missing ones"):
        finish_migration(task.url, work=task.work)
    assert finish_migration(task.url, work=task.work, force=True).dropped is not None


def test_finishing_too_early_and_twice(light):
    light.apply()
    with pytest.raises(StoreError, match="nothing to finish"):
        finish_migration(light.url, work=light.work)
    cut_over(light.url, work=light.work, force=True)
    plan = Work(light.work).plan()
    assert finish_migration(light.url, work=light.work).dropped is not None
    with pytest.raises(StoreError, match="nothing to finish"):
        finish_migration(light.url, work=light.work)
    Work(light.work).begin(plan)  # as if it had been killed before it forgot the plan
    assert finish_migration(light.url, work=light.work).dropped is None
    assert Work(light.work).plan() is None


def test_rolling_back_needs_the_store_only(light, tmp_path):
    prepared(light)
    before = contents(light.url, "served", None)
    cut_over(light.url, work=light.work)
    roll_back(light.url, work=tmp_path / "nothing here")
    assert contents(light.url, "served", None) == before


def rewritten(task):
    with open_store(task.url) as store:
        store.write(store.new, pa.array([5], pa.int64()), np.ones((1, NEW_DIM), np.float32))
    verify_migration(task.url, work=task.work)


def grown(task):
    prepared(task)
    task.case.insert(task.url, items_of([10_000], seed=1))


def reapplied(task):
    grown(task)
    task.apply()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda task: task.apply(), "has not been verified since the last write"),
        (lambda task: (task.apply(), rewritten(task)), "did not pass verify"),
        (grown, f"had {ROWS} rows and {ROWS} new vectors when it was verified, and has {ROWS + 1} and {ROWS} now"),
        (reapplied, "has not been verified since the last write"),
    ],
    ids=["not verified", "failed", "grown since", "applied again since"],
)
def test_cutting_over_is_refused_unless_verified(light, spoil, says):
    spoil(light)
    with pytest.raises(StoreError, match=says):
        cut_over(light.url, work=light.work)
    with open_store(light.url) as store:
        assert store.new is not None


def test_force_cuts_over_anyway(light):
    light.apply()
    cut_over(light.url, work=light.work, force=True)
    assert_translated(light.url, light.items, "served")


def test_after_the_cutover_there_is_nothing_to_apply_or_verify(light):
    prepared(light)
    cut_over(light.url, work=light.work)
    for step in (light.apply, lambda: verify_migration(light.url, work=light.work)):
        with pytest.raises(StoreError, match="serves what this translator has written"):
            step()


def test_rolling_back_what_was_not_cut_over(light):
    with pytest.raises(StoreError, match="nothing to roll back"):
        roll_back(light.url, work=light.work)
    light.apply()
    with pytest.raises(StoreError, match=r"has not been cut over .* Give drop=True to remove"):
        roll_back(light.url, work=light.work)
    roll_back(light.url, work=light.work, drop=True)
    with open_store(light.url) as store:
        assert store.new is None
    with pytest.raises(StoreError, match="holds no migration"):
        migration_status(light.url, work=light.work)


def test_status_tells_the_stage(light):
    light.apply(max_passes=0)
    status = migration_status(light.url, work=light.work)
    assert (status.stage, status.rows_done, status.shards_done, status.running) == ("applied", ROWS, 5, False)
    (light.work / "shards" / "000003.json").unlink()
    status = migration_status(light.url, work=light.work)
    assert (status.stage, status.shards_done, status.rows) == ("applying", 4, ROWS)
    prepared(light)
    assert migration_status(light.url, work=light.work).stage == "verified"
    cut_over(light.url, work=light.work)
    assert migration_status(light.url, work=light.work).stage == "cut over"
    with open_store(light.url) as store:
        file = store.address.file
    file.rename(file.with_suffix(".away"))
    status = migration_status(light.url, work=light.work)
    assert status.rows is None
    assert "could not be read" in str(status)


def test_status_while_it_runs(light):
    light.apply()
    with open_store(light.url) as store, Work(light.work).locked(store.address):
        assert migration_status(light.url, work=light.work).running
