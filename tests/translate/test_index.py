"""The goal "index": documents are rewritten once, and queries of the new model come as they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from sklearn.metrics import ndcg_score

import relatent as rl
from relatent._linalg import unit_norm
from relatent.spaces.sample import Sample
from relatent.steps import length
from relatent.translate.goals import Queries, index


@pytest.fixture
def documents(rng) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows about a mean, as most encoders give them; the two sides share most of what they say."""
    z = rng.normal(size=(900, 16)) * np.linspace(2, 0.5, 16)
    sides = (z @ rng.normal(size=(16, d)) + rng.normal(size=(900, d)) + 2 for d in (24, 20))
    return tuple(unit_norm(side) for side in sides)


def near(x: np.ndarray, y: np.ndarray) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)


def test_rows_of_another_length_keep_their_direction(rng):
    x = np.r_[rng.normal(size=(5, 4)), np.zeros((1, 4))]
    norms = np.linalg.norm(x, axis=1)
    near(length(x, 3.0, 0.0), x)
    near(length(x, 3.0, 1.0), 3.0 * unit_norm(x))
    near(np.linalg.norm(length(x, 3.0, 0.5), axis=1), np.sqrt(3.0 * norms))
    near(unit_norm(length(x, 3.0, 0.5)), unit_norm(x))


@pytest.mark.parametrize(
    ("change", "survives"), [("rotate", True), ("rescale", True), ("offset", True), ("stretch", False)]
)
def test_what_happens_to_the_source_does_not_matter(rng, documents, change, survives):
    x, y = documents
    d = x.shape[1]
    changed = {
        "rotate": x @ np.linalg.qr(rng.normal(size=(d, d)))[0],
        "rescale": 7 * x,
        "offset": x + rng.normal(size=d),
        "stretch": x * np.linspace(1, 20, d),
    }[change]
    before, after = (rl.Translator("index").fit(a[:300], y[:300]).transform(a[300:]) for a in (x, changed))
    assert np.allclose(before, after, atol=1e-6) is survives


def test_a_rotated_copy_is_found_by_its_own_queries(rng):
    y = rng.normal(size=(400, 12)) + 1
    x = 3 * y @ np.linalg.qr(rng.normal(size=(12, 12)))[0] + 1
    t = rl.Translator("index").fit(x[:200], y[:200])
    assert rl.evaluate.mrr(y[200:], t.transform(x[200:])) > 0.99
    assert t.metric_ == "cosine"


def test_what_queries_share_favors_no_document(documents):
    """Queries that differ nowhere along their mean rank documents as queries without the mean do."""
    _, y = documents
    q = y[600:] - y[600:].mean(axis=0)
    axis = unit_norm(y[600:].mean(axis=0)[None])
    q -= (q @ axis.T) * axis  # what is left is orthogonal to the mean
    asked = q + axis
    project = index.shared_component(asked)
    rows = y[:100] - y.mean(axis=0)
    near(project(rows) @ axis[0], np.zeros(100))
    near(asked @ project(rows).T, q @ rows.T)


def test_a_component_that_tells_queries_apart_is_kept_as_far_as_it_does(rng):
    q = rng.normal(size=(2_000, 3)) * [0.5, 1, 1]
    q += np.asarray([2.0, 0, 0]) - q.mean(axis=0)
    kept = np.var(q[:, 0]) / (np.var(q[:, 0]) + 4)
    near(index.shared_component(q)(np.eye(3)), np.diag([kept, 1, 1]))
    near(index.shared_component(q - q.mean(axis=0))(np.eye(3)), np.eye(3))


def test_queries_change_the_map_by_their_mean_alone(rng, documents):
    x, y = documents
    q = rng.normal(size=(50, 20)) * 0.1
    q -= q.mean(axis=0)
    moved = [
        rl.Translator("index", max_cost="affine").fit(x[:300], y[:300], queries=asked).transform(x[300:])
        for asked in (y[600:], y[600:][::-1], q + 1)
    ]
    near(moved[0], moved[1])
    assert not np.allclose(moved[0], moved[2], atol=1e-3)


def test_the_blend_is_that_of_scipys_rotation_and_a_ridge(documents):
    x, y = (a[:300] - a[:300].mean(axis=0) for a in documents)
    t = rl.Translator("index", max_cost="affine", penalty=0.1).fit(*(a[:300] for a in documents))
    q, _ = orthogonal_procrustes(np.c_[x], np.c_[y, np.zeros((300, 4))])
    q = q[:, :20]
    turned = x @ q * np.sqrt(np.sum(y**2) / np.sum((x @ q) ** 2))
    ridge = x @ np.linalg.solve(x.T @ x + 0.1 * np.trace(x.T @ x) / 24 * np.eye(24), x.T @ y)
    gain = t.choice_.gain
    share, project = t.choice_.strength * index.SHARE, index.shared_component(documents[1][:300], t.choice_.strength)
    blend = project((1 - share) * gain * ridge + share * turned)
    found = t.transform(documents[0][:300]) - documents[1][:300].mean(axis=0)
    # The zero padding of unequal widths leaves the rotation a choice where nothing is said: compare what is.
    assert np.linalg.norm(found - blend) < 0.05 * np.linalg.norm(blend)
    assert gain > 1


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_what_is_predicted_exactly_is_left_as_it_is(rng, documents, noise):
    x, _ = documents
    y = x @ rng.normal(size=(24, 20)) + 3 + noise * rng.normal(size=(900, 20))
    moved = rl.Translator("index").fit(x[:300], y[:300]).transform(x[300:])
    error = np.linalg.norm(moved - y[300:]) / np.linalg.norm(y[300:] - y.mean(axis=0))
    assert bool(error < 0.02) is (noise == 0)


