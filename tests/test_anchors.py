import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise_distances_argmin

import relatent as rl
from relatent import anchors
from relatent._array import to_numpy
from relatent._linalg import conditioning

CHOOSERS = {
    "uniform": anchors.uniform,
    "farthest_point": anchors.farthest_point,
    "kmeans": anchors.kmeans,
    "stratified": lambda x, k, seed=0: anchors.stratified(np.arange(len(x)) % 4, k, seed),
}


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def correlated(rng, n=60, d=12):
    """Rows around a few directions, as real encoders have them."""
    return rng.normal(size=(n, 4)) @ rng.normal(size=(4, d)) + 0.3 * rng.normal(size=(n, d))


def brute_force(x, k, first):
    """Farthest point by its definition: all distances, one at a time."""
    distance = 1 - unit(x) @ unit(x).T
    chosen = [first]
    while len(chosen) < k:
        nearest = np.min(distance[:, chosen], axis=1)
        nearest[chosen] = -np.inf
        chosen.append(int(np.argmax(nearest)))
    return chosen


@pytest.mark.parametrize("choose", CHOOSERS.values(), ids=CHOOSERS)
@pytest.mark.parametrize("k", [1, 7, 40])
def test_k_distinct_rows_the_same_for_the_same_seed(rng, choose, k):
    x = rng.normal(size=(40, 5))
    rows = choose(x, k, seed=3)
    assert len(set(rows.tolist())) == k
    assert rows.min() >= 0
    assert rows.max() < 40
    assert rows.tolist() == choose(x, k, seed=3).tolist()
    assert rows.tolist() == choose(x, k, seed=np.random.default_rng(3)).tolist()


@pytest.mark.parametrize("choose", CHOOSERS.values(), ids=CHOOSERS)
def test_another_seed_gives_other_rows(rng, choose):
    x = rng.normal(size=(40, 5))
    assert len({tuple(sorted(choose(x, 7, seed=s).tolist())) for s in range(10)}) > 1


@pytest.mark.parametrize("choose", CHOOSERS.values(), ids=CHOOSERS)
def test_more_anchors_than_rows_reports_both_numbers(choose):
    with pytest.raises(ValueError, match="11 anchors were asked for but there are only 10 rows"):
        choose(np.eye(10), 11)


@pytest.mark.parametrize("name", ["uniform", "farthest_point", "kmeans"])
def test_every_kind_of_array_gives_the_same_rows(xp, rng, name):
    x = rng.normal(size=(50, 6))
    assert CHOOSERS[name](xp(x), 9).tolist() == CHOOSERS[name](x, 9).tolist()


@pytest.mark.parametrize("name", ["uniform", "farthest_point", "kmeans"])
@pytest.mark.parametrize("bad", [np.zeros((0, 3)), np.full((4, 2), np.nan)])
def test_bad_spaces_are_refused(name, bad):
    with pytest.raises(ValueError, match=r"0 sample\(s\)|NaN or infinity"):
        CHOOSERS[name](bad, 1)


@pytest.mark.parametrize("choose", CHOOSERS.values(), ids=CHOOSERS)
def test_one_row_is_one_anchor(choose):
    assert choose(np.ones((1, 3)), 1).tolist() == [0]


def test_uniform_is_uniform():
    x = np.zeros((5, 1))
    counts = np.bincount(np.concatenate([anchors.uniform(x, 2, seed=s) for s in range(2000)]), minlength=5)
    # Each row is in 2 of 5 draws: 800 ± 22 (one standard deviation).
    assert np.all(np.abs(counts - 800) < 5 * 22)


