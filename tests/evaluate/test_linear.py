from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relatent.evaluate import (
    canonical_correlations,
    cca,
    cka,
    gulp,
    minibatch_cka,
    predictivity,
    procrustes,
    pwcca,
    svcca,
)
from relatent.translate import Summary

CORRELATIONS = {"cka": cka, "cca": cca, "svcca": svcca, "pwcca": pwcca, "predictivity": predictivity}
ALL = CORRELATIONS | {"procrustes": procrustes, "unbiased_cka": lambda x, y: cka(x, y, unbiased=True)}


def number(value):
    return float(value)


@pytest.fixture
def pair(rng):
    """Two spaces that share some directions, none of them on a round value."""
    shared = rng.normal(size=(300, 4)) * [3, 2, 1, 0.5]
    noisy = shared + rng.normal(size=(300, 4))
    x = np.concatenate([shared, rng.normal(size=(300, 2))], axis=1) @ rng.normal(size=(6, 6))
    y = np.concatenate([noisy, rng.normal(size=(300, 4))], axis=1) @ rng.normal(size=(8, 8))
    return x, y


def centred(x):
    return x - x.mean(axis=0)


def test_feature_form_of_cka_equals_gram_form(xp, pair):
    n = len(pair[0])
    h = np.eye(n) - 1 / n
    k, gram_y = (h @ a @ a.T @ h for a in pair)
    expected = np.sum(k * gram_y) / np.linalg.norm(k) / np.linalg.norm(gram_y)
    assert 0.05 < expected < 0.95
    assert number(cka(*map(xp, pair))) == pytest.approx(expected)


def test_unbiased_cka_equals_its_gram_form(xp, pair):
    def hsic(a, b):
        k, gram_b = a @ a.T, b @ b.T
        np.fill_diagonal(k, 0)
        np.fill_diagonal(gram_b, 0)
        n, one = len(k), np.ones(len(k))
        return (
            np.trace(k @ gram_b)
            + (one @ k @ one) * (one @ gram_b @ one) / ((n - 1) * (n - 2))
            - 2 / (n - 2) * (one @ k @ gram_b @ one)
        ) / (n * (n - 3))

    x, y = pair[0][:40] + 5, pair[1][:40]  # not centred: the estimate must not care
    expected = hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y))
    assert number(cka(xp(x), xp(y), unbiased=True)) == pytest.approx(expected)


def test_unbiased_cka_of_unrelated_spaces_is_about_zero(rng):
    draws = [rng.normal(size=(2, 40, 60)) for _ in range(40)]
    biased = np.mean([cka(x, y) for x, y in draws])
    unbiased = np.mean([cka(x, y, unbiased=True) for x, y in draws])
    assert biased > 0.5
    assert abs(unbiased) < 0.02


@pytest.mark.parametrize("unbiased", [False, True])
def test_cka_of_a_rotated_copy_far_away_in_float32_is_one(xp, rng, orthogonal, unbiased):
    x = rng.normal(size=(2_000, 16)) * np.linspace(0.2, 2, 16)
    y = 3 * x @ orthogonal(16)
    far = (x + 1e4).astype(np.float32), (y + 1e4).astype(np.float32)
    value = cka(*map(xp, far), unbiased=unbiased)
    assert number(value) == pytest.approx(1, abs=1e-5)
    assert isinstance(value, float)


def test_cka_of_huge_and_tiny_numbers(pair):
    x, y = (a.astype(np.float32) for a in pair)
    assert number(cka(x * np.float32(1e15), y * np.float32(1e-15))) == pytest.approx(number(cka(x, y)), rel=1e-5)


INVARIANCES = [
    # name, rotation and scale, offset, invertible map of x, invertible map of y
    ("cka", True, True, False, False),
    ("unbiased_cka", True, True, False, False),
    ("procrustes", True, True, False, False),
    ("cca", True, True, True, True),
    ("svcca", True, True, False, False),
    ("pwcca", False, True, False, True),
    ("predictivity", True, True, True, False),
]


