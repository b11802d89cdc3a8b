import numpy as np
import pytest

import relatent as rl
from relatent.decide import thresholds

RNG = np.random.default_rng(7)


def noisy(n=400, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6)) + rng.normal(size=(n // 4, 6)).repeat(4, axis=0) * 2
    return x, x @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + noise * rng.normal(size=(n, 6))


def similarities(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return (unit @ unit.T)[np.triu_indices(len(x), 1)]


@pytest.mark.parametrize(("purpose", "old"), [("link", [0.2, 0.5, 0.8]), ("dedup", [0.9]), ("cache", [0.9, 0.95])])
def test_a_rotated_and_rescaled_copy_keeps_its_thresholds(purpose, old):
    x, _ = noisy()
    turned = 5 * x @ np.linalg.qr(RNG.normal(size=(6, 6)))[0]
    for line in thresholds(x, turned, old, purpose=purpose):
        assert line.new.value == pytest.approx(line.old, abs=5e-3)
        assert line.agreement == pytest.approx(1, abs=0.01)


def test_as_many_pairs_pass_as_before():
    x, y = noisy()
    old, new = similarities(x), similarities(y)
    for line in thresholds(x, y, [0.3, 0.6, 0.8]):
        assert line.passing == np.sum(old >= line.old)
        assert np.mean(new >= line.new.value) == pytest.approx(line.rate, abs=2e-3)
        both = (old >= line.old) & (new >= line.new.value)
        assert line.agreement == pytest.approx(both.sum() / line.passing, abs=0.01)


def test_as_many_nearest_neighbors_pass_as_before():
    x, y = noisy()
    best = []
    for side in (x, y):
        unit = side / np.linalg.norm(side, axis=1, keepdims=True)
        scores = unit @ unit.T
        np.fill_diagonal(scores, -2)
        best.append(scores.max(axis=1))
    for line in thresholds(x, y, [0.8, 0.9], purpose="dedup"):
        assert line.rate == pytest.approx(np.mean(best[0] >= line.old))
        assert np.mean(best[1] >= line.new.value) == pytest.approx(line.rate, abs=0.01)


def test_larger_thresholds_never_become_smaller():
    x, y = noisy(noise=1.0)
    same = np.asarray([(i, i + 1) for i in range(0, 400, 2)])
    for options in ({}, {"purpose": "cache"}, {"same": same}):
        new = [line.new.value for line in thresholds(x, y, np.linspace(-0.2, 0.9, 12), **options)]
        assert np.all(np.diff([value for value in new if np.isfinite(value)]) >= -1e-9)


def test_precision_is_kept_where_it_was_judged():
    x, y = noisy(600)
    same = np.asarray([(i, j) for i in range(600) for j in range(i) if i // 4 == j // 4])
    belongs = np.zeros((600, 600), bool)
    belongs[same[:, 0], same[:, 1]] = belongs[same[:, 1], same[:, 0]] = True
    belongs, old, new = belongs[np.triu_indices(600, 1)], similarities(x), similarities(y)
    found = thresholds(x, y, [0.5, 0.7], same=same)
    assert (found.at, thresholds(x, y, [0.5]).at) == ("precision", "rate")
    for line in found:
        before = belongs[old >= line.old].mean()
        assert line.precision == pytest.approx(before, abs=0.02)  # smoothed by the isotonic fit
        assert belongs[new >= line.new.value].mean() == pytest.approx(before, abs=0.03)


def test_the_interval_holds_the_threshold_of_many_more_items():
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]

    def draw(n):
        x = rng.normal(size=(n, 6)) * [3, 2, 1, 1, 1, 1]
        return x, x @ turn + 0.5 * rng.normal(size=(n, 6))

    truth = next(iter(thresholds(*draw(3_000), [0.7]))).new.value
    held = [line.new.low <= truth <= line.new.high for _ in range(40) for line in thresholds(*draw(200), [0.7])]
    assert np.mean(held) >= 0.85


def test_a_threshold_that_nothing_passes_has_no_new_value():
    x = RNG.normal(size=(60, 50))
    line = next(iter(thresholds(x, x, [0.99])))
    assert np.isnan(line.new.value)
    assert line.passing == 0
    assert line.few
    assert "nothing passes" in str(thresholds(x, x, [0.99]))


def test_spaces_are_joined_on_their_keys():
    x, y = noisy()
    keys = np.arange(400)
    order = RNG.permutation(400)
    shuffled = rl.Space(y[order], keys=keys[order])
    assert list(thresholds(rl.Space(x, keys=keys), shuffled)) == list(thresholds(x, y))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"old": [1.5]}, "cosines between -1 and 1"),
        ({"old": []}, "cosines between -1 and 1"),
        ({"purpose": "dedupe"}, "Did you mean"),
        ({"same": [[0, 9_999]]}, "row numbers outside"),
        ({"same": [1, 2]}, r"\(n, 2\)"),
    ],
)
def test_what_cannot_be_meant_is_refused(change, message):
    x, y = noisy()
    with pytest.raises(ValueError, match=message):
        thresholds(x, y, **change)


def test_too_few_items_are_refused():
    with pytest.raises(ValueError, match="at least 30"):
        thresholds(np.eye(5), np.eye(5))


def test_pairs_of_spaces_are_named_by_key_or_by_row(rng):
    x = rng.normal(size=(200, 6))
    order = rng.permutation(200)
    old, new = rl.Space(x, keys=np.arange(200)), rl.Space(2 * x[order], keys=order)
    pairs = np.asarray([[i, i + 50] for i in range(50)])
    by_row = rl.thresholds(x, 2 * x, [0.3], same=pairs)
    named = rl.decide.Relevance(*pairs.T.tolist())
    for same in (pairs, named):
        assert rl.thresholds(old, new, [0.3], same=same).to_dict() == by_row.to_dict()


def test_no_more_rows_of_spaces_are_read_than_asked(rng, tmp_path, monkeypatch):
    x = rng.normal(size=(500, 6))
    for name in "ab":
        rl.write_space(rl.Space(x, keys=np.arange(500)), tmp_path / f"{name}.parquet")
    lazy = [rl.read_space(tmp_path / f"{name}.parquet") for name in "ab"]
    monkeypatch.setattr(rl.Space, "vectors", property(lambda _: pytest.fail("all rows were read")))
    assert rl.thresholds(*lazy, [0.3], max_rows=80).rows == 80
