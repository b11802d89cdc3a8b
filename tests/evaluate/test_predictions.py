"""Predictions and spread: against scikit-learn, SciPy and closed forms, with what changes them and what does not."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import laplacian
from scipy.spatial.distance import jensenshannon, pdist
from scipy.special import softmax
from sklearn.metrics import cohen_kappa_score
from sklearn.neighbors import kneighbors_graph

from relatent.evaluate import (
    agreement,
    cohen_kappa,
    concentricity,
    intrinsic_distance,
    jensen_shannon,
    magnitude,
    uniformity,
)


@pytest.fixture
def logits(rng):
    shared = 2 * rng.normal(size=(300, 5))
    return shared + rng.normal(size=(300, 5)), shared + rng.normal(size=(300, 5))


def test_kappa_is_that_of_scikit_learn(xp, logits):
    p, q = (np.argmax(scores, axis=1) for scores in logits)
    assert cohen_kappa(p, q) == pytest.approx(cohen_kappa_score(p, q))
    assert cohen_kappa(*map(xp, logits)) == pytest.approx(cohen_kappa_score(p, q))
    assert agreement(*map(xp, logits)) == pytest.approx(np.mean(p == q))
    names = np.asarray(list("abcde"))
    assert cohen_kappa(names[p], names[q]) == pytest.approx(cohen_kappa_score(p, q))


def test_two_that_guess_the_most_frequent_class_agree_by_chance_alone():
    p = np.zeros(50, int)
    assert agreement(p, p) == 1
    assert cohen_kappa(p, p) == 0


def test_independent_predictions_have_no_kappa(rng):
    p, q = rng.choice(3, size=(2, 20_000), p=[0.8, 0.1, 0.1])
    assert agreement(p, q) > 0.6
    assert cohen_kappa(p, q) == pytest.approx(0, abs=0.03)


def test_divergence_is_that_of_scipy(xp, logits):
    p, q = (softmax(scores, axis=1) for scores in logits)
    p[0] = [1, 0, 0, 0, 0]
    expected = np.mean([jensenshannon(a, b, base=2) ** 2 for a, b in zip(p, q, strict=True)])
    assert jensen_shannon(xp(p), xp(q)) == pytest.approx(expected)
    assert jensen_shannon(p, q) == pytest.approx(jensen_shannon(q, p))


def test_divergence_sees_confidence_and_agreement_does_not(logits):
    p = softmax(logits[0], axis=1)
    sharper = softmax(3 * logits[0], axis=1)
    assert agreement(p, sharper) == cohen_kappa(p, sharper) == 1
    assert jensen_shannon(p, sharper) > 0.02


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: agreement([1, 2], [1]), "p has 2 items and q has 1"),
        (lambda: agreement(np.eye(2), np.eye(3)), r"shape \(2, 2\) and q has \(3, 3\)"),
        (lambda: cohen_kappa([], []), r"p has shape \(0,\)"),
        (lambda: cohen_kappa([[np.nan, 1.0]], [[0.0, 1.0]]), "p holds NaN"),
        (lambda: jensen_shannon([[2.0, 1.0]], [[0.5, 0.5]]), "Row 0 of p holds no probabilities.*softmax"),
        (lambda: jensen_shannon([0.5, 0.5], [0.5, 0.5]), r"p has shape \(2,\)"),
        (lambda: uniformity(np.ones((1, 3))), "x has 1 rows"),
        (lambda: magnitude([[1.0, np.inf], [0, 0]]), "NaN or infinity"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# How the rows of one space are spread.


def test_uniformity_by_all_pairs(xp, rng):
    x = rng.normal(size=(80, 6)) + 1
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert uniformity(xp(x)) == pytest.approx(np.log(np.mean(np.exp(-2 * pdist(u, "sqeuclidean")))))
    assert uniformity(xp(x), t=1.0) == pytest.approx(np.log(np.mean(np.exp(-pdist(u, "sqeuclidean")))))


def test_even_directions_in_many_dimensions_have_twice_the_negative_temperature(rng):
    assert uniformity(rng.normal(size=(400, 2_000))) == pytest.approx(-4, abs=0.05)
    assert uniformity(np.ones((10, 3))) == pytest.approx(0, abs=1e-9)


def test_a_sample_estimates_uniformity(rng):
    x = rng.normal(size=(3_000, 4))
    assert uniformity(x, max_rows=1_000) == pytest.approx(uniformity(x), abs=0.05)
    assert uniformity(x, max_rows=1_000) == uniformity(x, max_rows=1_000)


def test_concentricity_and_magnitude_of_a_cone(rng):
    """Vectors m + z with normal z of d coordinates: the mean is m, and the cosine to it about |m| / √(|m|² + d)."""
    x = rng.normal(size=(4_000, 100))
    x[:, 0] += 10
    assert magnitude(x) == pytest.approx(10, rel=0.02)
    assert concentricity(x) == pytest.approx(10 / np.sqrt(200), rel=0.03)
    assert concentricity(np.asarray([[1.0, 0.0], [-1.0, 0.0]])) == 0


MOVES = {
    "rotation": lambda x, q: x @ q,
    "one scale": lambda x, q: 3 * x,
    "length of each": lambda x, q: x * np.linspace(0.5, 2, len(x))[:, None],
    "offset": lambda x, q: x + 2,
}
UNCHANGED = {
    uniformity: {"rotation", "one scale", "length of each"},
    concentricity: {"rotation", "one scale"},
    magnitude: {"rotation"},
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("measure", UNCHANGED)
def test_what_leaves_the_spread_as_it_is(rng, orthogonal, measure, move):
    x = rng.normal(size=(60, 6)) + 0.5
    survives = np.isclose(measure(x), measure(MOVES[move](x, orthogonal(6))))
    assert survives == (move in UNCHANGED[measure])


# The shape of neighbor graphs.


def test_intrinsic_distance_by_matrix_exponentials(xp, rng):
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(30, 8))

    def heat(a, t):
        graph = kneighbors_graph(a, 4).toarray()
        return np.trace(expm(-t * laplacian(np.maximum(graph, graph.T), normed=True))) / len(a)

    times = np.geomspace(0.3, 3, 60)
    expected = max(np.exp(-2 * (t + 1 / t)) * abs(heat(x, t) - heat(y, t)) for t in times)
    assert intrinsic_distance(xp(x), xp(y), k=4) == pytest.approx(expected, rel=5e-3)
    assert intrinsic_distance(x, y, k=4) == intrinsic_distance(y, x, k=4)


def test_intrinsic_distance_of_pairs_and_of_paths_of_three():
    """The eigenvalues are 0 and 2 of a pair, and 0, 1 and 2 of a path of three: a closed form of one variable."""
    pairs = (100 * np.arange(6)[:, None] + [0, 1]).reshape(-1, 1).astype(float)
    paths = (100 * np.arange(4)[:, None] + [0, 1, 1.9]).reshape(-1, 1)

    def gap(t):
        return np.exp(-2 * (t + 1 / t)) * abs((1 + np.exp(-2 * t)) / 2 - (1 + np.exp(-t) + np.exp(-2 * t)) / 3)

    most = -minimize_scalar(lambda t: -gap(t), bounds=(0.3, 3), method="bounded").fun
    assert intrinsic_distance(pairs, paths, k=1) == pytest.approx(most, rel=1e-3)


def test_clusters_are_seen_and_neither_order_nor_rotation(rng, orthogonal):
    x = rng.normal(size=(120, 6))
    same = intrinsic_distance(x, 2 * x[rng.permutation(120)] @ orthogonal(6) + 1)
    clustered = x + 30 * np.eye(6)[np.arange(120) % 6]
    assert same == pytest.approx(0, abs=1e-9)
    assert intrinsic_distance(x, clustered) > 3 * intrinsic_distance(x, rng.normal(size=(120, 6)))
    with pytest.raises(ValueError, match="neighbors were asked for"):
        intrinsic_distance(x[:5], x)
