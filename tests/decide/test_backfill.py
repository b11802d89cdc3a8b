import numpy as np
import pytest
from scipy.stats import spearmanr

import relatent as rl
from relatent.decide import Backfill, ExpectedError, backfill_order

RNG = np.random.default_rng(9)
TURN = np.linalg.qr(RNG.normal(size=(10, 10)))[0]


def items(n):
    """Two kinds of items, of which the second is translated badly."""
    kind = RNG.random(n) < 0.3
    x = RNG.normal(size=(n, 10)) + 4 * np.where(kind[:, None], np.eye(10)[0], np.eye(10)[1])
    return x, x @ TURN + np.where(kind, 3.0, 0.1)[:, None] * RNG.normal(size=(n, 10)), kind


def test_errors_are_foreseen_where_anchors_were_translated_badly():
    x, y, _ = items(400)
    expected = ExpectedError.fit(x, y, rl.Translator(map="ridge"))
    new, truth, kind = items(300)
    t = rl.Translator(map="ridge").fit(x, y)
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (t.transform(new), truth)]
    error = 1 - np.sum(unit[0] * unit[1], axis=1)
    assert spearmanr(expected.predict(new), error)[0] > 0.5
    assert expected.predict(new)[kind].mean() > 3 * expected.predict(new)[~kind].mean()


def test_an_anchor_does_not_foresee_itself():
    x, y, _ = items(200)
    noise = RNG.normal(size=y.shape) * 5
    with pytest.warns(UserWarning, match="no relation"):
        foreseen = ExpectedError.fit(x, noise, rl.Translator(map="ridge"))
    assert abs(spearmanr(foreseen.predict(items(200)[0]), foreseen.errors)[0]) < 0.3


def test_rows_are_ordered_by_error_and_use():
    plan = backfill_order(np.asarray([0.1, 0.3, 0.2]), [0, 0, 9])
    assert plan.rows.tolist() == [2, 1, 0]
    np.testing.assert_allclose(plan.worth, [2.0, 0.3, 0.1])


@pytest.mark.parametrize(("left", "rows"), [(0.0, 4), (0.1, 3), (0.2, 2), (0.5, 1), (0.99, 1)])
def test_it_stops_when_little_is_left(left, rows):
    assert Backfill(np.arange(4), np.asarray([6.0, 2.0, 1.0, 1.0])).stop(left) == rows


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ExpectedError.fit(np.eye(20), np.eye(20)), "at least 50"),
        (lambda: backfill_order(np.ones(3), [1, 2]), "one count per error"),
        (lambda: backfill_order(np.ones(2), [-1, 2]), "negative"),
        (lambda: backfill_order(np.ones(2)).stop(1.0), "less than 1"),
    ],
)
def test_what_means_nothing_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
