"""The verdict on spaces: which keys ask, which are searched among, and what it recommends."""

import numpy as np
import pytest

import relatent as rl
from relatent.decide import Relevance, evaluate_spaces
from relatent.spaces import held_out, key_hashes
from relatent.translate import SpaceMismatchError, Translator, translate_space


def held_out_keys(space):
    return [key for key, out in zip(space.keys, held_out(key_hashes(space.keys), 0.2), strict=True) if out]


def nearest_pairs(space, keys):
    """Each key with the one that is nearest to it in a space."""
    rows = [list(space.keys).index(key) for key in keys]
    vectors = space.vectors[rows]
    near = rl.evaluate.nearest(vectors, vectors, 1, exclude_self=True).indices[:, 0]
    return Relevance(keys, [keys[i] for i in near])


def test_only_unseen_keys_are_searched_among(spaces, translator):
    found = evaluate_spaces(translator, *spaces, relevant=nearest_pairs(spaces[0], held_out_keys(spaces[0])))
    assert found.decision.recommended == "translate"
    assert found.queries == found.scores.items == 600 - translator.n_pairs_
    seen = np.isin(key_hashes(spaces[0].keys), translator.seen_keys_)
    with pytest.raises(ValueError, match="was fitted on all"):
        evaluate_spaces(translator, spaces[0].subset(np.flatnonzero(seen)), spaces[1])


def test_without_judged_pairs_there_is_no_verdict(spaces, translator):
    found = evaluate_spaces(translator, *spaces)
    assert found.decision.verdict == "no verdict"
    assert found["translate"]["overlap"].value > 0.99
    assert found.relevance == "the 10 nearest under the new model"
    gate = rl.decide.Rule(min_overlap=0.9)
    assert evaluate_spaces(translator, *spaces, rule=gate).decision.recommended == "translate"


def test_keys_named_as_relevant_come_first(spaces, translator):
    keys = held_out_keys(spaces[0])
    pairs = Relevance([*keys[-10:-5], keys[-5]], [*keys[-5:], keys[-10]])
    found = evaluate_spaces(translator, *spaces, relevant=pairs, max_rows=20)
    assert (found.queries, found.scores.items) == (6, 20)
    assert found.decision.verdict == "no verdict"  # six queries tell nothing


def test_queries_that_are_never_items_are_not_searched_among(spaces, translator):
    keys = held_out_keys(spaces[0])
    found = evaluate_spaces(translator, *spaces, relevant=Relevance(keys[:20], keys[20:40]), max_rows=100)
    assert (found.queries, found.scores.items, found.itself) == (20, 80, None)


def test_slices_are_a_column_of_either_space(spaces, translator):
    assert {line.slice for line in evaluate_spaces(translator, *spaces, slices="half")["stay"]} == {"all", "a", "b"}
    with pytest.raises(ValueError, match=r"no column 'hal' to slice by\. Did you mean 'half'\? There are: key, half"):
        evaluate_spaces(translator, *spaces, slices="hal")


@pytest.mark.parametrize("k", [0, 500])
def test_k_is_checked_and_the_advice_works(spaces, translator, k):
    items = 600 - translator.n_pairs_
    says = "whole number of at least 1" if k == 0 else f"at most {items - 2},"
    with pytest.raises(ValueError, match=says):
        evaluate_spaces(translator, *spaces, k=k)
    assert evaluate_spaces(translator, *spaces, k=items - 2).scores.k == items - 2


def test_spaces_are_checked(spaces, translator):
    with pytest.raises(SpaceMismatchError):
        evaluate_spaces(translator, spaces[1], spaces[0])
    with pytest.raises(ValueError, match=r"no role 'query'\. Did you mean 'queries'"):
        evaluate_spaces(translator, *spaces, role="query")


@pytest.fixture
def trec(rng):
    """Documents and questions under two models, and grades by what both models only guess at.

    The old model sees the truth better than the new one, so that moving to the new one loses.
    """
    truth = rng.normal(size=(1_000, 12))
    keys = [f"d{i}" for i in range(700)] + [f"q{i}" for i in range(300)]
    old = truth + 0.3 * rng.normal(size=truth.shape)
    new = (truth + 0.6 * rng.normal(size=truth.shape)) @ rng.normal(size=(12, 12))
    spaces = [rl.Space(v.astype(np.float32), keys, n, rl.Fingerprint(12, n)) for v, n in ((old, "old"), (new, "new"))]
    unit = truth / np.linalg.norm(truth, axis=1, keepdims=True)
    best = np.argsort(-(unit[700:] @ unit[:700].T), axis=1)[:, :6]
    grades = [2, 2, 1, 1, 1, 1] * 300
    asked, found = np.repeat(keys[700:], 6).tolist(), [keys[j] for j in best.ravel()]
    return (*spaces, Relevance(asked, found, "qrels", grades))


def test_a_search_that_gets_worse_is_not_a_go(trec):
    """Overlap with the new model is better than that of staying, and still every judged measure falls: no GO."""
    old, new, qrels = trec
    t = Translator()
    t.fit(old, new, anchors=[f"d{i}" for i in range(300)])
    found = evaluate_spaces(t, old, new, relevant=qrels)
    unseen = {q for q, d in zip(qrels.queries, qrels.items, strict=True) if int(d[1:]) >= 300}
    assert (found.queries, found.scores.items) == (len(unseen), 400)
    assert all(found.changes["translate"][m].high < 0 for m in ("recall", "mrr", "ndcg"))
    assert (found.decision.verdict, found.decision.recommended) == ("NO-GO", "stay")
    unjudged = evaluate_spaces(t, old, new)
    assert unjudged["translate"]["overlap"].low > unjudged["stay"]["overlap"].high
    assert not unjudged.go


