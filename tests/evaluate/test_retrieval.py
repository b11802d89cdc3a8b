import numpy as np
import pytest

import relatent as rl
from relatent.evaluate import (
    hubness,
    jaccard,
    mean_rank,
    mrr,
    ndcg,
    neighbors,
    precision,
    recall,
    reciprocal_ranks,
    retrieval_report,
    top1,
)


def cosines(x, y):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T


def by_definition(x, y, k):
    """Jaccard and MRR word for word: both sets looked up in y, the row itself among the candidates."""
    found = np.argsort(-cosines(x, y), axis=1)[:, :k].tolist()
    true = np.argsort(-cosines(y, y), axis=1)[:, :k].tolist()
    overlap = [len(set(a) & set(b)) / len(set(a) | set(b)) for a, b in zip(found, true, strict=True)]
    reciprocal = [1 / (row.index(i) + 1) if i in row else 0.0 for i, row in enumerate(found)]
    return np.mean(overlap), np.mean(reciprocal)


@pytest.fixture
def pair(rng):
    y = rng.normal(size=(120, 6))
    return y + 0.5 * rng.normal(size=y.shape), y


def test_jaccard_and_mrr_by_their_definition(xp, pair):
    x, y = pair
    expected_jaccard, expected_mrr = by_definition(x, y, 10)
    assert 0.1 < expected_jaccard < expected_mrr < 1  # neither end of the scale, where mistakes would hide
    assert jaccard(xp(x), xp(y), k=10) == pytest.approx(expected_jaccard)
    assert mrr(xp(x), xp(y), k=10) == pytest.approx(expected_mrr)


def test_the_target_decides(rng):
    y = rng.normal(size=(200, 4))
    x = y * [1, 1, 1, 0.1] + 0.3
    assert jaccard(x, y) != pytest.approx(jaccard(y, x), abs=1e-3)


@pytest.mark.parametrize(("change", "survives"), [("rotate both", True), ("rescale both", True), ("rotate one", False)])
def test_invariance(pair, orthogonal, change, survives):
    x, y = pair
    q = orthogonal(6)
    changed = {"rotate both": (x @ q, y @ q), "rescale both": (3 * x, 0.1 * y), "rotate one": (x @ q, y)}[change]
    for measure in (jaccard, mrr, recall, top1, mean_rank):
        assert np.isclose(measure(x, y), measure(*changed)) is np.bool_(survives)


def test_unrelated_spaces_score_chance(rng):
    x, y = rng.normal(size=(2, 2_000, 16))
    assert jaccard(x, y) < 0.01
    assert mrr(x, y) < 0.01
    assert recall(x, y) == pytest.approx(10 / 2_000, abs=0.005)
    assert mean_rank(x, y) == pytest.approx(1_000, rel=0.05)


def test_recall_precision_and_top1_are_counts_of_hits(pair):
    x, y = pair
    order = np.argsort(-cosines(x, y), axis=1)
    own = np.arange(120)[:, None]
    assert recall(x, y, k=5) == pytest.approx(np.mean(np.any(order[:, :5] == own, axis=1)))
    assert precision(x, y, k=5) == pytest.approx(recall(x, y, k=5) / 5)
    assert top1(x, y) == pytest.approx(recall(x, y, k=1)) == pytest.approx(np.mean(order[:, :1] == own))
    assert mean_rank(x, y) == pytest.approx(np.mean(np.argmax(order == own, axis=1) + 1))


def test_several_relevant_rows(pair):
    x, y = pair
    found = np.argsort(-cosines(x[:2], y), axis=1)[:, :4]
    relevant = [[found[0, 0], found[0, 3], found[0, 0]], [found[1, 1], -1 % 120, 7]]
    hit = len({119, 7} & set(found[1].tolist())) + 1
    assert recall(x[:2], y, k=4, relevant=relevant) == pytest.approx((2 / 2 + hit / 3) / 2)
    assert precision(x[:2], y, k=4, relevant=relevant) == pytest.approx((2 / 4 + hit / 4) / 2)


def test_ragged_relevant_rows_equal_padded_ones(pair):
    x, y = pair
    assert recall(x[:2], y, relevant=[[3], [5, 6]]) == recall(x[:2], y, relevant=np.asarray([[3, 3], [5, 6]]))


def test_mean_rank_across_blocks_and_among_equals(monkeypatch, xp, pair):
    x, y = pair
    whole = mean_rank(xp(x), xp(y))
    monkeypatch.setattr(neighbors, "QUERY_ROWS", 11)
    monkeypatch.setattr(neighbors, "GALLERY_ROWS", 17)
    assert mean_rank(xp(x), xp(y)) == pytest.approx(whole)
    assert mean_rank(np.ones((9, 2)), np.ones((9, 2))) == 5  # all equal: the middle


