import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import relatent as rl
from relatent._array import to_numpy

K, D, E = 40, 6, 5


def unit(a):
    return a / np.linalg.norm(a, axis=1, keepdims=True)


@pytest.fixture
def pair(rng):
    """Two views of the same things, noisy and off center, and samples of the first."""
    x = rng.normal(size=(K, 9)) @ rng.normal(size=(9, D)) + 1
    return x, x @ rng.normal(size=(D, E)) + 0.1 * rng.normal(size=(K, E)) - 2, rng.normal(size=(15, D))


def codes_pair(codes, x, y, **options):
    encoder = rl.RelativeEncoder(codes, **options).fit(x)
    return encoder, rl.RelativeDecoder(codes, subspaces=encoder.subspaces_).fit(y)


# --- the bare formula


@given(d=st.integers(1, 6), more=st.integers(0, 8), scale=st.sampled_from([1e-6, 1.0, 1e6]), seed=st.integers(0, 99))
def test_the_round_trip_is_exact_when_the_anchors_span(d, more, scale, seed):
    rng = np.random.default_rng(seed)
    x, anchors = rng.normal(size=(4, d)), np.concatenate([np.eye(d), rng.normal(size=(more, d))]) * scale
    back = rl.inverse_relative_projection(rl.relative_projection(x, anchors), anchors)
    assert np.allclose(back, unit(x))


def test_what_the_anchors_do_not_span_is_lost_and_nothing_else(xp, rng):
    x, anchors = rng.normal(size=(5, 6)), rng.normal(size=(3, 6))
    back = to_numpy(rl.inverse_relative_projection(rl.relative_projection(xp(x), xp(anchors)), xp(anchors)))
    assert np.allclose(back, unit(x) @ np.linalg.pinv(anchors) @ anchors)
    assert not np.allclose(back, unit(x))


def test_the_oracle_is_the_pseudo_inverse(xp, rng):
    r, anchors = rng.normal(size=(7, 9)), rng.normal(size=(9, 4))
    out = rl.inverse_relative_projection(xp(r), xp(anchors))
    assert np.allclose(to_numpy(out), r @ np.linalg.pinv(unit(anchors).T))
    assert type(out) is type(xp(r))


def test_threshold_and_ridge(rng):
    r, anchors = rng.normal(size=(7, 9)), rng.normal(size=(9, 4)) * [1, 1, 1, 0.05]
    a = unit(anchors)
    cut = rl.inverse_relative_projection(r, anchors, rtol=0.5)
    assert np.allclose(cut, r @ np.linalg.pinv(a.T, rcond=0.5))
    assert not np.allclose(cut, rl.inverse_relative_projection(r, anchors))
    damped = rl.inverse_relative_projection(r, anchors, ridge=0.2)
    # The minimum of ‖y aᵀ − r‖² + ρ‖y‖² over y, with ρ = 0.2 × the mean of the squared singular values over k.
    rho = 0.2 * np.sum(a**2) / 9
    assert np.allclose(damped, np.linalg.solve(a.T @ a + rho * np.eye(4), a.T @ r.T).T)


