"""Applying: every row gets its new vector, whatever happens on the way, and the old data stay as they were."""

import hashlib
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.migrate.steps import (
    DIM,
    NEW_DIM,
    ROWS,
    SHARD_ROWS,
    assert_translated,
    contents,
    edited,
    items_of,
    new_vectors,
    old_vectors,
    save_translator,
    space_of,
    vectors_of,
)
from tests.stores.case import Items

import relatent as rl
from relatent.engines import Serial, open_engine
from relatent.migrate import apply as applying
from relatent.migrate import copy as copying
from relatent.migrate import migration_status, verify_migration
from relatent.migrate.state import Work
from relatent.stores import StoreError, open_store
from relatent.translate.endpoints import SpaceMismatchError

SHARDS = -(-ROWS // SHARD_ROWS)


class Interfering(Serial):
    """Does something else after the first shard of each map, as an application would."""

    def __init__(self, interfere):
        self.interfere, self.maps = interfere, 0

    def map(self, function, shards, done=None):
        for i, result in enumerate(super().map(function, shards, done)):
            yield result
            if i == 0:
                self.interfere(self.maps)
                self.maps += 1


class Failing(Serial):
    """Fails after n shards, as when a store or a machine goes down."""

    def __init__(self, after):
        self.after = after

    def map(self, function, shards, done=None):
        for result in super().map(function, shards, done):
            if self.after == 0:
                raise StoreError("the store is down")
            self.after -= 1
            yield result


def joined(*parts):
    return Items(
        [key for part in parts for key in part.keys],
        np.concatenate([part.vectors for part in parts]),
        [text for part in parts for text in part.payload],
    )


def without(items, gone):
    kept = [i for i, key in enumerate(items.keys) if key not in gone]
    return Items([items.keys[i] for i in kept], items.vectors[kept], [items.payload[i] for i in kept])


def test_every_row_is_translated_and_the_old_data_are_untouched(task):
    before = contents(task.url, "served", None)
    done = task.apply()
    assert (done.rows, done.shards, done.resumed, done.redone, done.converged) == (ROWS, SHARDS, 0, 0, True)
    assert_translated(task.url, task.items)
    assert contents(task.url, "served", None) == before


def test_provenance_is_written_with_the_vectors(task):
    task.apply()
    with open_store(task.url) as store:
        known = store.new.provenance
        assert store.new.dim == NEW_DIM
    assert known["translator"] == hashlib.sha256(task.translator.read_bytes()).hexdigest()
    assert (known["source"], known["target"]) == ("old-model@1", "new-model@2")
    assert (known["model"], known["revision"]) == ("new-model", "translated from old-model")
    assert known["dims"] == f"{DIM} → {NEW_DIM}"
    assert known["relatent"] == rl.__version__
    assert known["date"].startswith("20")


def test_a_run_that_failed_is_resumed(task):
    with pytest.raises(StoreError, match="down"):
        task.apply(engine=Failing(after=2))
    done = task.apply()
    assert (done.resumed, done.rows) == (2, ROWS)
    assert_translated(task.url, task.items)


def test_applying_twice_is_applying_once(task):
    task.apply()
    once = contents(task.url)
    done = task.apply()
    assert (done.resumed, done.redone, done.removed) == (SHARDS, 0, 0)
    assert contents(task.url) == once


def test_a_source_that_changed_since_is_followed(task):
    task.apply()
    more, gone = items_of([task.case.key(ROWS + i) for i in (7, 8)], seed=5), task.items.keys[3:6]
    task.case.insert(task.url, more)
    task.case.delete(task.url, gone)
    done = task.apply()
    assert (done.redone == 0) if done.follows else (1 <= done.redone < SHARDS)
    now = joined(without(task.items, gone), more)
    assert done.rows == len(now.keys)
    assert_translated(task.url, now)


def test_a_source_that_changes_meanwhile_is_noticed(task):
    """Items are added, deleted and changed in shards that are done already."""
    task.needs_other_processes()
    first = task.items.keys[:SHARD_ROWS]
    changed = items_of(first[:2], seed=8)
    more = items_of([task.case.key(ROWS + 100)], seed=9)

    def interfere(maps):
        if maps == 0:
            task.case.delete(task.url, first[:4])
            task.case.insert(task.url, changed)
            task.case.insert(task.url, more)

    engine = Interfering(interfere)
    done = task.apply(engine=engine)
    assert done.converged
    assert done.follows or done.redone >= 1
    assert_translated(task.url, joined(without(task.items, first[:4]), changed, more))
    assert verify_migration(task.url, work=task.work).passed


def test_a_source_that_never_stops_changing_is_behind(light):
    def interfere(maps):
        light.case.insert(light.url, items_of([-1 - maps], seed=maps))  # into the shard that was just read

    done = light.apply(engine=Interfering(interfere), max_passes=2)
    assert done.lag > 0
    assert "keeps changing, and a pass over it takes" in " ".join(str(done).split())
    assert verify_migration(light.url, work=light.work).passed  # what is behind is left to the cutover


@pytest.mark.parametrize("engine", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
def test_workers_write_the_same(light, tmp_path, engine):
    light.apply()
    alone = contents(light.url)
    with open_store(light.url) as store:
        store.drop_new()
    with open_engine(engine, 2) as several:
        done = light.apply(engine=several, work=tmp_path / "another")
    assert done.rows == ROWS
    assert contents(light.url) == alone


def test_a_row_that_cannot_be_read_stops_it_by_its_key(task):
    key = task.items.keys[60]
    if not task.case.spoil(task.url, key):
        pytest.skip("this store has no such rows")
    with pytest.raises(StoreError, match=re.escape(repr(key))):
        task.apply()
    done = task.apply(skip_unreadable=True)
    assert (done.skipped, done.rows) == (1, ROWS - 1)
    assert str(key) in done.reasons[0]
    assert "1 rows could not be read and were skipped" in str(done)
    assert_translated(task.url, without(task.items, [key]))
    assert verify_migration(task.url, work=task.work).passed


def test_a_row_that_was_fixed_is_picked_up(light):
    key = light.items.keys[60]
    light.case.spoil(light.url, key)
    light.apply(skip_unreadable=True)
    light.case.delete(light.url, [key])
    light.case.insert(light.url, Items([key], light.items.vectors[60:61], light.items.payload[60:61]))
    done = light.apply()
    assert (done.skipped, done.rows) == (0, ROWS)
    assert_translated(light.url, light.items)


def test_a_damaged_manifest_costs_its_shard_only(light):
    light.apply()
    once = contents(light.url)
    path = light.work / "shards" / "000002.json"
    path.write_text(path.read_text().replace('"rows"', '"raws"')[:-5])
    with pytest.warns(UserWarning, match="shard 2 starts over"):
        done = light.apply()
    assert done.resumed == SHARDS - 1
    assert contents(light.url) == once


def test_a_damaged_plan_costs_the_progress_and_nothing_else(light):
    light.apply()
    once = contents(light.url)
    (light.work / "plan.json").write_text("{}")
    with pytest.warns(UserWarning, match="the whole migration starts over"):
        done = light.apply()
    assert done.resumed == 0
    assert contents(light.url) == once


def test_a_damaged_copy_of_the_translator_is_replaced(light):
    light.apply()
    (light.work / "translator.safetensors").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="apply it again with that one"):
        verify_migration(light.url, work=light.work)
    light.apply()
    assert verify_migration(light.url, work=light.work).passed


def test_manifests_of_a_field_that_is_gone_are_not_believed(light):
    light.apply()
    with open_store(light.url) as store:
        store.drop_new()
    with pytest.warns(UserWarning, match="no longer has: the migration starts over"):
        done = light.apply()
    assert done.resumed == 0
    assert_translated(light.url, light.items)


def test_a_lost_work_folder_is_survived(light, tmp_path):
    light.apply()
    once = contents(light.url)
    done = light.apply(work=tmp_path / "another")
    assert (done.resumed, done.rows) == (0, ROWS)
    assert contents(light.url) == once


def test_another_translator_is_refused_until_the_field_is_dropped(light, tmp_path):
    light.apply()
    other = save_translator(tmp_path / "other.safetensors", light.items, map="ridge")
    with pytest.raises(StoreError, match=r"from another translator .target new-model@2"):
        replace(light, translator=other).apply()


def test_two_at_once(light, tmp_path):
    with open_store(light.url) as store, store.lock(), pytest.raises(StoreError, match="Another migration"):
        light.apply()
    second = []

    def interfere(_):
        for work in (light.work, tmp_path / "another"):
            with pytest.raises(StoreError, match="Another migration"):
                light.apply(work=work)
            second.append(work)

    light.apply(engine=Interfering(interfere))
    assert len(second) >= 2
    assert_translated(light.url, light.items)


def test_a_foreign_store_is_refused_before_anything_is_written(light, tmp_path):
    unrelated = Items(light.items.keys, 30 * old_vectors(ROWS), light.items.payload)
    (tmp_path / "b").mkdir()
    url = light.case.create(tmp_path / "b", unrelated)
    with pytest.raises(SpaceMismatchError, match="is not the source 'old-model'"):
        replace(light, url=url).apply()
    with open_store(url) as store:
        assert store.new is None
    assert replace(light, url=url).apply(accept=True).rows == ROWS


def test_another_dimension_is_refused(light, tmp_path):
    wide = Items(light.items.keys, new_vectors(light.items.vectors) @ np.eye(NEW_DIM, 5, dtype=np.float32), [""] * ROWS)
    (tmp_path / "b").mkdir()
    with pytest.raises(SpaceMismatchError, match="the dim is 8 in one and 5 in the other"):
        replace(light, url=light.case.create(tmp_path / "b", wide)).apply(accept=True)


def test_a_store_that_holds_the_target_needs_no_writing(light, tmp_path):
    back = tmp_path / "back.safetensors"
    rl.Translator().fit(space_of(light.items, new=True), space_of(light.items)).save(back)
    with pytest.raises(StoreError, match=r"holds the target .* nothing has to be written"):
        replace(light, translator=back).apply()


def test_a_two_sided_translator_moves_the_stored_target(light, tmp_path):
    both = save_translator(tmp_path / "both.safetensors", light.items, "retrieval")
    done = replace(light, translator=both).apply()
    assert "query with translator.transform(vectors of new-model)" in done.advice
    translator = rl.load(both)
    expected = translator.transform_target(light.items.vectors)
    found = vectors_of(light.url)
    np.testing.assert_allclose([found[key] for key in light.items.keys], expected, rtol=1e-5, atol=1e-6)
    with open_store(light.url) as store:
        assert store.new.metric == "inner"
        asked = translator.transform(new_vectors(light.items.vectors[:20]))
        assert [hits[0] for hits in store.search(asked, 1, of=store.new).keys] == light.items.keys[:20]


def test_a_two_sided_translator_that_was_fitted_the_other_way_is_refused(light, tmp_path):
    wrong = tmp_path / "wrong.safetensors"
    rl.Translator("retrieval").fit(space_of(light.items), space_of(light.items, new=True)).save(wrong)
    with pytest.raises(StoreError, match=r"holds the source .* Fit it from the new model to the stored one"):
        replace(light, translator=wrong).apply()


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, monkeypatch):
        self.now, self.during = 0.0, None
        monkeypatch.setattr(copying.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(copying.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds
        if self.during is not None:
            self.during(self.now)


def test_the_rate_is_kept_to_by_sleeping(light, monkeypatch):
    clock = Clock(monkeypatch)
    light.apply(rate=20, max_passes=0)
    assert clock.now == pytest.approx(ROWS / 20)


def test_the_rate_can_be_changed_while_it_runs(light, monkeypatch):
    """A pause at first; after five minutes the limit is raised."""
    clock = Clock(monkeypatch)
    light.work.mkdir()

    def change(now):
        Work(light.work).max_rate.write_text("0" if now < 300 else "240")

    clock.during = change
    light.apply(rate=20, max_passes=0)
    assert 300 <= clock.now < 303


def test_half_precision_stays_and_what_does_not_fit_is_named(light):
    light.apply(dtype="float16")
    with open_store(light.url) as store:
        assert store.new.dtype == "float16"
    assert verify_migration(light.url, work=light.work).passed


def test_a_vector_that_becomes_infinite_is_named(light, tmp_path):
    huge = rl.Translator(map="least_squares").fit(light.items.vectors, new_vectors(light.items.vectors) * 1e6)
    huge.save(tmp_path / "huge.safetensors")
    with pytest.raises(StoreError, match=r"key 0 .* becomes infinite in float16"):
        replace(light, translator=tmp_path / "huge.safetensors").apply(dtype="float16", metric="inner")


def test_keys_that_are_text(light, tmp_path):
    items = items_of([f"ключ {i}" for i in range(120)])
    (tmp_path / "b").mkdir()
    url = light.case.create(tmp_path / "b", items)
    replace(light, url=url).apply()
    assert_translated(url, items)


def test_an_empty_store(light, tmp_path):
    (tmp_path / "b").mkdir()
    url = light.case.create(tmp_path / "b", items_of([]))
    done = replace(light, url=url).apply()
    assert done.rows == 0


def test_work_that_is_pickled_holds_no_open_store_and_shows_no_password():

    work = copying.ShardWork.__new__(copying.ShardWork)
    work.__dict__ |= {
        "_url": "postgresql://ann:secret@db/a/b",
        "_plan": None,
        "_store": object(),
        "_pace": copying.Pace(3),
    }
    work._plan = type("Plan", (), {"store": "postgresql://ann@db/a/b"})
    assert "secret" not in repr(work)
    assert work.__getstate__()["_store"] is None
    assert pickle.loads(pickle.dumps(copying.Pace(3))) == copying.Pace(3)


def test_a_postponed_apply_catches_up_until_the_file_is_removed(light, monkeypatch):
    now = []

    def wait(seconds):
        if not now:
            assert migration_status(light.url, work=light.work).postponed is not None
            now.append(edited(light))
        else:
            Work(light.work).postponed.unlink()

    monkeypatch.setattr(applying, "WAIT", 0)
    monkeypatch.setattr(applying.time, "sleep", wait)
    done = light.apply(postpone=True)
    assert done.redone >= 1
    assert_translated(light.url, now[0])


def test_what_was_left_out_is_reported_and_nothing_else(light):
    done = light.apply()
    assert "left out" not in str(done)
    assert "skipped" not in str(done)
    assert "3 items have no vector and were left out" in str(replace(done, without_vector=3))
    assert "2 rows could not be read and were skipped, first 'a'" in str(replace(done, skipped=2, reasons=("'a'",)))
