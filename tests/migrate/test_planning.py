"""Planning: what it would take, whether to do it, and nothing left behind."""

import numpy as np
import pytest
from tests.migrate.steps import DIM, NEW_DIM, ROWS, contents, items_of, space_of

import relatent as rl
from relatent.decide import Cost, Relevance
from relatent.migrate import plan_migration
from relatent.migrate.plan import FEW_ROWS, MigrationPlan, Rates
from relatent.stores import Field, Shard, StoreError, open_store

pytestmark = pytest.mark.stores

N = 600


@pytest.fixture(scope="module")
def sample():
    """Items that the translator was not fitted on, and what each should find: its neighbor under the old model."""
    items = items_of([f"held out {i}" for i in range(N)], seed=11)
    near = rl.evaluate.nearest(items.vectors, items.vectors, 1, exclude_self=True).indices[:, 0]
    return (space_of(items), space_of(items, new=True)), Relevance(items.keys, [items.keys[i] for i in near])


def test_a_plan_counts_measures_and_leaves_nothing(task):
    before = contents(task.url, "served", None)
    plan = plan_migration(task.translator, task.url)
    assert (plan.rows, plan.served.dim, plan.new.dim) == (ROWS, DIM, NEW_DIM)
    assert plan.rates.rows == ROWS
    rates = plan.rates
    assert min(rates.scan, rates.translate, rates.copy) > 0
    assert plan.seconds == pytest.approx(ROWS / rates.copy + (ROWS / rates.scan if rates.read_again else 0))
    with open_store(task.url) as store:
        assert rates.read_again == (store.state(Shard()) is None)
    assert plan.bytes(plan.new)[0] == ROWS * NEW_DIM * 4
    assert (plan.verdict, plan.recommended, plan.decision) == (None, None, "no verdict")
    assert "No held-out pairs were given" in str(plan)
    assert contents(task.url, "served", None) == before
    with open_store(task.url) as store:
        assert store.new is None


def test_read_only_writes_nothing(light, monkeypatch):
    with open_store(light.url) as store:
        monkeypatch.setattr(type(store), "add", None)
        monkeypatch.setattr(type(store), "write", None)
    plan = plan_migration(light.translator, light.url, trial=False)
    assert plan.rates.copy is None
    assert "Writing was not measured" in str(plan)


def test_a_trial_that_was_killed_is_cleaned_up(light):
    with open_store(light.url) as store:
        store.add(Field("left", NEW_DIM, provenance={"trial": True}))
    assert plan_migration(light.translator, light.url).rates.copy is not None
    with open_store(light.url) as store:
        assert store.new is None
        store.add(Field("left", NEW_DIM, provenance={"trial": True}))
    assert light.apply().rows == ROWS


def test_a_migration_that_is_under_way_is_not_touched(light):
    light.apply()
    once = contents(light.url)
    assert plan_migration(light.translator, light.url).rates.copy is None
    assert contents(light.url) == once


def test_judged_pairs_give_a_verdict(light, sample):
    spaces, relevant = sample
    plan = plan_migration(light.translator, light.url, sample=spaces, relevant=relevant)
    assert (plan.decision, plan.recommended) == ("GO", "translate")
    assert "GO: translate." in str(plan)
    assert plan.to_dict()["evaluation"]["recommended"] == "translate"


def test_a_translation_that_would_lose_is_a_no_go(light, sample, tmp_path):
    """A translator of rank one finds nothing; staying is recommended."""
    (old, new), relevant = sample
    rl.Translator(map="low_rank", rank=1).fit(space_of(light.items), space_of(light.items, new=True)).save(
        tmp_path / "bad.safetensors"
    )
    plan = plan_migration(tmp_path / "bad.safetensors", light.url, sample=(old, new), relevant=relevant)
    assert (plan.decision, plan.recommended) == ("NO-GO", "stay")


def test_both_sides_are_evaluated_as_they_will_be_served(light, sample, tmp_path):
    spaces, relevant = sample
    rl.Translator("retrieval").fit(space_of(light.items, new=True), space_of(light.items)).save(
        tmp_path / "b.safetensors"
    )
    plan = plan_migration(tmp_path / "b.safetensors", light.url, sample=spaces[::-1], relevant=relevant)
    assert plan.new.metric == "inner"
    assert plan.decision == "GO"
    assert "Queries that were not translated get wrong answers" in " ".join(str(plan).split())


def of_rows(rows, **changes):
    given = {
        "store": "a store",
        "rows": rows,
        "served": Field("old", 384),
        "new": Field("new", 768, "float16"),
        "translator": "hash",
        "rates": Rates(1000, 1e4, 1e5, 2e4),
        "advice": "",
        "verdict": None,
        "cost": None,
        "texts": True,
    }
    return MigrationPlan(**(given | changes))


@pytest.mark.parametrize(
    ("rows", "changes", "recommended", "says"),
    [
        (10**6, {"cost": Cost(10**6, 500)}, "re-embed", "re-embedding is right"),
        (10**6, {"cost": Cost(10**6, 5)}, None, "1,000,000 rows take 55.6 hours"),
        (10**6, {}, None, "re-embedding is right"),
        (10**6, {"texts": False}, None, "not possible without the texts"),
        (2 * FEW_ROWS, {"cost": Cost(2 * FEW_ROWS, 10**6, price_per_million=1)}, None, "cost 20.00"),
        (2 * FEW_ROWS, {}, None, "Give the speed or the price of embedding"),
    ],
)
def test_re_embedding_is_recommended_where_it_is_right(rows, changes, recommended, says):
    plan = of_rows(rows, **changes)
    assert plan.recommended == recommended
    assert plan.decision == ("NO-GO" if recommended else "no verdict")
    said = " ".join(str(plan).split())
    assert says in said
    assert ("is right" in said) is (rows < FEW_ROWS and says != "not possible without the texts" and "55" not in says)


def test_a_plan_says_whether_rows_were_counted():
    assert "rows, estimated" in str(of_rows(10**7, rows_estimated=True))
    assert "estimated" not in str(of_rows(10**7))
    assert [of_rows(1, rows_estimated=one).to_dict()["rows_estimated"] for one in (True, False)] == [True, False]


def test_sizes_and_times_are_those_of_the_rows():
    plan = of_rows(10**9)
    assert plan.bytes(plan.served)[0] == 10**9 * 384 * 4
    assert plan.bytes(plan.new)[0] == 10**9 * 768 * 2
    assert plan.seconds == pytest.approx(10**9 * (1 / 1e4 + 1 / 2e4))
    assert "1.54 TB" in str(plan)
    assert "about 41.7 hours" in str(plan)


@pytest.mark.parametrize(
    ("copy", "read_again", "each"),
    [(2e4, True, 1.5e-4), (2e4, False, 0.5e-4), (None, False, 1.1e-4), (None, True, 2.1e-4)],
)
def test_a_source_that_tells_of_changes_is_read_once(copy, read_again, each):
    assert Rates(1000, 1e4, 1e5, copy, read_again).seconds(10) == pytest.approx(10 * each, rel=1e-9)
    assert Rates(1000, 4.0, 0.5, None, False).seconds(8) == 8 * (1 / 4 + 1 / 0.5)


def test_unreadable_rows_do_not_stop_a_plan(light):
    light.case.spoil(light.url, light.items.keys[0])
    plan = plan_migration(light.translator, light.url)
    assert plan.rows == ROWS
    assert np.isfinite(plan.seconds)


def test_an_empty_store_has_nothing_to_plan(light, tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(StoreError, match="nothing to migrate"):
        plan_migration(light.translator, light.case.create(tmp_path / "b", items_of([])))
