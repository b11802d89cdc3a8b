import json
import warnings

import numpy as np
import pytest

import relatent as rl
from relatent.evaluate import compare as measured
from relatent.evaluate import pairwise
from relatent.evaluate.comparison import ANCHORS, MEASURES


@pytest.fixture
def pair(rng):
    shared = rng.normal(size=(150, 4))
    return shared + 0.3 * rng.normal(size=(150, 4)), shared @ rng.normal(size=(4, 6)) + 0.3 * rng.normal(size=(150, 6))


ALONE = {
    "cka": rl.evaluate.cka,
    "procrustes_angle": rl.evaluate.procrustes,
    "procrustes_squared": lambda x, y: rl.evaluate.procrustes(x, y, distance="squared"),
    "whitened_procrustes": rl.evaluate.whitened_procrustes,
    "permutation_angle": rl.evaluate.permutation_angle,
    "cca": rl.evaluate.cca,
    "svcca": rl.evaluate.svcca,
    "pwcca": rl.evaluate.pwcca,
    "predictivity": rl.evaluate.predictivity,
    "gulp": rl.evaluate.gulp,
    "procrustes_bound": rl.evaluate.procrustes_bound,
    "kernel_cka": rl.evaluate.kernel_cka,
    "rsa": rl.evaluate.rsa,
    "distance_correlation": rl.evaluate.distance_correlation,
    "mutual_knn": rl.evaluate.mutual_knn,
    "cknna": rl.evaluate.cknna,
}


def test_every_score_is_that_of_the_measure_alone(xp, pair):
    scores = rl.compare(*map(xp, pair))
    assert [s.name for s in scores] == list(MEASURES)
    for name, measure in ALONE.items():
        assert scores[name].value == pytest.approx(float(measure(*pair))), name


@pytest.mark.parametrize("name", ALONE)
def test_the_null_is_the_mean_over_shuffled_rows(rng, pair, name):
    x, y = pair
    scores = rl.compare(x, y, permutations=30)
    shuffled = [float(ALONE[name](x, y[rng.permutation(len(y))])) for _ in range(30)]
    assert scores[name].null == pytest.approx(np.mean(shuffled), abs=4 * np.std(shuffled) / 30**0.5 + 1e-3)
    assert scores[name].p_value == pytest.approx(1 / 31)


def test_a_true_pairing_does_not_warn_and_beats_its_null(pair):
    for score in rl.compare(*pair):
        assert (score.value > score.null) is score.measure.larger_is_closer
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
    scores = rl.compare(x, y, max_pairwise_rows=100, permutations=20)
    assert {s.rows for s in scores} == {500, 100}
    assert scores["cca"].rows == 500
    assert scores["rsa"].value == pytest.approx(rl.evaluate.rsa(x, y, max_rows=100))


def test_same_seed_same_table(pair):
    assert rl.compare(*pair, seed=4).to_dict() == rl.compare(*pair, seed=4).to_dict()
    assert rl.compare(*pair, seed=4).to_dict() != rl.compare(*pair, seed=5).to_dict()


def test_the_table_is_text_and_json(pair):
    scores = rl.compare(*pair)
    text = str(scores)
    for name, measure in MEASURES.items():
        assert name in text
        assert measure.unchanged_by.split(",")[0] in text
    assert "150 parallel rows; null: 20 shuffled pairings, seed 0" in text
    assert max(map(len, text.splitlines())) <= 120
    plain = json.loads(json.dumps(scores.to_dict()))
    assert plain["scores"][0]["name"] == "cka"
    with pytest.raises(KeyError, match="There are: cka"):
        _ = scores["CKA"]


MOVES = {
    "rotation": lambda y, q: y @ q,
    "permutation": lambda y, q: y[:, [3, 0, 5, 1, 2, 4]],
    "one scale": lambda y, q: 2 * y,
    "offset": lambda y, q: y + 3,
    "affine": lambda y, q: y @ np.diag([1, 2, 3, 4, 5, 6.0]) @ q + 1,
}


