"""A migration onto codes: planned, applied, verified, served and finished, and a wrong code is found."""

import numpy as np
import pytest
from tests.migrate.steps import (
    NEW_DIM,
    ROWS,
    new_vectors,
    save_second_translator,
    save_translator,
    vectors_of,
)
from tests.stores.case import as_keys

import relatent as rl
from relatent.migrate import apply_migration, cut_over, finish_migration, plan_migration, roll_back, verify_migration
from relatent.stores import StoreError, open_store

pytestmark = pytest.mark.stores


@pytest.fixture
def codes(task):
    """The dtype of the codes that a store holds, and the metric to compare by."""
    if not task.case.codes:
        pytest.skip("it holds no codes")
    dtype, metrics = next(iter(task.case.codes.items()))
    return {"dtype": dtype, "metric": metrics[0]}


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_a_store_is_moved_to_codes_and_on_to_another_model(task, codes, tmp_path):
    plan = plan_migration(task.translator, task.url, **codes, trial_rows=50)
    assert plan.new.dtype == codes["dtype"]
    assert plan.bytes(plan.new)[0] == ROWS * NEW_DIM  # a byte for each coordinate
    with open_store(task.url) as store:
        assert store.new is None  # the trial has left nothing
    applied = task.apply(**codes)
    with open_store(task.url) as store:
        new, compares_codes = store.new, store.compares_codes
    assert applied.rows == ROWS
    assert (f"Quantizer({new.dtype!r}, {NEW_DIM}, {new.scale}, {new.offset})" in applied.advice) is compares_codes
    stored, expected = vectors_of(task.url), unit(new_vectors(task.items.vectors))
    # The scale leaves out some of the largest coordinates; all others are off by half a step at most.
    far = np.asarray([np.abs(stored[key] - row) for key, row in zip(task.items.keys, expected, strict=True)])
    assert np.quantile(far, 0.99) <= 0.51 * new.scale

    found = verify_migration(task.url, work=task.work)
    assert found.passed, str(found)
    assert [check.name for check in found.checks][3:5] == ["vectors", "scale"]
    cut_over(task.url, work=task.work)
    with open_store(task.url) as store:
        hits = store.search(new_vectors(task.items.vectors[:20]), 1)
    assert hits.keys == [[key] for key in task.items.keys[:20]]

    roll_back(task.url, work=task.work)
    verify_migration(task.url, work=task.work)
    cut_over(task.url, work=task.work)
    finish_migration(task.url, work=task.work)
    second = save_second_translator(tmp_path / "second.safetensors", task.url, task.items)
    apply_migration(second, task.url, work=tmp_path / "second", progress=False, metric=codes["metric"])
    with open_store(task.url) as store:
        assert store.new.dtype == codes["dtype"]  # as the old field, with a scale of its own
    assert verify_migration(task.url, work=tmp_path / "second").passed


def test_codes_find_the_neighbors_that_vectors_find(task, codes):
    """Of pairs that differ by more than the codes are off, none is confused: few neighbors are lost."""
    task.apply(**codes)
    asked, items = new_vectors(task.items.vectors[:40]), unit(new_vectors(task.items.vectors))
    with open_store(task.url) as store:
        error = store.new.scale * np.sqrt(NEW_DIM)
        hits = store.search(asked, 10, of=store.new, exact=True)
    distances = np.linalg.norm(unit(asked)[:, None] - items[None], axis=2)
    place = {key: i for i, key in enumerate(task.items.keys)}
    for row, keys in zip(distances, hits.keys, strict=True):
        tenth = np.sort(row)[9]
        surely = {i for i in range(len(row)) if row[i] < tenth - 2 * error}
        found = {place[key] for key in keys}
        assert surely <= found
        assert all(row[i] <= tenth + 2 * error for i in found)


def test_a_code_that_is_off_by_one_is_named(task, codes):
    task.apply(**codes)
    key = task.items.keys[7]
    moved = vectors_of(task.url)[key].copy()
    with open_store(task.url) as store:
        moved[int(np.argmin(np.abs(moved)))] += store.new.scale  # so small that the norm stays as it is
        store.write(store.new, as_keys([key]), moved[None])
    found = verify_migration(task.url, work=task.work)
    failed = {check.name: check.found for check in found.checks if not check.passed}
    assert list(failed) == ["vectors"]
    assert f"first key {key!r}" in failed["vectors"]


def test_a_scale_that_is_wrong_for_the_rest_is_noticed(light, monkeypatch):
    """As if the sample that has given the scale were of much smaller vectors than the rest."""
    quantile = np.quantile
    monkeypatch.setattr("relatent.spaces.quantize.np.quantile", lambda *given: 0.3 * quantile(*given))
    light.apply(dtype="int8")
    monkeypatch.undo()
    found = verify_migration(light.url, work=light.work)
    failed = {check.name: check.found for check in found.checks if not check.passed}
    assert list(failed) == ["scale"]
    assert "choose float16" in failed["scale"]


def test_queries_that_are_translated_first_are_coded_after_that(task, codes):
    if not task.case.codes_queries:
        pytest.skip("it takes queries as they are")
    save_translator(task.translator, task.items, goal="retrieval")
    with pytest.raises(StoreError, match="metric inner"):  # which a translator of both sides is made for
        task.apply(dtype=codes["dtype"])
    advice = task.apply(**codes).advice
    assert "x = translator.transform(vectors of new-model) coded as" in advice


def test_going_on_with_another_dtype_is_refused(light):
    light.apply(dtype="int8")
    assert light.apply().rows == light.apply(dtype="int8").rows == ROWS
    for asked in ({"dtype": "uint8"}, {"metric": "l2"}, {"into": "other"}):
        with pytest.raises(StoreError, match=f"{next(iter(asked.values()))} was asked for"):
            light.apply(**asked)


def test_a_store_that_holds_no_codes_is_left_as_it_was(task):
    if task.case.codes:
        pytest.skip("it holds codes")
    with pytest.raises(StoreError, match="asked for int8 vectors"):
        task.apply(dtype="int8")
    with open_store(task.url) as store:
        assert store.new is None


def test_bits_are_moved_to_and_verified(task):
    """A bit per coordinate, where the store has bits: 1 where the translation is positive."""
    if not task.case.bits:
        pytest.skip("it holds no bits")
    assert "x > 0" in task.apply(dtype="bit").advice
    assert verify_migration(task.url, work=task.work).passed
    stored = vectors_of(task.url)
    expected = new_vectors(task.items.vectors)
    clear = np.abs(expected) > 1e-4
    found = np.asarray([stored[key] for key in task.items.keys])
    np.testing.assert_array_equal(found[clear] > 0, expected[clear] > 0)
    key = task.items.keys[3]
    task.case.overwrite(task.url, key, -expected[3])
    failed = [check.name for check in verify_migration(task.url, work=task.work).checks if not check.passed]
    assert failed == ["vectors"]
    assert rl.read_space(task.url).shape == (ROWS, task.items.vectors.shape[1])  # the old field is still served
