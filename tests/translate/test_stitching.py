from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import relatent as rl
from relatent.translate.goals import Judge, stitching
from relatent.translate.goals.stitching import SHARES, judged_share, lost_size, reliable_share, steadier_share


@pytest.fixture
def noisy(rng, orthogonal):
    """A rotation in much noise, so that a ridge shrinks, and classes by the sign of the first coordinate."""
    x = rng.normal(size=(300, 8))
    y = x @ orthogonal(8) + 1.5 * rng.normal(size=(300, 8))
    return x, y, (y[:, 0] > 0).astype(int)


def trial(y, ridge, turned):
    pairs = rl.Pairs.of(y, y)
    return stitching._Trial(pairs.sample, pairs.sample, ridge, turned)


# The blend


@pytest.mark.parametrize("normalize", ["iso", "standard", "center", "whiten", "l2", "center+l2"])
@pytest.mark.parametrize("far", [0.0, 1e4])
def test_a_blend_is_the_sum_of_its_parts(noisy, normalize, far):
    x, y, _ = noisy
    x = x + far
    pairs = rl.Pairs.of(x, y)
    choice = rl.Translator("stitching", normalize=normalize).fit(x, y).choice_

    def moved(share):
        return stitching.solve(pairs, stitching.replace(choice, share=share)).source(x)

    np.testing.assert_allclose(moved(0.3), 0.7 * moved(0.0) + 0.3 * moved(1.0), rtol=1e-6, atol=1e-6)
    mean, named = y.mean(axis=0), "standard" if normalize == "iso" else normalize
    rotated = rl.Translator(map="orthogonal", normalize=named).fit(x, y).transform(x)
    if normalize == "iso":  # by what share the second of two
        sides = [a - a.mean(axis=0) for a in (x, y)]
        lengths = [np.linalg.norm(a, axis=1, keepdims=True) for a in sides]
        u, _, vt = np.linalg.svd((sides[0] / lengths[0]).T @ (sides[1] / lengths[1]))
        of_unit_rows = sides[0] @ u @ vt * lengths[1].mean() / lengths[0].mean() + mean
        rotated = (1 - choice.unit) * rotated + choice.unit * of_unit_rows
        assert 0 < choice.unit < 1
    np.testing.assert_allclose(moved(1.0), rotated, rtol=1e-6, atol=1e-6)
    plain = rl.Translator(normalize=normalize).fit(x, y).transform(x)
    if normalize not in ("l2", "center+l2"):  # unit rows have a mean of their own
        np.testing.assert_allclose(moved(0.0) - mean, choice.gain * (plain - mean), rtol=1e-6, atol=1e-6)


def test_a_curved_relation_is_blended_too(rng):
    x = rng.normal(size=(200, 4))
    y = np.sin(x @ rng.normal(size=(4, 3)))
    t = rl.Translator("stitching").fit(x, y)
    assert t.map_.features is not None
    parts = [stitching.solve(t.pairs_, stitching.replace(t.choice_, share=s)).source(x) for s in (0.0, 1.0)]
    share = t.choice_.share
    np.testing.assert_allclose(t.transform(x), (1 - share) * parts[0] + share * parts[1], rtol=1e-9, atol=1e-9)


def test_translations_get_back_the_size_that_a_ridge_took(noisy):
    x, y, _ = noisy
    vectors, stitched = (
        rl.Translator(goal, max_cost="affine").fit(x, y).transform(x) for goal in ("vectors", "stitching")
    )
    size = [np.sum((a - a.mean(0)) ** 2) for a in (vectors, stitched, y)]
    assert size[0] < 0.6 * size[2]
    assert 0.75 * size[2] < size[1] < 1.3 * size[2]


def test_the_lost_size_is_bounded(rng):
    y = rng.normal(size=(20, 3))
    assert lost_size(y / 4, y) == pytest.approx(4)
    assert lost_size(np.zeros_like(y), y) == pytest.approx(stitching.MAX_GAIN)


@pytest.mark.parametrize(("ridge", "turned", "share"), [(0.1, 0.2, 0.125), (0.3, 0.2, 0.25), (0.0, 0.2, 0.0)])
def test_the_share_follows_what_is_reliable(rng, ridge, turned, share):
    y, noise = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    found = reliable_share([trial(y, y + ridge * noise, y + turned * noise)], gain=2.0)
    assert found == pytest.approx(share)
    assert reliable_share([], gain=2.0) == 0.25


def test_the_orthogonal_maps_are_weighed_by_the_inverse_variance_of_their_errors(rng):
    first, second = rng.normal(size=(2, 100_000)) * [[2.0], [1.0]]
    share = steadier_share([(first, second)])
    assert share == pytest.approx(0.8, abs=0.01)
    weighed = [np.var((1 - u) * first + u * second) for u in (share - 0.1, share, share + 0.1)]
    assert weighed[1] == min(weighed)
    assert steadier_share([]) == steadier_share([(0 * first, 0 * second)]) == 0


def test_an_orthogonal_map_that_coordinates_upset_has_little_weight(rng, orthogonal):
    """Coordinates that are constant but in one row: without it, standardizing divides by next to nothing."""
    x = rng.normal(size=(30, 20))
    y = x @ orthogonal(20) + 0.3 * rng.normal(size=x.shape)
    x[1:, :5] *= 1e-3
    t = rl.Translator("stitching", max_cost="affine").fit(x, y)
    assert t.choice_.unit > 0.9


