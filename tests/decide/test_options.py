"""Five ways to search the same items, each against its definition."""

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from relatent.decide import Search, options, score_options
from relatent.decide.rule import outcome_of

N, K = 150, 5


@pytest.fixture
def spaces(rng, orthogonal):
    """A new space, an old one that sees half of it, and a noisy translation."""
    new = rng.normal(size=(N, 12))
    old = new @ np.diag([1.0] * 6 + [0.0] * 6) @ orthogonal(12)
    return {"stay": old, "translate": new + 0.7 * rng.normal(size=new.shape), "reembed": new}


def searches(spaces):
    return {name: Search(a[:40], a) for name, a in spaces.items()} | {
        "translate": Search(spaces["reembed"][:40], spaces["translate"])
    }


def cosines(search):
    q, g = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (search.queries, search.gallery))
    scores = q @ g.T
    scores[np.arange(40), np.arange(40)] = -np.inf  # the query itself
    return scores


def grades(rng):
    table = rng.integers(0, 3, size=(40, N)) * (rng.random((40, N)) < 0.1)
    table[np.arange(40), np.arange(40)] = 0
    table[:, 100] = 1
    return table


def found_by(scores, k):
    return np.argsort(-scores, axis=1)[:, :k]


def test_every_option_by_its_definition(spaces, rng):
    truth, s = grades(rng), searches(spaces)
    scored = score_options(
        **s,
        own=np.arange(40),
        relevant=[{j: g for j, g in enumerate(row) if g} for row in truth],
        k=K,
        candidates=20,
    )

    def reranked(source):
        wide = found_by(cosines(s[source]), 20)
        scores = np.full((40, N), -np.inf)
        np.put_along_axis(scores, wide, np.take_along_axis(cosines(s["reembed"]), wide, axis=1), axis=1)
        return scores

    ranked = {
        "stay": cosines(s["stay"]),
        "translate": cosines(s["translate"]),
        "rerank-old": reranked("stay"),
        "rerank": reranked("translate"),
        "re-embed": cosines(s["reembed"]),
    }
    assert scored.measures == ("recall", "mrr", "ndcg")
    assert list(scored.by_option) == list(ranked)
    for option, scores in ranked.items():
        rows = found_by(scores, K)
        hits = np.take_along_axis(truth, rows, axis=1) > 0
        finite = np.where(np.isfinite(scores), scores, -9.0)
        np.testing.assert_allclose(scored.by_option[option][:, 0], hits.sum(axis=1) / (truth > 0).sum(axis=1))
        first = [1 / (row.tolist().index(True) + 1) if row.any() else 0 for row in hits]
        np.testing.assert_allclose(scored.by_option[option][:, 1], first)
        expected = [ndcg_score([t], [f], k=K) for t, f in zip(truth, finite, strict=True)]
        np.testing.assert_allclose(scored.by_option[option][:, 2], expected)


def test_overlap_is_the_share_of_what_reembedding_finds(spaces):
    s = searches(spaces)
    scored = score_options(**s, own=np.arange(40), k=K, candidates=20)
    new = found_by(cosines(s["reembed"]), K)
    for option in ("stay", "translate"):
        rows = found_by(cosines(s[option]), K)
        shared = [len(set(a) & set(b)) / K for a, b in zip(rows.tolist(), new.tolist(), strict=True)]
        np.testing.assert_allclose(scored.by_option[option][:, 0], shared)
    assert np.all(scored.by_option["re-embed"] == 1)
    assert scored.by_option["rerank"].mean() > scored.by_option["translate"].mean()


def test_reranking_everything_is_reembedding(spaces):
    scored = score_options(**searches(spaces), own=np.arange(40), k=K, candidates=10_000)
    assert scored.candidates == N - 1
    np.testing.assert_array_equal(scored.by_option["rerank"], scored.by_option["re-embed"])


def test_blocks_of_queries_change_nothing(spaces, monkeypatch):
    whole = score_options(**searches(spaces), k=K).by_option["rerank"]
    monkeypatch.setattr(options, "BLOCK_QUERIES", 7)
    np.testing.assert_array_equal(score_options(**searches(spaces), k=K).by_option["rerank"], whole)


def test_a_query_does_not_count_as_found_by_itself(spaces):
    new = spaces["reembed"]
    relevant = [[(i + 1) % N] for i in range(N)]
    for translated, itself in ((new, 1), (-new, 0)):
        scored = score_options(
            Search(new, new), Search(new, translated), Search(new, new), own=np.arange(N), relevant=relevant
        )
        assert scored.itself.mean() == itself
    own = score_options(*[Search(new, new)] * 3, own=np.arange(N), relevant=np.arange(N))
    assert own.by_option["translate"].max() == 0
    assert score_options(*[Search(new, new)] * 3, relevant=np.arange(N)).by_option["translate"].min() == 1


@pytest.mark.parametrize(("own", "most"), [(True, N - 2), (False, N - 1)])
def test_the_advice_about_k_works(spaces, own, most):
    new = Search(spaces["reembed"], spaces["reembed"])
    rows = np.arange(N) if own else None
    with pytest.raises(ValueError, match=f"500 neighbors were asked for among {most + 1} rows.* at most {most},"):
        score_options(new, new, new, own=rows, k=500)
    assert score_options(new, new, new, own=rows, k=most).k == most
    with pytest.raises(ValueError, match="0 neighbors were asked for: expected a whole number of at least 1"):
        score_options(new, new, new, own=rows, k=0)


@pytest.mark.parametrize("candidates", [0, -3])
def test_reranking_no_candidates_is_refused(candidates):
    y = np.random.default_rng(0).normal(size=(30, 4))
    with pytest.raises(ValueError, match=f"{candidates} candidates"):
        score_options(Search(y, y), Search(y, y), Search(y, y), candidates=candidates)


def test_a_go_uses_translated_vectors():
    assert [outcome_of(option) for option in options.OPTIONS] == ["NO-GO", "NO-GO", "GO", "NO-GO", "GO", "NO-GO"]
    assert all(meaning.go is ("a translator" in meaning.needs) for meaning in options.OPTIONS.values())
    assert outcome_of(None) == "no verdict"