@pytest.mark.parametrize("move", MOVES)
def test_a_score_is_unchanged_by_what_its_row_names_and_by_nothing_else(pair, orthogonal, move):
    x, y = pair
    before, after = rl.compare(x, y), rl.compare(x, MOVES[move](y, orthogonal(6)))
    for score in before:
        said = score.measure.unchanged_by
        promised = said.endswith(("affine map", "of y")) or (move in said and "affine" not in said)
        promised |= move == "permutation" and "rotation" in said
        if "of x" in said:  # predictivity: of y only what keeps the shares of variance
            promised = move != "affine"
        assert (after[score.name].value == pytest.approx(score.value)) is promised, score.name


def test_no_p_value_is_below_what_the_shuffles_can_show(pair):
    few, many = (rl.compare(*pair, permutations=n) for n in (9, 39))
    assert (few["cka"].p_value, many["cka"].p_value) == (0.1, 0.025)
    assert "≤0.100" in str(few)
    assert "≤0.025" in str(many)
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="no better than shuffled"):
        unrelated = rl.compare(*rng.normal(size=(2, 100, 3)), permutations=9)
    for score in unrelated:
        assert (f"≤{score.p_value:.3f}" in unrelated._p(score)) is (score.p_value == 0.1)


def test_the_table_is_a_data_frame_and_html(pair):
    scores = rl.compare(*pair)
    frame = scores.to_pandas()
    assert frame["name"].tolist() == list(MEASURES)
    assert frame["value"].tolist() == [s.value for s in scores]
    assert scores._repr_html_().count("<tr>") == 1 + len(MEASURES)


def test_spaces_are_joined_on_keys_and_their_rows_drawn_by_the_seed(spaces):
    old, new = spaces
    x, y = rl.parallel(old, new)
    assert rl.compare(old, new, permutations=5).to_dict() == rl.compare(x, y, permutations=5).to_dict()
    few = rl.compare(old, new, max_rows=100, permutations=5)
    assert (few.n, few.permutations) == (100, 5)
    assert few.to_dict() == rl.compare(old, new, max_rows=100, permutations=5).to_dict()
    assert few["cka"].value != rl.compare(old, new, max_rows=100, permutations=5, seed=1)["cka"].value
    assert np.isclose(few["cka"].value, 1)


def test_only_the_rows_that_are_drawn_are_read(tmp_path, spaces, monkeypatch):
    for name, space in zip("ab", spaces, strict=True):
        rl.write_space(space, tmp_path / f"{name}.parquet")
    lazy = [rl.read_space(tmp_path / f"{name}.parquet") for name in "ab"]
    monkeypatch.setattr(rl.Space, "vectors", property(lambda _: pytest.fail("all rows were read")))
    assert rl.compare(*lazy, max_rows=50, permutations=2).n == 50


def test_stages_are_shown_with_their_time_when_wanted(spaces, capsys):
    rl.compare(*spaces, max_rows=50, permutations=2, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    for words in ("joining keys", "reading 50 rows", "linear measures of 50 rows", "pairwise measures of 50", " s"):
        assert words in shown.err
    rl.compare(*spaces, max_rows=50, permutations=2)
    assert capsys.readouterr().err == ""


def test_relative_similarity_uses_half_of_few_rows_as_anchors(pair, rng):
    """Of 150 rows half are anchors; every draw of them says about the same."""
    x, y = pair
    assert len(x) // 2 < ANCHORS
    drawn = [float(rl.evaluate.relative_similarity(x, y, rng.choice(150, 75, replace=False))) for _ in range(20)]
    assert rl.compare(x, y)["relative_similarity"].value == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn))


def test_bad_input(pair):
    x, y = pair
    with pytest.raises(ValueError, match="x has 150 rows and y has 149 rows"):
        rl.compare(x, y[1:])
    with pytest.raises(ValueError, match="x has 150 equal rows"):
        rl.compare(np.ones_like(x), y)
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        rl.compare(x, np.where(y > 2, np.nan, y))
    with pytest.raises(ValueError, match=r"149 neighbors were asked for among 149 rows.*ask for at most 148"):
        rl.compare(x, y, k=149)
    with pytest.raises(ValueError, match="permutations is 0"):
        rl.compare(x, y, permutations=0)
    with pytest.raises(ValueError, match="max_rows is 1"):
        rl.compare(x, y, max_pairwise_rows=1)


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