@pytest.mark.parametrize("pool", [1, 3, 16, 2048])
@pytest.mark.parametrize("chunk", [5, 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_farthest_point_is_exact_for_every_pool(rng, monkeypatch, pool, chunk, dtype):
    monkeypatch.setattr(anchors, "POOL_ROWS", pool)
    monkeypatch.setattr(anchors, "CHUNK_ROWS", chunk)
    x = correlated(rng, 200, 8)
    rows = anchors.farthest_point(x.astype(dtype), 60, seed=1)
    assert rows.tolist() == brute_force(x, 60, rows[0])


@given(n=st.integers(1, 40), d=st.integers(2, 6), seed=st.integers(0, 99), scale=st.sampled_from([1e-9, 1.0, 1e9]))
def test_farthest_point_takes_the_farthest(n, d, seed, scale):
    x = np.random.default_rng(seed).normal(size=(n, d)) * scale
    rows = anchors.farthest_point(x, n, seed)
    distance = 1 - unit(x) @ unit(x).T
    for t in range(1, n):
        nearest = np.min(distance[:, rows[:t]], axis=1)
        left = np.setdiff1d(np.arange(n), rows[:t])
        assert nearest[rows[t]] >= np.max(nearest[left]) - 1e-12


def test_farthest_point_uses_directions_only(rng):
    x = rng.normal(size=(100, 5))
    longer = x * rng.uniform(0.1, 10, size=(100, 1))
    assert anchors.farthest_point(x, 20).tolist() == anchors.farthest_point(longer, 20).tolist()


def test_zero_and_repeated_rows_come_last(rng):
    x = rng.normal(size=(6, 4))
    padded = np.concatenate([np.zeros((3, 4)), x, x])
    rows = anchors.farthest_point(padded, 15, seed=0)
    assert set(rows[-3:]) == {0, 1, 2}
    assert {(row - 3) % 6 for row in rows[:6]} == set(range(6))
    assert sorted(anchors.farthest_point(np.zeros((4, 2)), 4).tolist()) == [0, 1, 2, 3]


def test_farthest_point_needs_fewer_passes_than_anchors(rng, monkeypatch):
    passes = []
    update = anchors._update
    monkeypatch.setattr(anchors, "_update", lambda *a, **kw: passes.append(1) or update(*a, **kw))
    anchors.farthest_point(rng.normal(size=(5000, 16)), 300)
    assert len(passes) < 300 / 3


def test_kmeans_takes_the_row_nearest_to_each_clear_centroid(rng):
    centers = 100 * np.eye(5)
    x = np.concatenate([c + rng.normal(size=(20, 5)) for c in centers])
    rows = anchors.kmeans(x, 5)
    means = np.stack([x[20 * i : 20 * i + 20].mean(axis=0) for i in range(5)])
    assert sorted(rows.tolist()) == sorted(pairwise_distances_argmin(means, x).tolist())


def test_kmeans_on_repeated_rows_still_gives_distinct_rows():
    x = np.repeat(np.eye(2), 5, axis=0)
    assert len(set(anchors.kmeans(x, 6).tolist())) == 6


def test_kmeans_in_mini_batches_too(rng, monkeypatch):
    monkeypatch.setattr(anchors, "MINI_BATCH_ROWS", 50)
    x = np.concatenate([c + rng.normal(size=(40, 3)) for c in 100 * np.eye(3)]).astype(np.float32)
    assert sorted((anchors.kmeans(x, 3) // 40).tolist()) == [0, 1, 2]


@given(labels=st.lists(st.sampled_from("abcd"), min_size=1, max_size=40), data=st.data())
def test_stratified_deals_round_robin(labels, data):
    k = data.draw(st.integers(1, len(labels)))
    rows = anchors.stratified(labels, k, seed=data.draw(st.integers(0, 9)))
    assert len(set(rows.tolist())) == k
    sizes = {c: labels.count(c) for c in set(labels)}
    taken = {c: [labels[row] for row in rows].count(c) for c in sizes}
    # A class lags behind another by more than one only when it has run out.
    assert all(taken[a] >= min(sizes[a], taken[b] - 1) for a in sizes for b in sizes)


def test_stratified_takes_tensors_and_refuses_tables():
    assert len(anchors.stratified(torch.tensor([0, 1, 1]), 2)) == 2
    with pytest.raises(ValueError, match=r"labels has shape \(3, 1\)"):
        anchors.stratified([[0], [1], [1]], 2)


def test_most_frequent_sorts_skips_and_keeps_the_order_of_ties(xp):
    weights = xp(np.asarray([5.0, 9.0, 5.0, 1.0]))
    assert anchors.most_frequent(weights, 3).tolist() == [1, 0, 2]
    assert anchors.most_frequent(weights, 2, skip=1).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("weights", "k", "skip", "message"),
    [
        ([1, 2], 1, 5, "1 anchors were asked for but there are only 0 rows"),
        ([1, 2], 2, 1, "2 anchors were asked for but there are only 1 rows"),
        ([1, 2], 1, -1, "skip is -1: expected 0 or more"),
        ([1, np.nan], 1, 0, "weights holds NaN"),
    ],
)
def test_most_frequent_reports_what_is_wrong(weights, k, skip, message):
    with pytest.raises(ValueError, match=message):
        anchors.most_frequent(weights, k, skip)


def test_words_are_no_weights():
    with pytest.raises(TypeError, match="weights has dtype <U1"):
        anchors.most_frequent(["a", "b"], 1)


def test_keys_are_found_in_the_order_given():
    assert anchors.by_keys(np.asarray(["a", "b", "c"]), ["c", "a"]).tolist() == [2, 0]
    assert anchors.by_keys([3, 1, 2], [1]).tolist() == [1]
    assert anchors.by_keys(["a", "a", "b"], ["b"]).tolist() == [2]
    assert anchors.by_keys(rl.Space(np.eye(3), keys=[7, 8, 9]), ["9", "7"]).tolist() == [2, 0]
    assert anchors.by_keys(["a"], []).tolist() == []


@given(keys=st.lists(st.integers(0, 30), unique=True, min_size=1), data=st.data())
def test_by_keys_is_what_a_dictionary_finds(keys, data):
    wanted = data.draw(st.lists(st.sampled_from(keys), unique=True))
    assert anchors.by_keys(keys, wanted).tolist() == [keys.index(key) for key in wanted]


def test_keys_that_cannot_be_rows_are_refused():
    with pytest.raises(KeyError, match="1 of the 2 wanted keys are not in the space, first 'z'"):
        anchors.by_keys(["a", "b"], ["a", "z"])
    with pytest.raises(ValueError, match="1 of the 2 wanted keys are repeated"):
        anchors.by_keys(["a", "b"], ["a", "a"])
    with pytest.raises(ValueError, match="1 wanted keys stand for several rows, first 'a'"):
        anchors.by_keys(["a", "a"], ["a"])


@settings(max_examples=80)
@given(
    n=st.integers(1, 30),
    d=st.integers(1, 6),
    delta=st.floats(0.01, 1),
    seed=st.integers(0, 99),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_pruned_anchors_are_apart_and_none_could_be_added(n, d, delta, seed, scale):
    a = np.random.default_rng(seed).normal(size=(n, d)) * scale
    kept = anchors.prune(a, delta, seed)
    cos = np.abs(unit(a) @ unit(a).T)
    among = cos[np.ix_(kept, kept)][~np.eye(len(kept), dtype=bool)]
    assert np.all(among <= 1 - delta + 1e-12)
    dropped = np.setdiff1d(np.arange(n), kept)
    assert np.all(np.max(cos[np.ix_(dropped, kept)], axis=1) > 1 - delta - 1e-12)
    assert kept.tolist() == anchors.prune(a, delta, seed).tolist()


def test_pruning_compares_lines_not_directions(xp, rng):
    a = rng.normal(size=(30, 5))
    flipped = a * rng.choice([-2.0, 1.0], size=(30, 1))
    assert anchors.prune(xp(flipped), 0.4).tolist() == anchors.prune(a, 0.4).tolist()


def test_delta_zero_keeps_all_even_repeats():
    assert anchors.prune(np.ones((5, 2)), 0).tolist() == [0, 1, 2, 3, 4]


def test_repeats_and_zeros_are_dropped(rng):
    a = rng.normal(size=(4, 6))
    kept = anchors.prune(np.concatenate([a, -3 * a, np.zeros((2, 6))]), 1e-6)
    assert sorted((kept % 4).tolist()) == [0, 1, 2, 3]
    assert kept.max() < 8


def test_raising_delta_keeps_a_prefix_and_lowers_the_condition_number(rng):
    a = correlated(rng, 40, 40)
    runs = [anchors.prune(a, delta, seed=2) for delta in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)]
    for more, fewer in itertools.pairwise(runs):
        assert len(fewer) <= len(more)
        assert fewer.tolist() == more[: len(fewer)].tolist()
        # Up to d anchors, taking rows away can only raise the smallest singular value and lower the largest.
        assert conditioning(unit(a[fewer])).condition_number <= conditioning(unit(a[more])).condition_number * (
            1 + 1e-9
        )
    assert len(runs[0]) > len(runs[-1])
    assert conditioning(unit(a[runs[0]])).condition_number > conditioning(unit(a[runs[-1]])).condition_number


@pytest.mark.parametrize("delta", [-0.1, 1.1, np.nan])
def test_delta_is_a_share(delta):
    with pytest.raises(ValueError, match="expected between 0"):
        anchors.prune(np.eye(3), delta)


def test_subspaces_are_prunings_from_consecutive_seeds(xp, rng):
    a = correlated(rng)
    spaces = anchors.subspaces(xp(a), omega=5, delta=0.6, seed=11)
    assert [s.tolist() for s in spaces] == [anchors.prune(a, 0.6, seed=11 + i).tolist() for i in range(5)]
    assert len({tuple(sorted(s.tolist())) for s in spaces}) > 1
    with pytest.raises(ValueError, match="0 subspaces were asked for"):
        anchors.subspaces(a, omega=0, delta=0.5)


def test_nothing_is_modified(xp, rng):
    x = xp(rng.normal(size=(30, 4)))
    before = to_numpy(x).copy()
    for choose in (anchors.uniform, anchors.farthest_point, anchors.kmeans):
        choose(x, 5)
    anchors.prune(x, 0.5)
    assert np.array_equal(to_numpy(x), before)


def test_views_need_not_be_contiguous(rng):
    x = rng.normal(size=(60, 8))
    view = x[::2, ::-2]
    assert not view.flags.c_contiguous
    for choose in (anchors.farthest_point, anchors.kmeans):
        assert choose(view, 6).tolist() == choose(view.copy(), 6).tolist()


def test_a_plan_goes_first_where_no_anchor_is():
    rng = np.random.default_rng(0)
    centers = 20 * rng.normal(size=(8, 60))
    sizes = [60, 55, 30, 30, 30, 30, 30, 30]
    x = np.concatenate([center + rng.normal(size=(size, 60)) for center, size in zip(centers, sizes, strict=True)])
    cluster = np.repeat(np.arange(8), sizes)
    known = [int(np.flatnonzero(cluster == c)[0]) for c in (0, 3)]
    found = cluster[anchors.plan(x, 6, known)].tolist()
    assert found[0] == 1  # the largest
    assert sorted(found) == [1, 2, 4, 5, 6, 7]


def test_a_plan_follows_its_formula():
    x = np.random.default_rng(3).normal(size=(50, 4)) + 5
    z = x - x.mean(axis=0)
    alike = np.abs(np.corrcoef(np.c_[z, -z])[:50, :50]) ** 3  # (z, −z) has mean zero, so that correlation is cosine
    taken = [7, 11]
    for _ in range(9):
        gain = alike.mean(axis=1) - alike[:, taken].sum(axis=1) / (len(taken) + 1)
        taken.append(max(set(range(50)) - set(taken), key=lambda i: gain[i]))
    assert anchors.plan(x, 9, known=[7, 11]).tolist() == taken[2:]


@pytest.mark.parametrize(
    ("change", "survives"), [("rotate", True), ("rescale", True), ("shift", True), ("stretch", False)]
)
def test_what_a_plan_does_not_see(change, survives):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(80, 6))
    changed = {
        "rotate": x @ np.linalg.qr(rng.normal(size=(6, 6)))[0],
        "rescale": 3 * x,
        "shift": x + 4,
        "stretch": x * np.linspace(1, 5, 6),
    }[change]
    assert np.array_equal(anchors.plan(x, 20), anchors.plan(changed, 20)) is survives


def test_rows_that_repeat_an_anchor_come_last():
    x = np.random.default_rng(0).normal(size=(40, 30)).repeat(3, axis=0)
    assert len(set(anchors.plan(x, 39, known=[0]) // 3) | {0}) == 40


def test_a_plan_uses_its_budget_and_never_a_known_row():
    x = np.random.default_rng(1).normal(size=(60, 3))
    known = np.arange(0, 40, 2)
    rows = anchors.plan(x, 40, known)
    assert sorted([*rows, *known]) == list(range(60))
    np.testing.assert_array_equal(rows, anchors.plan(x, 40, known))


@pytest.mark.parametrize(("budget", "known"), [(0, []), (61, []), (41, range(20)), (1, [99])])
def test_a_plan_that_cannot_be_is_refused(budget, known):
    with pytest.raises(ValueError, match=r"expected|outside|at most"):
        anchors.plan(np.eye(60), budget, known)


@pytest.mark.parametrize("strategy", ["kmeans", "farthest_point"])
def test_anchors_of_a_large_space_are_chosen_among_a_sample(rng, tmp_path, monkeypatch, strategy):
    x = rng.normal(size=(3000, 4)).astype(np.float32)
    rl.write_space(rl.Space(x, [f"k{i}" for i in range(3000)]), tmp_path / "x.parquet")
    choose = getattr(anchors, strategy)
    np.testing.assert_array_equal(choose(rl.read_space(tmp_path / "x.parquet"), 20, 1), choose(x, 20, 1))
    monkeypatch.setattr(anchors, "SAMPLE_BYTES", 500 * 16)
    space = rl.read_space(tmp_path / "x.parquet")
    sample = np.sort(anchors.uniform(x, 500, 1))
    rows = choose(space, 20, 1)
    np.testing.assert_array_equal(rows, sample[choose(x[sample], 20, 1)])
    written = anchors.write_anchors(space, tmp_path / "anchors.parquet", 20, strategy, seed=1)
    assert (written.anchors, written.of, written.among) == (20, 3000, 500)
    chosen = rl.read_space(tmp_path / "anchors.parquet")
    assert list(chosen.keys) == [f"k{i}" for i in np.sort(rows)]
    np.testing.assert_array_equal(chosen.vectors, x[np.sort(rows)])
    assert "vectors" not in space.__dict__  # the file was never held in memory
    np.testing.assert_array_equal(anchors.uniform(space, 20, 1), anchors.uniform(x, 20, 1))


def test_the_next_anchors_of_a_large_space_are_planned_among_a_sample_and_the_known(rng, tmp_path, monkeypatch):
    x = rng.normal(size=(3000, 4)).astype(np.float32)
    rl.write_space(rl.Space(x), tmp_path / "x.npy")
    monkeypatch.setattr(anchors, "SAMPLE_BYTES", 500 * 16)
    space, known = rl.read_space(tmp_path / "x.npy"), np.asarray([2_999, 3, 17])
    sample = np.union1d(known, anchors.uniform(x, 500, 1))
    expected = sample[anchors.plan(x[sample], 9, np.searchsorted(sample, np.sort(known)), 1)]
    np.testing.assert_array_equal(anchors.plan(space, 9, known, 1), expected)
    assert not set(known) & set(anchors.plan(space, 9, known, 1))


def test_columns_of_a_space_choose_its_anchors(tmp_path):
    space = rl.Space([[0.0], [0.1], [9.0]], others={"n": [1, 5, 3]})
    anchors.write_anchors(space, tmp_path / "a.parquet", 2, "most_frequent", column="n")
    assert rl.read_space(tmp_path / "a.parquet").vectors.ravel().tolist() == [0.1, 9.0]
    with pytest.raises(ValueError, match="most_frequent needs a column of the space and 'm' is none"):
        anchors.write_anchors(space, tmp_path / "b.parquet", 2, "most_frequent", column="m")
    with pytest.raises(ValueError, match="There is no strategy 'kmean'"):
        anchors.write_anchors(space, tmp_path / "b.parquet", 2, "kmean")
    with pytest.raises(FileExistsError):
        anchors.write_anchors(space, tmp_path / "a.parquet", 2)
