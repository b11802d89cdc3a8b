"""Pairs add: however rows are sharded and in whichever order, the same pairs make the same translator."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import relatent as rl
from relatent import Pairs
from relatent._files import FileError
from relatent.spaces import key_hashes
from relatent.translate.joined import FitReport
from relatent.translate.maps import MAPS

SETTINGS = [
    {"goal": "vectors"},
    {"goal": "stitching"},
    {"goal": "index"},
    {"goal": "retrieval"},
    {"goal": "retrieval", "frozen_target": True},
    {"normalize": "center+l2"},
    {"normalize": "standard"},
    *({"map": name} for name in MAPS),
    {"map": "orthogonal", "normalize": "l2"},
    {"map": "ridge", "normalize": "whiten"},
]


@pytest.fixture(scope="module")
def views() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(700, 6)) * np.linspace(2, 0.3, 6)
    x = z @ rng.normal(size=(6, 8)) + 0.3 * rng.normal(size=(700, 8)) + 1
    y = z @ rng.normal(size=(6, 8)) + 0.3 * rng.normal(size=(700, 8)) - 2
    return x, y


def sharded(x, y, cuts, order, **options) -> Pairs:
    """Sum up shards between cuts, and add them in an order."""
    edges = [0, *sorted(set(cuts)), len(x)]
    shards = [(a, b) for a, b in pairwise(edges) if a < b]
    parts = [Pairs.of(x[a:b], y[a:b], start=a, **options) for a, b in shards]
    return reduce(add, [parts[i] for i in np.argsort(order[: len(parts)], kind="stable")])


def assert_same_translation(a: rl.Translator, b: rl.Translator, x, y) -> None:
    for one, other in ((a.transform(x), b.transform(x)), (a.transform_target(y), b.transform_target(y))):
        one, other = np.asarray(one), np.asarray(other)
        assert np.linalg.norm(one - other) <= 1e-9 * np.linalg.norm(other)


@pytest.mark.parametrize("size", [10_000, 150])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_seven_shards_in_any_order_fit_as_the_whole(views, options, size):
    x, y = views
    whole = rl.Translator(**options).fit(x, y, sample_size=size)
    parts = sharded(x, y, [90, 91, 200, 333, 500, 640], [3, 1, 6, 0, 5, 2, 4], size=size)
    again = rl.Translator(**options).fit(Pairs.from_bytes(parts.to_bytes()))
    np.testing.assert_array_equal(again.pairs_.sample.ids, whole.pairs_.sample.ids)
    np.testing.assert_array_equal(again.pairs_.sample.x, whole.pairs_.sample.x)
    assert again.chosen_ == whole.chosen_
    assert_same_translation(again, whole, x, y)


@given(
    cuts=st.lists(st.integers(1, 699), max_size=9),
    order=st.permutations(range(10)),
    options=st.sampled_from(SETTINGS[:5]),
    size=st.sampled_from([40, 300, 10_000]),
)
@settings(max_examples=15, deadline=None)
def test_no_sharding_changes_the_fit(views, cuts, order, options, size):
    x, y = views
    whole = rl.Translator(**options).fit(x, y, sample_size=size)
    parts = sharded(x, y, cuts, order, size=size)
    assert_same_translation(rl.Translator(**options).fit(parts), whole, x, y)


@pytest.mark.parametrize("options", SETTINGS[:4], ids=str)
def test_torch_shards_fit_as_numpy_ones(views, options):
    x, y = views
    whole = rl.Translator(**options).fit(x, y)
    parts = sharded(torch.from_numpy(x), torch.from_numpy(y), [300], [1, 0])
    assert_same_translation(rl.Translator(**options).fit(parts), whole, x, y)


def test_the_sample_is_uniform_and_follows_the_seed(views):
    x, y = views
    counts = np.zeros(len(x))
    for seed in range(300):
        counts[Pairs.of(x, y, size=70, seed=seed).sample.ids.astype(int)] += 1
    # Binomial(300, 0.1): mean 30, standard deviation 5.2.
    assert abs(np.mean(counts) - 30) < 1e-9
    assert np.max(np.abs(counts - 30)) < 6 * 5.2
    assert 0.8 < np.std(counts) / 5.2 < 1.2


def test_pairs_known_by_key_do_not_depend_on_the_order_of_rows(views):
    x, y = views
    ids, order = key_hashes([f"item {i}" for i in range(700)]), np.random.default_rng(3).permutation(700)
    one, other = Pairs.of(x, y, ids=ids, size=60), Pairs.of(x[order], y[order], ids=ids[order], size=60)
    np.testing.assert_array_equal(one.sample.x, other.sample.x)


def test_shards_must_tell_their_rows_apart(views):
    x, y = views
    with pytest.raises(ValueError, match="Row 0 is in two of the parts: give each part the number of its first row"):
        Pairs.of(x[:50], y[:50]) + Pairs.of(x[50:], y[50:])
    with pytest.raises(ValueError, match="1 different entries for 2 pairs"):
        Pairs.of(x[:2], y[:2], ids=np.asarray([7, 7]))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"seed": 1}, "expected the same in every shard"), ({"size": 5}, "expected the same in every shard")],
)
def test_shards_sampled_otherwise_do_not_add(views, change, message):
    x, y = views
    with pytest.raises(ValueError, match=message):
        Pairs.of(x[:50], y[:50]) + Pairs.of(x[50:], y[50:], start=50, **change)
    with pytest.raises(ValueError, match="expected the same as before"):
        Pairs.of(x[:50], y[:50]) + Pairs.of(x[50:], y[50:, :3], start=50)


def test_a_fold_that_is_left_out_is_out_of_everything(views):
    """Even the mean and the scale: what is fitted on the rest is what a fit on the rest alone gives."""
    x, y = views
    pairs = Pairs.of(x, y, size=10_000)
    for rest, rows in pairs.folds(5):
        alone = Pairs.of(np.delete(x, rows, 0), np.delete(y, rows, 0))
        for name in ("iso", "center+l2", "standard"):
            ours, theirs = rest.normalized(name), alone.normalized(name)
            np.testing.assert_allclose(ours.summary.xy, theirs.summary.xy, atol=1e-9 * np.abs(theirs.summary.xy).max())
            np.testing.assert_allclose(ours.source.normalizer.mean, theirs.source.normalizer.mean, atol=1e-12)


def test_few_pairs_never_form_the_square_of_their_coordinates():
    """9,000 coordinates: their scatter would take 650 MB."""
    import tracemalloc

    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 9_000)).astype(np.float32)
    y = (x[:, ::-1] + 0.1 * rng.normal(size=x.shape)).astype(np.float32)
    for options in ({}, {"goal": "retrieval"}, {"map": "orthogonal"}, {"goal": "stitching"}, {"goal": "index"}):
        tracemalloc.start()
        t = rl.Translator(**options).fit(x, y)
        translated = t.transform(x)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200e6
        assert translated.shape[1] == (9_000 if options.get("goal") != "retrieval" else t.map_.width)


def test_a_thin_map_is_the_wide_one(views):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 60)), rng.normal(size=(12, 50))
    fresh = rng.normal(size=(5, 60))
    affine = {"goal": "stitching", "max_cost": "affine"}
    for options in ({"map": "ridge", "penalty": 0.1}, {"map": "orthogonal"}, {"map": "least_squares"}, affine):
        t = rl.Translator(**options).fit(x, y)
        assert t.map_.basis is not None
        np.testing.assert_allclose(t.transform(fresh), fresh @ t.matrix_ + t.offset_, atol=1e-10)


def test_what_is_no_pairs_is_refused(views):
    x, y = views
    with pytest.raises(ValueError, match="holds a summary, not pairs"):
        Pairs.from_bytes(rl.translate.summarize(x, y).to_bytes())
    raw = bytearray(Pairs.of(x, y).to_bytes())
    raw[-1] ^= 1
    with pytest.raises(FileError, match="checksum"):
        Pairs.from_bytes(bytes(raw))
    lean = Pairs.of(x, y, full_y=False)
    with pytest.raises(ValueError, match=r"summed with \(full_x, full_y\) = \(True, False\)"):
        rl.Translator("retrieval").fit(lean)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": "retrieval", "map": "ridge"}, "leave out the goal to use the map as it is .with frozen_target=True"),
        ({"goal": "stitching", "map": "orthogonal"}, "leave out the map, or leave out the goal"),
        ({"map": "orthogonal", "penalty": 0.1}, "penalty was given, and map 'orthogonal' takes none"),
        ({"map": "ridge", "rank": 3}, "rank was given, and map 'ridge' takes none"),
        ({"penalty": float("nan")}, "penalty is nan: expected a finite number of 0 or more"),
        ({"penalty": -1.0}, "penalty is -1.0"),
        ({"goal": "retrieval", "frozen_target": True, "penalty": 1.0}, "a frozen target takes none"),
    ],
)
def test_combinations_that_mean_nothing_are_refused(views, options, message):
    with pytest.raises(ValueError, match=message):
        rl.Translator(**options).fit(*views)


def test_a_named_map_may_search_a_frozen_index(views):
    x, y = views
    t = rl.Translator("retrieval", map="orthogonal", frozen_target=True).fit(x, y)
    assert t.metric_ == "cosine"
    np.testing.assert_allclose(t.transform(x), rl.Translator(map="orthogonal").fit(x, y).transform(x))


def test_few_held_out_pairs_are_told_of():
    report = FitReport("a", "b", (2, 3), "on keys", 500, 99, 0, None)
    assert "Only 99 pairs are left" in str(report)
    assert "pairs are left" not in str(replace(report, held_out=100))
