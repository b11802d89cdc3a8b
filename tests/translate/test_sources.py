from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import relatent as rl
from relatent import Pairs, Space, Translator
from relatent._array import to_numpy
from relatent.spaces.fingerprint import Fingerprint
from relatent.translate import SpaceMismatchError, select_sources, summarize
from relatent.translate.ridge import RidgePath
from relatent.translate.source_penalties import PENALTIES, Line, source_penalties
from relatent.translate.sources import are_several, side_by_side

GOALS = [
    {"map": "ridge"},
    {"map": "orthogonal"},
    {"goal": "vectors"},
    {"goal": "index"},
    {"goal": "stitching"},
    {"goal": "retrieval"},
    {"goal": "retrieval", "frozen_target": True},
]


@pytest.fixture
def sources(rng):
    """Two sources that each tell a part of the target, and one that tells nothing; all in units of their own."""
    a, b, noise = rng.normal(size=(300, 5)), 100 * rng.normal(size=(300, 3)), 1e-3 * rng.normal(size=(300, 6))
    y = a @ rng.normal(size=(5, 4)) + b @ rng.normal(size=(3, 4)) / 100 + 0.5 * rng.normal(size=(300, 4))
    return [a, b, noise], y


def gcv(x, y, penalties, widths):
    """The definition: residuals and trace of the hat matrix."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    ends = np.cumsum(widths)
    units = [np.sum(x[:, end - w : end] ** 2) / w for end, w in zip(ends, widths, strict=True)]
    held = np.repeat(np.asarray(units) * penalties, widths)
    hat = x @ np.linalg.solve(x.T @ x + np.diag(held), x.T)
    freedom = (len(x) - 1 - np.trace(hat)) / len(x)
    return np.sum((y - hat @ y) ** 2) / len(x) / freedom**2


@pytest.mark.parametrize("options", GOALS, ids=str)
def test_a_single_source_of_several_is_what_it_is_alone(sources, options):
    (a, *_), y = sources
    alone, listed = Translator(**options).fit(a, y), Translator(**options).fit([a], y)
    np.testing.assert_array_equal(alone.transform(a), listed.transform([a]))
    assert listed.sources_.widths == (5,)
    assert alone.sources_ is None


@pytest.mark.parametrize("options", GOALS, ids=str)
def test_a_list_and_its_arrays_side_by_side_are_translated_alike(sources, options, tmp_path):
    xs, y = sources
    t = Translator(**options).fit(xs, y)
    t.save(tmp_path / "t.safetensors")
    again = rl.load(tmp_path / "t.safetensors")
    expected = t.transform(np.concatenate(xs, axis=1))
    for one in (t, again):
        np.testing.assert_array_equal(one.transform(xs), expected)
    assert again.sources_ == t.sources_
    assert again.n_features_in_ == 14
    assert "3 sources" in repr(again)


def test_the_map_is_a_ridge_with_a_penalty_per_source(sources):
    xs, y = sources
    t = Translator(map="ridge").fit(xs, y)
    # One ridge on sources that are rescaled by hand: the penalties found beside the common one.
    x = np.concatenate(xs, axis=1)
    units = [np.sum((one - one.mean(axis=0)) ** 2) / one.shape[1] for one in xs]
    held = np.repeat(np.asarray(units) * t.sources_.penalties, [5, 3, 6]) ** -0.5
    scaled = x * held
    common = t.choice_.penalty * np.sum((scaled - scaled.mean(axis=0)) ** 2) / 14
    peer = Ridge(common).fit(scaled, y)
    np.testing.assert_allclose(t.transform(xs), peer.predict(scaled), atol=1e-8)
    assert t.map_.is_affine


@pytest.mark.parametrize("seed", range(4))
def test_the_penalties_are_those_of_a_brute_force_grid(seed):
    rng = np.random.default_rng(seed)
    widths = (3, 4)
    x = rng.normal(size=(40, 7)) @ rng.normal(size=(7, 7)) * np.repeat([1.0, 30.0], widths)
    y = x[:, :3] @ rng.normal(size=(3, 2)) + 0.02 * x[:, 3:] @ rng.normal(size=(4, 2)) + 2 * rng.normal(size=(40, 2))
    grid = {pair: gcv(x, y, pair, widths) for pair in product(PENALTIES, repeat=2)}
    found = source_penalties(summarize(x, y), widths)
    assert grid[found] <= min(grid.values()) * (1 + 1e-9)


def test_every_point_of_a_line_is_the_error_by_its_definition(rng):
    widths = np.asarray([2, 3, 4])
    x, y = rng.normal(size=(30, 9)), rng.normal(size=(30, 2))
    x /= np.sqrt(np.repeat([np.sum((x[:, p] - x[:, p].mean(axis=0)) ** 2) / x[:, p].shape[1]
                            for p in (slice(0, 2), slice(2, 5), slice(5, 9))], widths))  # fmt: skip
    held = np.asarray([0.3, 1.0, 20.0])
    line = Line.of(summarize(x, y), np.repeat(held, widths), slice(2, 5))
    for penalty in (1e-3, 0.7, 50.0):
        expected = gcv(x, y, [0.3, penalty, 20.0], widths)
        assert line.gcv(penalty) == pytest.approx(expected, rel=1e-9)


def test_a_source_that_tells_nothing_is_held_back_most(sources):
    xs, y = sources
    told, also, nothing = Translator(map="ridge").fit(xs, y).sources_.penalties
    assert nothing > 10 * max(told, also)


def test_units_of_a_source_do_not_count(sources):
    xs, y = sources
    t = Translator(map="ridge").fit(xs, y)
    rescaled = [1e4 * xs[0], xs[1] / 7, xs[2]]
    other = Translator(map="ridge").fit(rescaled, y)
    assert other.sources_ == t.sources_
    np.testing.assert_allclose(other.transform(rescaled), t.transform(xs), rtol=1e-5, atol=1e-8)
    side = np.concatenate(rescaled, axis=1)  # one space with one penalty is another matter
    assert not np.allclose(Translator(map="ridge").fit(side, y).transform(side), t.transform(xs), rtol=0.05)


def test_penalties_of_their_own_predict_better(rng):
    a, noise = rng.normal(size=(160, 10)), 2 * rng.normal(size=(160, 60))
    y = a @ rng.normal(size=(10, 4)) + rng.normal(size=(160, 4))
    fit, held = slice(0, 80), slice(80, 160)
    several = Translator(map="ridge").fit([a[fit], noise[fit]], y[fit])
    one = Translator(map="ridge").fit(np.c_[a, noise][fit], y[fit])
    error = [np.sum((t.transform(np.c_[a, noise][held]) - y[held]) ** 2) for t in (several, one)]
    assert error[0] < 0.8 * error[1]


def test_a_penalty_that_is_given_is_that_of_each(sources):
    xs, y = sources
    t = Translator(map="ridge", penalty=0.1).fit(xs, y)
    x = np.concatenate([(one - one.mean(axis=0)) / np.sqrt(np.sum((one - one.mean(axis=0)) ** 2) / one.shape[1])
                        for one in xs], axis=1)  # fmt: skip
    np.testing.assert_allclose(t.transform(xs), Ridge(0.1).fit(x, y).predict(x), atol=1e-8)


@pytest.mark.parametrize("chunk", [50, 170])
def test_chunks_and_shards_are_the_whole(sources, chunk):
    xs, y = sources
    whole = Translator(map="ridge").fit(xs, y)
    starts = range(0, 300, chunk)
    shards = [Pairs.of([x[i : i + chunk] for x in xs], y[i : i + chunk], start=i, size=40) for i in starts]
    summed = Translator(map="ridge", penalty=0.1).fit(Pairs.from_bytes(Pairs.total(shards).to_bytes()))
    np.testing.assert_allclose(
        summed.transform(xs), Translator(map="ridge", penalty=0.1).fit(xs, y).transform(xs), rtol=1e-6
    )
    t = Translator(map="ridge")
    for i in starts:
        t.partial_fit([x[i : i + chunk] for x in xs], y[i : i + chunk])
    assert t.sources_ == whole.sources_
    np.testing.assert_allclose(t.transform(xs), whole.transform(xs), rtol=1e-6)
    with pytest.raises(ValueError, match="expected the same in every shard"):
        Pairs.of(xs, y) + Pairs.of([np.concatenate(xs, axis=1)], y, start=300)


def test_spaces_are_joined_on_their_keys(sources, rng):
    (a, b, _), y = sources
    keys = np.asarray([f"k{i}" for i in range(300)])
    order = rng.permutation(300)
    first = Space(a, keys, "a", Fingerprint(5, "org/one", layer=3))
    second = Space(b[order], keys[order], "b", Fingerprint(3, "two"))
    target = Space(y[::-1], keys[::-1], "y", Fingerprint(4, "new"))
    t = Translator(map="ridge").fit([first, second], target)
    np.testing.assert_allclose(t.matrix_, Translator(map="ridge").fit([a, b], y).matrix_, rtol=1e-6, atol=1e-9)
    assert t.endpoints_.source.model == "one, layer 3 + two"
    moved = t.transform([first, second])
    assert isinstance(moved, Space)
    assert moved.keys.tolist() == keys.tolist()
    with pytest.raises(ValueError, match=r"Sources of 3 \+ 5 coordinates"):
        t.transform([second, first])
    wrong = Space(b, keys, "b", Fingerprint(3, "three"))
    with pytest.raises(SpaceMismatchError, match="three"):
        t.transform([first, wrong])


def test_arrays_come_out_as_they_go_in(sources, xp):
    xs, y = sources
    t = Translator(map="ridge").fit([xp(x) for x in xs], xp(y))
    found = t.transform([xp(x.astype(np.float32)) for x in xs])
    assert isinstance(found, type(xp(y)))
    assert found.dtype == xp(np.ones(1, dtype=np.float32)).dtype
    np.testing.assert_allclose(to_numpy(found), Translator(map="ridge").fit(xs, y).transform(xs), rtol=1e-3, atol=1e-3)


def test_frames_are_paired_by_their_index(sources):
    pd = pytest.importorskip("pandas")
    xs, y = sources
    frames = [pd.DataFrame(x, index=[f"k{i}" for i in range(300)]) for x in xs]
    t = Translator(map="ridge").fit([frames[0], frames[1][::-1], frames[2]], pd.DataFrame(y, index=frames[0].index))
    np.testing.assert_allclose(t.matrix_, Translator(map="ridge").fit(xs, y).matrix_)


def test_quality_and_confidence_take_several_sources(sources):
    xs, y = sources
    t = Translator(map="ridge").fit(xs, y)
    assert t.expected_quality()["cosine"].value > 0.5
    side = np.concatenate(xs, axis=1)
    np.testing.assert_array_equal(t.confidence([x[:9] for x in xs]), t.confidence(side[:9]))
    again = pickle.loads(pickle.dumps(t))
    assert again.expected_quality().to_dict() == t.expected_quality().to_dict()


def test_what_is_no_list_of_sources_is_one_matrix(sources):
    (a, *_), y = sources
    assert are_several([a, a])
    assert not are_several(a)
    assert not are_several([*a])  # a list of vectors
    assert not are_several([])
    np.testing.assert_array_equal(
        Translator(map="ridge").fit([*a], y).matrix_, Translator(map="ridge").fit(a, y).matrix_
    )


def test_what_does_not_fit_together_is_refused(sources):
    xs, y = sources
    t = Translator(map="ridge").fit(xs, y)
    before = t.matrix_
    for given, target, says in (
        ([xs[0], xs[1][:9]], y, r"X\[1\] has 9 rows"),
        ([xs[0], np.full((300, 2), np.nan)], y, r"X\[1\] holds NaN"),
        (xs, np.arange(300), "like class labels"),
        (xs, None, "requires y"),
    ):
        with pytest.raises(ValueError, match=says):
            t.fit(given, target)
    assert t.matrix_ is before
    with pytest.raises(ValueError, match=r"Sources of 5 \+ 3 coordinates were given: expected 5 \+ 3 \+ 6"):
        t.transform(xs[:2])
    with pytest.raises(ValueError, match="mixes the coordinates"):
        Translator(map="ridge", normalize="whiten").fit(xs, y)
    with pytest.raises(TypeError, match="one library"):
        side_by_side([xs[0], pytest.importorskip("torch").ones(300, 2)])


def test_selection_puts_what_tells_most_first_and_what_tells_nothing_last(sources):
    xs, y = sources
    found = select_sources(xs, y)
    assert found.order == (0, 1, 2)
    assert found.best == (0, 1)
    assert found.r2[0] < found.r2[1] > found.r2[2] - 0.01
    assert select_sources(xs, y, max_sources=1).order == (0,)
    assert select_sources(Pairs.of(xs, y)).order == found.order
    assert "held-out" in str(found)
    assert found.records()[0]["source"] == 0


def test_a_copy_adds_nothing(rng):
    a, b = rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    y = np.c_[2 * a, b] + 0.1 * rng.normal(size=(200, 8))
    assert select_sources([a, 3 * a, b], y).order[:2] in ((0, 2), (1, 2))


def test_the_held_out_r2_is_that_of_a_ridge_on_the_other_rows(rng):
    x, y = rng.normal(size=(90, 4)), rng.normal(size=(90, 3))
    y += x[:, :3]
    pairs = Pairs.of([x], y)
    scores = []
    for rest, rows in pairs.trials(0):
        penalty = RidgePath.of(rest.normalized("iso").summary).best()
        t = Translator(map="ridge", penalty=penalty).fit(rest.sample.x, rest.sample.y)
        held, mean = pairs.sample.part(rows), rest.sample.y.mean(axis=0)
        scores.append(1 - np.sum((t.transform(held.x) - held.y) ** 2) / np.sum((held.y - mean) ** 2))
    assert select_sources(pairs).r2[0] == pytest.approx(np.mean(scores), rel=1e-6)


def test_selection_needs_several(sources):
    xs, y = sources
    with pytest.raises(ValueError, match="One source"):
        select_sources(Pairs.of(xs[0], y))
    with pytest.raises(ValueError, match="max_sources is 9"):
        select_sources(xs, y, max_sources=9)
