"""Scores in a larger index, against that index itself and against simulated ranks."""

import numpy as np
import pytest

from relatent.decide import Search, score_options
from relatent.decide.gallery import ServedIndex, _table, expected_ndcg
from relatent.evaluate.retrieval import Judgments

N, K = 3_000, 10
OPTIONS = ("stay", "translate", "rerank-old", "rerank", "re-embed")


def table_by_definition(k, growth, exponent, ahead, before, rng):
    """Draw the share of items ahead from its posterior, and the items ahead in the larger index from that."""
    rate = rng.gamma(ahead + exponent, size=400_000)
    rank = before + ahead + rng.poisson(rate * (growth - 1))
    return np.mean(np.where(rank < k, 1 / np.log2(2 + rank), 0))


@pytest.mark.parametrize(("growth", "exponent"), [(2, 0.3), (7, 0.5), (1, 0.4)])
def test_ranks_in_a_larger_index_are_gamma_poisson(rng, growth, exponent):
    table = _table(K, growth, exponent)
    for ahead, before in ((0, 0), (1, 0), (0, 3), (4, 2), (10, 0)):
        expected = table_by_definition(K, growth, exponent, ahead, before, rng)
        assert table[ahead, before] == pytest.approx(expected, abs=3e-3)


def test_the_gallery_itself_scores_as_measured(rng):
    found = np.stack([rng.permutation(60)[:40] for _ in range(25)])
    judged = Judgments.of(
        [{int(j): float(g) for j, g in zip(row[:3], (1, 2, 3), strict=True)} for row in found], 25, 60
    )
    shuffled = np.stack([rng.permutation(60) for _ in range(25)])
    same = ServedIndex(60, 60, judged, 1.0)
    np.testing.assert_allclose(expected_ndcg(shuffled, judged, K, same), judged.ndcg(shuffled[:, :K]))


@pytest.fixture(scope="module")
def index():
    """An index of 3,000 items under three models, 300 queries, and their five true neighbors."""
    rng = np.random.default_rng(3)
    truth, queries = rng.normal(size=(N, 12)), rng.normal(size=(300, 12))
    scores = queries @ truth.T / np.linalg.norm(truth, axis=1)
    relevant = np.argsort(-scores, axis=1)[:, :5]

    def seen(noise, seed):
        draw = np.random.default_rng(seed)
        return [a + noise * draw.normal(size=a.shape) for a in (queries, truth)]

    return {"stay": seen(0.5, 1), "translate": seen(0.7, 2), "reembed": seen(0.3, 3)}, relevant


def scored(models, relevant, rows, served=None):
    """Score searches among some rows; ``served`` is the number of relevant items of each query in the whole index."""
    place = {int(row): i for i, row in enumerate(rows)}
    wanted = [[place[int(j)] for j in found if int(j) in place] for found in relevant]
    kept = [i for i, found in enumerate(wanted) if found]
    searches = {name: Search(queries[kept], gallery[rows]) for name, (queries, gallery) in models.items()}
    whole = Judgments.of([found for i, found in enumerate(relevant) if i in set(kept)], len(kept), N)
    share = sum(map(len, wanted)) / relevant.size
    index = ServedIndex(N, len(rows), whole, share) if served else None
    return kept, score_options(**searches, relevant=[wanted[i] for i in kept], candidates=100, index=index)


@pytest.mark.parametrize("judged", ["all", "part"])
def test_the_larger_index_scores_as_expected(index, judged):
    """From 500 of 3,000 items: with all relevant items among them, and with those of a random part."""
    models, relevant = index
    _, whole = scored(models, relevant, np.arange(N))
    named = np.unique(relevant) if judged == "all" else np.empty(0, dtype=int)
    errors, flattered = [], []
    for seed in range(3):
        others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(N), named))
        rows = np.sort(np.concatenate([named, others[: 500 if judged == "part" else 300]]))
        kept, part = scored(models, relevant, rows, served=True)
        for option in OPTIONS:
            true = whole.by_option[option][kept, 2].mean()
            errors.append(part.expected[option].mean() - true)
            flattered.append(part.by_option[option][:, 2].mean() - true)
    assert np.mean(np.abs(flattered)) > 0.1
    assert np.mean(np.abs(errors)) < 0.4 * np.mean(np.abs(flattered))
    assert abs(np.mean(errors)) < 0.04


def test_reranking_the_same_candidates_finds_less_in_a_larger_index(index):
    """Among 200 items, 100 candidates hold nearly everything, and in the index they do not."""
    models, relevant = index
    kept, part = scored(models, relevant, np.sort(np.random.default_rng(0).permutation(N)[:200]), served=True)
    _, whole = scored(models, relevant, np.arange(N))
    true, measured, ceiling = (
        s.by_option[option][rows, 2].mean()
        for s, option, rows in ((whole, "rerank", kept), (part, "rerank", slice(None)), (part, "re-embed", slice(None)))
    )
    assert part.index_rows == N
    assert measured == pytest.approx(ceiling, abs=0.02)
    assert abs(part.expected["rerank"].mean() - true) < abs(measured - true) / 2
