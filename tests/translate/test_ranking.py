"""The choice for retrieval: what is tried, what it equals, and that nothing held out is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from sklearn.linear_model import Ridge

import relatent as rl
from relatent._linalg import unit_norm
from relatent.evaluate.retrieval import mean_reciprocal_rank
from relatent.spaces.sample import Unpaired
from relatent.summary import summarize
from relatent.translate import goals
from relatent.translate.goals import Settings, frozen_target, retrieval
from relatent.translate.likelihood import LikelihoodPath, rotation
from relatent.translate.pairs import Pairs


@pytest.fixture
def rows(rng) -> tuple[np.ndarray, np.ndarray]:
    z = rng.normal(size=(400, 12))
    return tuple(z @ rng.normal(size=(12, d)) + 0.5 * rng.normal(size=(400, d)) + 1 for d in (10, 8))


def test_a_rotation_ranks_by_the_cosine_after_procrustes(rng):
    x, y = (unit_norm(rng.normal(size=(50, 6))) for _ in range(2))
    q, _ = orthogonal_procrustes(x, y)
    queries, targets = rotation(Pairs.of(x, y).normalized("l2").summary).vectors(x, y)
    np.testing.assert_allclose(queries @ targets.T, x @ q @ y.T, atol=1e-12)


def test_shrinking_everything_leaves_the_rotation(rng):
    """Of ever stronger penalties, the canonical variables are turned onto each other as by Procrustes."""
    x, y = (rng.normal(size=(50, 6)) for _ in range(2))
    x, y = x - x.mean(0), y - y.mean(0)
    q, _ = orthogonal_procrustes(x, y)
    path = LikelihoodPath.of(Pairs.of(x, y).summary)
    gaps = []
    for penalty in (1.0, 1e3, 1e9):
        wx, _, wy = path.canonical(penalty, penalty)
        w = wx @ wy.T
        gaps.append(np.linalg.norm(w / np.linalg.norm(w) - q / np.linalg.norm(q)))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-6


@pytest.mark.parametrize("dims", [(12, 8), (8, 12), (9, 9)])
@pytest.mark.parametrize("penalties", [(0.1, 0.1), (0.3, 2.0)])
def test_scores_without_canonical_variables_are_those_of_the_ratio(rng, dims, penalties):
    z = rng.normal(size=(200, 6))
    x, y = (z @ rng.normal(size=(6, d)) + 0.5 * rng.normal(size=(200, d)) + 1 for d in dims)
    path = LikelihoodPath.of(summarize(x, y))
    found = path.scored(*penalties, *path.coordinates(x[:20], y[:30]))
    scores = found.queries @ found.targets.T + found.common[:, None] + found.bias
    np.testing.assert_allclose(scores, path.at(*penalties).log_ratios(x[:20], y[:30]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dims", [(12, 8), (8, 12)])
def test_a_rotation_is_added_to_the_ratio_itself(rng, dims):
    x, y = (rng.normal(size=(60, d)) + 1 for d in dims)
    summary = summarize(x, y)
    ratio = LikelihoodPath.of(summary).at(0.5, 0.5)
    u, _, vt = np.linalg.svd((x - x.mean(0)).T @ (y - y.mean(0)), full_matrices=False)
    turned = (x - x.mean(0)) @ (u @ vt) @ (y - y.mean(0)).T
    both = ratio.with_rotation(summary, 3.0)
    np.testing.assert_allclose(both.log_ratios(x, y), ratio.log_ratios(x, y) + 3 * turned, atol=1e-8)
    assert both.target_vectors(y).shape == (60, dims[1] + 1)


def test_close_relatives_with_few_anchors_get_the_rotation(rng):
    d = 60
    y = rng.normal(size=(700, d)) * np.arange(1, d + 1) ** -0.5
    x = y @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 0.25 * rng.normal(size=y.shape) / d**0.5
    t = rl.Translator("retrieval").fit(x[: d - 8], y[: d - 8])
    q, _ = orthogonal_procrustes(*(unit_norm(a[: d - 8]) for a in (x, y)))
    plain = mean_reciprocal_rank(unit_norm(x[100:]) @ q, unit_norm(y[100:]))
    assert mean_reciprocal_rank(t.transform(x[100:]), t.transform_target(y[100:])) >= plain - 0.005


@pytest.mark.parametrize("role", ["as documents", "shifted"])
def test_queries_that_are_embedded_otherwise_get_an_offset(rng, role):
    """A prefix moves the queries of the source's model, and the target's are where they were."""
    z = rng.normal(size=(900, 12))
    x, y = (unit_norm(z @ rng.normal(size=(12, d)) + 0.2 * rng.normal(size=(900, d))) for d in (20, 16))
    prefix = 0.5 * unit_norm(rng.normal(size=(1, 20))) * (role == "shifted")
    asked, fresh = slice(400, 500), slice(500, 900)
    queries = (unit_norm(x[asked] + prefix), y[asked])
    plain, told = (
        rl.Translator("retrieval", frozen_target=True).fit(x[:400], y[:400], queries=given) for given in (None, queries)
    )
    without, with_offset = (rl.evaluate.mrr(t.transform(unit_norm(x[fresh] + prefix)), y[fresh]) for t in (plain, told))
    assert told.choice_.knows_queries
    assert not plain.choice_.knows_queries
    if role == "shifted":
        assert told.choice_.offset is not None
        assert with_offset > without + 0.02
        # The means agree by half of what they were off.
        moved = unit_norm(plain.transform(queries[0]))
        np.testing.assert_allclose(told.choice_.offset, (y[asked] - moved).mean(axis=0) / 2, atol=1e-6)
        np.testing.assert_allclose(told.transform(queries[0]), moved + told.choice_.offset, atol=1e-6)
    else:
        assert with_offset > without - 0.02


def test_a_frozen_target_asks_for_pairs_of_queries(rng, rows):
    x, y = rows
    with pytest.raises(ValueError, match="expected a pair"):
        rl.Translator("retrieval", frozen_target=True).fit(x, y, queries=y[:30])
    few = rl.Translator("retrieval", frozen_target=True).fit(x, y, queries=(x[:5], y[:5]))
    assert few.choice_.offset is None


def canonical_queries(p, x, share: float) -> np.ndarray:
    rule = frozen_target.CANONICAL[f"canonical, λ=3, mean × {share:g}"]
    return rule.folded(p, np.dtype(np.float64))(x) / p.target.normalizer.mean_norm


def test_canonical_queries_meet_the_canonical_variables_of_an_untouched_index(rows):
    x, y = rows
    p = Pairs.of(x, y).normalized("l2")
    wx, _, wy = LikelihoodPath.of(p.summary).canonical(3.0, 3.0)
    a, b = ((r - r.mean(0)) @ w for r, w in ((unit_norm(x), wx), (unit_norm(y), wy)))
    scores = canonical_queries(p, x, 0.0) @ (unit_norm(y) - unit_norm(y).mean(0)).T
    np.testing.assert_allclose(scores, a @ b.T, atol=1e-8)


def test_a_share_of_the_mean_takes_off_a_share_of_the_norms(rows):
    x, y = rows
    p, unit = Pairs.of(x, y).normalized("l2"), unit_norm(y)
    bare, shared = (canonical_queries(p, x, share) @ unit.T for share in (0.0, 0.5))
    norms = np.sum((unit - unit.mean(0)) ** 2, axis=1)
    taken = (shared - bare) - np.mean(shared - bare, axis=1, keepdims=True)
    slope = np.cov(taken[0], norms)[0, 1] / np.var(norms, ddof=1)
    assert slope < 0
    np.testing.assert_allclose(taken, np.tile(slope * (norms - norms.mean()), (len(x), 1)), atol=1e-10)


@pytest.mark.parametrize("goal", [retrieval, frozen_target])
def test_what_is_held_out_changes_nothing_that_it_is_ranked_by(rows, goal):
    """Fit on the rest, with the held-out rows replaced by others: the same map, its bank included."""
    x, y = (a[:90].copy() for a in rows)
    choice = goal.choose(Pairs.of(x, y), Settings())
    held = np.arange(0, 90, 3)
    before = goal.solve(Pairs.of(x, y).without(held), choice)
    x[held], y[held] = 7.0, -3.0
    after = goal.solve(Pairs.of(x, y).without(held), choice)
    np.testing.assert_allclose(before.source(rows[0]), after.source(rows[0]), rtol=1e-7, atol=1e-9)
    if before.target is not None:
        np.testing.assert_allclose(before.target(rows[1]), after.target(rows[1]), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("normalize", ["standard", "whiten", "center+l2", "l2"])
def test_a_named_normalization_is_kept(rows, normalize):
    x, y = (a[:60] for a in rows)
    for frozen in (False, True):
        t = rl.Translator("retrieval", normalize=normalize, frozen_target=frozen).fit(x, y)
        assert t.choice_.normalize == normalize


# Rows beside the pairs


@pytest.mark.parametrize("name", ["iso", "standard", "center+l2"])
@pytest.mark.parametrize("count", [6, 90])
def test_rows_beside_the_pairs_move_the_center(rows, name, count):
    x, y = rows
    beside = Unpaired.of(x[200:], y[300:], 50, seed=0)
    p = replace(Pairs.of(x[:count], y[:count]), unpaired=beside).normalized(name, span=False)
    centers = np.concatenate([x[:count], x[200:]]).mean(0), np.concatenate([y[:count], y[300:]]).mean(0)
    for frame, center in zip((p.source, p.target), centers, strict=True):
        np.testing.assert_allclose(frame.normalizer.mean, center)
    np.testing.assert_allclose(p.summary.xy, p.x.T @ p.y, atol=1e-8)
    np.testing.assert_allclose(p.summary.xx, p.x.T @ p.x, atol=1e-8)
    assert not np.any(p.summary.mean_x)


def test_targets_of_pairs_are_not_ranked_among_their_copies(rows):
    x, y = rows
    pairs = replace(Pairs.of(x[:50], y[:50]), unpaired=Unpaired.of(None, y.astype(np.float16), 1_000, seed=0))
    np.testing.assert_allclose(pairs.other_targets, y[50:].astype(np.float16))


def test_ranks_among_an_index_count_half(rng):
    scores = rng.normal(size=(5, 9))
    both = [retrieval.held_out_ranks(part) for part in (scores[:, :5], scores)]
    ahead = np.sum(scores > np.diagonal(scores)[:, None], axis=1)
    np.testing.assert_allclose(both[1], (both[0] + 1 / (1 + ahead)) / 2)


def test_rows_beside_the_pairs_rank_better():
    """Of few pairs off center: the means of all rows, a bank, and a ranking among the index."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1500, 20)) * np.arange(1, 21) ** -0.5 + 1
    x, y = (np.tanh(z @ rng.normal(size=(20, d)) / 3) + 0.1 * rng.normal(size=(1500, d)) for d in (40, 30))
    beside = (x[500:1000], y[1000:])
    scores = {
        name: np.mean(
            [
                rl.Translator("retrieval").fit(x[a : a + 40], y[a : a + 40], **given).score(x[200:500], y[200:500])
                for a in range(0, 120, 40)
            ]
        )
        for name, given in {"alone": {}, "unlabeled": {"unlabeled": beside}}.items()
    }
    assert scores["unlabeled"] > scores["alone"]


