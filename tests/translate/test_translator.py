from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import relatent as rl
from relatent._atomic import FileError
from relatent.translate.maps import MAPS
from relatent.translate.translator import GOALS

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
    from scipy.stats import multivariate_normal, norm

    r, n = 0.7, 200_000
    x = rng.normal(size=(n, 1))
    y = r * x + np.sqrt(1 - r**2) * rng.normal(size=(n, 1))
    t = rl.Translator("retrieval").fit(x, y)
    # Unregularised and on one and the same preparation, up to a constant per query.
    from relatent.translate.likelihood import LikelihoodPath

    ratio = LikelihoodPath.of(rl.summarize(x, y)).at(0.0, 0.0)
    a, b = np.asarray([[0.5]]), np.linspace(-2, 2, 9)[:, None]
    ours = ((a @ ratio.query.matrix + ratio.query.offset) @ ratio.target_vectors(b).T)[0]
    joint = multivariate_normal([0, 0], [[1, r], [r, 1]]).logpdf(np.c_[np.full(9, 0.5), b])
    expected = joint - norm.logpdf(b[:, 0])
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], atol=0.05)
    assert t.transform(x[:3]).shape == (3, 2)


def test_the_retrieval_coordinates_are_scikit_learns_canonical_variables(rng):
    from relatent.translate.likelihood import LikelihoodPath

    hidden = rng.normal(size=(2000, 3))
    x = np.c_[hidden + [0.3, 0.8, 2.0] * rng.normal(size=(2000, 3)), rng.normal(size=(2000, 2))] @ rng.normal(
        size=(5, 5)
    )
    y = np.c_[hidden, rng.normal(size=2000)] @ rng.normal(size=(4, 4))
    theirs = CCA(3, max_iter=5000, tol=1e-12).fit(x, y).transform(x, y)
    ratio = LikelihoodPath.of(rl.summarize(x, y)).at(0.0, 0.0)
    ours = [side[:, :3] for side in ratio.vectors(x, y)]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.abs(np.corrcoef(a.T, b.T)[:3, 3:]), np.eye(3), atol=1e-4)


@pytest.mark.parametrize("name", [m for m in MAPS if m != "identity"])
@pytest.mark.parametrize("normalize", NAMES)
def test_folding_changes_nothing(noisy, name, normalize):
    """The one affine map equals normalise, map, undo, step by step."""
    x, y = noisy
    t = rl.Translator(map=name, normalize=normalize, penalty=0.2).fit(x, y)
    nx, ny = rl.Normalizer.fit(x, normalize), rl.Normalizer.fit(y, normalize)
    rule, options = MAPS[name].rule, {"penalty": 0.2} if "penalty" in MAPS[name].options else {}
    a = rule(rl.summarize(nx.apply(x), ny.apply(y)), **options)
    np.testing.assert_allclose(t.transform(x), ny.undo(nx.apply(x) @ a.matrix + a.offset), rtol=1e-6, atol=1e-8)


def test_dual_codes_are_ridge(noisy):
    x, y = noisy
    t = rl.Translator(map="ridge", penalty=0.1, normalize="center").fit(x, y)
    np.testing.assert_allclose(rl.RelativeTranslator(ridge=0.1).fit(x, y).transform(x), t.transform(x), rtol=1e-8)