def test_gradients_pass_through_decoding(rng):
    r = torch.tensor(rng.normal(size=(3, 6)), requires_grad=True)
    anchors = torch.tensor(rng.normal(size=(6, 4)), requires_grad=True)
    assert torch.autograd.gradcheck(rl.inverse_relative_projection, (r, anchors))
    there_and_back = lambda x, a: rl.inverse_relative_projection(rl.relative_projection(x, a), a)  # noqa: E731
    assert torch.autograd.gradcheck(
        there_and_back, (torch.tensor(rng.normal(size=(3, 4)), requires_grad=True), anchors)
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_dtype_of_the_codes_is_kept(xp, rng, dtype):
    if dtype == np.float16 and xp(np.eye(1)).__class__.__module__.startswith("array_api_strict"):
        pytest.skip("the standard has no float16")
    r, anchors = rng.integers(-3, 4, size=(3, 4)).astype(dtype), xp(np.eye(4))
    out = to_numpy(rl.inverse_relative_projection(xp(r), anchors))
    assert out.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert np.allclose(out, r)


def test_zero_repeated_and_dependent_anchors_give_no_nan(xp, rng):
    anchors = rng.normal(size=(6, 4))
    anchors[0], anchors[1], anchors[2] = 0, anchors[3], 2 * anchors[4]
    r = rl.relative_projection(xp(anchors), xp(anchors))
    back = to_numpy(rl.inverse_relative_projection(r, xp(anchors)))
    assert not np.any(back[0])
    assert np.allclose(back[3:], unit(anchors[3:]))


def test_codes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"codes has shape \(2, 3\): expected 4 columns, one column per anchor"):
        rl.inverse_relative_projection(np.zeros((2, 3)), np.eye(4))
    with pytest.raises(TypeError, match="r is a torch array and anchors is a numpy array"):
        rl.inverse_relative_projection(torch.eye(4), np.eye(4))
    with pytest.raises(ValueError, match="r holds NaN"):
        rl.inverse_relative_projection(np.full((1, 4), np.nan), np.eye(4))
    with pytest.raises(ValueError, match=r"ridge is -1: expected 0 or more"):
        rl.inverse_relative_projection(np.eye(4), np.eye(4), ridge=-1)


# --- dual codes


