"""Measures against the libraries that others use for them: trec_eval, rsatoolbox, ckatorch, SciPy."""

import numpy as np
import pytest
import pytrec_eval
import rsatoolbox
import torch
from ckatorch import cka_base, hsic0
from scipy.linalg import subspace_angles
from scipy.spatial import procrustes
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import rbf_kernel

from relatent import evaluate
from relatent.evaluate.retrieval import query_scores

QUERIES, ITEMS = 40, 200


@pytest.fixture
def judged(rng):
    """Queries, items, and graded judgments of them, some by which nothing that is near is relevant."""
    x, y = rng.normal(size=(QUERIES, 6)), rng.normal(size=(ITEMS, 6))
    y[:QUERIES] = x + 0.8 * rng.normal(size=x.shape)
    drawn = [rng.choice(ITEMS, size=size, replace=False) for size in rng.integers(1, 12, size=QUERIES)]
    relevant = [{int(row): int(rng.integers(0, 4)) for row in rows} | {i: 3} for i, rows in enumerate(drawn)]
    return x, y, relevant


def trec(x, y, relevant, k, metric, measure):
    """Return what trec_eval says of the k nearest, query by query."""
    if metric == "cosine":
        x, y = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, y))
    scores = x @ y.T if metric in ("cosine", "inner") else -np.linalg.norm(x[:, None] - y[None], axis=2)
    best = np.argsort(-scores, axis=1)[:, :k]
    run = {str(i): {str(j): float(scores[i, j]) for j in rows} for i, rows in enumerate(best)}
    truth = {str(i): {str(j): grade for j, grade in entry.items()} for i, entry in enumerate(relevant)}
    found = pytrec_eval.RelevanceEvaluator(truth, {measure}).evaluate(run)
    return [found[str(i)][measure.replace(".", "_")] for i in range(len(x))]


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
@pytest.mark.parametrize("k", [1, 5, 20, 100])
def test_judged_queries_by_trec_eval(judged, k, metric):
    x, y, relevant = judged
    measures = {"ndcg": f"ndcg_cut.{k}", "recall": f"recall.{k}", "mrr": "recip_rank"}
    for ours, theirs in measures.items():
        found = query_scores(x, y, k, metric, relevant, ours)
        np.testing.assert_allclose(found, trec(x, y, relevant, k, metric, theirs), atol=1e-12)
        assert 0 < np.mean(found) < 1
    found = np.mean(trec(x, y, relevant, k, metric, f"P.{k}"))
    assert evaluate.precision(x, y, k, metric, relevant) == pytest.approx(found)


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_queries_that_look_for_their_own_row_by_trec_eval(judged, k, metric):
    x, y, _ = judged
    y, own = y[:QUERIES], [{i: 1} for i in range(QUERIES)]
    reported = evaluate.retrieval_report(x, y, k, metric)
    for name, theirs in (("mrr", "recip_rank"), ("recall", f"recall.{k}"), ("top1", "P.1")):
        expected = pytest.approx(np.mean(trec(x, y, own, k, metric, theirs)))
        assert reported[name].value == expected
        assert (evaluate.top1(x, y, metric) if name == "top1" else getattr(evaluate, name)(x, y, k, metric)) == expected


# Similarity of two spaces.


@pytest.fixture
def spaces(rng):
    x = rng.normal(size=(60, 8)) * np.linspace(3, 0.5, 8) + 1
    return x, np.tanh(x @ rng.normal(size=(8, 5)) / 4) + 0.2 * rng.normal(size=(60, 5))


@pytest.mark.parametrize("unbiased", [False, True])
def test_cka_by_ckatorch(spaces, unbiased):
    ours = evaluate.cka(*spaces, unbiased=unbiased)
    assert ours == pytest.approx(float(cka_base(*map(torch.as_tensor, spaces), unbiased=unbiased, method="fro_norm")))


@pytest.mark.parametrize("bandwidth", [0.5, 1.0, 2.0])
def test_kernel_cka_by_ckatorch_and_scikit_learn(spaces, bandwidth):
    """The width is in units of the median distance of two different rows; ckatorch counts rows with themselves."""
    gamma = [1 / (2 * (bandwidth * np.median(pdist(space))) ** 2) for space in spaces]
    a, b = (torch.as_tensor(rbf_kernel(space, gamma=g)) for space, g in zip(spaces, gamma, strict=True))
    theirs = hsic0(a, b) / (hsic0(a, a) * hsic0(b, b)).sqrt()
    assert evaluate.kernel_cka(*spaces, bandwidth=bandwidth) == pytest.approx(float(theirs))


def relations(spaces, method):
    return [rsatoolbox.rdm.calc_rdm(rsatoolbox.data.Dataset(space), method=method) for space in spaces]


def test_cka_by_rsatoolbox(spaces):
    """The whitened cosine of squared distances is the linear CKA (Diedrichsen et al., 2021)."""
    theirs = rsatoolbox.rdm.compare(*relations(spaces, "euclidean"), method="cosine_cov")
    assert evaluate.cka(*spaces) == pytest.approx(theirs.item())


@pytest.mark.parametrize("dissimilarity", ["euclidean", "correlation"])
def test_rsa_by_rsatoolbox(spaces, dissimilarity):
    expected = rsatoolbox.rdm.compare(*relations(spaces, dissimilarity), method="spearman")
    assert evaluate.rsa(*spaces, dissimilarity=dissimilarity) == pytest.approx(expected.item())


def test_canonical_correlations_by_scipy(spaces):
    """They are the cosines of the angles between the two column spaces."""
    x, y = (space - space.mean(axis=0) for space in spaces)
    theirs = np.sort(np.cos(subspace_angles(x, y)))[::-1]
    np.testing.assert_allclose(evaluate.canonical_correlations(*spaces), theirs, atol=1e-8)
    assert evaluate.cca(*spaces) == pytest.approx(np.mean(theirs))


@pytest.mark.parametrize("variance", [0.8, 0.95])
def test_svcca_by_scikit_learn_and_scipy(spaces, variance):
    x, y = (PCA(variance).fit_transform(space) for space in spaces)
    assert x.shape[1] < spaces[0].shape[1]
    assert evaluate.svcca(*spaces, variance=variance) == pytest.approx(np.mean(np.cos(subspace_angles(x, y))))


def test_procrustes_by_scipy(spaces):
    """SciPy's disparity, of shapes of norm 1, is the squared sine of the angle; it wants as many columns in both."""
    x, y = spaces
    disparity = procrustes(x, np.pad(y, [(0, 0), (0, 3)]))[2]
    assert np.sin(evaluate.procrustes(x, y)) ** 2 == pytest.approx(disparity)
