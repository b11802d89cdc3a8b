import faiss
import numpy as np
import pytest

import relatent as rl
from relatent.search import Reranker

RNG = np.random.default_rng(8)
NEW = RNG.normal(size=(400, 12))
OLD = (NEW @ np.linalg.qr(RNG.normal(size=(12, 12)))[0])[:, :9] + 0.3 * RNG.normal(size=(400, 9))
KEYS = np.asarray([f"doc {i}" for i in range(400)])


@pytest.fixture(scope="module")
def translator():
    return rl.Translator("retrieval", frozen_target=True).fit(NEW[:200], OLD[:200])


def brute_force(translator, queries, k, candidates=30):
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (translator.transform(queries), OLD, queries, NEW)]
    wide = np.argsort(-unit[0] @ unit[1].T, axis=1)[:, :candidates]
    exact = unit[2] @ unit[3].T
    return [sorted(row, key=lambda i, q=q: -exact[q, i])[:k] for q, row in enumerate(wide.tolist())]


def row_of(key):
    return int(key.removeprefix("doc ")) if isinstance(key, str) else key


def embed(keys):
    return NEW[[row_of(key) for key in keys]]


def flat_index():
    unit = OLD / np.linalg.norm(OLD, axis=1, keepdims=True)
    index = faiss.IndexFlatIP(9)
    index.add(np.ascontiguousarray(unit, dtype=np.float32))
    return index


@pytest.mark.parametrize("index", [OLD, rl.Space(OLD, keys=KEYS), flat_index()], ids=["array", "space", "faiss"])
def test_candidates_of_the_index_are_ranked_by_the_new_model(translator, index):
    found = Reranker(translator, index, embed, candidates=30).search(NEW[300:320], k=5)
    assert [[row_of(key) for key in keys] for keys in found.keys] == brute_force(translator, NEW[300:320], 5)
    assert all(np.all(np.diff(scores) <= 1e-9) for scores in found.scores)


def test_with_all_items_as_candidates_it_is_the_new_model(translator):
    found = Reranker(translator, OLD, lambda keys: NEW[keys], candidates=400).search(NEW[:50], k=10)
    assert found.keys == rl.evaluate.nearest(NEW[:50], NEW, 10).indices.tolist()


def test_nothing_is_embedded_twice_and_the_cache_becomes_a_space(translator):
    embedded = []
    reranker = Reranker(translator, OLD, lambda keys: (embedded.extend(keys), NEW[keys])[1], candidates=30)
    first, again = (reranker.search(NEW[300:310], k=3) for _ in range(2))
    assert (first.keys, again.embedded) == (again.keys, 0)
    assert len(embedded) == len(set(embedded)) == first.embedded
    grown = reranker.backfilled()
    np.testing.assert_array_equal(grown.vectors, NEW[grown.keys])
    assert sum(reranker.asked.values()) == 2 * 10 * 30
    other = Reranker(translator, OLD, lambda keys: pytest.fail("embedded again"), candidates=30)
    other.remember(grown)
    assert other.search(NEW[300:310], k=3).keys == first.keys


@pytest.fixture(scope="module")
def noisy():
    """An old model that shows less of the new one."""
    old = NEW[:, :6] + 0.8 * np.random.default_rng(1).normal(size=(400, 6))
    return rl.Translator("retrieval", frozen_target=True).fit(NEW[:200], old[:200]), old


def test_queries_that_translate_well_take_fewer_candidates(noisy):
    t, old = noisy
    sure, surer = (Reranker(t, old, embed, candidates=200, recall=recall) for recall in (0.7, 0.9))
    queries = NEW[200:]
    few, more = (np.asarray(reranker.depths(queries, k=5)) for reranker in (sure, surer))
    assert np.all(few <= more)
    assert 5 < np.mean(few) < np.mean(more) < 200
    # The first n of 400 items are as the first ten of 4,000 / n.
    reached = [t.confidence(query[None], items=4_000 // n)[0] for query, n in zip(queries, few, strict=True)]
    assert all(c >= 0.7 or n == 200 for c, n in zip(reached, few, strict=True))
    found = sure.search(queries, k=5)
    assert sum(sure.asked.values()) == np.sum(few)
    assert np.mean([row in keys for row, keys in zip(range(200, 400), found.keys, strict=True)]) >= 0.7


def test_the_size_of_an_index_is_told_or_given(noisy):
    def depths(index, **options):
        return Reranker(noisy[0], index, embed, candidates=200, recall=0.9, **options).depths(NEW[300:])

    def search(queries, k):
        return [[0] * k for _ in queries]

    assert depths(OLD) == depths(rl.Space(OLD, keys=KEYS)) == depths(flat_index()) == depths(search, items=400)
    assert np.sum(depths(search, items=10**6)) > np.sum(depths(OLD))


def test_one_query_may_be_one_vector(translator):
    reranker = Reranker(translator, OLD, lambda keys: NEW[keys], candidates=30)
    assert reranker.search(NEW[300], k=3).keys == reranker.search(NEW[300:301], k=3).keys


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: Reranker(t, OLD, len, recall=1.5), "between 0 and 1"),
        (lambda t: Reranker(rl.Translator("retrieval").fit(NEW, OLD), OLD, len), "frozen_target"),
        (lambda t: Reranker(t, object(), len), "FAISS index"),
        (lambda t: Reranker(t, OLD, len, candidates=0), "at least 1"),
        (lambda t: Reranker(t, OLD, lambda keys: NEW[:1]).search(NEW[:2]), "one vector per key"),
        (lambda t: Reranker(t, OLD, lambda keys: NEW[keys], candidates=5).search(NEW[:2], k=6), "from 1 to"),
        (lambda t: Reranker(t, OLD, lambda keys: NEW[keys]).backfilled(), "search first"),
    ],
)
def test_what_cannot_work_is_refused(translator, make, message):
    with pytest.raises(ValueError, match=message):
        make(translator)
