import json

import numpy as np
import pytest

import relatent as rl
from relatent.monitor import check_drift

RNG = np.random.default_rng(4)
DEVIATIONS = np.linspace(3, 0.5, 20)
TURN = np.linalg.qr(RNG.normal(size=(20, 20)))[0]


def draw(n, shift=0.0):
    return (RNG.normal(size=(n, 20)) + shift * np.r_[1, -1, np.zeros(18)]) * DEVIATIONS + np.linspace(-1, 1, 20)


@pytest.fixture(scope="module")
def fitted():
    x = draw(800)
    return rl.Translator(map="ridge").fit(rl.Space(x), rl.Space(x @ TURN))


@pytest.mark.parametrize("n", [200, 1_000, 3_000])
def test_another_batch_of_the_same_data_is_stable(fitted, n):
    assert [check_drift(fitted, rl.Space(draw(n))).outcome for _ in range(10)] == ["stable"] * 10


@pytest.mark.parametrize(("shift", "outcome"), [(0.3, "drifting"), (3.0, "refit")])
def test_a_shift_is_noticed_and_measured(fitted, shift, outcome):
    found = check_drift(fitted, rl.Space(draw(2_000, shift)))
    moved = shift * np.r_[1, -1, np.zeros(18)] * DEVIATIONS
    expected = np.linalg.norm(moved) / np.linalg.norm(DEVIATIONS)  # random directions see every shift alike
    assert found.shift == pytest.approx(expected, rel=0.35)
    assert found.outcome == outcome


def test_another_model_is_another_space():
    known = [rl.Fingerprint(dim=20, model=name) for name in ("a", "b")]
    x = draw(200)
    t = rl.Translator(map="ridge").fit(rl.Space(x, fingerprint=known[0]), rl.Space(x @ TURN))
    assert check_drift(t, rl.Space(x, fingerprint=known[1])).outcome == "another space"


def test_few_rows_tell_nothing(fitted):
    assert check_drift(fitted, rl.Space(draw(10))).outcome == "too few"


def test_a_worse_translation_is_a_reason_to_refit(fitted, tmp_path):
    log = tmp_path / "log.jsonl"
    x = draw(300)
    first = check_drift(fitted, rl.Space(x), rl.Space(x @ TURN), log=log)
    assert first.outcome == "stable"
    assert first.cosine.value > 0.99
    worse = check_drift(fitted, rl.Space(x), rl.Space(x @ TURN + RNG.normal(size=x.shape)), log=log)
    assert worse.outcome == "refit"
    assert worse.first == first.cosine
    assert [json.loads(line)["outcome"] for line in log.read_text().splitlines()] == ["stable", "refit"]


def test_a_file_that_is_no_log_is_kept(fitted, tmp_path):
    log = tmp_path / "notes.txt"
    log.write_text("mine\n")
    x = draw(300)
    with pytest.raises(ValueError, match="is not an entry"):
        check_drift(fitted, rl.Space(x), rl.Space(x @ TURN), log=log)
    assert log.read_text() == "mine\n"


def test_truth_is_refused_for_a_translator_into_a_shared_space(fitted):
    x = draw(200)
    t = rl.Translator("retrieval").fit(rl.Space(x), rl.Space(x @ TURN))
    with pytest.raises(ValueError, match="maps queries and documents into a shared space"):
        check_drift(t, rl.Space(x), rl.Space(x @ TURN))


def test_a_batch_with_rows_that_are_not_finite_is_not_stable(fitted):
    x = draw(500)
    x[7, 3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in 1 of 500 rows, first in row 7"):
        check_drift(fitted, rl.Space(x, name="monday"))


def test_an_empty_batch_tells_nothing(fitted):
    found = check_drift(fitted, rl.Space(np.empty((0, 20))))
    assert (found.outcome, found.reason) == ("too few", "0 rows tell nothing")