def test_the_other_way_round_it_gains(trec):
    old, new, qrels = trec
    t = Translator()
    t.fit(new, old, anchors=[f"d{i}" for i in range(300)])
    found = evaluate_spaces(t, new, old, relevant=qrels)  # now "new" is the model to leave
    assert found.changes["translate"]["ndcg"].low > 0
    assert found.break_even.low > 1
    assert found.decision.recommended == "rerank"  # the model to move to is better still at ranking the candidates
    cheap = rl.decide.Cost(1_000_000, rows_per_second=1_000)
    few = evaluate_spaces(t, new, old, relevant=qrels, cost=cheap, candidates=12)
    assert few.decision.recommended == "re-embed"


def test_queries_can_be_translated_instead_of_documents(trec):
    old, new, qrels = trec
    t = Translator()
    t.fit(old, new, anchors=[f"d{i}" for i in range(300)])
    found = evaluate_spaces(t, old, new, role="queries", relevant=qrels)  # old asks in the index of new
    by_hand = rl.decide.Search(t.transform(old.take(range(700, 1_000))), new.take(range(300, 700)))
    place = {f"d{i}": i - 300 for i in range(300, 700)}
    wanted = [{} for _ in range(300)]
    for q, d, g in zip(qrels.queries, qrels.items, qrels.grades, strict=True):
        if d in place:
            wanted[int(q[1:])][place[d]] = g
    kept = [i for i, w in enumerate(wanted) if w]
    expected = rl.evaluate.ndcg(by_hand.queries[kept], by_hand.gallery, relevant=[wanted[i] for i in kept])
    assert found["translate"]["ndcg"].value == pytest.approx(expected)


@pytest.fixture
def beir(trec):
    """The same documents and questions, in spaces of their own whose ids are numbers from 0 in each."""
    old, new, qrels = trec
    documents, questions = (
        [rl.Space(s.vectors[part], [str(i) for i in range(count)], s.name, s.fingerprint) for s in (old, new)]
        for part, count in ((slice(0, 700), 700), (slice(700, 1_000), 300))
    )
    numbers = [[key[1:] for key in keys] for keys in (qrels.queries, qrels.items)]
    return documents, questions, Relevance(*numbers, "qrels", qrels.grades)


def test_queries_with_keys_of_their_own_are_never_items(trec, beir):
    """Query 1 and document 1 are different; the figures are those of the same vectors with distinct keys."""
    documents, questions, qrels = beir
    t = Translator().fit(*documents, anchors=[str(i) for i in range(300)])
    found = evaluate_spaces(t, *documents, relevant=qrels, queries=tuple(questions))
    together = Translator().fit(*trec[:2], anchors=[f"d{i}" for i in range(300)])
    expected = evaluate_spaces(together, *trec[:2], relevant=trec[2])
    assert (found.queries, found.scores.items) == (expected.queries, expected.scores.items)
    for option in ("stay", "translate", "rerank-old", "rerank", "re-embed"):
        assert found[option]["ndcg"].value == pytest.approx(expected[option]["ndcg"].value, abs=1e-4)
        assert found.expected.scores[option].value == pytest.approx(expected.expected.scores[option].value, abs=1e-3)
    assert found.itself is None
    assert set(found.keys) <= set(questions[0].keys)


def test_queries_of_another_dimension_are_refused(beir, spaces):
    documents, questions, qrels = beir
    t = Translator().fit(*documents, anchors=[str(i) for i in range(300)])
    with pytest.raises(ValueError, match="queries of the target have 8 coordinates and its items 12"):
        evaluate_spaces(t, *documents, relevant=qrels, queries=(questions[0], spaces[0]))


def test_what_is_expected_in_the_index_served_decides(trec):
    old, new, qrels = trec
    t = Translator().fit(old, new, anchors=[f"d{i}" for i in range(300)])
    found = evaluate_spaces(t, old, new, relevant=qrels)
    assert found.expected.rows == 700  # the questions are no items
    assert evaluate_spaces(t, old, new, relevant=qrels, index_rows=400).expected is None
    larger = evaluate_spaces(t, old, new, relevant=qrels, index_rows=70_000)
    assert larger.expected.scores["stay"].value < found.expected.scores["stay"].value < found["stay"]["ndcg"].value
    assert f"expected in {70_000:,} items" in str(larger)
    assert larger["stay"]["ndcg"] == found["stay"]["ndcg"]
    assert larger.to_dict()["expected"]["rows"] == 70_000


@pytest.mark.parametrize(("options", "warned"), [({}, True), ({"frozen_target": True}, False)])
def test_one_side_of_a_two_sided_translator_is_warned_of(spaces, tmp_path, options, warned, recwarn):
    t = Translator("retrieval", **options)
    t.fit(*spaces, held_out=0.2)
    evaluate_spaces(t, *spaces)
    translate_space(t, spaces[0], tmp_path / "queries.npy")
    said = [str(w.message) for w in recwarn if "into a shared space" in str(w.message)]
    assert len(said) == (2 if warned else 0)
    assert all("side='target'" in words and "fit with frozen_target=True" in words for words in said)
