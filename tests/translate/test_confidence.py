"""Confidence per row: against brute force, and what it is invariant to."""

from pathlib import Path

import numpy as np
import pytest

import relatent as rl
from relatent.translate import confidence as module
from relatent.translate.confidence import Leverage
from relatent.translate.pairs import Pairs

RNG = np.random.default_rng(4)
D = 12
TURN = np.linalg.qr(RNG.normal(size=(D, D)))[0]
ANCHORS, ITEMS = 500, 1_500
GOALS = [
    {},
    {"map": "ridge"},
    {"map": "orthogonal"},
    {"goal": "index"},
    {"goal": "stitching"},
    {"goal": "retrieval"},
    {"goal": "retrieval", "frozen_target": True},
]


def items(n):
    """Items whose noise grows along the first axis; the second half of them is translated worse."""
    x = RNG.normal(size=(n, D))
    return x, x @ TURN + 0.8 * np.exp(x[:, :1] / 2) * RNG.normal(size=(n, D)), x[:, 0] > 0


X, Y, NOISY = items(ANCHORS + ITEMS)
SEEN, NEW = slice(ANCHORS), slice(ANCHORS, None)


def found(t, x, y):
    """Whether each own item is in the first ten, by brute force."""
    queries, targets = np.asarray(t.transform(x)), np.asarray(t.transform_target(y))
    if t.metric_ == "cosine":
        queries, targets = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (queries, targets))
    scores = queries @ targets.T
    return np.sum(scores > np.diagonal(scores)[:, None], axis=1) < 10


def calibration_error(confidence, truth):
    bins = np.minimum((10 * confidence).astype(int), 9)
    gaps = [abs(np.sum(confidence[bins == b] - truth[bins == b])) for b in range(10)]
    return sum(gaps) / len(truth)


@pytest.fixture(scope="module")
def translator():
    return rl.Translator(map="ridge").fit(X[SEEN], Y[SEEN])


@pytest.mark.parametrize("options", GOALS, ids=str)
def test_it_is_calibrated_on_items_that_were_not_fitted_on(options):
    t = rl.Translator(**options).fit(X[SEEN], Y[SEEN])
    galleries = [slice(start, start + ANCHORS) for start in range(ANCHORS, ANCHORS + ITEMS, ANCHORS)]
    confidence, truth = t.confidence(X[NEW]), np.concatenate([found(t, X[part], Y[part]) for part in galleries])
    # Of 500 anchors, the mean has a standard error of .02, and that of each half of .03.
    assert calibration_error(confidence, truth) < 0.07
    assert np.all((confidence >= 0) & (confidence <= 1))
    for value in (confidence, truth):
        assert np.mean(value[~NOISY[NEW]]) > np.mean(value[NOISY[NEW]])


def test_more_items_leave_less(translator):
    means = [np.mean(translator.confidence(X[NEW], items=n)) for n in (500, 1_000, 5_000, 50_000, 5_000_000)]
    assert np.all(np.diff(means) < 0)
    np.testing.assert_array_equal(translator.confidence(X[NEW]), translator.confidence(X[NEW], items=ANCHORS))


def test_far_from_the_anchors_it_falls(translator):
    away = X[NEW] + 40 * np.eye(D)[5]
    assert np.mean(translator.confidence(away)) < 0.1 * np.mean(translator.confidence(X[NEW]))


INVERTIBLE = np.diag(np.linspace(0.2, 3, D))


@pytest.mark.parametrize(
    ("move", "survives"),
    [(lambda x: x @ TURN, True), (lambda x: 7 * x, True), (lambda x: x + 5, True), (lambda x: x @ INVERTIBLE, False)],
    ids=["rotate", "rescale", "offset", "stretch"],
)
def test_what_it_is_invariant_to(translator, move, survives):
    moved = rl.Translator(map="ridge").fit(move(X[SEEN]), Y[SEEN])
    before, after = translator.confidence(X[NEW]), moved.confidence(move(X[NEW]))
    assert np.allclose(before, after, atol=1e-3) is survives


@pytest.mark.parametrize("full_x", [True, False])
def test_the_leverage_is_that_of_a_ridge(full_x):
    leverage = Leverage.of(Pairs.of(X[SEEN], Y[SEEN], full_x=full_x))
    c, a = X[NEW] - X[SEEN].mean(0), X[SEEN] - X[SEEN].mean(0)
    wanted = np.einsum("ij,jk,ik->i", c, np.linalg.inv(a.T @ a + leverage.penalty * np.eye(D)), c)
    np.testing.assert_allclose(leverage(X[NEW]), wanted, rtol=1e-6)