def test_reciprocal_ranks_by_scipy_with_ties_shared(rng):
    from scipy.stats import rankdata

    scores = rng.integers(0, 6, size=(50, 30)).astype(float)  # many ties
    own = rng.integers(0, 30, size=50)
    ranks = rankdata(-scores, method="average", axis=1)[np.arange(50), own]
    np.testing.assert_allclose(reciprocal_ranks(scores, own), 1 / ranks)
    assert np.all(reciprocal_ranks(np.ones((3, 9)), np.arange(3)) == 1 / 5)  # a constant score earns no credit


def test_reciprocal_ranks_beyond_k_are_what_mrr_leaves_out(pair):
    x, y = pair
    ours = reciprocal_ranks(cosines(x, y), np.arange(120))
    assert mrr(x, y, k=10) == pytest.approx(np.mean(np.where(ours >= 0.1, ours, 0)))


def test_ndcg_by_scikit_learn(pair, rng):
    from sklearn.metrics import ndcg_score

    x, y = pair
    grades = rng.integers(0, 4, size=(120, 120)) * (rng.random((120, 120)) < 0.1)
    grades[np.arange(120), np.arange(120)] = 1
    relevant = [{j: g for j, g in enumerate(row) if g} for row in grades]
    assert ndcg(x, y, k=10, relevant=relevant) == pytest.approx(ndcg_score(grades, cosines(x, y), k=10))
    assert ndcg(x, y, k=7) == pytest.approx(ndcg_score(np.eye(120), cosines(x, y), k=7))


def test_hubness_sees_a_hub_and_csls_corrects_it(rng):
    y = rng.normal(size=(400, 40)) + 1.0
    assert hubness(y) > 2
    even = rng.normal(size=(400, 2))
    assert abs(hubness(even)) < 1
    x = y + 0.2 * rng.normal(size=y.shape)
    assert hubness(x, y, metric="csls") < hubness(x, y) / 2


def test_hubness_is_the_skew_of_counts(xp, pair):
    from scipy.stats import skew

    x, y = pair
    counts = np.bincount(np.argsort(-cosines(x, y), axis=1)[:, :10].ravel(), minlength=120)
    assert hubness(xp(x), xp(y)) == pytest.approx(skew(counts))
    np.testing.assert_allclose(hubness(xp(y)), hubness(y))


def test_the_report_agrees_with_each_measure_and_slices(pair):
    x, y = pair
    slices = np.where(np.arange(120) % 3 == 0, "third", "rest")
    r = retrieval_report(x, y, slices=slices)
    for name, measure in {"jaccard": jaccard, "mrr": mrr, "recall": recall, "top1": top1}.items():
        value = measure(x, y)
        assert r[name].value == pytest.approx(value)
        assert r[name].low < value < r[name].high
        assert (40 * r["third", name].value + 80 * r["rest", name].value) / 120 == pytest.approx(value)
    assert "third" in str(r)
    assert r.records()[0]["measure"] == "jaccard"
    with pytest.raises(KeyError, match="all/mrr"):
        _ = r["mmr"]


def test_bad_input(pair):
    x, y = pair
    with pytest.raises(ValueError, match="x has 119 rows and y has 120 rows"):
        jaccard(x[:-1], y)
    with pytest.raises(ValueError, match="same last axis"):
        mrr(x, y[:, :3])
    with pytest.raises(ValueError, match=r"120 neighbors were asked for among 120 rows.*ask for at most 119"):
        jaccard(x, y, k=120)
    with pytest.raises(ValueError, match=r"121 neighbors were asked for among 120 rows.*ask for at most 119"):
        mrr(x, y, k=121)
    with pytest.raises(ValueError, match="y has 120 equal rows"):
        jaccard(x, np.ones_like(y))
    x = x.copy()
    x[7, 2] = np.nan
    with pytest.raises(ValueError, match="x holds NaN or infinity in 1 of 120 rows, first in row 7"):
        rl.evaluate.recall(x, y)


@pytest.mark.parametrize(
    ("relevant", "message"),
    [
        ([[0], [200]], "outside 0…119"),
        ([[0], [-4]], "outside 0…119"),
        ([[0], []], "Query 1 has no relevant row"),
        ([[0]], "relevant has 1 entries and x 2 rows"),
    ],
)
def test_bad_relevant_rows(pair, relevant, message):
    x, y = pair
    with pytest.raises(ValueError, match=message):
        recall(x[:2], y, relevant=relevant)
