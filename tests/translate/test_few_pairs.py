import numpy as np
import pytest
from sklearn.datasets import load_digits

import relatent as rl
from relatent.translate import few_pairs
from relatent.translate.functional import SpectralSide, functional_matches


def two_views(n, seed=0):
    """Digits through two random layers with different activations: related, not linearly."""
    pixels = load_digits().data / 16
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, 64, 40)) / 4
    rows = rng.permutation(len(pixels))[:n]
    return np.tanh(pixels[rows] @ first), np.maximum(pixels[rows] @ second, 0)


def shuffled(x, y, seed=0):
    """Forget which row of y belongs to which of x, but for 50."""
    order = np.random.default_rng(seed).permutation(len(x))
    return x, y[order], (order[:50], np.arange(50)), order


@pytest.fixture(scope="module")
def grown():
    """Pairs grown from the first 900 rows of two views."""
    x, y, known, _ = shuffled(*two_views(900))
    return rl.grow_pairs(x, y, known)


def test_few_pairs_grow_into_many(grown):
    _, _, known, order = shuffled(*two_views(900))
    assert grown.succeeded
    assert grown.after.value > grown.before.value
    assert len(grown.rows_x) > 500
    assert np.mean(order[grown.rows_y] == grown.rows_x) > 0.85
    # The known pairs come first, and no row has two partners.
    assert np.array_equal(grown.rows_x[:50], known[0])
    assert len(set(grown.rows_x)) == len(set(grown.rows_y)) == len(grown.rows_x)
    assert np.all(grown.confidence[:50] == 1)
    assert np.all((grown.confidence > 0) & (grown.confidence <= 1))


def test_a_functional_map_grows_pairs_too():
    x, y, known, order = shuffled(*two_views(900))
    grown = rl.grow_pairs(x, y, known, method="functional")
    assert grown.succeeded
    assert len(grown.rows_x) > 2 * len(known[0])
    assert grown.after.value > grown.before.value
    assert np.mean(order[grown.rows_y] == grown.rows_x) > 0.5  # the two views are no isometry, which it supposes
    assert len(set(grown.rows_x)) == len(set(grown.rows_y)) == len(grown.rows_x)
    assert np.all((grown.confidence >= 0) & (grown.confidence <= 1))


@pytest.mark.parametrize("known", [10, 40])
def test_an_isometric_copy_is_matched_by_a_functional_map(rng, orthogonal, known):
    x = rng.normal(size=(400, 6)) * [3, 2, 1.5, 1, 1, 1]
    order = rng.permutation(400)
    y = (2 * x @ orthogonal(6) + 3)[order]
    sides = [SpectralSide.of(side) for side in (x, y)]
    pairs = np.stack([order[:known], np.arange(known)], axis=1)
    found = functional_matches(*sides, pairs)
    assert len(found.rows_x) > 0.95 * len(x)
    assert np.array_equal(order[found.rows_y], found.rows_x)


def test_methods_and_maps_that_do_not_exist_say_what_does():
    x = np.random.default_rng(0).normal(size=(100, 4))
    with pytest.raises(ValueError, match=r"no method 'functionl'\. Did you mean 'functional'"):
        rl.grow_pairs(x, x, (range(20), range(20)), method="functionl")
    with pytest.raises(ValueError, match=r'grow_pairs\(x, y, known, method="functional"\)'):
        rl.Translator(map="functional").fit(x, x)


def test_grown_pairs_make_a_better_translator(grown):
    x, y = two_views(1700)
    px, py, known, _ = shuffled(x[:900], y[:900])
    few = rl.Translator(goal="retrieval").fit(px[known[0]], py[known[1]])
    assert grown.translator.score(x[900:], y[900:]) > few.score(x[900:], y[900:]) + 0.1


@pytest.mark.parametrize(("method", "pairs"), [("rotation", 15), ("functional", 30)])
def test_the_order_of_rows_and_of_known_pairs_changes_nothing(method, pairs):
    x, y, known, _ = shuffled(*two_views(500))
    known = tuple(rows[:pairs] for rows in known)
    rng = np.random.default_rng(1)
    order_x, order_y, order = rng.permutation(len(x)), rng.permutation(len(y)), rng.permutation(pairs)
    moved = np.argsort(order_x)[known[0]][order], np.argsort(order_y)[known[1]][order]
    here, there = (
        rl.grow_pairs(*sides, rows, method=method)
        for sides, rows in (((x, y), known), ((x[order_x], y[order_y]), moved))
    )
    assert (here.succeeded, here.before.value, here.after.value) == (True, there.before.value, there.after.value)
    found = dict(zip(here.rows_x.tolist(), here.rows_y.tolist(), strict=True))
    assert found == dict(zip(order_x[there.rows_x].tolist(), order_y[there.rows_y].tolist(), strict=True))
    assert there.rows_x[:pairs].tolist() == moved[0].tolist()


@pytest.mark.parametrize(("second", "succeeded"), [(1.0, True), (900.0, False)])
def test_a_refusal_is_asked_for_twice_and_both_count(monkeypatch, second, succeeded):
    after = iter([200.0, second])
    monkeypatch.setattr(few_pairs, "_held_out_ranks", lambda *_: (np.full(20, 300.0), np.full(20, next(after))))
    sides = few_pairs._Sides(*[np.zeros((1000, 1))] * 4)
    found, before, ranks = few_pairs._gate(sides, np.zeros((20, 2)), 0, lambda _: None)
    assert found is succeeded
    np.testing.assert_allclose([before[0], ranks[0]], [300, np.sqrt(200 * second)])


@pytest.mark.parametrize("method", ["rotation", "functional"])
@pytest.mark.parametrize("seed", range(3))
def test_growing_between_unrelated_spaces_gives_the_known_pairs_back(seed, method):
    rng = np.random.default_rng(seed)
    rows = np.arange(60)
    grown = rl.grow_pairs(rng.normal(size=(300, 15)), rng.normal(size=(280, 10)), (rows, rows), method=method)
    assert not grown.succeeded
    assert grown.rows_x.tolist() == grown.rows_y.tolist() == rows.tolist()
    assert "failed" in str(grown)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (([0, 1, 2],), "two equally long sequences"),
        (([0, 1], [0]), "two equally long sequences"),
        (([0.5] * 20, [1.0] * 20), "two equally long sequences of row numbers"),
        ((range(90, 110), range(20)), "rows 90…109 of x, which has rows 0…99"),
        ((range(20), [*range(19), 0]), "a row of y twice"),
        ((range(5), range(5)), "5 known pairs: expected at least 10, better 20"),
    ],
)
def test_bad_known_are_explained(known, message):
    x = np.random.default_rng(0).normal(size=(100, 4))
    with pytest.raises(ValueError, match=message):
        rl.grow_pairs(x, x, known)