@pytest.mark.parametrize(("name", "rotates", "shifts", "maps_x", "maps_y"), INVARIANCES)
def test_invariance(pair, orthogonal, name, rotates, shifts, maps_x, maps_y):
    (x, y), measure = pair, ALL[name]
    before = number(measure(x, y))
    stretch_x, stretch_y = (orthogonal(d) * np.geomspace(1, 30, d) @ orthogonal(d) for d in (6, 8))
    assert np.isclose(measure(3 * x @ orthogonal(6), y @ orthogonal(8)), before) is np.bool_(rotates)
    assert np.isclose(measure(x + 7, y - 2), before) is np.bool_(shifts)
    assert np.isclose(measure(x @ stretch_x, y), before) is np.bool_(maps_x)
    assert np.isclose(measure(x, y @ stretch_y), before) is np.bool_(maps_y)


def test_pwcca_keeps_its_value_when_y_is_rotated_and_x_rescaled(pair, orthogonal):
    x, y = pair
    assert pwcca(3 * x, y @ orthogonal(8)) == pytest.approx(pwcca(x, y))


def test_an_invertible_map_is_seen_by_procrustes_and_not_by_cca(rng):
    x = rng.normal(size=(200, 5))
    y = x @ (rng.normal(size=(5, 5)) + np.eye(5))
    assert np.allclose(canonical_correlations(x, y), 1)
    assert procrustes(x, y) > 0.1
    assert predictivity(x, y) == pytest.approx(1)


def test_canonical_correlations_by_qr_and_by_svd(xp, pair):
    by_qr = np.linalg.svd(np.linalg.qr(centred(pair[0]))[0].T @ np.linalg.qr(centred(pair[1]))[0], compute_uv=False)
    bases = [np.linalg.svd(centred(a), full_matrices=False)[0] for a in pair]
    by_svd = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    ours = canonical_correlations(*map(xp, pair))
    assert np.allclose(by_qr, by_svd)
    assert np.allclose(ours, by_qr)


def test_canonical_correlations_by_scikit_learn(pair):
    from sklearn.cross_decomposition import CCA

    model = CCA(n_components=4, max_iter=5_000, tol=1e-10).fit(*pair)
    a, b = model.transform(*pair)
    expected = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(4)]
    assert np.allclose(canonical_correlations(*pair)[:4], expected, atol=1e-4)


def test_svcca_untruncated_is_cca(pair):
    assert svcca(*pair, variance=1.0) == pytest.approx(cca(*pair))
    assert svcca(*pair, variance=0.9) != pytest.approx(cca(*pair), abs=1e-3)


def test_svcca_by_definition(pair):
    kept = []
    for a in map(centred, pair):
        u, s, _ = np.linalg.svd(a, full_matrices=False)
        share = np.cumsum(s**2) / np.sum(s**2)
        kept.append(u[:, : int(np.argmax(share >= 0.9)) + 1])
    assert svcca(*pair, variance=0.9) == pytest.approx(np.linalg.svd(kept[0].T @ kept[1], compute_uv=False).mean())


def test_pwcca_by_definition(pair):
    x, y = map(centred, pair)
    qx, qy = np.linalg.qr(x)[0], np.linalg.qr(y)[0]
    u, rho, _ = np.linalg.svd(qx.T @ qy, full_matrices=False)
    weight = np.abs((qx @ u).T @ x).sum(axis=1)
    assert pwcca(*pair) == pytest.approx(np.sum(weight * rho) / weight.sum())


def test_predictivity_by_regression(pair):
    from sklearn.linear_model import LinearRegression

    x, y = pair
    residual = y - LinearRegression().fit(x, y).predict(x)
    share = 1 - np.sum(residual**2) / np.sum(centred(y) ** 2)
    assert predictivity(x, y) == pytest.approx(1 - (1 - share) * 299 / (299 - 6))


