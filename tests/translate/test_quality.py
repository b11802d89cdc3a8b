import json
from contextlib import contextmanager

import numpy as np
import pytest

import relatent as rl
from relatent.translate import quality
from relatent.translate.quality import LearningCurve, by_odds, to_a_ceiling


def noisy_pairs(n, d=12, noise=0.6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.5
    y = x @ np.random.default_rng(99).normal(size=(d, d)) / d**0.5
    return x, y + noise * y.std() * rng.normal(size=y.shape)


def seen(t, x, y):
    """What fresh items show, the index being their targets."""
    metric = "cosine" if t.target_map_ is None else "inner"
    found = rl.evaluate.retrieval_report(t.transform(x), t.transform_target(y), 10, metric)
    return {"recall@1": found["top1"].value, "recall@10": found["recall"].value, "mrr": found["mrr"].value}


@pytest.mark.parametrize(
    "settings",
    [
        {"goal": "vectors"},
        {"goal": "retrieval"},
        {"goal": "stitching"},
        {"goal": "index"},
        {"goal": "retrieval", "frozen_target": True},
        {"map": "orthogonal", "normalize": "standard"},
    ],
)
def test_what_is_foretold_is_what_fresh_items_show(settings):
    x, y = noisy_pairs(2500)
    t = rl.Translator(**settings).fit(x[:500], y[:500])
    told = t.expected_quality(index=y[500:])
    for measure, value in seen(t, x[500:], y[500:]).items():
        assert told[measure].low <= value <= told[measure].high
        assert abs(told[measure].value - value) < 0.06


def test_the_cosine_is_foretold_where_there_is_one():
    x, y = noisy_pairs(2500)
    vectors = rl.Translator().fit(x[:500], y[:500])
    assert abs(vectors.expected_quality()["cosine"].value - rl.evaluate.mean_cosine(vectors.transform(x), y)) < 0.02
    ratio = rl.Translator(goal="retrieval").fit(x[:500], y[:500])
    with pytest.raises(KeyError, match=r"'cosine' was not estimated\. There are: recall@1"):
        ratio.expected_quality()["cosine"]


def test_intervals_hold_the_truth_as_often_as_they_should():
    held = []
    for seed in range(40):
        x, y = noisy_pairs(1600, d=6, seed=seed)
        t = rl.Translator(map="ridge").fit(x[:100], y[:100])
        told = t.expected_quality(index=y[100:])
        held.append([told[m].low <= v <= told[m].high for m, v in seen(t, x[100:], y[100:]).items()])
    assert np.mean(held) >= 0.9


def test_intervals_are_those_of_agresti_and_coull_widened():
    x, y = noisy_pairs(1400)
    told = rl.Translator(map="ridge").fit(x[:400], y[:400]).expected_quality(index=y[400:])
    n, e = told.queries, told["recall@1"]
    p = (e.value * n + 2) / (n + 4)
    wald = 1.96 * np.sqrt(p * (1 - p) / (n + 4))
    assert (e.high - e.low) / 2 == pytest.approx(np.sqrt(quality.SHARED + n / 2000) * wald, rel=0.1)


def test_a_perfect_score_is_not_certain():
    x, y = noisy_pairs(60, noise=0.0)
    told = rl.Translator(map="affine").fit(x, y).expected_quality()["recall@1"]
    assert told.value == told.high == 1
    assert 0.85 < told.low < 0.99


def test_training_anchors_are_no_distractors():
    x, y = noisy_pairs(400)
    t = rl.Translator(goal="retrieval").fit(x[:200], y[:200])
    with_anchors, without = t.expected_quality(index=y), t.expected_quality(index=y[200:])
    # The 20 targets of a fold stand in for the anchors in the index; where it holds none, there is nothing to replace.
    assert (with_anchors.gallery, without.gallery) == (200 + 20, 200 + 1)
    assert with_anchors["mrr"].value <= without["mrr"].value


def test_a_query_is_ranked_by_what_scores_above_its_own_target():
    """Against counting by hand, fold by fold."""
    x, y = noisy_pairs(360, noise=1.5)
    t = rl.Translator(map="affine").fit(x[:60], y[:60])
    told = t.expected_quality(index=y[60:])
    ranks = np.zeros(60)
    for rest, rows in t.pairs_.folds(10, 0):
        fold = rl.Translator(map="affine").fit(rest.sample.x, rest.sample.y).transform(x[rows])
        gallery = [np.concatenate([y[i : i + 1], y[60:]]) for i in rows]
        cosines = [g @ q / np.linalg.norm(g, axis=1) / np.linalg.norm(q) for g, q in zip(gallery, fold, strict=True)]
        ranks[rows] = [1 + np.sum(c > c[0]) for c in cosines]
    assert ranks.max() > 10
    gain = told["recall@10"].value - np.mean(ranks <= 10)
    assert 0 <= gain < 0.06  # what the learning curve adds
    assert told.queries == 60


def test_unrelated_spaces_promise_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 10)), rng.normal(size=(1400, 10))
    told = rl.Translator().fit(x, y[:400], force=True).expected_quality(index=y)
    assert told["mrr"].value < 0.02
    assert told["recall@10"].low <= 10 / 1040


