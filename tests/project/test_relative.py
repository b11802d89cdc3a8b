import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import relatent as rl
from relatent import _linalg
from relatent._array import to_numpy
from relatent.project import similarity as sim
from relatent.project.relative import sparse_codes


@parametrize_with_checks(
    [
        rl.RelativeProjection(),
        rl.RelativeProjection("euclidean", normalize="iso", output="layer"),
        rl.RelativeProjection("mahalanobis", output="l2"),
        rl.RelativeEncoder(),
        rl.RelativeEncoder("cosine"),
    ]
)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def x(rng):
    return rng.normal(size=(60, 8)) + 2


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (
            (np.zeros((10, 3)), np.zeros((5, 7))),
            ValueError,
            r"x \(10, 3\) and anchors \(5, 7\): expected the same last",
        ),
        ((np.zeros((0, 3)), np.zeros((5, 3))), ValueError, r"x has 0 sample\(s\)"),
        ((np.zeros((5, 3)), np.zeros((0, 3))), ValueError, r"anchors has 0 sample\(s\)"),
        (
            (np.full((2, 3), np.nan), np.zeros((5, 3))),
            ValueError,
            "x holds NaN or infinity in 2 of 2 rows, first in row 0",
        ),
        ((np.zeros((2, 3)), np.full((5, 3), np.inf)), ValueError, "anchors holds NaN or infinity"),
        ((np.eye(3), torch.eye(3)), TypeError, "x is a numpy array and anchors is a torch array"),
        (([[1, 2, 3]], torch.eye(3)), TypeError, "expected one library"),
        ((array_api_strict.eye(3), np.eye(3)), TypeError, "expected one library"),
        ((scipy.sparse.eye_array(3), np.eye(3)), TypeError, "x is a sparse matrix"),
        (([["a"]], [["b"]]), TypeError, "x has dtype <U1"),
        ((np.eye(3) * 1j, np.eye(3)), ValueError, "Complex data not supported"),
        ((np.ones(3), np.eye(3)), ValueError, r"x has shape \(3,\): expected 2-D"),
    ],
)
def test_bad_input_says_what_is_wrong(bad, error, message):
    with pytest.raises(error, match=message):
        rl.relative_projection(*bad)
    with pytest.raises(ValueError, match="Did you mean 'cosine'"):
        rl.relative_projection(np.eye(2), np.eye(2), "cosina")


@pytest.mark.parametrize("dtype", ["float16", "int8", "int64", "bool"])
def test_halves_and_integers_are_numbers(rng, dtype):
    x = rng.integers(0, 2, size=(6, 4)) + np.eye(6, 4, dtype=int)
    expected = cosine_similarity(x.astype(dtype).astype(np.float64))
    assert np.allclose(rl.relative_projection(x.astype(dtype), x.astype(dtype)), expected, atol=1e-6)
    assert np.allclose(rl.relative_projection(x.tolist(), x.tolist()), cosine_similarity(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.float32, torch.float64])
def test_torch_in_torch_out(dtype):
    x = torch.eye(4).to(dtype)
    out = rl.relative_projection(x, x[:2])
    assert isinstance(out, torch.Tensor)
    assert out.device == x.device
    assert out.dtype == {torch.float64: torch.float64, torch.int32: torch.float64}.get(dtype, torch.float32)
    assert torch.equal(out.float(), torch.eye(4)[:, :2])


def test_a_function_of_the_user_is_a_similarity(xp, x):
    out = rl.relative_projection(xp(x), xp(x[:3]), lambda rows, anchors: rows[:, :1] + anchors[:, 0][None, :])
    assert np.allclose(to_numpy(out), x[:, :1] + x[:3, 0])


@pytest.mark.parametrize(
    ("normalize", "survives"), [("center", True), ("iso", True), ("center+l2", True), ("none", False), ("l2", False)]
)
@pytest.mark.filterwarnings("ignore:The anchors have a mean cosine")
def test_centering_makes_the_cosine_invariant_to_an_offset(rng, x, orthogonal, normalize, survives):
    moved = 3 * x @ orthogonal(8) + rng.normal(size=8)
    relative = [rl.RelativeProjection(normalize=normalize).fit(s[:20]).transform(s) for s in (x, moved)]
    assert np.allclose(*relative) is survives


def test_two_rotated_spaces_have_one_relative_space(xp, x, orthogonal):
    q = orthogonal(8)
    ours, theirs = (to_numpy(rl.relative_projection(xp(s), xp(s[:10]))) for s in (x, x @ q))
    assert np.allclose(ours, theirs)
    assert not np.allclose(x, x @ q)


def test_the_estimator_is_the_formula_after_centering(xp, x):
    out = rl.RelativeProjection().fit(xp(x[:12])).transform(xp(x))
    mean = x[:12].mean(axis=0)
    assert np.allclose(to_numpy(out), cosine_similarity(x - mean, x[:12] - mean))
    assert type(out) is type(xp(x))


