from __future__ import annotations

import numpy as np
import pytest

import relatent as rl
from relatent.spaces import held_out, key_hashes

NAMES = ["none", "center", "iso", "standard", "whiten", "l2", "center+l2"]


@pytest.fixture
def rotated(rng, orthogonal):
    """Two spaces that differ by a rotation, a scale and an offset."""
    x = rng.normal(size=(200, 12)) * np.linspace(2, 0.5, 12) + 3
    return x, 2.5 * x @ orthogonal(12) - 7


@pytest.fixture
def noisy(rng):
    x = rng.normal(size=(400, 10))
    return x, np.tanh(x @ rng.normal(size=(10, 8))) + 0.1 * rng.normal(size=(400, 8))


# Laws


@pytest.mark.parametrize("settings", [{"map": "orthogonal"}, {"map": "least_squares"}, {"map": "affine"}, {}])
def test_a_rotated_rescaled_shifted_copy_is_recovered(rotated, settings):
    x, y = rotated
    t = rl.Translator(**settings).fit(x[:100], y[:100])
    np.testing.assert_allclose(t.transform(x[100:]), y[100:], rtol=0, atol=1e-8 * np.abs(y).max())


def test_retrieval_finds_every_pair_of_a_rotated_copy(rotated):
    x, y = rotated
    t = rl.Translator("retrieval").fit(x[:100], y[:100])
    scores = t.transform(x[100:]) @ t.transform_target(y[100:]).T
    np.testing.assert_array_equal(np.argmax(scores, axis=1), np.arange(100))


def test_the_retrieval_score_is_the_gaussian_log_likelihood_ratio(rng):
    # A pair of scalars with correlation r: the ratio of the joint density to the product of the marginals, by SciPy.

    r, n = 0.7, 200_000
    x = rng.normal(size=(n, 1))
    y = r * x + np.sqrt(1 - r**2) * rng.normal(size=(n, 1))
    t = rl.Translator("retrieval").fit(x, y)
    # Unregularised and on one and the same preparation, up to a constant per query.
    from relatent.translate.likelihood import LikelihoodPath

    x, y = rng.normal(size=(40, 90)), rng.normal(size=(40, 70))
    y[:, :30] += x[:, :30]
    t = rl.Translator("retrieval").fit(x, y, bank_size=0)
    p = t.pairs_.normalized(t.choice_.normalize, span=False)
    whole = LikelihoodPath.of(p.summary).at(t.choice_.penalty_x, t.choice_.penalty_y)
    new_x, new_y = rng.normal(size=(20, 90)), rng.normal(size=(25, 70))
    expected = whole.query_vectors(p.source.apply(new_x)) @ whole.target_vectors(p.target.apply(new_y)).T
    np.testing.assert_allclose(t.transform(new_x) @ t.transform_target(new_y).T, expected, rtol=1e-6, atol=1e-8)


# One fit


def keyed(noisy, rng):
    """Return the two sides as spaces, the second in another order."""
    (x, y), order = noisy, rng.permutation(400)
    return rl.Space(x, np.arange(400), "old"), rl.Space(y[order], order, "new")


def test_only_what_changes_the_map_is_a_parameter():
    wanted = ["blocks", "frozen_target", "goal", "map", "max_cost", "normalize", "penalty", "rank", "seed"]
    assert sorted(rl.Translator().get_params()) == wanted


@pytest.mark.parametrize("settings", [{}, {"goal": "retrieval"}, {"map": "orthogonal"}])
def test_spaces_arrays_and_pairs_are_fitted_alike(noisy, rng, settings):
    old, new = keyed(noisy, rng)
    joined = rl.parallel(old, new)
    order = np.argsort(key_hashes(joined.keys))  # as spaces are sampled
    spaces = rl.Translator(**settings).fit(old, new)
    arrays = rl.Translator(**settings).fit(joined.x[order], joined.y[order])
    pairs = rl.Translator(**settings).fit(rl.Pairs.of(joined.x[order], joined.y[order]))
    for t in (arrays, pairs):
        assert t.chosen_ == spaces.chosen_
        np.testing.assert_allclose(t.transform(joined.x), spaces.transform(joined.x), rtol=1e-9, atol=1e-9)
        assert t.fit_report_ is None
        assert not len(t.seen_keys_)


