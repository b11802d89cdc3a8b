from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes, svd
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV

from relatent import Translator
from relatent.translate import maps, summarize
from relatent.translate.maps import MAPS
from relatent.translate.ridge import PENALTIES, RidgePath, first_valley


@pytest.fixture
def noisy(rng):
    x = rng.normal(size=(300, 8)) @ rng.normal(size=(8, 8)) + 1.0
    y = x @ rng.normal(size=(8, 6)) + 0.3 * rng.normal(size=(300, 6)) - 2.0
    return x, y


def test_least_squares_is_numpys(noisy):
    x, y = noisy
    np.testing.assert_allclose(
        maps.least_squares(summarize(x, y)).matrix, np.linalg.lstsq(x, y, rcond=None)[0], rtol=1e-8
    )


def test_least_squares_has_the_least_norm_when_anchors_are_few(rng):
    x, y = rng.normal(size=(5, 9)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(
        maps.least_squares(summarize(x, y)).matrix, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-10
    )


def test_affine_is_linear_regression(noisy):
    x, y = noisy
    peer, ours = LinearRegression().fit(x, y), maps.affine(summarize(x, y))
    np.testing.assert_allclose(ours.matrix, peer.coef_.T, rtol=1e-8)
    np.testing.assert_allclose(ours.offset, peer.intercept_, rtol=1e-8)


def test_orthogonal_is_scipys_procrustes(noisy):
    x, y = noisy
    y = np.c_[y, y[:, :2] ** 2]
    np.testing.assert_allclose(
        maps.orthogonal(summarize(x, y)).matrix, orthogonal_procrustes(x, y)[0], rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("dims", [(8, 6), (6, 8)])
def test_thin_orthogonal_is_the_papers_zero_padding(rng, dims):
    x, y = rng.normal(size=(100, dims[0])), rng.normal(size=(100, dims[1]))
    padded = [np.pad(a, ((0, 0), (0, 8 - a.shape[1]))) for a in (x, y)]
    u, _, vt = svd(padded[0].T @ padded[1])
    np.testing.assert_allclose(maps.orthogonal(summarize(x, y)).matrix, (u @ vt)[: dims[0], : dims[1]], atol=1e-12)


@pytest.mark.parametrize("dims", [(8, 8), (8, 6), (6, 8)])
@pytest.mark.parametrize("name", ["orthogonal", "orthogonal_least_squares"])
def test_orthogonal_matrices_are(rng, dims, name):
    q = MAPS[name].rule(summarize(rng.normal(size=(100, dims[0])), rng.normal(size=(100, dims[1])))).matrix
    small = q.T @ q if dims[0] >= dims[1] else q @ q.T
    np.testing.assert_allclose(small, np.eye(min(dims)), atol=1e-10)


def test_on_noiseless_rotations_all_agree(rng, orthogonal):
    x, q = rng.normal(size=(50, 7)), orthogonal(7)
    s = summarize(x, x @ q)
    for name in ("least_squares", "orthogonal", "orthogonal_least_squares", "scaled_orthogonal", "affine"):
        np.testing.assert_allclose(MAPS[name].rule(s).matrix, q, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(maps.scaled_orthogonal(summarize(x, 3 * x @ q)).matrix, 3 * q, atol=1e-10)


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 10.0])
def test_ridge_is_scikit_learns(noisy, penalty):
    x, y = noisy
    unit = np.sum((x - x.mean(0)) ** 2) / x.shape[1]
    peer, ours = Ridge(penalty * unit).fit(x, y), maps.ridge(summarize(x, y), penalty)
    np.testing.assert_allclose(ours.matrix, peer.coef_.T, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(ours.offset, peer.intercept_, rtol=1e-7)


def test_the_chosen_penalty_is_as_good_as_leave_one_out(rng):
    x = rng.normal(size=(60, 40)) * np.logspace(0, -2, 40)
    y = x @ rng.normal(size=(40, 5)) + 0.3 * rng.normal(size=(60, 5))
    path = RidgePath.of(summarize(x, y))
    grid = np.asarray(PENALTIES) * path.unit
    loo = RidgeCV(grid, store_cv_results=True).fit(x, y)
    errors = loo.cv_results_.mean(axis=(0, 1))
    ours = errors[np.argmin(np.abs(grid - path.best() * path.unit))]
    assert ours <= 1.02 * errors.min()


def test_repeated_anchors_do_not_fool_the_penalty(rng):
    truth = rng.normal(size=(40, 5))
    x = rng.normal(size=(38, 40))
    y = x @ truth + 10 * rng.normal(size=(38, 5))
    x, y = np.r_[x, x[:1]], np.r_[y, y[:1]]  # fewer anchors than coordinates, one of them twice

    def error(penalty):
        return np.sum((Translator(map="ridge", penalty=penalty).fit(x, y).matrix_ - truth) ** 2)

    assert error(None) < 0.5 * error(1e-6)


def test_residuals_and_freedom_follow_their_definitions(noisy):
    x, y = noisy
    path, xc, yc = RidgePath.of(summarize(x, y)), x - x.mean(0), y - y.mean(0)
    for penalty in (1e-4, 0.3, 20.0):
        hat = xc @ np.linalg.solve(xc.T @ xc + penalty * path.unit * np.eye(8), xc.T)
        assert path.residual(penalty) == pytest.approx(np.sum((yc - hat @ yc) ** 2), rel=1e-8)
        assert path.freedom(penalty) == pytest.approx(len(x) - 1 - np.trace(hat), rel=1e-8)


def test_low_rank_is_the_best_of_its_rank(noisy, rng):
    x, y = noisy
    s = summarize(x, y)

    def error(matrix):
        return np.sum(((y - y.mean(0)) - (x - x.mean(0)) @ matrix) ** 2)

    ours = maps.low_rank(s, rank=2, penalty=0.0).matrix
    assert np.linalg.matrix_rank(ours) == 2
    for _ in range(200):  # no neighbour of the same rank does better
        other = (ours @ np.linalg.svd(ours)[2][:2].T) + 0.01 * rng.normal(size=(8, 2))
        assert error(other @ (np.linalg.svd(ours)[2][:2] + 0.01 * rng.normal(size=(2, 6)))) >= error(ours)
    np.testing.assert_allclose(maps.low_rank(s, rank=6, penalty=0.1).matrix, maps.ridge(s, 0.1).matrix)


def test_whitened_at_power_one_is_least_squares(noisy):
    x, y = noisy
    s = summarize(x, y)
    np.testing.assert_allclose(maps.whitened(s, power=1, penalty=0.0).matrix, maps.affine(s).matrix, rtol=1e-6)


def test_whitened_at_power_zero_matches_covariances(rng):
    x, y = rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)), rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6))
    m = maps.whitened(summarize(x, y), penalty=0.0)
    np.testing.assert_allclose(np.cov((x @ m.matrix + m.offset).T), np.cov(y.T), rtol=1e-8, atol=1e-8)


