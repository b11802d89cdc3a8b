import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist, pdist
from scipy.stats import kendalltau, pearsonr, spearmanr

from relatent.evaluate import cka, cknna, distance_correlation, kernel_cka, mutual_knn, relative_similarity, rsa

ROWS = np.arange(12)
MEASURES = {
    "kernel_cka": kernel_cka,
    "rsa": rsa,
    "distance_correlation": distance_correlation,
    "mutual_knn": mutual_knn,
    "cknna": cknna,
    "relative_similarity": lambda x, y: relative_similarity(x, y, ROWS),
}


@pytest.fixture
def pair(rng):
    shared = rng.normal(size=(90, 4))
    return shared + 0.5 * rng.normal(size=(90, 4)), shared @ rng.normal(size=(4, 7))


def number(value):
    return float(value)


def test_kernel_cka_by_definition(xp, pair):
    n = len(pair[0])
    h = np.eye(n) - 1 / n
    k, other = (h @ np.exp(-(cdist(a, a) ** 2) / (2 * np.median(pdist(a)) ** 2)) @ h for a in pair)
    expected = np.sum(k * other) / np.linalg.norm(k) / np.linalg.norm(other)
    assert number(kernel_cka(*map(xp, pair))) == pytest.approx(expected)


def test_kernel_cka_of_a_wide_kernel_is_linear_cka(pair):
    assert number(kernel_cka(*pair, bandwidth=300)) == pytest.approx(number(cka(*pair)), abs=1e-3)
    assert number(kernel_cka(*pair, bandwidth=0.3)) != pytest.approx(number(cka(*pair)), abs=1e-2)


@pytest.mark.parametrize("dissimilarity", ["cosine", "correlation", "euclidean"])
@pytest.mark.parametrize("correlation", ["spearman", "pearson", "kendall"])
def test_rsa_by_scipy(xp, pair, dissimilarity, correlation):
    oracle = {"spearman": spearmanr, "pearson": pearsonr, "kendall": kendalltau}[correlation]
    expected = oracle(*(pdist(a, dissimilarity) for a in pair)).statistic
    ours = rsa(*map(xp, pair), dissimilarity=dissimilarity, correlation=correlation)
    assert ours == pytest.approx(expected, abs=1e-6)


def test_distance_correlation_by_definition(xp, pair):
    def centred(d):
        return d - d.mean(axis=0) - d.mean(axis=1)[:, None] + d.mean()

    a, b = (centred(cdist(m, m)) for m in pair)
    expected = np.sqrt(np.mean(a * b) / np.sqrt(np.mean(a * a) * np.mean(b * b)))
    assert distance_correlation(*map(xp, pair)) == pytest.approx(expected)


def test_distance_correlation_sees_what_correlation_does_not(rng):
    x = np.linspace(-1, 1, 500)[:, None]
    y = x**2
    assert abs(np.corrcoef(x[:, 0], y[:, 0])[0, 1]) < 1e-9
    assert distance_correlation(x, y) > 0.4
    assert distance_correlation(x, rng.normal(size=(500, 1))) < 0.2


def neighbor_sets(a, k):
    cos = 1 - cdist(a, a, "cosine")
    np.fill_diagonal(cos, -np.inf)
    return np.argsort(-cos, axis=1)[:, :k]


def test_mutual_knn_by_definition(xp, pair):
    sets = [neighbor_sets(a, 10) for a in pair]
    expected = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*sets, strict=True)])
    assert 0.2 < expected < 0.9
    assert mutual_knn(*map(xp, pair)) == pytest.approx(expected)
    assert mutual_knn(*pair) == pytest.approx(mutual_knn(*pair[::-1]))


def test_cknna_by_definition(xp, pair):
    masks, kernels = [], []
    for a in pair:
        mask = np.zeros((90, 90))
        np.put_along_axis(mask, neighbor_sets(a, 10), 1, axis=1)
        gram = 1 - cdist(a, a, "cosine")
        masks.append(mask)
        kernels.append(gram - gram.mean(axis=1, keepdims=True))
    align = lambda i, j: np.sum(masks[i] * masks[j] * kernels[i] * kernels[j])  # noqa: E731
    expected = align(0, 1) / np.sqrt(align(0, 0) * align(1, 1))
    assert cknna(*map(xp, pair)) == pytest.approx(expected)


