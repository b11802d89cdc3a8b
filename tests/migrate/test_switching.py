"""Cutting over and back: refused unless verified, one step for every reader, and at any time undone."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.migrate.steps import (
    DIM,
    NEW_DIM,
    ROWS,
    assert_translated,
    contents,
    edited,
    items_of,
    new_vectors,
    save_second_translator,
    third_vectors,
)
from tests.stores.cases.faiss import Faiss

from relatent.migrate import cut_over, finish_migration, migration_status, old_field, roll_back, verify_migration
from relatent.migrate.passes import Passes
from relatent.migrate.state import Work
from relatent.stores import StoreError, open_store
from relatent.stores.base import Size

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


def test_what_changed_after_verify_is_served_as_it_is_now(task):
    """A former value is never served: not after a change in place, and not weeks later after a rollback."""
    prepared(task)
    now = edited(task)
    cut_over(task.url, work=task.work)
    assert_translated(task.url, now, "served")
    roll_back(task.url, work=task.work)
    changed = replace(now, vectors=np.concatenate([items_of(now.keys[:1], seed=8).vectors, now.vectors[1:]]))
    task.case.delete(task.url, changed.keys[:1])
    task.case.insert(task.url, replace(changed, keys=changed.keys[:1], vectors=changed.vectors[:1], payload=["x"]))
    if isinstance(task.case, Faiss):  # whose file of keys is another now, so that the ids of the index are wrong
        with pytest.raises(StoreError, match="bring the keys back, or drop the new field"):
            cut_over(task.url, work=task.work)
        return
    cut_over(task.url, work=task.work)
    assert_translated(task.url, changed, "served")


def test_only_rows_that_may_have_changed_are_written_again(light, monkeypatch):
    """One change in a shard of 50 rows does not write all of them."""
    prepared(light)
    light.case.delete(light.url, [3])
    light.case.insert(light.url, items_of([3], seed=9))
    with open_store(light.url) as store:
        kind, write = type(store), type(store).write
    written = []

    def recorded(self, into, keys, vectors):
        written.extend(keys.to_pylist())
        write(self, into, keys, vectors)

    monkeypatch.setattr(kind, "write", recorded)
    cut_over(light.url, work=light.work)
    assert 3 in written
    assert len(written) < 10


def test_rows_without_a_new_vector_are_counted_and_must_be_allowed(light, monkeypatch):
    prepared(light)
    with open_store(light.url) as store:
        kind, only_in = type(store), type(store).only_in
    lost = pa.array([7, 8])

    def lacking(self, of, other, shard=None):
        """Two rows of the first shard cannot be translated."""
        return lost if of.dim == DIM and shard is not None and shard.low is None else only_in(self, of, other, shard)

    monkeypatch.setattr(kind, "only_in", lacking)
    assert migration_status(light.url, work=light.work).missing == 2
    with pytest.raises(StoreError, match=r"2 rows of .* have no new vector, first 7, .* give allow_missing=2"):
        cut_over(light.url, work=light.work, allow_missing=1)
    assert "2 rows" in cut_over(light.url, work=light.work, allow_missing=2).done


def test_what_is_in_one_field_only_is_not_dropped(light, monkeypatch):
    """An item that has its only vector in a field, whatever the counts say: the field is kept, and the key named."""
    prepared(light)
    cut_over(light.url, work=light.work)
    with open_store(light.url) as store:
        kind, only_in = type(store), type(store).only_in
    monkeypatch.setattr(kind, "only_in", lambda self, of, other, shard=None: pa.array([41]))
    with pytest.raises(StoreError, match=r"1 item \(41\) of .* is only in .* lost"):
        finish_migration(light.url, work=light.work)
    with pytest.raises(StoreError, match=r"would be lost .* give force=True"):
        roll_back(light.url, work=light.work, drop=True)
    done = roll_back(light.url, work=light.work)
    assert "1 item (41) is only in" in done.done
    (file,) = light.work.glob("only-in-*.txt")
    assert file.read_text() == "41\n"
    monkeypatch.setattr(kind, "only_in", only_in)
    roll_back(light.url, work=light.work, drop=True)


def test_force_finishes_although_items_are_lost(light, monkeypatch):
    prepared(light)
    cut_over(light.url, work=light.work)
    with open_store(light.url) as store:
        kind = type(store)
    monkeypatch.setattr(kind, "only_in", lambda self, of, other, shard=None: pa.array([41]))
    done = finish_migration(light.url, work=light.work, force=True)
    assert str(done).startswith(f"{done.dropped!r} was dropped")
    assert "The new vectors are in the table" in str(replace(done, into_table=True))
    assert old_field(light.url) is None


def test_old_vectors_that_were_written_after_the_cutover_are_not_dropped(light, monkeypatch):
    """In place, so that the keys are the same: the served vector is the translation of a former one."""
    prepared(light)
    cut_over(light.url, work=light.work)
    late = Passes.late
    monkeypatch.setattr(Passes, "late", lambda self: [7])
    with pytest.raises(StoreError, match=r"1 item \(7\) is out of date in .* or give force=True"):
        finish_migration(light.url, work=light.work)
    assert (light.work / "late-keys.txt").read_text() == "7\n"
    monkeypatch.setattr(Passes, "late", late)
    assert finish_migration(light.url, work=light.work).dropped is not None


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


def reapplied(task):
    prepared(task)
    task.case.insert(task.url, items_of([10_000], seed=1))
    task.apply()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda task: task.apply(), "has not been verified since the last write"),
        (lambda task: (task.apply(), rewritten(task)), "did not pass verify"),
        (reapplied, "has not been verified since the last write"),
    ],
    ids=["not verified", "failed", "applied again since"],
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


def test_an_estimate_is_called_one_and_nothing_is_counted_beside_it(light, monkeypatch):
    light.apply()
    with open_store(light.url) as store:
        kind = type(store)
    monkeypatch.setattr(kind, "size", lambda self, of: Size(10**7, is_exact=False))
    monkeypatch.setattr(kind, "count", lambda *_: pytest.fail("rows were counted"))
    status = migration_status(light.url, work=light.work)
    assert (status.rows, status.rows_estimated, status.rows_done, status.missing) == (10**7, True, ROWS, None)
    assert f"{ROWS:,} of about 10,000,000 rows" in str(status)
    assert "its estimate" in str(status)
    monkeypatch.undo()
    counted = migration_status(light.url, work=light.work)
    assert (counted.rows, counted.rows_estimated, counted.missing) == (ROWS, False, 0)
    assert "its estimate" not in str(counted)


def test_status_while_it_runs(light):
    light.apply()
    with open_store(light.url) as store, Work(light.work).locked(store.address):
        assert migration_status(light.url, work=light.work).running