def test_procrustes_by_scipy(xp, pair):
    from scipy.linalg import orthogonal_procrustes

    x, y = (centred(a) / np.linalg.norm(centred(a)) for a in pair)
    padded = np.pad(x, ((0, 0), (0, 2)))
    rotation, _ = orthogonal_procrustes(padded, y)
    squared = np.linalg.norm(padded @ rotation - y) ** 2
    assert number(procrustes(*map(xp, pair), distance="squared")) == pytest.approx(squared)
    assert number(procrustes(*map(xp, pair))) == pytest.approx(np.arccos(1 - squared / 2))


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 6))
def test_procrustes_is_a_metric(seed, d):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.normal(size=(12, d)) @ rng.normal(size=(d, d)) for _ in range(3))
    for distance in (procrustes, lambda x, y: procrustes(x, y, distance="squared") ** 0.5):
        assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9
        assert np.isclose(distance(a, b), distance(b, a))
        assert distance(a, 2 * a + 1) < 1e-6


def test_squared_procrustes_itself_breaks_the_triangle():
    """Why the root is what counts: halfway points make squares too small."""
    angles = np.deg2rad([0.0, 40.0, 80.0])
    base, other = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 2)) - 0.0)[0].T
    base, other = base - base.mean(), other - other.mean()
    other -= base * (base @ other) / (base @ base)
    base, other = base / np.linalg.norm(base), other / np.linalg.norm(other)
    a, b, c = ((np.cos(t) * base + np.sin(t) * other)[:, None] for t in angles)
    squared = lambda x, y: procrustes(x, y, distance="squared")  # noqa: E731
    assert squared(a, c) > squared(a, b) + squared(b, c)
    assert procrustes(a, c) == pytest.approx(procrustes(a, b) + procrustes(b, c))


@pytest.mark.parametrize("name", [*CORRELATIONS, "procrustes"])
def test_a_summary_gives_what_the_rows_give(pair, name):
    x, y = map(centred, pair)
    summary = Summary(300, x.mean(0), y.mean(0), x.T @ x, x.T @ y, y.T @ y)
    assert number(ALL[name](summary, None)) == pytest.approx(number(ALL[name](*pair)))


def test_what_is_no_summary_is_told_so(pair):
    with pytest.raises(TypeError, match="type ndarray was given: expected two parallel matrices"):
        cka(pair[0])
    with pytest.raises(ValueError, match="stream them through minibatch_cka"):
        cka(SimpleNamespace(n=1, xx=1, xy=1, yy=1), unbiased=True)


def test_minibatch_cka_estimates_the_unbiased_one(rng):
    shared = rng.normal(size=(8_000, 5))
    x, y = (
        np.concatenate([shared, rng.normal(size=shared.shape)], axis=1) @ rng.normal(size=(10, 10)) for _ in range(2)
    )
    whole = cka(x, y, unbiased=True)
    for size in (50, 400):
        batches = ((x[i : i + size], y[i : i + size]) for i in range(0, 8_000, size))
        assert minibatch_cka(batches) == pytest.approx(whole, abs=0.02)
    naive = np.mean([cka(x[i : i + 50], y[i : i + 50]) for i in range(0, 8_000, 50)])
    assert naive > whole + 0.05  # averaging the biased CKA of batches is not the same
    with pytest.raises(ValueError, match="No batch was given"):
        minibatch_cka([])


@pytest.mark.parametrize(
    "measure",
    [cka, lambda x, y: cka(x, y, unbiased=True), procrustes, lambda x, y: procrustes(x, y, distance="squared")],
    ids=["cka", "unbiased_cka", "procrustes", "squared"],
)
def test_gradients(rng, measure):
    x, y = (torch.tensor(rng.normal(size=(9, d)), requires_grad=True) for d in (3, 4))
    assert torch.autograd.gradcheck(measure, (x, y))


def test_the_gradient_at_a_perfect_match_is_finite(rng):
    x = torch.tensor(rng.normal(size=(9, 3)), requires_grad=True)
    procrustes(x, x.detach()).backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("measure", [canonical_correlations, cca, svcca, pwcca])
def test_too_few_rows_for_cca_warn(rng, measure):
    x, y = rng.normal(size=(20, 30)), rng.normal(size=(20, 25))
    with pytest.warns(UserWarning, match="1 whatever the data"):
        value = measure(x, y)
    assert np.mean(value) > 0.9  # of unrelated noise


