import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

import relatent as rl
from relatent._array import to_numpy
from relatent.spaces.normalize import NORMALIZATIONS, live_dimensions

LOSSLESS = ["none", "center", "iso", "standard", "whiten"]


@pytest.fixture
def anchors(rng):
    return rng.normal(size=(30, 5)) @ rng.normal(size=(5, 5)) + 3


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("none", lambda z, x: np.array_equal(z, x)),
        ("center", lambda z, x: np.allclose(z.mean(axis=0), 0) and np.allclose(np.cov(z.T), np.cov(x.T))),
        ("iso", lambda z, x: np.allclose(z.mean(axis=0), 0) and np.isclose(np.mean(np.sum(z**2, axis=1)), 1)),
        ("standard", lambda z, x: np.allclose(z.mean(axis=0), 0) and np.allclose(z.std(axis=0, ddof=1), 1)),
        ("whiten", lambda z, x: np.allclose(z.mean(axis=0), 0) and np.allclose(np.cov(z.T), np.eye(5))),
        ("l2", lambda z, x: np.allclose(z * np.linalg.norm(x, axis=1, keepdims=True), x)),
        ("center+l2", lambda z, x: np.allclose(np.linalg.norm(z, axis=1), 1)),
    ],
)
def test_what_each_normalization_makes_of_its_own_anchors(xp, anchors, name, law):
    assert law(to_numpy(rl.Normalizer.fit(xp(anchors), name).apply(xp(anchors))), anchors)


def test_every_normalization_is_tested():
    assert set(LOSSLESS) | {"l2", "center+l2"} == set(NORMALIZATIONS)


def test_standard_is_that_of_scikit_learn_up_to_its_divisor(anchors, rng):
    x, n = rng.normal(size=(8, 5)), len(anchors)
    ours = rl.Normalizer.fit(anchors, "standard").apply(x)
    assert np.allclose(ours, StandardScaler().fit(anchors).transform(x) * np.sqrt((n - 1) / n))


