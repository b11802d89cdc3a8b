"""A bank of queries takes hubs down, by a number per item that brute force gives too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import relatent as rl
from relatent.steps import Bank, bias_step
from relatent.translate.likelihood import BankRows, bank_of
from relatent.translate.pairs import Pairs


@pytest.fixture
def bank(rng) -> Bank:
    return bank_of(rng.normal(size=(60, 5)), rng.normal(size=60), weight=0.5)


def correction(bank: Bank, targets: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Score every query with every target, one by one."""
    found = []
    for target, own in zip(targets, bias, strict=True):
        scores = [float(q @ target + offset + own) for q, offset in zip(bank.queries, bank.offsets, strict=True)]
        found.append(bank.weight * np.mean(sorted(scores)[-bank.neighbors :]))
    return np.asarray(found)


def test_the_correction_is_the_weighted_mean_of_the_best_scores(bank, rng):
    targets, bias = rng.normal(size=(30, 5)), rng.normal(size=30)
    np.testing.assert_allclose(bank.correction(targets, bias[:, None])[:, 0], correction(bank, targets, bias))


def test_many_targets_are_taken_in_chunks(bank, rng):
    targets = rng.normal(size=(20_000, 5)).astype(np.float32)
    whole = bias_step(-np.ones(5), bank)(targets)
    parts = [bias_step(-np.ones(5), bank)(targets[rows]) for rows in np.array_split(np.arange(len(targets)), 7)]
    np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-4, atol=1e-4)
    assert whole.dtype == np.float32


@pytest.mark.parametrize(("rows", "neighbors"), [(1, 1), (20, 1), (50, 3), (200, 5), (1000, 5)])
def test_a_small_bank_averages_over_few_neighbors(rows, neighbors):
    assert bank_of(np.zeros((rows, 2)), np.zeros(rows), 0.5).neighbors == neighbors


def test_torch_agrees_and_passes_gradients(bank, rng):
    targets = rng.normal(size=(12, 5))
    ours = bias_step(-np.ones(5), bank)(torch.from_numpy(targets).requires_grad_())
    np.testing.assert_allclose(ours.detach(), bias_step(-np.ones(5), bank)(targets))
    ours[:, -1].sum().backward()


def test_its_rows_are_the_given_ones_or_the_pairs_own(rng):
    x, y = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    pairs, given = Pairs.of(x, y), rng.normal(size=(40, 3))
    np.testing.assert_array_equal(BankRows().of(pairs), x)
    np.testing.assert_array_equal(BankRows(given).of(pairs), given)
    drawn = BankRows(given, size=7).of(pairs)
    assert len(np.unique(drawn, axis=0)) == 7
    assert all(row in given.tolist() for row in drawn.tolist())


# In a translator


def with_hubs(n: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Pairs in clusters, where some items are near every query: CSLS is made for them."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(8, 30))[rng.integers(8, size=n)] + 0.6 * rng.normal(size=(n, 30))
    turns = [np.linalg.qr(rng.normal(size=(30, 30)))[0] for _ in range(2)]
    x, y = (np.maximum(z @ turn + 0.3 * rng.normal(size=(n, 30)) + 0.5, 0) for turn in turns)
    return x, y


@pytest.fixture(scope="module")
def banked() -> tuple[rl.Translator, np.ndarray, np.ndarray]:
    x, y = with_hubs()
    for seed in range(5):
        t = rl.Translator("retrieval", seed=seed).fit(x[:300], y[:300])
        if t.target_map_.bank is not None:
            return t, x, y
    raise AssertionError("No bank was chosen for pairs with hubs.")


def test_the_bias_of_a_fitted_map_is_that_of_brute_force(banked):
    t, x, y = banked
    queries, targets = t.transform(x[:300]), t.transform_target(y[300:400])
    plain = targets.copy()
    plain[:, -1] = (plain[:, :-1] ** 2) @ t.target_map_.bias
    bank = t.target_map_.bank
    scores = queries @ plain.T + bank.offsets[:, None]
    best = np.sort(scores, axis=0)[-bank.neighbors :]
    np.testing.assert_allclose(targets[:, -1], plain[:, -1] - bank.weight * best.mean(axis=0), rtol=1e-8, atol=1e-8)


def test_it_is_saved_and_made_a_layer(banked, tmp_path):
    t, _, y = banked
    t.save(tmp_path / "t.safetensors")
    expected = t.transform_target(y)
    np.testing.assert_array_equal(rl.load(tmp_path / "t.safetensors").transform_target(y), expected)
    layer = rl.nn.Translation(t)
    np.testing.assert_allclose(layer.transform_target(torch.from_numpy(y)), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(layer.to_translator().transform_target(y), expected)
    assert not hasattr(layer.to_translator(), "choice_")


def test_no_bank_keeps_no_row():
    x, y = with_hubs()
    t = rl.Translator("retrieval").fit(x[:300], y[:300], bank_size=0)
    assert t.target_map_.bank is None


def test_vectors_without_a_target_may_be_the_bank():
    x, y = with_hubs()
    own, given = (rl.Translator("retrieval").fit(x[:60], y[:60], bank=b) for b in (None, x[500:]))
    scores = [t.score(x[60:460], y[60:460]) for t in (own, given)]
    assert scores[1] > scores[0]
    np.testing.assert_array_equal(given.choice_.bank.given, x[500:])


@pytest.mark.parametrize(
    ("settings", "given", "says"),
    [
        ({"goal": "vectors"}, {"bank": np.zeros((5, 30))}, 'only goal="retrieval"'),
        ({"goal": "retrieval", "frozen_target": True}, {"bank": np.zeros((5, 30))}, "without a frozen target"),
        ({"goal": "retrieval"}, {"bank": np.zeros((5, 30)), "bank_size": 0}, "bank_size above 0"),
        ({"goal": "retrieval"}, {"bank": np.zeros((5, 3))}, r"\(5, 3\): expected 30 columns"),
        ({"goal": "retrieval"}, {"bank": np.full((5, 30), np.nan)}, "bank"),
        ({"goal": "retrieval"}, {"bank_size": -1}, "bank_size is -1"),
        ({"goal": "retrieval"}, {"bank": np.zeros((0, 30))}, "bank"),
    ],
)
def test_bad_banks_are_refused(settings, given, says):
    x, y = with_hubs(100)
    with pytest.raises(ValueError, match=says):
        rl.Translator(**settings).fit(x, y, **given)
