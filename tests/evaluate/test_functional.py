"""Functional maps: graph Laplacians, the solve, and the similarity, against definitions and generic solvers."""

import numpy as np
import pytest
from scipy.sparse.csgraph import laplacian
from scipy.spatial.distance import cdist

import relatent as rl
from relatent.evaluate.functional import SpectralBasis, functional_map, orthogonality

N, D, K = 150, 5, 8


@pytest.fixture
def x(rng):
    return rng.normal(size=(N, D)) * [3, 2, 1.5, 1, 1] + 2  # no two eigenvalues of the graph are equal


def graph_of(x, neighbors):
    """The weighted graph, edge by edge."""
    about = x - x.mean(0)
    angle = np.arccos(np.clip(1 - cdist(about, about, "cosine"), -1, 1))
    np.fill_diagonal(angle, np.inf)
    near = np.argsort(angle, axis=1)[:, :neighbors]
    width = np.median(np.take_along_axis(angle, near, axis=1))
    graph = np.zeros((len(x), len(x)))
    for i, row in enumerate(near):
        for j in row:
            graph[i, j] = graph[j, i] = np.exp(-(angle[i, j] ** 2) / width**2)
    return graph


def test_the_basis_diagonalizes_scipys_normalized_laplacian(x):
    basis = SpectralBasis.of(x, K, 10)
    dense = laplacian(graph_of(x, 10), normed=True)
    np.testing.assert_allclose(dense @ basis.vectors, basis.vectors * basis.values, atol=1e-8)
    np.testing.assert_allclose(basis.values, np.linalg.eigvalsh(dense)[:K], atol=1e-8)
    np.testing.assert_allclose(basis.vectors.T @ basis.vectors, np.eye(K), atol=1e-8)
    assert np.ptp(basis.vectors[:, 0] / graph_of(x, 10).sum(1) ** 0.5) < 1e-12  # the constant function


def test_dense_and_sparse_decompositions_agree(x):
    sparse, dense = SpectralBasis.of(x, K, 10), SpectralBasis.of(x, N - 1, 10).leading(K)
    np.testing.assert_allclose(sparse.values, dense.values, atol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(sparse.vectors * dense.vectors, axis=0)), 1, atol=1e-6)


@pytest.mark.parametrize("functions", [3, 40])
@pytest.mark.parametrize("penalty", [0.0, 0.01, 1.0, 100.0])
def test_the_map_is_what_a_generic_solver_finds_for_all_entries_at_once(x, rng, functions, penalty):
    y = x @ rng.normal(size=(D, D)) + 0.3 * rng.normal(size=(N, D))
    a, b = SpectralBasis.of(x, K, 10), SpectralBasis.of(y, K - 2, 10)
    f, g = (cdist(side, side[:functions]) for side in (x, y))
    c = functional_map(a, b, f, g, penalty)
    # The objective of its docstring as one least-squares problem in all entries of C, row after row.
    left, right, eye_a, eye_b = a.vectors.T @ f, b.vectors.T @ g, np.eye(K), np.eye(K - 2)
    unit, gaps = np.sum(left**2) / K, np.subtract.outer(b.values, a.values)
    commuting = np.kron(np.diag(b.values), eye_a) - np.kron(eye_b, np.diag(a.values))
    stacked = np.concatenate([np.kron(eye_b, left.T) / unit**0.5, commuting * (penalty / np.mean(gaps**2)) ** 0.5])
    wanted = np.concatenate([right.ravel() / unit**0.5, np.zeros(K * (K - 2))])
    np.testing.assert_allclose(c.ravel(), np.linalg.lstsq(stacked, wanted, rcond=None)[0], atol=1e-6)


def test_an_isometric_copy_has_the_identity_up_to_signs(x, orthogonal):
    y = 3 * x @ orthogonal(D) + 1
    a, b = SpectralBasis.of(x, K, 10), SpectralBasis.of(y, K, 10)
    np.testing.assert_allclose(a.values, b.values, atol=1e-8)
    f, g = (cdist(side, side[:20], "cosine") for side in (x - x.mean(0), y - y.mean(0)))
    c = functional_map(a, b, f, g, penalty=0.1)
    signs = np.sign(np.diagonal(c))
    np.testing.assert_allclose(c, np.diag(signs), atol=1e-4)
    np.testing.assert_allclose(np.diag(b.values) @ c, c @ np.diag(a.values), atol=1e-4)  # it commutes
    assert orthogonality(c) == pytest.approx(1)


