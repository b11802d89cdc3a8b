import numpy as np
import pytest

import relatent as rl
from relatent.evaluate import maxsim
from relatent.spaces import MultiVectors, token_pairs

RNG = np.random.default_rng(3)


def items(n, d=6, most=5, seed=0):
    rng = np.random.default_rng(seed)
    return MultiVectors.of([rng.normal(size=(rng.integers(1, most), d)) for _ in range(n)])


def test_every_score_is_the_sum_of_best_products():
    queries, documents = items(7), items(11, seed=1)
    unit = [[m / np.linalg.norm(m, axis=1, keepdims=True) for m in side] for side in (queries, documents)]
    expected = [[(q @ d.T).max(axis=1).sum() for d in unit[1]] for q in unit[0]]
    np.testing.assert_allclose(maxsim(queries, documents), expected)
    raw = [[(q @ d.T).max(axis=1).sum() for d in documents] for q in queries]
    np.testing.assert_allclose(maxsim(queries, documents, normalize=False), raw)


@pytest.mark.parametrize(("change", "survives"), [("rotate", True), ("rescale", True), ("offset", False)])
def test_scores_survive_what_cosines_survive(change, survives):
    turn = np.linalg.qr(RNG.normal(size=(6, 6)))[0]
    changes = {"rotate": lambda v: v @ turn, "rescale": lambda v: 3 * v, "offset": lambda v: v + 1}
    queries, documents = items(5), items(5, seed=1)
    after = maxsim(queries.map(changes[change]), documents.map(changes[change]))
    assert np.allclose(maxsim(queries, documents), after) is survives


def test_one_map_translates_all_tokens_and_keeps_the_ranking():
    turn = np.linalg.qr(RNG.normal(size=(6, 6)))[0]
    old = items(60)
    new = old.map(lambda v: v @ turn)
    t = rl.Translator(map="orthogonal").fit(*token_pairs(old, new))
    translated = old.map(t.transform)
    np.testing.assert_array_equal(np.argmax(maxsim(new, translated), axis=1), np.argmax(maxsim(new, new), axis=1))
    np.testing.assert_allclose(translated[3], t.transform(old[3]))


def test_tokens_of_other_tokenizers_are_paired_by_their_alignment():
    x, y = items(3), items(3, seed=1)
    aligned = [[(0, 0)], [], [(len(x[2]) - 1, 0)]]
    left, right = token_pairs(x, y, aligned)
    np.testing.assert_array_equal(left, [x[0][0], x[2][-1]])
    np.testing.assert_array_equal(right, [y[0][0], y[2][0]])
    with pytest.raises(ValueError, match="does not have"):
        token_pairs(x, y, [[(99, 0)], [], []])
    with pytest.raises(ValueError, match="one entry each"):
        token_pairs(x, y, [[]])
    with pytest.raises(ValueError, match="aligned="):
        token_pairs(MultiVectors.of([np.eye(3)]), MultiVectors.of([np.eye(3)[:1]]))


def test_arrow_and_back():
    tokens = items(5).map(lambda v: v.astype(np.float32))
    back = MultiVectors.from_arrow(tokens.to_arrow())
    np.testing.assert_array_equal(back.vectors, tokens.vectors)
    np.testing.assert_array_equal(back.offsets, tokens.offsets)


@pytest.mark.parametrize(
    ("matrices", "message"),
    [([], "No item"), ([np.eye(2), np.eye(3)], "one number throughout"), ([np.empty((0, 2))], "item 0")],
)
def test_what_is_no_multi_vector_is_refused(matrices, message):
    with pytest.raises(ValueError, match=message):
        MultiVectors.of(matrices)
