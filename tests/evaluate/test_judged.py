import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from relatent.evaluate.retrieval import Judgments, first_hit


@pytest.fixture
def case(rng):
    """Graded truth over 40 items for 60 queries, and scores that rank them."""
    grades = rng.integers(1, 4, size=(60, 40)) * (rng.random((60, 40)) < 0.15)
    grades[:, 0] = 1
    return grades, rng.random((60, 40)) + 0.3 * grades


def judgments(grades):
    return Judgments.of([dict(enumerate(row)) for row in grades], *grades.shape)


@pytest.mark.parametrize("k", [1, 5, 10, 39])
def test_ndcg_by_scikit_learn(case, k):
    grades, scores = case
    found = np.argsort(-scores, axis=1)[:, :k]
    ours = judgments(grades).ndcg(found)
    assert 0.05 < ours.mean() < 0.999
    np.testing.assert_allclose(ours, [ndcg_score([g], [s], k=k) for g, s in zip(grades, scores, strict=True)])


@pytest.mark.parametrize("k", [1, 5, 39])
def test_recall_and_reciprocal_rank_by_counting(case, k):
    grades, scores = case
    found = np.argsort(-scores, axis=1)[:, :k]
    judged = judgments(grades)
    for i, rows in enumerate(found.tolist()):
        relevant = set(np.flatnonzero(grades[i]).tolist())
        places = [place for place, row in enumerate(rows, start=1) if row in relevant]
        assert judged.recall(found)[i] == pytest.approx(len(places) / len(relevant))
        assert judged.reciprocal_rank(found)[i] == pytest.approx(1 / places[0] if places else 0)


def test_a_grade_of_zero_or_less_is_not_relevant():
    judged = Judgments.of([{0: 2, 1: 0, 2: -1}], 1, 5)
    assert judged.recall(np.asarray([[1, 2]])).tolist() == [0]
    assert judged.recall(np.asarray([[0, 1]])).tolist() == [1]
    with pytest.raises(ValueError, match="Query 0 has no relevant row"):
        Judgments.of([{0: 0}], 1, 5)


def test_own_rows_are_judgments_like_others():
    given, own = Judgments.of(np.arange(5), 5, 9), Judgments.own(5)
    np.testing.assert_array_equal(given.rows, own.rows)
    np.testing.assert_array_equal(given.grades, own.grades)


def test_first_hit_at_its_ends():
    assert first_hit(np.eye(3, dtype=bool)).tolist() == [1, 1 / 2, 1 / 3]
    assert first_hit(np.zeros((2, 3), dtype=bool)).tolist() == [0, 0]