def test_a_map_that_overfits_is_not_flattered():
    # As many coordinates as anchors: the anchors themselves are fitted exactly, and mean nothing.
    x, y = noisy_pairs(1200, d=100, noise=2.0)
    t = rl.Translator(map="affine").fit(x[:101], y[:101])
    assert rl.evaluate.mrr(t.transform(x[:101]), y[:101]) > 0.99
    assert t.expected_quality(index=y[101:])["mrr"].value < 0.1


def test_streamed_pairs_beyond_the_reservoir_count():
    x, y = noisy_pairs(3000)
    t = rl.Translator().fit(x[:500], y[:500], sample_size=300)
    for rows in np.split(np.arange(500, 2000), 3):
        t.partial_fit(x[rows], y[rows])
    told = t.expected_quality(index=y[2000:])
    assert (told.anchors, told.queries) == (2000, 300)
    assert told["mrr"].low <= seen(t, x[2000:], y[2000:])["mrr"] <= told["mrr"].high


SIZES = (50, 100, 200, 400)


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_a_power_law_is_extrapolated_exactly(power):
    means = np.asarray([[0.9 - k**-power for k in SIZES]])
    gain = to_a_ceiling(np.asarray(SIZES, dtype=float), 400, 1600)(means)
    assert np.isclose(gain[0], 400**-power - 1600**-power)


def test_steady_odds_are_extrapolated_exactly():
    odds = {k: 1 / (1 + (300 / k) ** 1.3) for k in (*SIZES, 1600)}
    gain = by_odds(np.asarray(SIZES, dtype=float), 400, 1600)(np.asarray([[odds[k] for k in SIZES]]))
    assert np.isclose(gain[0], odds[1600] - odds[400])


def test_a_falling_or_flat_curve_promises_no_gain():
    for values in ([0.5] * 4, [0.5, 0.45, 0.4, 0.35]):
        assert LearningCurve("mrr", SIZES, np.tile(values, (30, 1))).gain(400, 800).value == 0


def test_a_gain_lies_between_its_shapes():
    rng = np.random.default_rng(0)
    scores = (rng.random((400, 1)) < [0.3, 0.45, 0.55, 0.62]).astype(float)
    gain = LearningCurve("recall@1", SIZES, scores).gain(400, 800)
    assert 0 < gain.low < gain.value < gain.high < 0.2


def test_the_outlook_holds_what_more_anchors_give():
    x, y = noisy_pairs(4000, d=60, noise=1.0)
    few, many = (rl.Translator(goal="retrieval").fit(x[:k], y[:k]) for k in (150, 300))
    told = few.expected_quality(index=y[1000:]).more(150)
    gain = seen(many, x[1000:], y[1000:])["mrr"] - seen(few, x[1000:], y[1000:])["mrr"]
    assert gain > 0.05
    assert told.low < gain < told.high


def test_it_prints_and_becomes_json():
    x, y = noisy_pairs(300)
    told = rl.Translator().fit(x, y).expected_quality()
    assert "300 more anchors: mrr" in str(told)
    assert json.loads(json.dumps(told.to_dict()))["mrr"]["value"] == told["mrr"].value


def test_bad_input_is_explained(tmp_path):
    x, y = noisy_pairs(100)
    t = rl.Translator().fit(x, y)
    with pytest.raises(ValueError, match=r"index has shape \(100, 3\): expected 12 columns"):
        t.expected_quality(index=y[:, :3])
    with pytest.raises(ValueError, match="15 pairs: expected at least 20"):
        rl.Translator().fit(x[:15], y[:15]).expected_quality()
    with pytest.raises(ValueError, match="no pairs to hold out"):
        rl.Translator().expected_quality()
    t.save(tmp_path / "t.safetensors")
    with pytest.raises(ValueError, match="loaded from a file"):
        rl.load(tmp_path / "t.safetensors").expected_quality()


def test_the_table_in_a_notebook():
    x, y = noisy_pairs(300)
    told = rl.Translator().fit(x[:100], y[:100]).expected_quality()
    frame = told.to_pandas()
    assert frame["measure"].tolist() == ["recall@1", "recall@10", "mrr", "cosine"]
    assert frame["value"].tolist() == [told[m].value for m in frame["measure"]]
    assert "<td>mrr</td>" in told._repr_html_()


@pytest.mark.parametrize(
    "settings", [{"map": "orthogonal"}, {"goal": "retrieval", "frozen_target": True}, {"goal": "stitching"}]
)
def test_fewer_anchors_than_coordinates_give_nothing_away(settings):
    """Rows centered by the mean of all anchors sum to zero: the others then give each held-out row away."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1050, 40))
    x, y = (z @ rng.normal(size=(40, 120)) / 6 + rng.normal(size=(1050, 120)) for _ in range(2))
    t = rl.Translator(**settings).fit(x[:50], y[:50])
    told = t.expected_quality(index=y[50:])["recall@1"]
    true = seen(t, x[50:], y[50:])["recall@1"]
    assert true < 0.5
    assert abs(told.value - true) < 0.15


def test_progress_counts_every_fit(monkeypatch):
    done = []

    @contextmanager
    def counted(total, title, wanted):
        assert wanted
        yield done.append
        assert sum(done) == total

    monkeypatch.setattr(quality, "progress_bar", counted)
    x, y = noisy_pairs(200)
    rl.Translator("retrieval").fit(x, y).expected_quality(progress=True)
    assert done
