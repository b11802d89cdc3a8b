import numpy as np
import pytest
from sklearn.decomposition import PCA

from relatent._linalg import Plane


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(300, 6)) * [5, 3, 1, 1, 1, 1] + 7


def test_the_axes_are_principal_up_to_one_scale(x):
    expected = PCA(2, svd_solver="full").fit_transform(x)
    found = Plane.fit(x)(x)
    ratio = found / expected
    np.testing.assert_allclose(np.abs(ratio), np.abs(ratio[0, 0]), rtol=1e-3)


def test_nearly_all_points_are_within_the_unit_square(x):
    assert 0.99 < np.mean(np.abs(Plane.fit(x)(x)) <= 1) < 1


@pytest.mark.parametrize(
    ("change", "survives"),
    [(lambda x, q: x @ q, True), (lambda x, q: 3 * x + 2, True), (lambda x, q: x * np.arange(1, 7), False)],
    ids=["rotate", "rescale and shift", "stretch"],
)
def test_what_leaves_the_picture_as_it_was(x, change, survives):
    q = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    before, after = (np.abs(Plane.fit(a)(a)) for a in (x, change(x, q)))
    assert np.allclose(before, after, atol=1e-4) is survives


def test_two_coordinates_are_drawn_as_they_are(x):
    flat = x[:, [1, 0]]
    ratio = Plane.fit(flat)(flat) / (flat - flat.mean(axis=0))
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-4)


def test_constants_are_one_point_and_one_coordinate_is_refused(x):
    assert np.all(Plane.fit(np.ones((5, 2)))(np.ones((5, 2))) == 0)
    with pytest.raises(ValueError, match=r"shape \(300, 1\): expected two coordinates"):
        Plane.fit(x[:, :1])