def test_the_identity_needs_equal_dims(rng):
    x = rng.normal(size=(9, 3))
    np.testing.assert_array_equal(maps.identity(summarize(x, x)).matrix, np.eye(3))
    with pytest.raises(ValueError, match="3 and 2 coordinates: they can only be kept"):
        maps.identity(summarize(x, x[:, :2]))


@pytest.mark.parametrize(("change", "exact"), [
    (lambda x, q: x + 3.0, True),
    (lambda x, q: 2 * x + 3.0, False),
    (lambda x, q: x @ q + 3.0, False),
])  # fmt: skip
def test_the_offset_is_the_difference_of_the_means_and_nothing_else(rng, orthogonal, change, exact):
    x = rng.normal(size=(60, 5)) + 1.0
    y = change(x, orthogonal(5))
    t = Translator(map="offset").fit(x, y)
    np.testing.assert_allclose(t.transform(x), x + y.mean(0) - x.mean(0), atol=1e-12)
    assert np.allclose(t.transform(x), y) is exact
    assert "none" in repr(t)


def test_the_offset_takes_no_normalization_and_equal_dims(rng):
    x = rng.normal(size=(60, 5))
    with pytest.raises(ValueError, match="map 'offset' is always of normalize='none'"):
        Translator(map="offset", normalize="standard").fit(x, x)
    with pytest.raises(ValueError, match="5 and 4 coordinates"):
        Translator(map="offset").fit(x, x[:, :4])


def test_a_wrong_map_suggests_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'orthogonal'"):
        maps.find_map("orthogonl")


@pytest.mark.parametrize("valley", [1e-4, 1.0, 1e2])
def test_the_best_penalty_is_found_from_wherever_the_search_begins(valley):
    asked = []

    def error(penalty):
        asked.append(penalty)
        return 1 + np.log10(penalty / valley) ** 2

    grid = [10.0**e for e in range(-6, 4)]
    assert {first_valley(error, grid, near) for near in (None, 1e-6, 1.0, 1e3)} == {valley}
    asked.clear()
    first_valley(error, grid, near=valley)
    assert len(set(asked)) <= 3