@pytest.mark.parametrize("name", LOSSLESS)
@given(n=st.integers(8, 20), d=st.integers(1, 5), scale=st.sampled_from([1e-8, 1.0, 1e8]), seed=st.integers(0, 50))
def test_undo_undoes(name, n, d, scale, seed):
    rng = np.random.default_rng(seed)
    anchors, x = scale * rng.normal(size=(n, d)) + scale, scale * rng.normal(size=(3, d))
    normalizer = rl.Normalizer.fit(anchors, name)
    assert np.allclose(normalizer.undo(normalizer.apply(x)), x, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize("name", ["l2", "center+l2"])
def test_undoing_unit_rows_keeps_directions_and_gives_the_mean_length(anchors, name):
    normalizer = rl.Normalizer.fit(anchors, name)
    mean = anchors.mean(axis=0) if name == "center+l2" else 0
    back = normalizer.undo(normalizer.apply(anchors)) - mean
    lengths = np.linalg.norm(anchors - mean, axis=1)
    assert np.allclose(back, (anchors - mean) / lengths[:, None] * lengths.mean())


@pytest.mark.parametrize(
    ("name", "scale", "survives"),
    [
        ("center", 1.0, True),
        ("center", 3.0, False),
        ("iso", 3.0, True),
        ("iso", np.asarray([1.0, 2, 3, 4, 5]), False),
        ("standard", np.asarray([1.0, 2, 3, 4, 5]), True),
        ("none", 1.0, False),
        ("center+l2", 3.0, True),
        ("l2", 3.0, False),
    ],
)
def test_which_rescaling_and_offset_each_removes(anchors, rng, name, scale, survives):
    x, offset = rng.normal(size=(6, 5)), rng.normal(size=5)
    before = rl.Normalizer.fit(anchors, name).apply(x)
    after = rl.Normalizer.fit(anchors * scale + offset, name).apply(x * scale + offset)
    assert np.allclose(before, after) is survives


@pytest.mark.parametrize(("name", "survives"), [("whiten", True), ("standard", False), ("iso", False)])
def test_whitening_removes_every_affine_map_up_to_rotation(anchors, rng, name, survives):
    x, m, offset = rng.normal(size=(6, 5)), rng.normal(size=(5, 5)), rng.normal(size=5)
    before = rl.Normalizer.fit(anchors, name).apply(x)
    after = rl.Normalizer.fit(anchors @ m + offset, name).apply(x @ m + offset)
    assert np.allclose(before @ before.T, after @ after.T) is survives


@pytest.mark.parametrize("name", LOSSLESS)
def test_moments_are_all_that_is_needed(anchors, name):
    mean = anchors.mean(axis=0)
    scatter = (anchors - mean).T @ (anchors - mean)
    fitted = rl.Normalizer.fit(anchors, name)
    built = rl.Normalizer.from_moments(len(anchors), mean, scatter, name)
    assert np.allclose(fitted.apply(anchors), built.apply(anchors))
    assert np.allclose(fitted.unscale, built.unscale)


@pytest.mark.parametrize("name", NORMALIZATIONS)
@pytest.mark.parametrize("rows", [np.ones((4, 3)), np.zeros((4, 3)), np.asarray([[1.0, 2.0, 3.0]])])
def test_anchors_without_spread_give_no_nan(name, rows):
    normalizer = rl.Normalizer.fit(rows, name)
    assert np.all(np.isfinite(normalizer.apply(rows)))
    assert np.all(np.isfinite(normalizer.undo(rows)))


def test_a_dead_coordinate_does_not_explode(anchors):
    dead = np.concatenate([anchors, 1e-33 * anchors[:, :1]], axis=1)
    x = np.concatenate([anchors, np.ones((30, 1))], axis=1)
    assert np.max(np.abs(rl.Normalizer.fit(dead, "standard").apply(x))) < 10


def test_live_dimensions_are_relative_to_the_median():
    std = np.asarray([1.0, 2.0, 3.0, 1e-5, 1e-7])
    assert live_dimensions(std).tolist() == [True, True, True, True, False]
    assert live_dimensions(1e9 * np.asarray([1.0, 2.0, 1e-7])).tolist() == [True, True, False]
    assert live_dimensions(np.zeros(3)).tolist() == [False, False, False]


def test_whitening_fewer_rows_than_coordinates_whitens_what_there_is(rng):
    anchors = rng.normal(size=(4, 9))
    normalizer = rl.Normalizer.fit(anchors, "whiten")
    z = normalizer.apply(anchors)
    assert np.allclose(np.sort(np.linalg.eigvalsh(np.cov(z.T)))[-3:], 1)
    assert np.allclose(normalizer.undo(z), anchors)


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_kind_dtype_and_input_are_kept(xp, anchors, name):
    normalizer = rl.Normalizer.fit(xp(anchors), name)
    x = xp(anchors.astype(np.float32))
    out = normalizer.undo(normalizer.apply(x))
    assert type(out) is type(x)
    assert out.dtype == x.dtype
    assert np.array_equal(to_numpy(x), anchors.astype(np.float32))


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_what_is_saved_comes_back(anchors, name):
    normalizer = rl.Normalizer.fit(anchors, name)
    again = rl.Normalizer.from_saved(normalizer.arrays("p."), normalizer.about(), "p.")
    assert np.array_equal(again.apply(anchors), normalizer.apply(anchors))
    assert np.array_equal(again.undo(anchors), normalizer.undo(anchors))


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_gradients_pass(anchors, name):
    normalizer = rl.Normalizer.fit(anchors, name)
    x = torch.tensor(anchors[:3], requires_grad=True)
    assert torch.autograd.gradcheck(normalizer.apply, (x,))
    assert torch.autograd.gradcheck(normalizer.undo, (x,))


def test_bad_input_says_what_is_wrong(anchors):
    with pytest.raises(ValueError, match=r"no normalization 'centre'. Did you mean 'center'"):
        rl.Normalizer.fit(anchors, "centre")
    with pytest.raises(ValueError, match="anchors holds NaN or infinity in 1 of 2 rows, first in row 1"):
        rl.Normalizer.fit([[1.0], [np.nan]])
    with pytest.raises(ValueError, match=r"x has shape \(3, 1\): expected 5 columns"):
        rl.Normalizer.fit(anchors).apply(np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"x has shape \(3, 6\): expected 5 columns"):
        rl.Normalizer.fit(anchors).undo(np.ones((3, 6)))
    assert rl.Normalizer.fit(anchors).apply(anchors.tolist()).shape == anchors.shape