def test_only_the_bank_of_unlabeled_rows_is_kept(rows, tmp_path):
    x, y = rows
    t = rl.Translator("retrieval").fit(x[:60], y[:60], unlabeled=(x[100:200], y[200:]))
    np.testing.assert_array_equal(t.choice_.bank.given, x[100:200])
    t.save(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(rl.load(tmp_path / "t.safetensors").transform(x), t.transform(x))
    spaces = rl.Translator("retrieval").fit(
        x[:60], y[:60], unlabeled=(rl.Space(x[100:200]), None), index=rl.Space(y[200:])
    )
    np.testing.assert_array_equal(spaces.transform(x), t.transform(x))


def test_the_bias_of_a_frozen_index_is_made_linear_by_ridge(rows):
    x, y = rows
    p, unit = Pairs.of(x, y).normalized("l2"), unit_norm(y)
    ratio = LikelihoodPath.of(p.summary).at(1.0, 1.0)
    spread = np.trace(np.cov(unit[:200].T, bias=True)) * 200 / unit.shape[1]
    line = Ridge(frozen_target.SLOPE_PENALTY * spread).fit(unit[:200], ratio.target_vectors(unit[:200])[:, -1])
    found = frozen_target.likelihood(p, y[:200], 1.0)
    queries = unit_norm(x) @ found.matrix + found.offset
    product = (
        (ratio.query_vectors(unit_norm(x))[:, :-1])
        @ (ratio.target_vectors(unit) - ratio.target_vectors(unit[:1])).T[:-1]
    )
    expected = product + unit @ line.coef_ - unit[0] @ line.coef_
    np.testing.assert_allclose(queries @ (unit - unit[:1]).T, expected, atol=1e-6)


@pytest.mark.parametrize("frozen", [False, True])
def test_an_index_is_ranked_among(rows, frozen):
    x, y = rows
    t = rl.Translator("retrieval", frozen_target=frozen).fit(x[:60], y[:60], index=y)
    assert len(t.pairs_.other_targets) == 340
    assert t.score(x[100:], y[100:]) > 0.3


@pytest.mark.parametrize(
    ("settings", "given", "error", "says"),
    [
        ({"goal": "vectors"}, {"index": np.ones((5, 8))}, ValueError, 'index was given, and only goal="retrieval"'),
        ({"goal": "stitching"}, {"unlabeled": (None, None)}, ValueError, "unlabeled was given"),
        (
            {"goal": "retrieval"},
            {"index": np.ones((5, 3))},
            ValueError,
            r"index has shape \(5, 3\): expected 8 columns",
        ),
        ({"goal": "retrieval"}, {"unlabeled": (np.ones((5, 3)), None)}, ValueError, r"unlabeled\[0\].*expected 10"),
        ({"goal": "retrieval"}, {"unlabeled": (None, np.ones((5, 3)))}, ValueError, r"unlabeled\[1\].*of the target"),
        ({"goal": "retrieval"}, {"unlabeled": np.ones((5, 10))}, TypeError, "unlabeled is a ndarray: expected"),
    ],
)
def test_other_rows_beside_the_pairs_are_refused(rows, settings, given, error, says):
    x, y = rows
    with pytest.raises(error, match=says):
        rl.Translator(**settings).fit(x, y, **given)


def test_a_rule_that_is_only_luckier_gives_way_to_canonical_queries(rng):
    every = [*frozen_target.RULES, *frozen_target.CANONICAL]
    known = {rule: frozen_target.FrozenChoice("l2", 100, None, rule) for rule in every}
    base, noise = rng.random(100), 0.01 * rng.normal(size=100)
    ranks = dict.fromkeys(known.values(), base)
    lucky, sure = known["orthogonal"], known["ridge"]
    ranks[lucky], ranks[sure] = base + noise - noise.mean() + 0.0003, base + noise + 0.1
    scores = frozen_target._cautious(ranks, 100)
    canonical = max(scores[known[rule]] for rule in frozen_target.CANONICAL)
    assert scores[lucky] < canonical < scores[sure]


def test_a_choice_that_is_only_luckier_gives_way_to_the_expected_one(rng):
    name, penalty = retrieval.EXPECTED
    expected, lucky, sure = (
        retrieval.RankingChoice(name, 100, None, share * penalty, share * penalty, 0.5) for share in (0.5, 1.0, 2.0)
    )
    base, noise = rng.random(100), 0.01 * rng.normal(size=100)
    ranks = {expected: base, lucky: base + noise - noise.mean() + 0.0003, sure: base + noise + 0.1}
    scores = retrieval._cautious(ranks, 0.5, 0.5, 100)
    assert scores[lucky] < scores[expected] < scores[sure]
    assert scores[expected] == pytest.approx(base.mean())
    assert retrieval._cautious(ranks, 0.3, 0.5, 100)[lucky] > base.mean()  # where the expected one is not among them


def test_where_the_expected_choice_finds_nearly_all_others_must_win_by_more(rng):
    name, penalty = retrieval.EXPECTED
    expected, other = (retrieval.RankingChoice(name, 100, None, p, p, 0.5) for p in (penalty, 2 * penalty))
    noise = 0.01 * rng.normal(size=100)
    noise += 0.75 * np.std(noise) / 10 - noise.mean()
    for level, wins in ((0.5, True), (0.98, False)):
        base = np.full(100, level)
        scores = retrieval._cautious({expected: base, other: base + noise}, 1.0, 0.5, 100)
        assert (scores[other] > scores[expected]) is wins


@pytest.mark.parametrize(("expected", "weight"), [(0.25, 0.25), (0.5, 0.5), (0.5, 0.9)])
def test_the_expected_choice_takes_the_bank_with_the_expected_weight(rng, expected, weight):
    name, penalty = retrieval.EXPECTED
    known = {w: retrieval.RankingChoice(name, 100, None, penalty, penalty, w) for w in (0.0, 0.25, 0.5)}
    ranks = {choice: rng.random(100) for choice in known.values()}
    scores = retrieval._cautious(ranks, 1.0, weight, 100)
    assert [w for w, choice in known.items() if scores[choice] == pytest.approx(np.mean(ranks[choice]))] == [expected]


def test_the_ratio_is_that_of_two_normal_densities(rng):
    """log p(x, y) − log p(x) − log p(y), but for a constant, with the covariances of the pairs."""
    y = rng.normal(size=(500, 3))
    x = y @ rng.normal(size=(3, 3)) + rng.normal(size=(500, 3))
    both = np.concatenate([x - x.mean(axis=0), y - y.mean(axis=0)], axis=1)
    joint = np.linalg.inv(both.T @ both / len(both))
    alone = [np.linalg.inv(half.T @ half / len(half)) for half in (both[:, :3], both[:, 3:])]
    pairs = np.stack([np.concatenate([a, b]) for a in both[:20, :3] for b in both[:20, 3:]])
    quadratic = [
        np.sum(z @ inverse * z, axis=1)
        for z, inverse in ((pairs[:, :3], alone[0]), (pairs[:, 3:], alone[1]), (pairs, joint))
    ]
    expected = (quadratic[0] + quadratic[1] - quadratic[2]) / 2
    found = LikelihoodPath.of(summarize(x, y)).at(0.0, 0.0).log_ratios(x[:20], y[:20]).ravel()
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-8)


def test_what_is_given_up_early_would_not_have_been_chosen(monkeypatch):
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(400, 20)) * np.arange(1, 21) ** -0.5
    x, y = (latent @ rng.normal(size=(20, d)) + 0.5 * rng.normal(size=(400, d)) for d in (30, 40))
    early = [rl.Translator("retrieval", frozen_target=frozen).fit(x, y) for frozen in (False, True)]
    for goal in (frozen_target, retrieval):
        monkeypatch.setattr(goal, "MIN_SEEN", 10**9)
    late = [rl.Translator("retrieval", frozen_target=frozen).fit(x, y) for frozen in (False, True)]
    assert [t.chosen_ for t in early] == [t.chosen_ for t in late]


def test_only_a_clear_difference_is_hopeless(rng):
    best = rng.uniform(size=200)
    assert goals.clearly_worse(best - 0.1, best)
    assert not goals.clearly_worse(best + rng.normal(size=200), best)
