import json
import warnings

import numpy as np
import pytest

import relatent as rl
from relatent.evaluate import compare as measured
from relatent.evaluate import pairwise
from relatent.evaluate.readings import READINGS


@pytest.fixture
def pair(rng):
    shared = rng.normal(size=(150, 4))
    return shared + 0.3 * rng.normal(size=(150, 4)), shared @ rng.normal(size=(4, 6)) + 0.3 * rng.normal(size=(150, 6))


ALONE = {
    "cka": rl.evaluate.cka,
    "procrustes_angle": rl.evaluate.procrustes,
    "procrustes_squared": lambda x, y: rl.evaluate.procrustes(x, y, distance="squared"),
    "cca": rl.evaluate.cca,
    "svcca": rl.evaluate.svcca,
    "pwcca": rl.evaluate.pwcca,
    "predictivity": rl.evaluate.predictivity,
    "kernel_cka": rl.evaluate.kernel_cka,
    "rsa": rl.evaluate.rsa,
    "distance_correlation": rl.evaluate.distance_correlation,
    "mutual_knn": rl.evaluate.mutual_knn,
    "cknna": rl.evaluate.cknna,
}


def test_every_score_is_what_the_measure_says_alone(xp, pair):
    scores = rl.compare(*map(xp, pair))
    assert [s.name for s in scores] == list(READINGS)
    for name, measure in ALONE.items():
        assert scores[name].value == pytest.approx(float(measure(*pair))), name


@pytest.mark.parametrize("name", ALONE)
def test_the_null_is_what_the_measure_says_of_shuffled_rows(rng, pair, name):
    x, y = pair
    scores = rl.compare(x, y, permutations=30)
    shuffled = [float(ALONE[name](x, y[rng.permutation(len(y))])) for _ in range(30)]
    assert scores[name].null == pytest.approx(np.mean(shuffled), abs=4 * np.std(shuffled) / 30**0.5 + 1e-3)
    assert scores[name].p_value == pytest.approx(1 / 31)


def test_a_true_pairing_does_not_warn_and_beats_its_null(pair):
    for score in rl.compare(*pair):
        assert (score.value > score.null) is score.reading.larger_is_closer
        assert score.p_value < 0.05


def test_a_shuffled_pairing_is_told(rng, pair):
    x, y = pair
    with pytest.warns(UserWarning, match=r"no better than shuffled ones.*Join the two spaces on keys"):
        scores = rl.compare(x, y[rng.permutation(len(y))])
    assert np.mean([s.p_value > 0.05 for s in scores]) > 0.5


@pytest.mark.parametrize("mistake", ["reversed", "sorted", "off by one"])
def test_usual_mistakes_of_pairing_are_told(pair, mistake):
    x, y = pair
    wrong = {"reversed": y[::-1], "sorted": y[np.argsort(y[:, 0])], "off by one": np.roll(y, 1, axis=0)}[mistake]
    with pytest.warns(UserWarning, match="row i of x and row i of y do not seem to mean the same"):
        rl.compare(x, wrong)


def test_the_warning_is_rarely_false(rng):
    """Even spaces that share little are recognised as paired."""
    for _ in range(5):
        x = rng.normal(size=(300, 10))
        y = 0.5 * x + rng.normal(size=x.shape)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rl.compare(x, y)


def test_too_few_rows_are_told(rng):
    x = rng.normal(size=(30, 40))
    with pytest.warns(UserWarning, match="30 rows are too few for 29 \\+ 29 coordinates"):
        scores = rl.compare(x, x + 0.1 * rng.normal(size=x.shape))
    assert scores["cca"].null == pytest.approx(1)  # the null says so too


def test_rows_are_sampled_only_where_rows_meet_rows(rng):
    x = rng.normal(size=(500, 3))
    y = x + 0.5 * rng.normal(size=x.shape)
    scores = rl.compare(x, y, max_rows=100, permutations=20)
    assert {s.rows for s in scores} == {500, 100}
    assert scores["cca"].rows == 500
    assert scores["rsa"].value == pytest.approx(rl.evaluate.rsa(x, y, max_rows=100))


def test_same_seed_same_table(pair):
    assert rl.compare(*pair, seed=4).to_dict() == rl.compare(*pair, seed=4).to_dict()
    assert rl.compare(*pair, seed=4).to_dict() != rl.compare(*pair, seed=5).to_dict()


def test_the_table_is_text_and_json(pair):
    scores = rl.compare(*pair)
    text = str(scores)
    for name, reading in READINGS.items():
        assert name in text
        assert reading.unchanged_by.split(",")[0] in text
    assert "150 parallel rows; null: 20 shuffled pairings, seed 0" in text
    assert max(map(len, text.splitlines())) <= 120
    plain = json.loads(json.dumps(scores.to_dict()))
    assert plain["scores"][0]["name"] == "cka"
    with pytest.raises(KeyError, match="There are: cka"):
        _ = scores["CKA"]


def test_the_readings_are_kept(pair, orthogonal):
    """What a reading promises to leave a score unchanged does."""
    x, y = pair
    before = rl.compare(x, y)
    moved = rl.compare(x, 2 * y @ orthogonal(6) + 3)
    stretched = rl.compare(x, y @ (np.diag([1, 2, 3, 4, 5, 6.0]) @ orthogonal(6)))
    for score in before:
        if "offset" in score.reading.unchanged_by:
            assert moved[score.name].value == pytest.approx(score.value), score.name
        elif "affine" not in score.reading.unchanged_by:
            assert moved[score.name].value != pytest.approx(score.value), score.name
        if score.name in ("cca", "pwcca"):
            assert stretched[score.name].value == pytest.approx(score.value), score.name
        else:
            assert stretched[score.name].value != pytest.approx(score.value), score.name


def test_bad_input(pair):
    x, y = pair
    with pytest.raises(ValueError, match="x has 150 rows and y has 149 rows"):
        rl.compare(x, y[1:])
    with pytest.raises(ValueError, match="x has 150 equal rows"):
        rl.compare(np.ones_like(x), y)
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        rl.compare(x, np.where(y > 2, np.nan, y))
    with pytest.raises(ValueError, match="149 neighbours were asked for among 149 rows"):
        rl.compare(x, y, k=149)
    with pytest.raises(ValueError, match="permutations is 0"):
        rl.compare(x, y, permutations=0)
    with pytest.raises(ValueError, match="max_rows is 1"):
        rl.compare(x, y, max_rows=1)


def test_permuting_a_relation_is_permuting_its_rows(rng):
    x, order = rng.normal(size=(30, 3)), rng.permutation(30)
    for relation in (
        pairwise.gaussian_relation,
        pairwise.rank_relation,
        lambda a: pairwise.neighbor_relation(a, 4).toarray(),
    ):
        assert np.allclose(pairwise.permuted(relation(x), order), relation(x[order]))


def test_the_public_name_is_the_function():
    assert rl.compare is measured