@pytest.mark.parametrize("name", sim.SIMILARITIES)
@pytest.mark.parametrize("output", ["none", "l2", "layer"])
def test_outputs_are_what_they_say(monkeypatch, x, name, output):
    monkeypatch.setattr(_linalg, "CHUNK_ENTRIES", 50)
    raw = rl.RelativeProjection(name).fit(x[:12]).transform(x)
    out = rl.RelativeProjection(name, output=output).fit(x[:12]).transform(x)
    if output == "none":
        assert np.array_equal(out, raw)
    elif output == "l2":
        assert np.allclose(out * np.linalg.norm(raw, axis=1, keepdims=True), raw)
    else:
        expected = torch.nn.functional.layer_norm(torch.from_numpy(raw), (12,)).numpy()
        assert np.allclose(out, expected)


@pytest.mark.parametrize("select", ["uniform", "farthest_point", "kmeans", "stratified"])
def test_anchors_are_chosen_from_the_space(xp, x, select):
    labels = np.arange(60) % 3
    relative = rl.RelativeProjection(select=select, n_anchors=9, seed=4).fit(xp(x), labels)
    assert len(set(relative.anchor_rows_.tolist())) == 9
    assert np.array_equal(to_numpy(relative.anchors_), x[relative.anchor_rows_])
    assert relative.transform(xp(x)).shape == (60, 9)
    assert list(relative.get_feature_names_out()) == [f"relativeprojection{i}" for i in range(9)]
    if select == "stratified":
        assert np.bincount(labels[relative.anchor_rows_]).tolist() == [3, 3, 3]


def test_it_works_in_a_pipeline_and_clones(x):
    pipeline = make_pipeline(StandardScaler(), rl.RelativeProjection(select="uniform", n_anchors=5))
    assert clone(pipeline).fit_transform(x).shape == (60, 5)


def test_fitted_on_one_kind_used_on_another(x):
    fitted = rl.RelativeProjection().fit(torch.from_numpy(x[:9]))
    assert np.allclose(fitted.transform(x), rl.RelativeProjection().fit(x[:9]).transform(x))
    single = fitted.transform(x.astype(np.float32))
    assert single.dtype == np.float32
    assert np.allclose(single, fitted.transform(x), atol=1e-5)


def test_gradients_pass_through_the_estimator(x):
    relative = rl.RelativeProjection(output="layer").fit(x[:6])
    assert torch.autograd.gradcheck(relative.transform, (torch.tensor(x[6:9], requires_grad=True),))


def test_a_raw_cosine_of_an_off_center_space_is_warned_of(x):
    for normalize in ("none", "l2"):
        with pytest.warns(UserWarning, match='Use normalize="center"'):
            rl.RelativeProjection(normalize=normalize).fit(x)
    rl.RelativeProjection(normalize="none").fit(x - x.mean(axis=0))
    rl.RelativeProjection("euclidean", normalize="none").fit(x)


@pytest.mark.parametrize("anchors", [np.ones((1, 3)), np.ones((4, 3))])
def test_anchors_that_centering_wipes_out_are_refused(anchors):
    with pytest.raises(ValueError, match=r"Nothing is left of the anchors \(n_samples=\d\) after normalize='center'"):
        rl.RelativeProjection().fit(anchors)
    assert np.allclose(rl.RelativeProjection("euclidean").fit(anchors).transform(np.zeros((1, 3))), -np.sqrt(3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"similarity": "cosinus"}, "no similarity 'cosinus'. Did you mean 'cosine'"),
        ({"output": "l3"}, "output is 'l3'. There are: none, l2, layer"),
        ({"normalize": "centre"}, "no normalization 'centre'. Did you mean 'center'"),
        ({"select": "kmean"}, "no strategy 'kmean'. Did you mean 'kmeans'"),
        ({"select": "stratified"}, 'select="stratified" needs the labels'),
        ({"select": "uniform", "n_anchors": 61}, "61 anchors were asked for but there are only 60 rows"),
    ],
)
def test_bad_options_are_refused_when_fitting(x, options, message):
    with pytest.raises(ValueError, match=message):
        rl.RelativeProjection(**options).fit(x)


def test_labels_must_fit_the_space(x):
    with pytest.raises(ValueError, match="X has 60 rows and there are 3 labels"):
        rl.RelativeProjection(select="stratified", n_anchors=2).fit(x, [0, 1, 0])


# Sparse codes


@pytest.fixture
def r(rng):
    return rng.uniform(-1, 1, size=(20, 9))


def test_the_largest_stay_and_the_rest_is_zero(xp, r):
    codes = to_numpy(sparse_codes(xp(r), 3, 2.0))
    for row, code in zip(r, codes, strict=True):
        assert set(np.flatnonzero(code)) == set(np.argsort(row)[-3:])
    assert np.allclose(np.linalg.norm(codes, axis=1), 1)


def test_signs_survive_even_powers(r):
    assert np.array_equal(np.sign(sparse_codes(r, 9, 2.0)), np.sign(r))


@pytest.mark.parametrize(("factor", "survives"), [(7.0, True), (-1.0, False)])
def test_a_positive_factor_changes_nothing(r, factor, survives):
    assert np.allclose(sparse_codes(r, 4, 3.0), sparse_codes(factor * r, 4, 3.0)) is survives


def test_equals_at_the_last_place_all_stay(xp):
    codes = to_numpy(sparse_codes(xp(np.asarray([[0.9, 0.5, 0.5, 0.1]])), 2, 1.0))
    assert (codes != 0).tolist() == [[True, True, True, False]]


def test_a_row_of_zeros_stays_zero(xp):
    assert not np.any(to_numpy(sparse_codes(xp(np.zeros((2, 5))), 2, 2.0)))
