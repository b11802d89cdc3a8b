import numpy as np
import pytest

from relatent.evaluate import bootstrap
from relatent.evaluate.interval import Estimate, _seeded_draws


@pytest.fixture
def fresh_draws(monkeypatch):
    """Draws that are not those of an earlier call."""
    monkeypatch.setattr("relatent.evaluate.interval._seeded_draws", _seeded_draws.__wrapped__)


def test_the_interval_of_a_mean_is_the_normal_one(rng):
    scores = rng.normal(size=4_000)
    e = bootstrap(scores)
    half = 1.96 * scores.std() / 4_000**0.5
    assert e.value == pytest.approx(scores.mean())
    assert e.high - e.value == pytest.approx(half, rel=0.1)
    assert e.value - e.low == pytest.approx(half, rel=0.1)


def test_groups_of_rows_give_the_same_interval(fresh_draws, monkeypatch, rng):
    scores = rng.exponential(size=8_000)
    rows = bootstrap(scores)
    monkeypatch.setattr("relatent.evaluate.interval.GROUPS", 500)
    groups = bootstrap(scores)
    assert groups.value == rows.value
    assert groups.high - groups.low == pytest.approx(rows.high - rows.low, rel=0.15)


@pytest.mark.parametrize("n", [300, 9_000])
def test_draws_that_are_kept_are_those_of_their_seed(rng, n):
    first, second = rng.normal(size=(2, n))
    for scores in (first, second, first):
        assert bootstrap(scores, seed=3) == bootstrap(scores, seed=np.random.default_rng(3))
    assert bootstrap(first, seed=4) != bootstrap(first, seed=3)


def test_blocks_of_draws_do_not_show(fresh_draws, monkeypatch, rng):
    scores = rng.normal(size=300)
    whole = bootstrap(scores, seed=3)
    monkeypatch.setattr("relatent.evaluate.interval.BLOCK_ENTRIES", 1_000)
    assert bootstrap(scores, seed=3).to_dict() == pytest.approx(whole.to_dict())


def test_coverage(rng):
    """An interval of 95 % misses the truth in about one of twenty samples."""
    inside = [(e := bootstrap(rng.normal(size=100), seed=i)).low < 0 < e.high for i in range(300)]
    assert 0.91 < np.mean(inside) < 0.98


def test_pairing_narrows_a_ratio(rng):
    b = rng.uniform(1, 10, size=500)
    a = 0.8 * b + 0.01 * rng.normal(size=500)
    paired = bootstrap(np.stack([a, b], axis=1), lambda m: m[:, 0] / m[:, 1])
    unpaired = bootstrap(np.stack([a, rng.permutation(b)], axis=1), lambda m: m[:, 0] / m[:, 1])
    assert paired.value == pytest.approx(0.8, abs=1e-3)
    assert paired.high - paired.low < 0.1 * (unpaired.high - unpaired.low)


def test_same_seed_same_interval(rng):
    scores = rng.normal(size=50)
    assert bootstrap(scores, seed=1) == bootstrap(scores, seed=1) != bootstrap(scores, seed=2)


def test_an_estimate_is_a_number_and_plain_values():
    e = Estimate(0.25, 0.2, 0.3)
    assert float(e) == 0.25
    assert e.to_dict() == {"value": 0.25, "low": 0.2, "high": 0.3}
