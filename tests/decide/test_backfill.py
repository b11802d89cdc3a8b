import numpy as np
import pytest

import relatent as rl
from relatent.decide import Backfill, backfill_order, plan_backfill

RNG = np.random.default_rng(9)
TURN = np.linalg.qr(RNG.normal(size=(10, 10)))[0]


def items(n):
    """Two kinds of items, of which the second is translated badly."""
    kind = RNG.random(n) < 0.3
    x = RNG.normal(size=(n, 10)) + 4 * np.where(kind[:, None], np.eye(10)[0], np.eye(10)[1])
    return x, x @ TURN + np.where(kind, 3.0, 0.1)[:, None] * RNG.normal(size=(n, 10)), kind


def test_badly_translated_items_come_first(tmp_path):
    x, y, kind = items(1_000)
    keys = [str(i) for i in range(1_000)]
    t = rl.Translator(map="ridge").fit(x[:50], y[:50])
    source, target = rl.Space(x, keys), rl.Space(y[:400], keys[:400])
    report = plan_backfill(t, source, target, tmp_path / "order.parquet")
    order = rl.read_space(tmp_path / "order.parquet")
    confidence = order.others.column("confidence").to_numpy()
    assert report.items == len(order) == 600
    assert np.all(np.diff(confidence) >= 0)
    assert report.confidence == pytest.approx(np.mean(confidence))
    assert np.mean(kind[order.keys.astype(int)[:150]]) > 2 * np.mean(kind)


def test_rows_are_ordered_by_confidence_and_use():
    plan = backfill_order(np.asarray([0.9, 0.7, 0.8]), [0, 0, 9])
    assert plan.rows.tolist() == [2, 1, 0]
    np.testing.assert_allclose(plan.worth, [2.0, 0.3, 0.1])


@pytest.mark.parametrize(("left", "rows"), [(0.0, 4), (0.1, 3), (0.2, 2), (0.5, 1), (0.99, 1)])
def test_it_stops_when_little_is_left(left, rows):
    assert Backfill(np.arange(4), np.asarray([6.0, 2.0, 1.0, 1.0])).stop(left) == rows


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: backfill_order(np.full(2, 1.5)), "not in"),
        (lambda: backfill_order(np.ones(3), [1, 2]), "one count per row"),
        (lambda: backfill_order(np.ones(2), [-1, 2]), "negative"),
        (lambda: backfill_order(np.ones(2)).stop(1.0), "less than 1"),
    ],
)
def test_what_means_nothing_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