@pytest.mark.parametrize("ridge", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("k", [4, 12, 40])
def test_dual_codes_are_ridge_regression(xp, pair, ridge, k):
    x, y, samples = pair[0][:k], pair[1][:k], pair[2]
    penalty = ridge * np.sum((x - x.mean(axis=0)) ** 2) / D
    expected = Ridge(alpha=penalty, solver="svd").fit(x, y).predict(samples)
    out = rl.RelativeTranslator(ridge=ridge).fit(xp(x), xp(y)).transform(xp(samples))
    assert np.allclose(to_numpy(out), expected)


@pytest.mark.parametrize("k", [4, D, 2 * D, K])
def test_the_default_ridge_is_the_root_of_coordinates_per_anchor(pair, k):
    x, _, samples = pair
    default, explicit = (rl.RelativeEncoder(ridge=r).fit(x[:k]) for r in (None, np.sqrt(D / k)))
    assert default.ridge_ == explicit.ridge_
    assert np.array_equal(default.transform(samples), explicit.transform(samples))


@pytest.mark.parametrize("k", [50, 75, 100, 105, 200, 1000])
def test_the_default_ridge_never_does_worse_than_the_mean(rng, k):
    """Little of the target shows in the source, and some source directions are weak."""
    x = rng.normal(size=(k + 2000, 50)) * np.arange(1, 51) ** -0.5
    y = x @ rng.normal(size=(50, 20)) / 7
    y += 1.5 * y.std() * rng.normal(size=y.shape)
    t = rl.RelativeTranslator().fit(x[:k], y[:k])
    error, spread = (np.mean((y[k:] - a) ** 2) for a in (t.transform(x[k:]), y[:k].mean(axis=0)))
    assert error < spread


@pytest.mark.parametrize(("ridge", "survives"), [(0.0, True), (0.5, False)])
def test_dual_codes_without_a_ridge_survive_every_affine_map(rng, pair, ridge, survives):
    x, _, samples = pair
    m, offset = rng.normal(size=(D, D)), rng.normal(size=D)
    before = rl.RelativeEncoder(ridge=ridge).fit(x).transform(samples)
    after = rl.RelativeEncoder(ridge=ridge).fit(x @ m + offset).transform(samples @ m + offset)
    assert np.allclose(before, after) is survives


def test_dual_codes_with_a_ridge_survive_rigid_moves(rng, pair, orthogonal):
    x, _, samples = pair
    q, offset = 3 * orthogonal(D), rng.normal(size=D)
    before = rl.RelativeEncoder().fit(x).transform(samples)
    assert np.allclose(before, rl.RelativeEncoder().fit(x @ q + offset).transform(samples @ q + offset))


def test_a_parseval_frame_has_condition_number_1_and_is_decoded_by_its_transpose(pair):
    x, _, samples = pair
    encoder, decoder = codes_pair("parseval", x, x)
    frame = decoder.matrix_
    assert np.allclose(frame.T @ frame, np.eye(D))
    assert np.allclose(encoder.matrix_, frame.T)
    assert encoder.conditioning_.condition_number == pytest.approx(1)
    assert decoder.conditioning_.condition_number == pytest.approx(1)
    assert rl.RelativeEncoder("dual").fit(x).conditioning_.condition_number > 2
    codes = encoder.transform(samples)
    assert np.allclose(decoder.transform(codes), samples)
    centered = (samples - x.mean(0)) / np.sqrt(np.mean(np.sum((x - x.mean(0)) ** 2, axis=1)))
    assert np.allclose(codes @ codes.T, centered @ centered.T)  # Parseval's identity


def test_too_few_anchors_are_a_tight_frame_of_what_they_span(rng):
    anchors, samples = rng.normal(size=(4, D)), rng.normal(size=(7, D))
    encoder, decoder = codes_pair("parseval", anchors, anchors)
    about = anchors - anchors.mean(0)
    spanned = anchors.mean(0) + (samples - anchors.mean(0)) @ np.linalg.pinv(about) @ about
    assert np.allclose(decoder.transform(encoder.transform(samples)), spanned)
    assert not np.allclose(spanned, samples)


@pytest.mark.parametrize(("move", "exact"), [("isometry, scale and offset", True), ("linear map", False)])
def test_what_a_parseval_frame_undoes(pair, rng, orthogonal, move, exact):
    x, _, samples = pair
    moves = {"isometry, scale and offset": lambda a: 3 * a @ q + 2, "linear map": lambda a: a @ m}
    q, m = orthogonal(D), rng.normal(size=(D, D))
    y = moves[move](x)
    found = rl.RelativeTranslator("parseval").fit(x, y).transform(samples)
    assert np.allclose(found, moves[move](samples)) is exact
    assert np.allclose(rl.RelativeTranslator(ridge=0.0).fit(x, y).transform(samples), moves[move](samples))


def test_the_two_frames_together_have_the_canonical_correlations_as_singular_values(pair):
    x, y, _ = pair
    values = np.linalg.svd(rl.RelativeTranslator("parseval").fit(x, y).matrix_, compute_uv=False)
    assert np.allclose(values, rl.evaluate.canonical_correlations(x, y))


def test_noise_on_codes_grows_in_an_inverse_and_not_in_a_frame(rng):
    anchors, noise = rng.normal(size=(D, D)) * np.logspace(0, -3, D), rng.normal(size=(200, D))
    frame = rl.RelativeDecoder("parseval", normalize="none").fit(anchors)
    inverse = rl.RelativeDecoder("cosine", normalize="none", ridge=0.0, rtol=0.0, rescale=False)
    with pytest.warns(UserWarning, match="multiplies their noise"):
        inverse.fit(anchors)
    size = np.linalg.norm(noise)
    assert np.linalg.norm(frame.transform(noise)) <= size * (1 + 1e-12)
    assert np.linalg.norm(inverse.transform(noise)) > 30 * size


def test_a_parseval_frame_has_no_ridge_and_no_subspaces(pair):
    x, y, _ = pair
    with pytest.raises(ValueError, match='codes="parseval" inverts nothing'):
        rl.RelativeTranslator("parseval", ridge=0.1).fit(x, y)
    with pytest.raises(ValueError, match="with parseval codes they would do nothing"):
        rl.RelativeTranslator("parseval", delta=0.5).fit(x, y)


def test_dual_codes_are_mahalanobis_up_to_a_factor(pair):
    x, _, samples = pair
    codes = rl.RelativeEncoder(ridge=0.3).fit(x).transform(samples)
    assert np.allclose(codes * (K - 1), rl.project.similarity.mahalanobis(samples, x, ridge=0.3))


# --- the steps of the paper


def test_an_ensemble_of_subspaces_is_one_matrix(pair):
    x, y, samples = pair
    encoder = rl.RelativeEncoder("cosine", omega=5, delta=0.5).fit(x)
    decoder = rl.RelativeDecoder("cosine", subspaces=encoder.subspaces_, rescale=False).fit(y)
    codes = encoder.transform(samples)
    centered = y - y.mean(axis=0)
    parts = [codes[:, rows] @ np.linalg.pinv(unit(centered[rows]).T) for rows in encoder.subspaces_]
    length = np.linalg.norm(centered, axis=1).mean()
    assert np.allclose(decoder.transform(codes), np.mean(parts, axis=0) * length + y.mean(axis=0))
    assert len({len(rows) for rows in encoder.subspaces_} | {K}) > 1


def test_subspaces_are_those_of_the_normalized_source(pair):
    x, _, _ = pair
    encoder = rl.RelativeEncoder("cosine", omega=3, delta=0.4, seed=5).fit(x)
    expected = rl.anchors.subspaces(x - x.mean(axis=0), 3, 0.4, seed=5)
    assert [a.tolist() for a in encoder.subspaces_] == [b.tolist() for b in expected]


def test_delta_zero_keeps_all(pair):
    x, y, samples = pair
    kept = rl.RelativeTranslator("cosine", delta=0.0, omega=3).fit(x, y)
    assert all(len(rows) == K for rows in kept.encoder_.subspaces_)
    assert np.allclose(kept.transform(samples), rl.RelativeTranslator("cosine").fit(x, y).transform(samples))


@pytest.mark.parametrize(
    "options", [{"ridge": 0.0}, {"delta": 0.3}, {"delta": 0.3, "omega": 4}, {"delta": 0.3, "complete": True}]
)
def test_a_rotated_rescaled_and_shifted_space_is_recovered(xp, rng, orthogonal, options):
    x = rng.normal(size=(K, D))
    y = 3 * x @ orthogonal(D) + rng.normal(size=D)
    translator = rl.RelativeTranslator("cosine", **options).fit(xp(x), xp(y))
    assert all(np.linalg.matrix_rank(x[rows]) == D for rows in translator.encoder_.subspaces_)
    out = to_numpy(translator.transform(xp(x)))
    # The cosine drops lengths, so directions from the mean come back exactly and lengths on average.
    assert np.allclose(unit(out - y.mean(axis=0)), unit(y - y.mean(axis=0)))


@pytest.mark.filterwarnings("ignore:Decoding these codes")
@pytest.mark.parametrize("k", [29, 30, 31, 33])
def test_noisy_cosines_of_all_anchors_are_decoded_by_a_damped_inverse(rng, orthogonal, k):
    d = 30
    x = rng.normal(size=(500, d)) * np.arange(1, d + 1) ** -0.5
    y = x @ orthogonal(d) + 0.3 * x.std() * rng.normal(size=(500, d))

    def cosine(**options):
        return rl.evaluate.mean_cosine(rl.RelativeTranslator("cosine", **options).fit(x[:k], y[:k]).transform(x), y)

    centered = unit(y[:k] - y[:k].mean(axis=0))
    damped = np.linalg.solve(centered.T @ centered + k / d * np.eye(d), centered.T).T
    found = rl.RelativeDecoder("cosine", rescale=False).fit(y[:k])
    assert np.allclose(found.matrix_, damped)
    assert cosine() > cosine(ridge=0.0) + 0.1


def test_an_inverse_that_amplifies_noise_is_warned_of(rng):
    x = rng.normal(size=(200, 100)) * np.arange(1, 101) ** -1.0
    for k in (90, 101, 150):
        with pytest.warns(UserWarning, match=rf"multiplies their noise by .*inverse of {k} anchors with 100 coord"):
            rl.RelativeDecoder("cosine", ridge=0.0).fit(x[:k])
        rl.RelativeDecoder("cosine").fit(x[:k])  # warnings are errors here


def test_pruning_away_a_direction_loses_it(rng):
    x = rng.normal(size=(K, D))
    translator = rl.RelativeTranslator("cosine", delta=0.9).fit(x, x)
    assert len(translator.encoder_.subspaces_[0]) < D
    out = translator.transform(x) - x.mean(axis=0)
    assert not np.allclose(unit(out), unit(x - x.mean(axis=0)), atol=0.1)


@pytest.mark.parametrize("widths", [(6, 6), (6, 4), (4, 6)])
def test_completion_is_semi_orthogonal(rng, widths):
    x, y = rng.normal(size=(K, widths[0])), rng.normal(size=(K, widths[1]))
    m = rl.RelativeTranslator("cosine", delta=0.3, omega=2, complete=True).fit(x, y).matrix_
    gram = m @ m.T if widths[0] <= widths[1] else m.T @ m
    assert np.allclose(gram, np.eye(min(widths)))
    raw = rl.RelativeTranslator("cosine", delta=0.3, omega=2).fit(x, y).matrix_
    assert not np.allclose(raw @ raw.T if widths[0] <= widths[1] else raw.T @ raw, np.eye(min(widths)))


def test_rescaling_changes_lengths_to_the_mean_length_and_no_direction(pair):
    x, y, samples = pair
    scaled, raw = (
        rl.RelativeTranslator("cosine", delta=0.3, omega=4, rescale=r).fit(x, y).transform(samples) - y.mean(axis=0)
        for r in (True, False)
    )
    assert np.allclose(unit(scaled), unit(raw))
    assert np.allclose(np.linalg.norm(scaled, axis=1), np.linalg.norm(y - y.mean(axis=0), axis=1).mean())
    assert not np.allclose(scaled, raw)


@pytest.mark.filterwarnings("ignore:Decoding these codes")
def test_condition_number_and_kept_count_fall_as_delta_rises(rng):
    x = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 30)) + 0.05 * rng.normal(size=(30, 30))
    reports = [
        rl.RelativeTranslator("cosine", delta=delta).fit(x, x).decoder_.conditioning_ for delta in (0, 0.05, 0.3, 0.6)
    ]
    assert [r.anchors for r in reports] == sorted({r.anchors for r in reports}, reverse=True)
    numbers = [r.condition_number for r in reports]
    assert numbers == sorted(set(numbers), reverse=True)
    assert numbers[0] == np.inf  # centered anchors no more than coordinates are always rank-deficient