def test_inverting_cosines_is_the_transpose_of_backward_least_squares(noisy):
    x, y = noisy
    forward = rl.RelativeTranslator("cosine", normalize="center", rescale=False).fit(x, y)
    backward = rl.Translator(map="least_squares", normalize="center").fit(y, x)
    np.testing.assert_allclose(forward.matrix_, backward.matrix_.T, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("goal", GOALS)
def test_float32_stays_float32_and_libraries_keep_their_arrays(noisy, goal, xp):
    x, y = noisy
    t = rl.Translator(goal).fit(xp(x.astype(np.float32)), xp(y.astype(np.float32)))
    out, kind = t.transform(xp(x.astype(np.float32))), type(xp(x))
    assert isinstance(out, kind)
    assert "float32" in str(out.dtype)
    assert "float32" in str(t.transform_target(xp(y.astype(np.float32))).dtype)
    reference = rl.Translator(goal).fit(x.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(np.asarray(out), reference.transform(x.astype(np.float32)), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("goal", GOALS)
def test_torch_gradients_flow_through_transform(noisy, goal):
    x, y = noisy
    t = rl.Translator(goal).fit(x, y)
    rows = torch.from_numpy(x[:3]).requires_grad_()
    assert torch.autograd.gradcheck(t.transform, (rows,))
    assert torch.autograd.gradcheck(t.transform_target, (torch.from_numpy(y[:3]).requires_grad_(),))


# Streams


@pytest.mark.parametrize(
    "settings", [{}, {"goal": "stitching"}, {"map": "orthogonal"}, {"map": "ridge", "normalize": "standard"}]
)
def test_chunks_give_the_same_translator_as_the_whole(noisy, settings):
    x, y = noisy
    whole, chunked = rl.Translator(**settings).fit(x, y), rl.Translator(**settings)
    for start in range(0, 400, 70):
        chunked.partial_fit(x[start : start + 70], y[start : start + 70])
    np.testing.assert_allclose(chunked.transform(x), whole.transform(x), rtol=1e-8, atol=1e-10)
    assert chunked.n_pairs_ == 400


def test_the_reservoir_is_the_same_however_pairs_were_chunked(noisy):
    x, y = noisy
    whole = rl.Translator(reservoir=50).fit(x, y)
    chunked = rl.Translator(reservoir=50)
    for start in range(0, 400, 33):
        chunked.accumulate(x[start : start + 33], y[start : start + 33])
    np.testing.assert_array_equal(chunked.finish().pairs_.sample.x, whole.pairs_.sample.x)
    assert len(whole.pairs_.sample) == 50


@pytest.mark.parametrize("rows", [100, 40])
def test_a_buffer_may_be_used_again(noisy, rows):
    x, y = noisy
    fresh, reused = (rl.Translator("retrieval", reservoir=60) for _ in range(2))
    buffers = np.empty_like(x[:rows]), np.empty_like(y[:rows])
    for start in range(0, 400, rows):
        chunk = x[start : start + rows], y[start : start + rows]
        for buffer, new in zip(buffers, chunk, strict=True):
            buffer[:] = new
        reused.accumulate(*buffers)
        fresh.accumulate(*chunk)
    np.testing.assert_array_equal(reused.finish().transform(x), fresh.finish().transform(x))
    np.testing.assert_array_equal(reused.pairs_.sample.x, fresh.pairs_.sample.x)


def test_weights_are_repetitions(noisy):
    x, y = noisy
    counts = np.random.default_rng(0).integers(0, 3, size=400)
    settings = {"map": "ridge", "penalty": 0.1}
    weighted = rl.Translator(**settings).fit(x, y, sample_weight=counts)
    repeated = rl.Translator(**settings).fit(np.repeat(x, counts, axis=0), np.repeat(y, counts, axis=0))
    np.testing.assert_allclose(weighted.transform(x), repeated.transform(x), rtol=1e-8, atol=1e-10)


def test_fitting_again_forgets(noisy, rotated):
    t = rl.Translator().fit(*noisy)
    x, y = rotated
    np.testing.assert_allclose(t.fit(x, y).transform(x), rl.Translator().fit(x, y).transform(x))


# Precision


def test_an_offset_of_1e4_costs_float32_little(rotated):
    x, y = (a.astype(np.float32) for a in rotated)
    far = rl.Translator(map="orthogonal").fit(x + np.float32(1e4), y - np.float32(1e4))
    error = np.abs(far.transform(x + np.float32(1e4)) + np.float32(1e4) - y).max()
    assert error < 2e-2  # float32 rounds by 1e-3 at 1e4


def test_an_offset_of_1e8_in_float64(rotated):
    x, y = rotated
    t = rl.Translator(map="orthogonal").fit(x + 1e8, y)
    np.testing.assert_allclose(t.transform(x + 1e8), y, atol=1e-5)


def test_dead_coordinates_get_their_mean(rng):
    x, y = rng.normal(size=(300, 6)), rng.normal(size=(300, 5))
    y[:, 2] = 0.25 + 1e-30 * rng.normal(size=300)
    for settings in ({"map": "orthogonal", "normalize": "standard"}, {"map": "whitened"}, {}, {"goal": "stitching"}):
        np.testing.assert_allclose(rl.Translator(**settings).fit(x, y).transform(x)[:, 2], 0.25, rtol=1e-12)


def test_few_anchors_drop_what_they_do_not_reach(rng):
    x, y = rng.normal(size=(5, 20)), rng.normal(size=(5, 15))
    t = rl.Translator(map="orthogonal", normalize="center").fit(x, y)
    assert np.linalg.matrix_rank(t.matrix_) == 4


# Selection


def test_augmented_wins_only_where_it_helps(rng):
    x = rng.normal(size=(1500, 3))
    bent, straight = np.sin(3 * x) @ rng.normal(size=(3, 3)), x @ rng.normal(size=(3, 3))
    straight = straight + 0.1 * rng.normal(size=straight.shape)
    t = rl.Translator().fit(x[:1000], bent[:1000])
    assert t.selection_.chosen.startswith("augmented")
    assert t.score(x[1000:], bent[1000:]) > rl.Translator(map="ridge").fit(x[:1000], bent[:1000]).score(
        x[1000:], bent[1000:]
    )
    plain = rl.Translator().fit(x[:1000], straight[:1000])
    assert plain.selection_.chosen == "ridge"
    assert plain.selection_.runner_up.startswith("augmented")


def test_a_frozen_target_keeps_its_space_and_its_vectors(noisy):
    x, y = noisy
    t = rl.Translator("retrieval", frozen_target=True).fit(x[:300], y[:300])
    assert t.transform(x).shape == y.shape
    np.testing.assert_array_equal(t.transform_target(y), y)
    assert t.score(x[300:], y[300:]) > 0.5
    assert t.selection_.runner_up is not None


def test_stitching_gives_a_head_vectors_of_full_length(rng):
    x = rng.normal(size=(500, 30))
    y = x[:, :20] + 2.0 * rng.normal(size=(500, 20))  # a ridge explains a fifth and shrinks to it
    fresh = rng.normal(size=(500, 30))
    sizes = {g: np.std(rl.Translator(g).fit(x, y).transform(fresh)) / np.std(y) for g in ("vectors", "stitching")}
    assert sizes["vectors"] < 0.6
    assert 0.75 < sizes["stitching"] < 1.25


def test_stitching_is_the_stated_blend(noisy):
    """(1 − β) g ridge + β orthogonal, g from leaving each pair out and fitting again."""
    from relatent.translate.selection import BLEND

    x, y = noisy
    penalty, center = 0.3, y.mean(axis=0)
    left_out = [
        rl.Translator(map="ridge", penalty=penalty * 400 / 399)
        .fit(np.delete(x, i, 0), np.delete(y, i, 0))
        .transform(x[i : i + 1])
        for i in range(400)
    ]
    gain = np.linalg.norm(y - center) / np.linalg.norm(np.concatenate(left_out) - center)
    ridge, turned = (
        rl.Translator(map=m, penalty=penalty).fit(x, y).transform(x) - center for m in ("ridge", "orthogonal")
    )
    expected = center + (1 - BLEND) * gain * ridge + BLEND * turned
    actual = rl.Translator("stitching", penalty=penalty).fit(x, y)
    assert actual.selection_.chosen == "ridge, blended with orthogonal"
    np.testing.assert_allclose(actual.transform(x), expected, rtol=2e-3, atol=2e-3 * np.std(y))


def test_stitching_bends_where_the_spaces_do(rng, tmp_path):
    x, fresh = rng.normal(size=(600, 3)), rng.normal(size=(200, 3))
    t = rl.Translator("stitching").fit(x, np.sin(3 * x))
    straight = rl.Translator(map="affine").fit(x, np.sin(3 * x))
    assert t.score(fresh, np.sin(3 * fresh)) > straight.score(fresh, np.sin(3 * fresh)) + 0.3
    told = t.expected_quality()["cosine"]
    assert told.low <= rl.evaluate.cosine(t.transform(fresh), np.sin(3 * fresh)) <= told.high
    t.save(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(rl.load(tmp_path / "t.safetensors").transform(fresh), t.transform(fresh))


# scikit-learn


class OnNumbers(rl.Translator):
    """scikit-learn's checks draw whole numbers as targets, which a Translator refuses as class labels."""

    def _take(self, X, y, sample_weight, *, lasting):
        if y is not None:
            y = np.asarray(y)
            y = y.astype(np.float64) if y.dtype.kind == "i" else y
            y = y[:, None] if y.ndim == 1 else y
        return super()._take(X, y, sample_weight, lasting=lasting)


REASONS = {
    "check_sample_weight_equivalence_on_dense_data": "the penalty is chosen by leaving out one pair: of a weighted one "
    "nothing remains, of a repeated one its copies do. With the penalty given, weights are repetitions (tested above).",
}


@parametrize_with_checks([OnNumbers()], expected_failed_checks=lambda _: REASONS)
def test_scikit_learns_conventions(estimator, check):
    check(estimator)


def test_labels_are_refused():
    digits = load_digits()
    for labels in (digits.target, digits.target[:, None], digits.target.astype(float)):
        with pytest.raises(ValueError, match="FrozenEstimator"):
            rl.Translator().fit(digits.data, labels)


def test_a_frozen_translator_serves_in_a_pipeline(rng, orthogonal):
    x, labels = load_digits(return_X_y=True)
    q = orthogonal(64)
    head = LogisticRegression(max_iter=2000).fit(x[:900], labels[:900])
    t = rl.Translator("stitching").fit(x[:500] @ q, x[:500])
    pipeline = make_pipeline(FrozenEstimator(t), FrozenEstimator(head)).fit(x[:900] @ q, labels[:900])
    assert pipeline.score(x[900:] @ q, labels[900:]) > head.score(x[900:], labels[900:]) - 0.02


def test_feature_names_output_and_clone(noisy):
    x, y = noisy
    t = rl.Translator(goal="stitching", penalty=0.3).fit(x, y)
    assert list(t.get_feature_names_out()[:2]) == ["translator0", "translator1"]
    again = clone(t)
    assert again.get_params() == t.get_params()
    with pytest.raises(NotFittedError, match="call fit with parallel anchors"):
        again.transform(x)
    assert make_pipeline(StandardScaler(), rl.Translator()).fit(x, y).transform(x).shape == y.shape


def test_inverse_transform_undoes_an_orthogonal_map(rotated, noisy):
    x, y = rotated
    t = rl.Translator(map="orthogonal").fit(x, y)
    np.testing.assert_allclose(t.inverse_transform(t.transform(x)), x, rtol=1e-9)
    with pytest.raises(ValueError, match="no inverse"):
        rl.Translator("retrieval").fit(*noisy).inverse_transform(noisy[1])


# Files


@pytest.mark.parametrize(
    "settings",
    [{"goal": g} for g in GOALS]
    + [{"map": "orthogonal", "normalize": n} for n in NAMES]
    + [{"goal": "retrieval", "frozen_target": True}],
)
def test_a_saved_translator_translates_the_same(noisy, settings, tmp_path):
    x, y = noisy
    t = rl.Translator(**settings).fit(x, y)
    t.save(tmp_path / "t.safetensors")
    back = rl.load(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(back.transform(x), t.transform(x))
    np.testing.assert_array_equal(back.transform_target(y), t.transform_target(y))
    assert back.get_params() == t.get_params()
    assert back.selection_ == t.selection_


def test_an_augmented_translator_is_saved_whole(rng, tmp_path):
    x = rng.normal(size=(600, 3))
    t = rl.Translator().fit(x, np.sin(3 * x))
    t.save(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(rl.load(tmp_path / "t.safetensors").transform(x), t.transform(x))


def test_the_file_holds_no_anchor(noisy, tmp_path):
    x, y = noisy
    rl.Translator("stitching").fit(x, y).save(tmp_path / "t.safetensors")
    raw = (tmp_path / "t.safetensors").read_bytes()
    assert not any(row.tobytes() in raw for a in (x, y) for row in a)
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    assert {"format", "format_version", "library_version", "kind", "about", "sha256"} <= set(header)


def test_landmarks_are_nobodys_vectors(rng, tmp_path):
    x = rng.normal(size=(600, 3))
    rl.Translator().fit(x, np.sin(3 * x)).save(tmp_path / "t.safetensors")
    folded = rl.load(tmp_path / "t.safetensors").map_
    anchors = folded.before.apply(x)
    apart = np.linalg.norm(folded.features.landmarks[:, None] - anchors[None], axis=2)
    assert np.min(apart) > 0
    assert not np.any(np.isclose(apart, 0, atol=1e-9))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "t.safetensors"
    rng = np.random.default_rng(0)
    rl.Translator("retrieval").fit(rng.normal(size=(60, 4)), rng.normal(size=(60, 3))).save(path)
    return path


@given(st.data())
def test_a_damaged_file_is_never_loaded_as_if_whole(saved, data):
    raw = bytearray(saved.read_bytes())
    position = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw = raw[:position]
    else:
        raw[position] ^= data.draw(st.integers(1, 255))
    bad = saved.with_name("bad.safetensors")
    bad.write_bytes(raw)
    with pytest.raises(FileError, match=r"bad\.safetensors"):
        rl.load(bad)


# Bad input


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((1, 3)), np.ones((1, 2)), "at least 2"),
        (np.ones((9, 3)), np.random.default_rng(0).normal(size=(9, 2)), "All 9 source anchors are the same"),
        (np.ones((9, 3)), np.ones((8, 2)), "X has 9 rows and Y has 8 rows"),
        (np.r_[np.ones((4, 3)), np.full((1, 3), np.nan)], np.ones((5, 2)), "first in row 4"),
        (np.ones((0, 3)), np.ones((0, 2)), "at least one row|minimum of 1"),
    ],
)
def test_bad_anchors_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        rl.Translator().fit(x, y)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_very_few_anchors_still_give_finite_answers(rng, goal, k):
    x, y = rng.normal(size=(k, 6)), rng.normal(size=(k, 4))
    t = rl.Translator(goal).fit(x, y)
    assert np.all(np.isfinite(t.transform(rng.normal(size=(7, 6)))))
    assert np.all(np.isfinite(t.transform_target(y)))


def test_equal_target_anchors_give_that_target(rng):
    t = rl.Translator().fit(rng.normal(size=(20, 4)), np.full((20, 3), 5.0))
    np.testing.assert_allclose(t.transform(rng.normal(size=(2, 4))), 5.0)


def test_wrong_settings_and_wrong_shapes_say_so(noisy):
    x, y = noisy
    with pytest.raises(ValueError, match="Did you mean 'retrieval'"):
        rl.Translator("retreival").fit(x, y)
    with pytest.raises(ValueError, match="no normalisation"):
        rl.Translator(normalize="isso").fit(x, y)
    with pytest.raises(ValueError, match='frozen_target is for goal="retrieval"'):
        rl.Translator(frozen_target=True).fit(x, y)
    with pytest.raises(ValueError, match="features"):
        rl.Translator().fit(x, y).partial_fit(x[:, :3], y)
    with pytest.raises(ValueError, match="expected the same"):
        rl.Translator().fit(x, y).partial_fit(x, y[:, :3])
    with pytest.raises(ValueError, match="features"):
        rl.Translator().fit(x, y).transform(y)
    with pytest.raises(NotFittedError, match="nothing to solve"):
        rl.Translator().finish()
    with pytest.raises(ValueError, match="not available between them"):
        rl.Translator(map="identity").fit(x, y)


def test_repeated_anchors_do_not_spoil_the_penalty(rng):
    x = rng.normal(size=(900, 200)) * np.linspace(2, 0.2, 200)
    y = x @ rng.normal(size=(200, 40)) + 5 * rng.normal(size=(900, 40))
    once, twice = np.arange(400), np.concatenate([np.arange(400), np.arange(100)])
    errors = [np.sum((rl.Translator().fit(x[r], y[r]).transform(x[400:]) - y[400:]) ** 2) for r in (once, twice)]
    assert errors[1] < 1.05 * errors[0]


def test_fewer_anchors_than_coordinates_lose_nothing_by_living_in_their_span(rng):
    from relatent.translate.likelihood import LikelihoodPath
    from relatent.translate.sample import Sample
    from relatent.translate.selection import likelihood_choice

    x, y = rng.normal(size=(40, 90)), rng.normal(size=(40, 70))
    y[:, :30] += x[:, :30]
    t = rl.Translator("retrieval").fit(x, y)
    name, *penalties = likelihood_choice(t.selection_)
    p = t.streams_[name].prepared(Sample(x, y))
    whole = LikelihoodPath.of(p.summary).at(*penalties)
    new_x, new_y = rng.normal(size=(20, 90)), rng.normal(size=(25, 70))
    expected = whole.query_vectors(p.source.apply(new_x)) @ whole.target_vectors(p.target.apply(new_y)).T
    np.testing.assert_allclose(t.transform(new_x) @ t.transform_target(new_y).T, expected, rtol=1e-6, atol=1e-8)