def test_an_exact_relation_that_is_no_rotation_is_kept(rng):
    x = rng.normal(size=(100, 5))
    y = x @ rng.normal(size=(5, 5))
    np.testing.assert_allclose(rl.Translator("stitching").fit(x, y).transform(x), y, atol=1e-4)


# Choosing by the head


def test_a_head_that_wants_the_rotation_gets_it(rng, orthogonal):
    # The head asks whether the weak second half of the coordinates is large; a ridge predicts it small.
    x = rng.normal(size=(400, 6)) * [3, 3, 3, 1, 1, 1]
    y = x + [0, 0, 0, 2, 2, 2] * rng.normal(size=(400, 6))

    def head(rows):
        return (np.sum(np.asarray(rows)[:, 3:] ** 2, axis=1) > 8).astype(int)

    def other(rows):
        return (np.asarray(rows)[:, 0] > 0).astype(int)

    wanted = [rl.Translator("stitching").fit(x, y, head=h).choice_ for h in (head, other)]
    assert wanted[0].share != wanted[1].share
    assert "the head reads right" in wanted[0].selection.criterion


def scored(truth, labels=None, head=None):
    """Judge shares of a rotation that is right and a ridge that is wrong."""
    wrong = -truth
    found = [trial(truth, wrong, truth)]
    return judged_share(found, Judge.of(head, labels, truth, blends=True), 10**6)


def test_a_share_is_judged_by_the_head_or_the_labels_or_both(rng):
    y = rng.normal(size=(200, 3)) * [3, 1, 1]
    labels = (y[:, 0] > 0).astype(int)
    fitted = LogisticRegression().fit(y, labels)
    names = np.asarray(["cold", "warm"])[labels]
    for given in (
        {"head": fitted},
        {"head": fitted.decision_function},
        {"head": fitted.predict_proba},
        {"labels": labels},
        {"labels": names},
        {"head": fitted, "labels": labels},
        {"head": LinearRegression().fit(y, y[:, 0])},
    ):
        share, selection = scored(y, **given)
        assert share >= 0.75
        assert selection.criterion.startswith("held-out rows")
    share, _ = scored(y, head=fitted, labels=1 - labels)  # labels that contradict the head want the other end
    assert share < 0.5


def test_what_few_pairs_cannot_tell_apart_is_averaged(rng):
    y = rng.normal(size=(60, 3))
    same = [trial(y, y, y)]
    assert judged_share(same, Judge(lambda rows: rows[:, 0] > 0), 60)[0] == pytest.approx(np.mean(SHARES))


def test_labels_that_are_all_the_same_decide_nothing(noisy):
    x, y, _ = noisy
    t = rl.Translator("stitching").fit(x, y, labels=np.zeros(300))
    assert t.choice_.share == pytest.approx(np.mean(SHARES))


def test_labels_follow_their_pairs_into_a_sample(noisy):
    x, y, labels = noisy
    seen = []

    class Spy:
        def predict(self, rows):
            seen.append(len(rows))
            return np.zeros(len(rows), dtype=int)

    t = rl.Translator("stitching").fit(x, y, head=Spy(), labels=labels, sample_size=90)
    assert max(seen) <= 90
    assert len(t.pairs_.sample) == 90
    held = t.pairs_.sample.part(np.arange(10))
    np.testing.assert_allclose(held.y, y[held.ids.astype(int)])


@pytest.mark.parametrize(
    ("settings", "given", "error", "message"),
    [
        ({"goal": "vectors"}, {"head": len}, ValueError, 'use goal="stitching"'),
        ({"goal": "retrieval"}, {"labels": [0] * 300}, ValueError, 'use goal="stitching"'),
        ({"goal": "stitching"}, {"head": 3}, TypeError, "head is a int: expected something that predicts"),
        ({"goal": "stitching"}, {"labels": [0, 1]}, ValueError, "2 labels for 300 pairs"),
        ({"goal": "stitching"}, {"labels": np.zeros((300, 2))}, ValueError, "1-D sequence"),
    ],
)
def test_what_decides_nothing_is_refused(noisy, settings, given, error, message):
    x, y, _ = noisy
    with pytest.raises(error, match=message):
        rl.Translator(**settings).fit(x, y, **given)


def test_labels_of_spaces_are_refused_and_a_head_is_not(noisy):
    x, y, labels = noisy
    spaces = rl.Space(x, keys=[str(i) for i in range(300)]), rl.Space(y, keys=[str(i) for i in range(300)])
    with pytest.raises(ValueError, match="joined on keys first"):
        rl.Translator("stitching").fit(*spaces, labels=labels)
    head = LogisticRegression().fit(y, labels)
    assert rl.Translator("stitching").fit(*spaces, head=head).choice_.share <= 1


def test_chunks_take_no_head(noisy):
    x, y, _ = noisy
    with pytest.raises(TypeError, match="head"):
        rl.Translator("stitching").partial_fit(x, y, head=len)


def test_the_head_is_not_kept_and_the_choice_is(noisy, tmp_path):
    x, y, labels = noisy
    t = rl.Translator("stitching").fit(x, y, head=LogisticRegression().fit(y, labels))
    assert not any("head" in name for name in vars(t))
    t.save(tmp_path / "t.safetensors")
    again = rl.load(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(again.transform(x), t.transform(x))
    assert "orthogonal" in repr(again)
    assert t.expected_quality()["cosine"].value > 0