def test_the_worst_subspace_is_reported(pair):
    x, y, _ = pair
    encoder, decoder = codes_pair("cosine", x, y, omega=4, delta=0.4)
    centered = unit(y - y.mean(axis=0))
    worst = max(np.linalg.cond(centered[rows]) for rows in encoder.subspaces_)
    assert decoder.conditioning_.condition_number == pytest.approx(worst)


# --- two halves, two parties


@pytest.mark.parametrize(
    ("codes", "options"),
    [("dual", {}), ("dual", {"ridge": 0.3}), ("cosine", {}), ("cosine", {"delta": 0.4, "omega": 3})],
)
def test_two_parties_who_share_files_only_are_one_translator(tmp_path, xp, pair, codes, options):
    x, y, samples = pair
    rl.RelativeEncoder(codes, **options).fit(xp(x)).save(tmp_path / "encoder")
    encoder = rl.load(tmp_path / "encoder")
    subspaces = encoder.subspaces_ if codes == "cosine" else None
    rl.RelativeDecoder(codes, subspaces=subspaces).fit(xp(y)).save(tmp_path / "decoder")
    decoder = rl.RelativeDecoder.load(tmp_path / "decoder")
    together = rl.RelativeTranslator(codes, **options).fit(xp(x), xp(y))
    apart = decoder.transform(encoder.transform(xp(samples)))
    assert np.allclose(to_numpy(apart), to_numpy(together.transform(xp(samples))))
    assert encoder.conditioning_ == together.encoder_.conditioning_
    assert decoder.conditioning_ == together.decoder_.conditioning_
    assert encoder.ridge_ == together.encoder_.ridge_