def test_a_fit_of_spaces_reports_what_was_used_and_held_out(noisy, rng):
    old, new = keyed(noisy, rng)
    t = rl.Translator().fit(old, new, held_out=0.25, max_pairs=200)
    report, hashes = t.fit_report_, key_hashes(old.keys)
    assert (report.source, report.target, report.dims, report.pairs) == ("old", "new", (10, 8), 200)
    assert report.held_out == np.sum(held_out(hashes, 0.25))
    assert report.pairs + report.held_out + report.unused == 400
    assert not np.any(held_out(t.seen_keys_, 0.25))
    assert t.fit(old, new).fit_report_.held_out == 0
    assert len(t.seen_keys_) == 400


@pytest.mark.parametrize("settings", [{}, {"map": "orthogonal"}])
def test_spaces_whose_pairs_are_unrelated_are_refused(noisy, rng, settings):
    x, y = noisy
    old, new = rl.Space(x, np.arange(400)), rl.Space(y[rng.permutation(400)], np.arange(400))
    with pytest.raises(ValueError, match=r"no relation.*force=True"):
        rl.Translator(**settings).fit(old, new)
    forced = rl.Translator(**settings).fit(old, new, force=True)
    assert "no relation" in forced.fit_report_.warnings[0]
    assert rl.Translator(**settings).fit(*keyed(noisy, rng)).fit_report_.warnings == ()
    with pytest.warns(UserWarning, match=r"no relation: from 400 pairs.*Check that row i of X.*force=True") as warned:
        rl.Translator(**settings).fit(old.vectors, new.vectors)
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="no relation"):
        rl.Translator(**settings).fit(rl.Pairs.of(old.vectors, new.vectors))
    rl.Translator(**settings).fit(old.vectors, new.vectors, force=True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"held_out": 0.2}, "held_out was given without two spaces"),
        ({"max_pairs": 10}, "max_pairs was given without two spaces"),
        ({"anchors": ["a"]}, "anchors was given without two spaces"),
        ({"engine": object()}, "engine was given without two spaces"),
    ],
)
def test_what_needs_keys_is_refused_for_arrays_and_pairs(noisy, given, says):
    with pytest.raises(ValueError, match=says):
        rl.Translator().fit(*noisy, **given)
    with pytest.raises(ValueError, match=says):
        rl.Translator().fit(rl.Pairs.of(*noisy), **given)


def test_what_cannot_be_joined_is_refused(noisy, rng):
    x, y = noisy
    with pytest.raises(ValueError, match="y was given beside pairs"):
        rl.Translator().fit(rl.Pairs.of(x, y), y)
    with pytest.raises(ValueError, match="sample_weight was given beside pairs"):
        rl.Translator().fit(rl.Pairs.of(x, y), sample_weight=np.ones(400))
    with pytest.raises(ValueError, match="sample_weight was given for two spaces"):
        rl.Translator().fit(*keyed(noisy, rng), np.ones(400))


def test_spaces_of_files_are_not_held_whole(noisy, rng, tmp_path):
    for space in keyed(noisy, rng):
        rl.write_space(space, tmp_path / f"{space.name}.parquet")
    old, new = (rl.read_space(tmp_path / f"{name}.parquet") for name in ("old", "new"))
    rl.Translator().fit(old, new)
    assert "vectors" not in old.__dict__
    assert "vectors" not in new.__dict__


# What a person reads


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"goal": "retrieval"}, ["retrieval", "6 → 7", "400 pairs", "λ="]),
        ({"map": "orthogonal", "normalize": "standard"}, ["orthogonal", "6 → 6", "400 pairs", "standard"]),
        ({"goal": "retrieval", "frozen_target": True}, ["retrieval, frozen target", "6 → 6"]),
    ],
)
def test_a_fitted_translator_says_what_it_is(noisy, tmp_path, settings, words):
    x, y = (a[:, :6] for a in noisy)
    unfitted = rl.Translator(**settings)
    assert "pairs" not in repr(unfitted)
    t = unfitted.fit(x, y)
    t.save(tmp_path / "t.safetensors")
    for shown in (repr(t), repr(rl.load(tmp_path / "t.safetensors"))):
        assert shown.startswith("Translator(")
        assert all(word in shown for word in words)


def test_the_summary_shows_the_choice_and_warns(noisy, rng):
    x, y = noisy
    chosen = rl.Translator("retrieval").fit(x, y).summary()
    for words in ("400 pairs", "likelihood ratio", "runner-up", "out-of-fold reciprocal rank", "shared space"):
        assert words in str(chosen)
    few = rl.Translator().fit(rng.normal(size=(10, 50)), rng.normal(size=(10, 3))).summary()
    assert "10 anchors are few for 50 coordinates" in few.warnings[0]
    shuffled = rl.Translator().fit(x, y[rng.permutation(len(y))], force=True).summary()
    assert "no relation" in shuffled.warnings[0]
    assert rl.Translator().fit(x, y).summary().warnings == ()
