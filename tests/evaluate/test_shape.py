import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes, sqrtm
from scipy.optimize import linear_sum_assignment, linprog

from relatent.evaluate import permutation_angle, procrustes, procrustes_bound, soft_matching, whitened_procrustes


@pytest.fixture
def pair(rng):
    shared = rng.normal(size=(80, 4)) * [3, 2, 1, 0.5]
    return shared + 0.5 * rng.normal(size=(80, 4)) + 2, shared @ rng.normal(size=(4, 6)) + rng.normal(size=(80, 6))


def centered(a):
    return a - a.mean(axis=0)


def angle(x, y):
    return np.arccos(np.sum(x * y) / np.linalg.norm(x) / np.linalg.norm(y))


def padded(x, y):
    """Zeros as further coordinates, until both are as wide."""
    width = max(x.shape[1], y.shape[1])
    return [np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in (x, y)]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_partial_whitening_by_its_definition(xp, pair, alpha):
    def whitened(a):
        a = centered(a)
        a = a / np.sqrt(np.trace(a.T @ a) / a.shape[1])
        return a @ (alpha * np.eye(a.shape[1]) + (1 - alpha) * np.linalg.inv(np.real(sqrtm(a.T @ a))))

    x, y = padded(*map(whitened, pair))
    turn, _ = orthogonal_procrustes(x, y)
    assert whitened_procrustes(*map(xp, pair), alpha=alpha) == pytest.approx(angle(x @ turn, y))


def test_the_family_joins_procrustes_and_cca(pair, rng):
    x, y = pair
    assert whitened_procrustes(x, y, alpha=1) == pytest.approx(float(procrustes(x, y)))
    stretched = y @ rng.normal(size=(6, 6)) + 1
    for alpha, survives in ((0.0, True), (0.5, False), (1.0, False)):
        same = np.isclose(whitened_procrustes(x, y, alpha=alpha), whitened_procrustes(x, stretched, alpha=alpha))
        assert same is np.bool_(survives)
    with pytest.raises(ValueError, match=r"alpha is 1\.5: expected from 0"):
        whitened_procrustes(x, y, alpha=1.5)


def test_a_permutation_is_found(xp, rng):
    x = rng.normal(size=(50, 7))
    assert permutation_angle(xp(x), xp(3 * x[:, rng.permutation(7)] + 1)) == pytest.approx(0, abs=1e-6)


def test_permutation_by_trying_all_of_them(rng):
    from itertools import permutations

    x, y = centered(rng.normal(size=(30, 5))), centered(rng.normal(size=(30, 5)))
    best = min(angle(x, y[:, list(order)]) for order in permutations(range(5)))
    assert permutation_angle(x, y) == pytest.approx(best)


@pytest.mark.parametrize("swap", [False, True])
def test_permutation_of_unequal_widths_is_that_of_padded_spaces(pair, swap):
    x, y = padded(*map(centered, pair[::-1] if swap else pair))
    rows, columns = linear_sum_assignment(x.T @ y, maximize=True)
    assert permutation_angle(*(pair[::-1] if swap else pair)) == pytest.approx(angle(x[:, rows], y[:, columns]))


def test_soft_matching_by_a_dense_program(pair):
    x, y = map(centered, pair)
    gain = x.T @ y
    rows = [np.outer(np.arange(4) == i, np.ones(6)).ravel() for i in range(4)]
    columns = [np.outer(np.ones(4), np.arange(6) == j).ravel() for j in range(6)]
    found = linprog(-gain.ravel(), A_eq=np.stack(rows + columns), b_eq=[1 / 4] * 4 + [1 / 6] * 6)
    cos = -found.fun / np.sqrt(np.sum(x**2) / 4 * np.sum(y**2) / 6)
    assert soft_matching(*pair) == pytest.approx(np.arccos(cos))


def test_soft_matching_of_equal_widths_is_a_permutation(pair):
    assert soft_matching(pair[0], pair[1][:, :4]) == permutation_angle(pair[0], pair[1][:, :4])


@pytest.mark.parametrize("measure", [whitened_procrustes, permutation_angle])
def test_the_triangle_inequality(rng, measure):
    for _ in range(20):
        x, y, z = rng.normal(size=(3, 30, 4))
        assert measure(x, z) <= measure(x, y) + measure(y, z) + 1e-9


@pytest.mark.parametrize(
    ("measure", "rotated", "permuted", "shifted", "scaled"),
    [(whitened_procrustes, True, True, True, True), (permutation_angle, False, True, True, True)],
)
def test_invariance(pair, orthogonal, measure, rotated, permuted, shifted, scaled):
    x, y = pair
    before = measure(x, y)
    assert np.isclose(measure(x, y @ orthogonal(6)), before) is np.bool_(rotated)
    assert np.isclose(measure(x, y[:, ::-1]), before) is np.bool_(permuted)
    assert np.isclose(measure(x, y + 5), before) is np.bool_(shifted)
    assert np.isclose(measure(x, 7 * y), before) is np.bool_(scaled)


# The bound by the difference of the Gram matrices.


def scaled(a):
    return centered(a) / np.linalg.norm(centered(a))


def test_the_bounds_by_their_definitions(xp, pair):
    x, y = map(scaled, pair)
    values = np.linalg.eigvalsh(x @ x.T - y @ y.T)
    assert procrustes_bound(*map(xp, pair), norm="nuclear") == pytest.approx(np.sum(np.abs(values)))
    assert procrustes_bound(*map(xp, pair)) == pytest.approx(np.sqrt(10 * np.sum(values**2)))


@pytest.mark.parametrize("noise", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("widths", [(1, 1), (3, 3), (3, 7), (12, 12)])
def test_the_distance_is_below_the_closer_bound_and_that_below_the_other(rng, noise, widths):
    a, b = widths
    for _ in range(20):
        x = rng.normal(size=(15, a)) * rng.exponential(size=a)
        y = x @ rng.normal(size=(a, b)) + noise * rng.normal(size=(15, b))
        distance = float(procrustes(x, y, distance="squared"))
        closer, other = procrustes_bound(x, y, norm="nuclear"), procrustes_bound(x, y)
        assert distance <= closer + 1e-12
        assert closer <= other + 1e-12


def test_the_closer_bound_is_reached():
    """Two spaces on perpendicular lines of rows: no rotation helps, and the Gram matrices have nothing in common."""
    x, y = np.asarray([[1.0], [-1], [0], [0]]), np.asarray([[0.0], [0], [1], [-1]])
    assert float(procrustes(x, y, distance="squared")) == pytest.approx(2)
    assert procrustes_bound(x, y, norm="nuclear") == pytest.approx(2)
    assert procrustes_bound(x, y) == pytest.approx(2)  # equal eigenvalues: Cauchy and Schwarz hold with equality
    with pytest.raises(ValueError, match="norm is 'spectral'"):
        procrustes_bound(x, y, norm="spectral")