@pytest.mark.parametrize("options", [{}, {"codes": "cosine", "delta": 0.3, "complete": True}, {"rescale": False}])
def test_a_saved_translator_translates_and_holds_no_anchors(tmp_path, pair, options):
    x, y, samples = pair
    translator = rl.RelativeTranslator(**options).fit(x, y)
    translator.save(tmp_path / "t")
    again = rl.load(tmp_path / "t")
    assert np.array_equal(again.transform(samples), translator.transform(samples))
    assert not hasattr(again, "encoder_")
    assert K not in again.matrix_.shape


def test_one_translation_is_one_matrix(pair):
    x, y, samples = pair
    translator = rl.RelativeTranslator().fit(x, y)
    expected = (samples - x.mean(axis=0)) @ translator.matrix_ + y.mean(axis=0)
    assert translator.matrix_.shape == (D, E)
    assert np.allclose(translator.transform(samples), expected)


# --- arrays


@pytest.mark.parametrize("codes", ["dual", "cosine"])
def test_kind_dtype_and_inputs_are_kept(xp, pair, codes):
    x, y, samples = (a.astype(np.float32) for a in pair)
    given_x, given_y, given_samples = xp(x), xp(y), xp(samples)
    out = rl.RelativeTranslator(codes).fit(given_x, given_y).transform(given_samples)
    assert type(out) is type(given_samples)
    assert out.dtype == given_samples.dtype
    assert out.device == given_samples.device
    for before, after in [(x, given_x), (y, given_y), (samples, given_samples)]:
        assert np.array_equal(before, to_numpy(after))
    double = rl.RelativeTranslator(codes).fit(*pair[:2]).transform(pair[2])
    assert np.allclose(to_numpy(out), double, atol=1e-3)


