"""The rule on tables that force each of its branches."""

import numpy as np
import pytest

from relatent.decide import Cost, OptionScores, Rule, verdict_of
from relatent.decide.options import OPTIONS

CHEAP = Cost(1_000_000, rows_per_second=1_000)
DEAR = Cost(1_000_000_000, rows_per_second=1_000)


def scored(n=1_000, spread=0.1, slices=1, **above_stay):
    """Scores of n queries: staying around 0.5, the others above it by exactly so much on average, with noise.

    Several differences are one for each slice of equal size.
    """
    rng = np.random.default_rng(1)
    stay = rng.uniform(0.3, 0.7, n)
    scores = {"stay": stay}
    for option, shift in above_stay.items():
        noise = rng.normal(scale=spread, size=(slices, n // slices))
        shifted = noise - noise.mean(axis=1, keepdims=True) + np.reshape(shift, (-1, 1))
        scores[{"reembed": "re-embed", "rerank_old": "rerank-old"}.get(option, option)] = stay + shifted.ravel()
    return OptionScores(
        {name: np.tile(s[:, None], 3) for name, s in scores.items()}, ("recall", "mrr", "ndcg"), 10, n, 200
    )


@pytest.mark.parametrize(
    ("translate", "rerank", "reembed", "cost", "verdict", "recommended"),
    [
        # Re-embedding has to be allowed, and to pay over the best that is cheaper.
        (0.00, 0.05, 0.10, CHEAP, "NO-GO", "re-embed"),
        (-0.10, -0.05, 0.10, CHEAP, "NO-GO", "re-embed"),
        (0.00, 0.05, 0.10, DEAR, "GO", "rerank"),
        (0.00, 0.05, 0.10, None, "GO", "rerank"),
        (0.10, 0.10, 0.10, CHEAP, "GO", "translate"),
        (0.00, 0.00, 0.00, CHEAP, "GO", "translate"),
        (0.00, 0.10, 0.10, CHEAP, "NO-GO", "re-embed"),
        # Translating may be a little worse, not by the margin.
        (-0.003, 0.00, 0.00, None, "GO", "translate"),
        (-0.012, 0.00, 0.00, None, "NO-GO", "stay"),
        (-0.10, 0.00, 0.10, None, "NO-GO", "stay"),
        # Reranking has to pay for its work, over translating too.
        (0.05, 0.10, 0.20, None, "GO", "rerank"),
        (0.05, 0.055, 0.055, None, "GO", "translate"),
        (-0.10, 0.05, 0.10, None, "GO", "rerank"),
        (-0.10, 0.05, 0.10, DEAR, "GO", "rerank"),
        (-0.10, 0.00, 0.00, DEAR, "NO-GO", "stay"),
        (-0.20, -0.10, -0.05, CHEAP, "NO-GO", "stay"),
    ],
)
def test_each_branch(translate, rerank, reembed, cost, verdict, recommended):
    found = verdict_of(scored(translate=translate, rerank=rerank, reembed=reembed), cost=cost)
    assert (found.decision.verdict, found.decision.recommended) == (verdict, recommended)
    assert found.go is (verdict == "GO")
    assert "\nRule: nDCG@10 decides, by 95 % intervals of paired differences" in str(found)
    assert f"\n{verdict}: {recommended}.\n" in str(found)


def test_the_better_candidates_are_reranked():
    for old, translated, verdict, recommended in ((0.08, 0.05, "NO-GO", "rerank-old"), (0.05, 0.08, "GO", "rerank")):
        found = verdict_of(scored(translate=0.0, rerank_old=old, rerank=translated, reembed=0.1))
        assert (found.decision.verdict, found.decision.recommended) == (verdict, recommended)
        assert f"{recommended} needs {OPTIONS[recommended].needs}." in found.decision.reasons


def test_without_texts_nothing_is_embedded():
    for translate, recommended in ((0.0, "translate"), (-0.1, "stay")):
        scores = scored(translate=translate, rerank=0.1, reembed=0.1)
        assert verdict_of(scores, rule=Rule(texts=False), cost=CHEAP).decision.recommended == recommended


def test_a_gain_that_may_be_a_loss_does_not_pay():
    assert verdict_of(scored(translate=-0.2, rerank=0.02, reembed=0.0)).decision.recommended == "rerank"
    found = verdict_of(scored(n=100, spread=0.3, translate=-0.2, rerank=0.02, reembed=0.0))
    assert found.decision.recommended == "stay"
    assert any("not rerank" in reason and "its standard error" in reason for reason in found.decision.reasons)


@pytest.mark.parametrize(("margin", "go"), [(0.01, False), (0.03, True)])
def test_the_margin_is_what_may_be_lost(margin, go):
    found = verdict_of(scored(translate=-0.015, rerank=0.0, reembed=0.0), rule=Rule(margin))
    assert found.go is go
    assert f"above -{margin:g}" in found.rule


def test_worse_but_surely_within_the_margin_is_not_worse():
    change = verdict_of(scored(translate=-0.005, rerank=0.0, reembed=0.0, spread=0.03)).changes["translate"]["ndcg"]
    assert -0.01 < change.low < change.high < 0
    assert verdict_of(scored(translate=-0.005, rerank=0.0, reembed=0.0, spread=0.03)).go


def test_an_unclear_change_is_no_go_and_reports_the_queries_it_needs():
    found = verdict_of(scored(n=100, spread=0.2, translate=0.0, rerank=0.0, reembed=0.0))
    assert found.decision.recommended == "stay"
    said = next(reason for reason in found.decision.reasons if reason.startswith("not translate"))
    needed = int(said.split("(about ")[1].split()[0].replace(",", ""))
    assert "may be worse by more than 0.01" in said
    half = found.changes["translate"]["ndcg"].value - found.changes["translate"]["ndcg"].low
    assert half * np.sqrt(100 / needed) == pytest.approx(0.01, rel=0.02)  # intervals shrink with the root of n
    assert verdict_of(scored(n=4 * needed, spread=0.2, translate=0.0, rerank=0.0, reembed=0.0)).go


@pytest.mark.parametrize(("queries", "stopped"), [(100, True), (40, False)])
@pytest.mark.parametrize("option", ["translate", "rerank"])
def test_a_large_slice_that_is_clearly_worse_stops_an_option(queries, stopped, option):
    parts = 1_000 // queries
    shift = np.full(parts, 0.05)
    shift[0] = -0.2
    other = {"translate": {"rerank": 0.0}, "rerank": {"translate": -0.1}}[option]
    scores = scored(slices=parts, reembed=0.1, **{option: tuple(shift)}, **other)
    labels = np.repeat([f"part {i}" for i in range(parts)], queries)
    assert verdict_of(scores).decision.recommended == option
    found = verdict_of(scores, slices=labels)
    assert found.decision.recommended == ("stay" if stopped else option)
    assert any(f"not {option}: slice 'part 0'" in reason for reason in found.decision.reasons) is stopped
    assert "part 0" in str(found)


def test_few_queries_give_no_verdict():
    found = verdict_of(scored(n=60, translate=0.1, rerank=0.1, reembed=0.1))
    assert (found.decision.verdict, found.decision.recommended, found.go) == ("no verdict", None, False)
    assert found.decision.reasons == ("60 queries are too few to tell: give at least 100.",)


def overlaps(n=400, **means):
    rng = np.random.default_rng(0)
    scores = {option: np.clip(rng.normal(mean, 0.1, (n, 1)), 0, 1) for option, mean in means.items()}
    return OptionScores({**scores, "re-embed": np.ones((n, 1))}, ("overlap",), 10, n, 200)


@pytest.mark.parametrize(
    ("least", "n", "verdict", "recommended"),
    [
        (None, 400, "no verdict", None),
        (0.5, 400, "GO", "translate"),
        (0.8, 400, "GO", "rerank"),
        (0.95, 400, "NO-GO", "stay"),
        (0.5, 60, "no verdict", None),
    ],
)
def test_overlap_is_a_gate_only_when_asked(least, n, verdict, recommended):
    found = verdict_of(overlaps(n, stay=0.4, translate=0.6, rerank=0.9), rule=Rule(min_overlap=least))
    assert (found.decision.verdict, found.decision.recommended) == (verdict, recommended)
    if least is None:
        assert "what it should find" in found.decision.reasons[0]
        assert "the smallest overlap to accept" in found.decision.reasons[0]


def test_the_cost_of_reembedding():
    cost = Cost(2_000_000, rows_per_second=100, price_per_million=30)
    assert (cost.hours, cost.total) == (pytest.approx(2e6 / 100 / 3600), 60)
    assert cost.allowed
    assert not Cost(2_000_000, rows_per_second=10).allowed
    assert not Cost(2_000_000, price_per_million=60).allowed
    assert Cost(2_000_000, price_per_million=60, budget=120).allowed
    with pytest.raises(ValueError, match="expected at least one row, and a speed or a price"):
        Cost(1_000)
    with pytest.raises(ValueError, match="A speed must be above 0"):
        Cost(1_000, rows_per_second=-1)


@pytest.mark.parametrize(
    ("given", "message"),
    [({"margin": -0.1}, "The margin is -0.1: expected from 0"), ({"min_overlap": 1.5}, "min_overlap is 1.5")],
)
def test_rules_that_cannot_be_meant(given, message):
    with pytest.raises(ValueError, match=message):
        Rule(**given)


def test_one_gate_at_a_time():
    with pytest.raises(ValueError, match="expected one of them"):
        verdict_of(scored(translate=0.0, rerank=0.0, reembed=0.0), rule=Rule(min_overlap=0.5))