def test_between_d_and_2d_rows_some_correlations_are_forced(rng):
    x, y = rng.normal(size=(31, 20)), rng.normal(size=(31, 20))
    with pytest.warns(UserWarning, match="10 of 20 canonical correlations"):
        rho = canonical_correlations(x, y)
    assert np.sum(rho > 1 - 1e-9) == 10


def test_too_few_rows_for_predictivity_warn(rng):
    with pytest.warns(UserWarning, match="R² is 1 whatever the data"):
        assert predictivity(rng.normal(size=(20, 30)), rng.normal(size=(20, 2))) == 1


def test_dead_coordinates_do_not_count(rng, pair):
    x, y = pair
    dead = np.concatenate([x, np.full((300, 2), 5.0), 1e-12 * rng.normal(size=(300, 1)), x[:, :1]], axis=1)
    assert cca(dead, y) == pytest.approx(cca(x, y), rel=1e-6)
    assert predictivity(dead, y) == pytest.approx(predictivity(x, y), rel=1e-6)


@pytest.mark.parametrize("measure", ALL.values(), ids=ALL)
def test_bad_input(pair, measure):
    x, y = pair
    with pytest.raises(ValueError, match="x has 299 rows and y has 300 rows"):
        measure(x[1:], y)
    with pytest.raises(ValueError, match="x has 300 equal rows"):
        measure(np.full_like(x, 1e4), y)
    broken = y.copy()
    broken[3, 0] = np.inf
    with pytest.raises(ValueError, match="y holds NaN or infinity"):
        measure(x, broken)


def test_bad_options(pair):
    with pytest.raises(ValueError, match="distance is 'angle'"):
        procrustes(*pair, distance="angle")
    with pytest.raises(ValueError, match=r"variance is 1\.5"):
        svcca(*pair, variance=1.5)
    with pytest.raises(ValueError, match="There are 3 rows: expected at least 4"):
        cka(pair[0][:3], pair[1][:3], unbiased=True)


# GULP: the distance of ridge predictors.


def hat(x, penalty):
    """The matrix that takes targets to their ridge predictions, of centered rows with total variance 1."""
    x = centred(x)
    x = x / np.sqrt(np.sum(x**2) / len(x))
    return x @ np.linalg.solve(x.T @ x + len(x) * penalty * np.eye(x.shape[1]), x.T)


@pytest.mark.parametrize("penalty", [1e-6, 1e-2, 1.0])
def test_gulp_is_the_distance_of_the_hat_matrices(xp, pair, penalty):
    x, y = pair
    assert gulp(xp(x), xp(y), penalty=penalty) == pytest.approx(np.linalg.norm(hat(x, penalty) - hat(y, penalty)))


def test_gulp_bounds_the_difference_of_predictions_for_any_task(pair, rng):
    x, y = pair
    difference = hat(x, 1e-2) - hat(y, 1e-2)
    for target in rng.normal(size=(20, len(x))):
        target = target / np.sqrt(np.mean(target**2))
        assert np.sqrt(np.mean((difference @ target) ** 2)) <= gulp(x, y)


def test_gulp_without_penalty_is_that_of_cca(pair):
    x, y = pair
    rho = canonical_correlations(x, y)
    assert gulp(x, y, penalty=0) == pytest.approx(np.sqrt(x.shape[1] + y.shape[1] - 2 * np.sum(rho**2)))


def test_an_affine_map_changes_gulp_only_with_a_penalty(pair, rng):
    x, y = pair
    moved = y @ rng.normal(size=(8, 8)) + 1
    for penalty, survives in ((0.0, True), (1e-2, False)):
        assert np.isclose(gulp(x, y, penalty=penalty), gulp(x, moved, penalty=penalty)) == survives
    with pytest.raises(ValueError, match="penalty is -1"):
        gulp(x, y, penalty=-1)


def test_gulp_obeys_the_triangle_inequality(rng):
    x = rng.normal(size=(3, 50, 4))
    assert gulp(x[0], x[2]) <= gulp(x[0], x[1]) + gulp(x[1], x[2])