def test_fitted_in_numpy_used_in_torch_with_gradients(pair):
    x, y, samples = pair
    for codes in ("dual", "cosine"):
        translator = rl.RelativeTranslator(codes).fit(x, y)
        tensor = torch.tensor(samples[:2], requires_grad=True)
        assert torch.autograd.gradcheck(translator.transform, (tensor,))
        apart = lambda s, t=translator: t.decoder_.transform(t.encoder_.transform(s))  # noqa: E731
        assert torch.autograd.gradcheck(apart, (tensor,))
        assert np.allclose(translator.transform(tensor).detach().numpy(), translator.transform(samples[:2]))


def test_lists_halves_and_views(pair):
    x, y, samples = pair
    expected = rl.RelativeTranslator().fit(x, y).transform(samples)
    assert np.allclose(rl.RelativeTranslator().fit(x.tolist(), y.tolist()).transform(samples.tolist()), expected)
    views = [np.repeat(a, 2, axis=0)[::2][::-1] for a in (x, y)]
    assert np.allclose(rl.RelativeTranslator().fit(*views).transform(np.asfortranarray(samples)), expected)
    half = rl.RelativeTranslator().fit(*(a.astype(np.float16) for a in (x, y))).transform(samples.astype(np.float16))
    assert half.dtype == np.float32
    assert np.allclose(half, expected, atol=0.05)
    brain = [torch.tensor(a).bfloat16() for a in (x, y, samples)]
    assert rl.RelativeTranslator().fit(*brain[:2]).transform(brain[2]).dtype == torch.float32


@given(
    k=st.integers(2, 12),
    d=st.integers(1, 5),
    e=st.integers(1, 5),
    scale=st.sampled_from([1e-8, 1.0, 1e8]),
    seed=st.integers(0, 99),
    codes=st.sampled_from(["dual", "cosine"]),
)
def test_every_shape_and_scale_gives_finite_vectors_of_the_target(k, d, e, scale, seed, codes):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(k, d)), rng.normal(size=(k, e))
    out = rl.RelativeTranslator(codes).fit(x, y).transform(x)
    scaled = rl.RelativeTranslator(codes).fit(x * scale, y * scale).transform(x * scale)
    assert out.shape == (k, e)
    assert np.all(np.isfinite(out))
    if k > d + 1 and k > e + 1:  # else a matrix is singular and its rounding noise may turn
        assert np.allclose(scaled, out * scale, rtol=1e-5, atol=1e-6 * scale)


# --- bad anchors


@pytest.mark.parametrize("codes", ["dual", "cosine"])
@pytest.mark.parametrize("spoil", ["zero", "repeated", "dependent", "few"])
def test_bad_anchors_give_finite_vectors(pair, codes, spoil):
    x, y, samples = pair
    if spoil == "zero":
        x[0], y[0] = 0, 0
    elif spoil == "repeated":
        x, y = np.tile(x[:4], (5, 1)), np.tile(y[:4], (5, 1))
    elif spoil == "dependent":
        x, y = x.copy(), y.copy()
        x[:, -1], y[:, -1] = x[:, 0], 2 * y[:, 0]
    else:
        x, y = x[:2], y[:2]
    samples[0] = 0
    translator = rl.RelativeTranslator(codes).fit(x, y)
    assert np.all(np.isfinite(translator.transform(samples)))
    if spoil != "zero":
        assert translator.encoder_.conditioning_.condition_number == np.inf
        assert translator.encoder_.conditioning_.rank < D


