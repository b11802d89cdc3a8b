import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import relatent as rl
from relatent.translate import pair_audit
from relatent.translate.pair_audit import (
    CHECK_RIDGE,
    CHECKED,
    NEAREST,
    _dual_codes,
    _without_hubness,
    mismatched,
)
from relatent.translate.pairs import Pairs


def two_views(n, seed=0):
    """Digits through two random layers with different activations: related, not linearly."""
    pixels = load_digits().data / 16
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, 64, 40)) / 4
    rows = rng.permutation(len(pixels))[:n]
    return np.tanh(pixels[rows] @ first), np.maximum(pixels[rows] @ second, 0)


def swapped(y, share):
    y, bad = y.copy(), np.arange(len(y)) < share * len(y)
    y[bad] = np.roll(y[bad], 1, axis=0)
    return y, bad


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_mismatched_pairs_score_low_and_are_trimmed(share):
    x, y = two_views(600)
    y, bad = swapped(y, share)
    found = rl.audit(x, y)
    assert roc_auc_score(~bad, found.scores) > 0.97
    assert found.bimodal
    assert np.mean(bad[found.kept]) < 0.2 * share
    assert np.sum(~bad[found.kept]) > 0.95 * np.sum(~bad)
    # One list: what the text counts, what is suspicious, and what is not kept.
    assert np.array_equal(np.sort(found.suspicious), np.setdiff1d(np.arange(600), found.kept))
    assert str(found).startswith(f"{len(found.suspicious)} of 600 pairs do not belong together")


def test_trimming_makes_a_better_translator():
    x, y = two_views(1500)
    wrong, _ = swapped(y[:500], 0.5)
    kept = rl.audit(x[:500], wrong).kept
    scores = [
        rl.Translator(goal="retrieval").fit(x[rows], wrong[rows], force=True).score(x[500:], y[500:])
        for rows in (np.arange(500), kept)
    ]
    assert scores[1] > scores[0]


@pytest.mark.parametrize("seed", range(5))
def test_clean_pairs_are_left_alone(seed):
    found = rl.audit(*two_views(300, seed))
    assert not found.bimodal
    assert found.kept.tolist() == list(range(300))
    assert "nothing is dropped" in str(found)


def test_where_nothing_belongs_together_nothing_is_trimmed(rng):
    found = rl.audit(rng.normal(size=(200, 10)), rng.normal(size=(200, 12)))
    assert not found.bimodal
    assert abs(np.mean(found.scores)) < 0.5
    assert np.all(np.diff(found.scores[found.suspicious]) >= 0)
    assert str(found).startswith(f"{len(found.suspicious)} of 200 pairs look doubtful")


def test_scores_do_not_depend_on_the_frame(orthogonal):
    x, y = two_views(200)
    turned = rl.audit(3 * x @ orthogonal(40) + 1, y @ orthogonal(40) / 7)
    assert np.allclose(turned.scores, rl.audit(x, y).scores, atol=1e-5)


def test_an_audit_needs_pairs():
    with pytest.raises(ValueError, match="12 pairs: expected at least 30"):
        rl.audit(np.ones((12, 2)), np.ones((12, 2)))
    with pytest.raises(ValueError, match="x has 40 rows and y has 39 rows"):
        rl.audit(np.ones((40, 2)), np.ones((39, 2)))


def test_scores_are_less_what_both_items_reach_with_the_nearest_other_items():
    scores = np.random.default_rng(0).normal(size=(30, 30))
    expected = np.empty_like(scores)
    for i, j in np.ndindex(scores.shape):
        row = np.sort(np.delete(scores[i], i))[-NEAREST:]
        column = np.sort(np.delete(scores[:, j], j))[-NEAREST:]
        expected[i, j] = scores[i, j] - np.mean(row) - np.mean(column)
    np.testing.assert_allclose(_without_hubness(scores), expected)


def test_more_held_out_pairs_than_are_compared_at_once_are_all_scored(monkeypatch):
    monkeypatch.setattr(pair_audit, "MAX_OTHERS", 300)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5 * 300 + 100, 8))
    y = x @ rng.normal(size=(8, 8)) + 0.1 * rng.normal(size=x.shape)
    wrong = rng.permutation(len(x))[:80]
    y[wrong] = y[np.roll(wrong, 1)]
    found = rl.audit(x, y)
    good = np.delete(np.arange(len(x)), wrong)
    assert roc_auc_score(np.isin(np.arange(len(x)), good), found.scores) > 0.98
    assert abs(np.mean(found.scores[wrong])) < 0.2


# In a fit


def test_codes_are_what_a_ridge_of_the_other_items_predicts(rng):
    rows = rng.normal(size=(12, 5)) + 1
    unit = rows - rows.mean(axis=0)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    for i, codes in enumerate(_dual_codes(rows)):
        others = np.delete(unit, i, axis=0)
        weights = others @ unit[i] @ np.linalg.inv(others @ others.T + CHECK_RIDGE * np.eye(11))
        np.testing.assert_allclose(np.delete(codes, i), weights, atol=1e-5)
        assert codes[i] == 0


@pytest.mark.parametrize("share", [0.07, 0.1, 0.3, 0.5])
def test_a_fit_names_mismatched_pairs(share):
    x, y = two_views(600, seed=1)
    wrong, bad = swapped(y, share)
    order = np.random.default_rng(2).permutation(600)
    found = mismatched(Pairs.of(x[order], wrong[order]))
    assert found.checked == CHECKED
    assert np.mean(bad[order[found.ids.astype(int)]]) > 0.8
    with pytest.warns(
        UserWarning, match=rf"mismatched \({CHECKED} were checked\), most of all row {found.ids[0]},.*rl.audit"
    ):
        rl.Translator(map="orthogonal").fit(x[order], wrong[order])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [30, 100, 600])
def test_clean_or_unrelated_pairs_are_not_called_mismatched(seed, n, rng):
    x, y = two_views(n, seed)
    assert mismatched(Pairs.of(x, y)) is None
    assert mismatched(Pairs.of(x, rng.permutation(y))) is None
    assert mismatched(Pairs.of(x[:20], y[:20])) is None


def test_spaces_have_their_keys_named():
    x, y = two_views(400)
    wrong, bad = swapped(y, 0.2)
    keys = [f"item {i}" for i in range(400)]
    spaces = rl.Space(x, keys=keys), rl.Space(wrong, keys=keys)
    with pytest.warns(UserWarning, match=r"most of all key item \d+, item \d+") as caught:
        rl.Translator(map="orthogonal").fit(*spaces)
    named = caught[0].message.args[0].split("most of all key ")[1].split(". Find")[0].split(", ")
    assert all(bad[keys.index(key)] for key in named)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.Translator(map="orthogonal").fit(*spaces, force=True)


def test_progress_is_shown_when_wanted(capsys):
    x, y = two_views(60)
    rl.audit(x, y, progress=True)
    assert "scoring pairs" in capsys.readouterr().err
    rl.audit(x, y)
    assert capsys.readouterr().err == ""
