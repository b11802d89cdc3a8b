"""Units that mean the same: found where they are planted, and not found where nothing is shared."""

import json
from itertools import permutations

import numpy as np
import pytest

import relatent as rl
from relatent.evaluate import features


@pytest.fixture
def planted(rng):
    """Six units that both have, in another order, with other scales and offsets; four and two of their own."""
    shared = rng.normal(size=(300, 6))
    order = rng.permutation(8)
    x = np.concatenate([shared, rng.normal(size=(300, 4))], axis=1)
    noisy = shared + 0.5 * rng.normal(size=(300, 6))
    y = np.concatenate([3 * noisy + 2, rng.normal(size=(300, 2))], axis=1)[:, order]
    return x, y, {(int(order[j]), j) for j in range(8) if order[j] < 6}


def test_correlations_are_those_of_numpy(xp, planted):
    x, y, _ = planted
    found = rl.match_features(xp(x), xp(y), permutations=1)
    np.testing.assert_allclose(found.correlations, np.corrcoef(x.T, y.T)[:10, 10:], atol=1e-10)


def test_planted_units_are_found_and_no_others(planted):
    x, y, truth = planted
    found = rl.match_features(x, y)
    sure = {(one["x"], one["y"]) for one in found.records() if one["p_value"] <= 0.05}
    assert sure == truth
    assert truth <= set(map(tuple, found.mutual().tolist()))
    assert found.one_to_many() == {i: [j] for i, j in sorted(truth)}


def test_the_matching_is_the_best_of_all(rng):
    x, y = rng.normal(size=(2, 30, 5))
    found = rl.match_features(x, y, permutations=1)
    best = max(permutations(range(5)), key=lambda order: sum(found.correlations[i, j] for i, j in enumerate(order)))
    assert found.pairs.tolist() == [[i, j] for i, j in enumerate(best)]


def test_one_unit_may_have_several_partners(rng):
    x = rng.normal(size=(200, 3))
    y = np.repeat(x, 2, axis=1) + np.tile([0.1, 0.5], 3) * rng.normal(size=(200, 6))
    assert rl.match_features(x, y).one_to_many() == {0: [0, 1], 1: [2, 3], 2: [4, 5]}
    assert len(rl.match_features(x, y).pairs) == 3


def test_the_chance_of_a_single_false_match_is_the_level(rng):
    """Of 300 pairs of unrelated spaces, about a twentieth has any pair of units with p ≤ 0.05: that is family-wise."""
    false = [
        min(one["p_value"] for one in rl.match_features(*rng.normal(size=(2, 25, 4)), permutations=19).records())
        <= 0.05
        for _ in range(300)
    ]
    assert np.mean(false) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_blocks_of_units_change_nothing(planted, monkeypatch):
    x, y, _ = planted
    whole = rl.match_features(x, y, permutations=5).null
    monkeypatch.setattr(features, "BLOCK_UNITS", 3)
    np.testing.assert_allclose(rl.match_features(x, y, permutations=5).null, whole, rtol=1e-6)


@pytest.mark.parametrize(
    ("move", "absolute", "survives"),
    [
        (lambda y, q: y * np.linspace(0.5, 3, 8) + 1, False, True),
        (lambda y, q: y * np.tile([1, -1], 4), False, False),
        (lambda y, q: y * np.tile([1, -1], 4), True, True),
        (lambda y, q: y @ q, False, False),
    ],
    ids=["scales and offset", "signs", "signs, absolute", "rotation"],
)
def test_what_leaves_the_matches_as_they_are(planted, orthogonal, move, absolute, survives):
    x, y, _ = planted
    before, after = (rl.match_features(x, z, absolute=absolute, permutations=9) for z in (y, move(y, orthogonal(8))))
    same = np.allclose(
        np.abs(before.correlations) if absolute else before.correlations, after._size(after.correlations)
    )
    assert same is survives


def test_units_that_never_vary_are_matched_with_nothing(planted):
    x, y, _ = planted
    x[:, 0], y[:, 0] = 0.1, 7.0
    found = rl.match_features(x, y, permutations=9)
    assert 0 not in found.pairs[:, 0]
    assert 0 not in found.pairs[:, 1]
    assert not found.correlations[0].any()
    assert 0 not in found.mutual()[:, 0]


def test_spaces_are_joined_and_the_result_is_text_and_json(planted, rng):
    x, y, truth = planted
    order, keys = rng.permutation(300), np.arange(300)
    found = rl.match_features(rl.Space(x, keys), rl.Space(y[order], keys[order]), permutations=19)
    assert {(one["x"], one["y"]) for one in found.records() if one["p_value"] <= 0.05} == truth
    assert "6 of 8 one-to-one pairs have p ≤ 0.05 (family-wise)" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["units"] == [10, 8]
    assert len(found.to_pandas()) == 8


def test_what_cannot_be_matched_is_refused(rng):
    x = rng.normal(size=(20, 3))
    with pytest.raises(ValueError, match="x has 20 rows and y has 19 rows"):
        rl.match_features(x, x[1:])
    with pytest.raises(ValueError, match="2 rows were given"):
        rl.match_features(x[:2], x[:2])
    with pytest.raises(ValueError, match="permutations is 0"):
        rl.match_features(x, x, permutations=0)
    with pytest.raises(ValueError, match="NaN or infinity"):
        rl.match_features(np.where(x > 2, np.nan, np.where(x < -1, np.nan, x)), x)