def test_unit_rows_give_unit_rows(documents):
    x, y = documents
    near(np.linalg.norm(rl.Translator("index").fit(x[:300], y[:300]).transform(x), axis=1), np.ones(len(x)))
    loose = rl.Translator("index").fit(x[:300], 3 * y[:300]).transform(x)
    assert np.std(np.linalg.norm(loose, axis=1)) > 0.01


def test_a_linear_relation_gets_no_kernel_and_a_curved_one_does(rng, documents):
    x, y = documents
    straight = rl.Translator("index").fit(x[:400], x[:400] @ rng.normal(size=(24, 8)) + 0.01 * y[:400, :8])
    assert straight.map_.features is None
    assert straight.selection_.runner_up.count("kernel")
    z = rng.normal(size=(600, 3))
    bent = rl.Translator("index").fit(z, np.c_[np.abs(z), np.sign(z)])
    assert bent.map_.features is not None
    assert bent.selection_.score > bent.selection_.runner_up_score


def test_a_query_between_two_documents_should_find_both(rng):
    y = np.eye(20)
    held = Sample(y, y, np.arange(20, dtype=np.uint64))
    near(index.between(held, y), np.full(20, 1 / 1.5))  # both come first, and share the two places
    assert np.mean(index.between(held, rng.normal(size=(20, 20)))) < 0.5


def test_judged_queries_decide_where_they_are_clear(rng):
    """Documents that a kernel finds, and judgments of what a kernel finds, or of anything: these do not decide."""
    z = rng.normal(size=(600, 3))
    y = np.c_[np.abs(z), np.sign(z)]
    for wanted, decides in ((np.arange(600), True), (rng.permutation(600), False)):
        relevant = [[int(row)] for row in wanted]
        t = rl.Translator("index").fit(z, y, queries=y + 0.1 * rng.normal(size=y.shape), relevant=relevant)
        assert t.map_.features is not None
        assert ("judged queries" in t.selection_.criterion) is decides


def test_judged_queries_are_scored_as_scikit_learn_does(rng):
    y = rng.normal(size=(40, 6))
    held = Sample(y, y, np.arange(100, 140, dtype=np.uint64))
    asked = rng.normal(size=(3, 6))
    wanted = [{100: 3.0, 117: 1.0}, {7: 1.0}, {139: 2.0, 120: 2.0, 5: 1.0}]
    grades = np.zeros((3, 40))
    for row, one in enumerate(wanted):
        for item, grade in one.items():
            if item >= 100:
                grades[row, item - 100] = grade
    scores = unit_norm(asked) @ unit_norm(y).T
    near(Queries(asked, None, wanted).scores(held, y), [ndcg_score(grades[[i]], scores[[i]], k=10) for i in (0, 2)])
    assert len(Queries(asked, None, [{1: 1.0}] * 3).scores(held, y)) == 0


def test_judged_pairs_of_two_spaces_are_known_by_their_keys(rng, documents):
    from relatent.decide import Relevance

    x, y = documents
    keys = [f"d{i}" for i in range(len(x))]
    old, new = rl.Space(x, keys=keys), rl.Space(y, keys=keys)
    asked = [f"q{i}" for i in range(60)]
    queries = rl.Space(x[:60], keys=asked), rl.Space(y[:60] + 0.1 * rng.normal(size=(60, 20)), keys=asked)
    relevant = Relevance([*asked, "unknown"], [*keys[:60], "d1"])
    t = rl.Translator("index").fit(old, new, held_out=0.3, queries=queries, relevant=relevant)
    assert t.selection_.runner_up is not None
    assert t.choice_.asked.shape == (60, 20)
    assert rl.Translator("index").fit(old, new, queries=queries[1]).choice_.asked.shape == (60, 20)


@pytest.mark.parametrize(
    ("goal", "given", "message"),
    [
        ("vectors", {"queries": np.ones((3, 20))}, "has no use for them"),
        ("index", {"relevant": [[1]]}, "relevant tells what queries should find"),
        ("index", {"queries": np.ones((3, 7))}, r"queries have shape \(3, 7\) where 3 rows of 20 columns"),
        ("index", {"queries": (np.ones((2, 24)), np.ones((3, 20)))}, r"shape \(2, 24\) where 3 rows of 24"),
        ("index", {"queries": np.ones((3, 20)), "relevant": [[1]]}, "relevant has 1 entries for 3 queries"),
    ],
)
def test_queries_that_cannot_be_used_are_refused(documents, goal, given, message):
    x, y = documents
    with pytest.raises(ValueError, match=message):
        rl.Translator(goal).fit(x[:50], y[:50], **given)