def test_the_penalty_makes_the_map_commute(x, rng):
    y = x + rng.normal(size=x.shape)
    a, b = SpectralBasis.of(x, K, 10), SpectralBasis.of(y, K, 10)
    f, g = (cdist(side, side[:20]) for side in (x, y))

    def residual(penalty):
        c = functional_map(a, b, f, g, penalty)
        return np.linalg.norm(np.diag(b.values) @ c - c @ np.diag(a.values))

    found = [residual(p) for p in (0.0, 0.1, 10.0, 1e4)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.05 * found[0]


def test_indicators_of_all_rows_give_the_product_of_the_bases(x, rng):
    y = x + 0.3 * rng.normal(size=x.shape)
    a, b = SpectralBasis.of(x, K, 10), SpectralBasis.of(y, K, 10)
    c = functional_map(a, b, np.eye(N), np.eye(N), penalty=0.0)
    np.testing.assert_allclose(c, b.vectors.T @ a.vectors, atol=1e-10)
    ours, c = rl.evaluate.functional_similarity(x, y, size=K - 1, neighbors=10), c[1:, 1:]
    assert ours == pytest.approx(1 - np.sum((c.T @ c * (1 - np.eye(K - 1))) ** 2) / np.sum((c.T @ c) ** 2))


@pytest.mark.parametrize(("move", "survives"), [
    ("rotation", True),
    ("one scale", True),
    ("offset", True),
    ("scale of each coordinate", False),
    ("linear map", False),
])  # fmt: skip
def test_what_the_similarity_is_unchanged_by(x, rng, orthogonal, move, survives):
    y = x + 0.5 * rng.normal(size=x.shape)
    moves = {
        "rotation": lambda a: a @ orthogonal(D),
        "one scale": lambda a: 2 * a,
        "offset": lambda a: a + 5,
        "scale of each coordinate": lambda a: a * np.arange(1, D + 1),
        "linear map": lambda a: a @ rng.normal(size=(D, D)),
    }
    before = rl.evaluate.functional_similarity(x, y, size=K, neighbors=10)
    after = rl.evaluate.functional_similarity(x, moves[move](y), size=K, neighbors=10)
    assert (after == pytest.approx(before, abs=1e-8)) is survives


def test_copies_score_1_noise_lowers_it_and_shuffled_rows_score_about_a_half(rng, orthogonal):
    x = rng.normal(size=(600, 6)) * [3, 2, 1.5, 1, 1, 1]
    noisy = [x @ orthogonal(6) + s * rng.normal(size=x.shape) for s in (0.0, 0.3, 1.0)]
    found = [rl.evaluate.functional_similarity(x, y, size=30, neighbors=30) for y in noisy]
    assert found[0] == pytest.approx(1)
    assert found == sorted(found, reverse=True)
    shuffled = rl.evaluate.functional_similarity(x, x[rng.permutation(600)], size=30, neighbors=30)
    assert found[-1] > shuffled == pytest.approx(0.5, abs=0.1)


def test_a_graph_in_several_pieces_and_equal_rows_do_no_harm(rng):
    apart = np.concatenate([np.eye(3)[i] * 50 + rng.normal(size=(40, 3)) for i in range(3)])
    assert rl.evaluate.functional_similarity(apart, -apart, size=K, neighbors=5) == pytest.approx(1)
    twice = np.repeat(rng.normal(size=(40, 3)), 3, axis=0)
    assert rl.evaluate.functional_similarity(twice, 2 * twice, size=K, neighbors=2) > 0.5


def test_bad_sizes_say_what_fits(x):
    with pytest.raises(ValueError, match="size is 149, and there are 150 rows: expected from 1 to 148"):
        rl.evaluate.functional_similarity(x, x, size=N - 1)
    with pytest.raises(ValueError, match="100 neighbors were asked for among 90 rows"):
        rl.evaluate.functional_similarity(x[:90], x[:90], neighbors=100)
    with pytest.raises(ValueError, match="x has 150 rows and y has 149 rows"):
        rl.evaluate.functional_similarity(x, x[1:])


def test_neighbors_follow_the_number_of_rows(x):
    given = rl.evaluate.functional_similarity(x, np.tanh(x), size=K, neighbors=22)
    assert rl.evaluate.functional_similarity(x, np.tanh(x), size=K) == given