def test_cknna_of_all_neighbors_is_not_linear_cka(pair):
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in pair]
    assert abs(cknna(*pair, k=88) - number(cka(*unit))) > 0.01


@pytest.mark.parametrize("center", [True, False])
def test_relative_similarity_by_definition(xp, pair, center):
    relative = []
    for a in pair:
        a = a - a[ROWS].mean(axis=0) if center else a
        relative.append(1 - cdist(a, a[ROWS], "cosine"))
    expected = np.mean([1 - pdist([u, v], "cosine")[0] for u, v in zip(*relative, strict=True)])
    assert number(relative_similarity(*map(xp, pair), ROWS, center=center)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "shifts"),
    [
        ("kernel_cka", True),
        ("rsa", False),
        ("distance_correlation", True),
        ("mutual_knn", False),
        ("cknna", False),
        ("relative_similarity", True),
    ],
)
def test_invariance(pair, orthogonal, name, shifts):
    (x, y), measure = pair, MEASURES[name]
    before = number(measure(x, y))
    assert number(measure(3 * x @ orthogonal(4), y @ orthogonal(7))) == pytest.approx(before)
    assert np.isclose(measure(x + 2, y), before) is np.bool_(shifts)
    assert not np.isclose(measure(x * [1, 5, 10, 20], y), before)
    assert number(measure(x, -4 * x)) == pytest.approx(1)


@pytest.mark.parametrize("center", [True, False])
def test_gradient_of_relative_similarity(rng, center):
    x, y = (torch.tensor(rng.normal(size=(14, d)), requires_grad=True) for d in (3, 4))
    assert torch.autograd.gradcheck(lambda x, y: relative_similarity(x, y, ROWS, center=center), (x, y))


def test_gradient_of_kernel_cka(rng, monkeypatch):
    """The median counts as a constant: hold it, and the gradient is exact."""
    monkeypatch.setattr("relatent.evaluate.pairwise.np.median", lambda distances: 2.0)
    x, y = (torch.tensor(rng.normal(size=(9, d)), requires_grad=True) for d in (3, 4))
    assert torch.autograd.gradcheck(kernel_cka, (x, y))


def test_more_rows_than_fit_are_sampled_by_seed(rng):
    x = rng.normal(size=(400, 3))
    y = x + rng.normal(size=x.shape)
    for measure in (kernel_cka, rsa, distance_correlation):
        first = measure(x, y, max_rows=100, seed=1)
        assert first == measure(x, y, max_rows=100, seed=1) != measure(x, y, max_rows=100, seed=2)
        assert first == pytest.approx(measure(x, y), abs=0.15)


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_bad_input(pair, measure):
    x, y = pair
    with pytest.raises(ValueError, match="x has 89 rows and y has 90 rows"):
        measure(x[1:], y)
    with pytest.raises(ValueError, match="y has 90 equal rows"):
        measure(x, np.ones_like(y))
    with pytest.raises(ValueError, match="x holds NaN or infinity"):
        measure(np.where(x == x.max(), np.nan, x), y)


def test_bad_options(pair):
    with pytest.raises(ValueError, match="Did you mean 'euclidean'"):
        rsa(*pair, dissimilarity="euclid")
    with pytest.raises(ValueError, match="Did you mean 'spearman'"):
        rsa(*pair, correlation="spearmann")
    with pytest.raises(ValueError, match="89 neighbors were asked for among 89 rows"):
        mutual_knn(*pair, k=89)
    with pytest.raises(ValueError, match="90 neighbors"):
        cknna(*pair, k=90)
    with pytest.raises(ValueError, match="max_rows is 2"):
        rsa(*pair, max_rows=2)
    with pytest.raises(ValueError, match="the median distance is 0"):
        kernel_cka(np.where(np.arange(90)[:, None] < 80, 1.0, pair[0]), pair[1])