def test_repeated_anchors_do_not_change_dual_codes(pair):
    x, y, samples = pair
    once = rl.RelativeTranslator(ridge=0.2).fit(x, y).transform(samples)
    twice = rl.RelativeTranslator(ridge=0.2).fit(np.tile(x, (2, 1)), np.tile(y, (2, 1))).transform(samples)
    assert np.allclose(once, twice)


@pytest.mark.parametrize("options", [{}, {"codes": "cosine"}, {"codes": "cosine", "complete": True}])
def test_a_dead_coordinate_of_the_target_gets_its_mean(rng, pair, options):
    x, y, samples = pair
    dead = np.concatenate([y, 0.25 + 1e-33 * rng.normal(size=(K, 1)), 1e-30 * rng.normal(size=(K, 1))], axis=1)
    out = rl.RelativeTranslator(**options).fit(x, dead).transform(samples)
    assert np.allclose(out[:, E], 0.25, atol=1e-12)
    assert np.all(np.abs(out[:, E + 1]) < 1e-25)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda x, y: rl.RelativeTranslator().fit(x, y[:-1]),
            "X has 40 rows and Y has 39 rows: expected the same number",
        ),
        (
            lambda x, y: rl.RelativeTranslator().fit(x[:1], y[:1]),
            r"same vector \(n_samples=1\): at least two different",
        ),
        (lambda x, y: rl.RelativeTranslator("cosine").fit(np.ones((3, 2)), y[:3]), r"same vector \(n_samples=3\)"),
        (lambda x, y: rl.RelativeTranslator().fit(x[:0], y[:0]), r"X has 0 sample\(s\)"),
        (lambda x, y: rl.RelativeTranslator("duel").fit(x, y), "no codes 'duel'. Did you mean 'dual'"),
        (lambda x, y: rl.RelativeTranslator(normalize="centre").fit(x, y), "Did you mean 'center'"),
        (lambda x, y: rl.RelativeTranslator(ridge=-1.0).fit(x, y), r"ridge is -1.0: expected 0 or more"),
        (lambda x, y: rl.RelativeTranslator("cosine", delta=2).fit(x, y), "delta is 2: expected between 0"),
        (lambda x, y: rl.RelativeTranslator("cosine", omega=0).fit(x, y), "0 subspaces were asked for"),
        (lambda x, y: rl.RelativeTranslator(delta=0.5).fit(x, y), 'steps of codes="cosine"'),
        (lambda x, y: rl.RelativeTranslator(omega=8).fit(x, y), "with dual codes they would do nothing"),
        (lambda x, y: rl.RelativeTranslator().fit(x, y).transform(y), "X has 5 features, but RelativeTranslator"),
        (
            lambda x, y: rl.RelativeDecoder().fit(y).transform(np.zeros((2, 3))),
            "expected 40 columns, one column per anchor",
        ),
        (lambda x, y: rl.RelativeDecoder("cosine", subspaces=[[99]]).fit(y), "subspaces does not fit 40 anchors"),
        (lambda x, y: rl.RelativeDecoder("cosine", subspaces=[]).fit(y), "subspaces does not fit 40 anchors"),
    ],
)
def test_bad_input_says_what_is_wrong(pair, make, message):
    with pytest.raises(ValueError, match=message):
        make(*pair[:2])


def test_two_libraries_are_refused(pair):
    with pytest.raises(TypeError, match="X is a torch array and Y is a numpy array"):
        rl.RelativeTranslator().fit(torch.from_numpy(pair[0]), pair[1])


@pytest.mark.parametrize("kind", [rl.RelativeEncoder, rl.RelativeDecoder, rl.RelativeTranslator])
def test_what_is_not_fitted_neither_transforms_nor_saves(tmp_path, kind):
    with pytest.raises(NotFittedError):
        kind().transform(np.eye(2))
    with pytest.raises(NotFittedError):
        kind().save(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []
    assert clone(kind("cosine")).codes == "cosine"