def test_beyond_the_main_directions_the_leverage_is_that_of_their_mean(monkeypatch):
    monkeypatch.setattr(module, "RANK", 4)
    leverage = Leverage.of(Pairs.of(X[SEEN], Y[SEEN]))
    values, vectors = np.linalg.eigh(np.cov(X[SEEN].T, ddof=0) * ANCHORS)
    values[:-4] = np.mean(values[:-4])
    wanted = ((X[NEW] - X[SEEN].mean(0)) @ vectors) ** 2 @ (1 / (values + leverage.penalty))
    np.testing.assert_allclose(leverage(X[NEW]), wanted, rtol=1e-6)


def test_margins_are_counted_in_excesses_of_the_four_best_others():
    scores = np.asarray([[5.0, 1, 2, 3, 4, 0], *[[0.0] * 6] * 5])
    margins, excesses = module._margins(scores.copy())
    # The four best others are 1, 2, 3 and 4: they exceed the last by 1.5 on average.
    assert margins[0] == pytest.approx(4 / 1.5)
    np.testing.assert_allclose(np.sort(excesses[:4]), np.asarray([0, 1, 2, 3]) / 1.5)
    np.testing.assert_allclose(module._margins(10 * scores)[0], margins)


def test_the_tail_of_many_items_is_exponential(translator):
    calibrated = translator.calibrate()
    needed = [calibrated.needed(items) for items in (10**5, 10**6, 10**7)]
    np.testing.assert_allclose(np.diff(needed), calibrated.excess * np.log(10))


def test_the_logistic_function_has_the_mean_of_platts_targets():
    x = RNG.normal(size=400)
    hit = RNG.random(400) < 1 / (1 + np.exp(-(0.5 + 2 * x)))
    intercept, slope = module._logistic(x, hit)
    wanted = np.where(hit, (hit.sum() + 1) / (hit.sum() + 2), 1 / ((~hit).sum() + 2))
    predicted = 1 / (1 + np.exp(-(intercept + slope * x)))
    assert np.mean(predicted) == pytest.approx(np.mean(wanted), abs=1e-4)
    assert np.mean(predicted * x) == pytest.approx(np.mean(wanted * x), abs=1e-4)
    assert module._logistic(-x, hit)[1] == 0


def test_a_file_keeps_what_was_calibrated(translator, tmp_path):
    wanted = translator.confidence(X[NEW], items=10_000)
    translator.save(tmp_path / "t.safetensors")
    np.testing.assert_allclose(rl.load(tmp_path / "t.safetensors").confidence(X[NEW], items=10_000), wanted, atol=1e-4)


def test_a_file_without_it_says_so(tmp_path):
    rl.Translator(map="ridge").fit(X[SEEN], Y[SEEN]).save(tmp_path / "t.safetensors")
    old = Path(__file__).parents[1] / "compatibility" / "0.1" / "fitted"
    for path in (tmp_path / "t.safetensors", *sorted(old.glob("vectors*.safetensors"))[:1]):
        t = rl.load(path)
        with pytest.raises(ValueError, match=r"no confidence.*calibrate"):
            t.confidence(np.ones((3, t.n_features_in_)))


def test_no_anchor_is_in_the_file(tmp_path):
    t = rl.Translator(max_cost="affine").fit(X[SEEN], Y[SEEN])
    t.calibrate()
    t.save(tmp_path / "t.safetensors")
    raw = (tmp_path / "t.safetensors").read_bytes()
    assert not any(row.astype(kind).tobytes() in raw for row in X[SEEN] for kind in ("f4", "f8"))


def test_fitting_again_calibrates_again():
    t = rl.Translator(map="ridge").fit(X[SEEN], Y[SEEN])
    first = t.calibrate()
    assert t.calibrate() is first
    t.partial_fit(X[NEW], Y[NEW])
    assert t.calibrate() is not first


def test_sums_and_a_sample_are_enough():
    pairs = Pairs.of(X[SEEN], Y[SEEN], size=200)
    t = rl.Translator(map="ridge").fit(pairs)
    assert np.mean(t.confidence(X[NEW])) == pytest.approx(np.mean(found(t, X[NEW][:500], Y[NEW][:500])), abs=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.confidence(X, items=0), "expected 1 or more"),
        (lambda t: t.confidence(X[:, :3]), "3 features"),
        (lambda t: rl.Translator(map="ridge").fit(X[:40], Y[:40]).confidence(X), "at least 50"),
    ],
)
def test_what_means_nothing_is_refused(translator, call, message):
    with pytest.raises(ValueError, match=message):
        call(translator)
