"""Every store: codes of eight bits, with their scale in the store, or a refusal that says what it holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.stores.case import Case, as_keys
from tests.stores.steps import NEW, brute_force, fill, new_vectors, read

import relatent as rl
from relatent.stores import Field, StoreError, calibrated

DTYPES, METRICS = ("int8", "uint8"), ("cosine", "inner", "l2")
ROUNDING = 1.001


@pytest.fixture
def fields(case, items) -> list[Field]:
    """The fields of codes that a store can have."""
    if not case.codes:
        pytest.skip("it holds no codes")
    return [coded(dtype, metric, items.keys) for dtype, metrics in case.codes.items() for metric in metrics]


def coded(dtype: str, metric: str, keys: list) -> Field:
    """A field whose codes reach every vector and every query, so that nothing is cut off."""
    x = as_held(metric, np.concatenate([new_vectors(keys), queries()]))
    low, high = float(x.min()), float(x.max())
    if dtype == "int8":
        return replace(NEW, dtype=dtype, metric=metric, scale=max(-low, high) / 127)
    return replace(NEW, dtype=dtype, metric=metric, scale=(high - low) / 255, offset=low)


def queries(rows: int = 6) -> np.ndarray:
    return new_vectors([f"query {i}" for i in range(rows)])


def as_held(metric: str, x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True) if metric == "cosine" else x


def allowed(case: Case, new: Field, asked: np.ndarray) -> float:
    """How much a score can differ from that of the vectors: each coordinate is off by half a step at most."""
    of_items = new.scale * np.sqrt(new.dim) / 2
    of_both = of_items * (2 if case.codes_queries else 1)
    if new.metric == "l2":
        return of_both
    if new.metric == "inner":
        return of_items * np.linalg.norm(asked, axis=1).max()
    # 1 - d²/2 of a distance d of unit vectors, at most 2, that is off by of_both; or a product with a unit vector.
    return 2 * of_both + of_both**2 / 2 if case.codes_queries else of_items


def test_codes_are_read_back_within_half_a_step(store, again, fields):
    for new in fields:
        keys = fill(store, new)
        store = again(store)
        assert store.new == new
        found, vectors = read(store, store.new)
        assert found == keys
        assert vectors.dtype == np.float32
        steps = (vectors - new.offset) / new.scale
        np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)  # every coordinate is one that a code stands for
        assert np.abs(vectors - as_held(new.metric, new_vectors(keys))).max() <= ROUNDING * new.scale / 2
        store.drop_new()
    store.close()


@pytest.mark.parametrize("built", [False, True])
def test_no_hit_is_worse_than_a_miss_by_more_than_the_codes_are_off(case, store, fields, built):
    asked = queries()
    for new in fields:
        keys = fill(store, new)
        if built:
            store.build_index(new)
        true, tolerance = brute_force(new.metric, asked, new_vectors(keys)), ROUNDING * allowed(case, new, asked)
        hits = store.search(asked, 5, of=new, exact=True)
        for row, names, scores in zip(true, hits.keys, hits.scores, strict=True):
            of = dict(zip(keys, row, strict=True))
            np.testing.assert_allclose(scores, [of[name] for name in names], atol=tolerance)
            assert (np.diff(scores) <= 1e-6).all()
            missed = max(score for name, score in of.items() if name not in names)
            assert min(of[name] for name in names) >= missed - 2 * tolerance
        store.drop_new()


def test_codes_are_served_and_the_old_vectors_again_after_a_switch_back(url, store, items, again, fields):
    new, old = next(field for field in fields if field.metric == "l2"), store.served
    keys = fill(store, new)
    store.build_index(new)
    store.switch()
    with again(store) as store:
        assert (store.served, store.old) == (new, old)
        for exact in (False, True):
            assert store.search(new_vectors(keys), 1, exact=exact).keys == [[key] for key in keys]
    space = rl.read_space(url)
    assert np.abs(space.vectors - new_vectors(keys)).max() <= ROUNDING * new.scale / 2
    with again(store) as store:
        store.switch_back()
        assert (store.served, store.new) == (old, new)
        assert store.search(items.vectors[:4], 1).keys == [[key] for key in items.keys[:4]]
        store.switch()
        store.drop_old()
        assert (store.served, store.new, store.old) == (new, None, None)
        np.testing.assert_array_equal(read(store, store.served)[1], space.vectors)


def test_what_lies_beyond_the_scale_is_cut_off(case, store, fields):
    for new in (field for field in fields if field.metric == "l2"):
        store.add(new)
        store.write(new, as_keys([case.key(3)]), np.asarray([[1e4, -1e4, 0, 0, 0]], np.float32))
        ends = (127, -127) if new.dtype == "int8" else (255, 0)
        found = read(store, new)[1][0]
        np.testing.assert_allclose(found[:2], [new.offset + code * new.scale for code in ends], rtol=1e-5)
        assert np.abs(found[2:]).max() <= ROUNDING * new.scale / 2
        store.drop_new()


def test_codes_that_a_store_cannot_compare_are_refused(case, store):
    held = "|".join(case.codes) or "float32"
    for dtype, metric in product(DTYPES, METRICS):
        if metric in case.codes.get(dtype, ()):
            continue
        words = rf"asked for {dtype} vectors and the metric {metric}: expected .*({held}).* with "
        with pytest.raises(StoreError, match=words):
            store.add(replace(NEW, dtype=dtype, metric=metric, scale=0.1))
    assert store.new is None


def test_codes_without_a_scale_are_refused(store, fields):
    for new in fields:
        with pytest.raises(StoreError, match="give the field a scale"):
            store.add(replace(new, scale=None))
    assert store.new is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_calibrated_field_reaches_what_it_was_shown(dtype):
    x = new_vectors(list(range(200)))
    field = calibrated(replace(NEW, dtype=dtype, metric="l2"), x)
    widest = 2 * np.abs(x).max() / 254 if dtype == "int8" else (x.max() - x.min()) / 255
    assert 0.9 * widest <= field.scale <= ROUNDING * widest
    assert calibrated(NEW, x) == NEW
    assert calibrated(replace(field, metric="cosine"), 1000 * x) == calibrated(replace(field, metric="cosine"), x)
    with pytest.raises(StoreError, match="float32"):
        calibrated(replace(NEW, dtype=dtype), np.full((3, 5), np.nan))
