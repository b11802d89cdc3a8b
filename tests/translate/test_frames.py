"""Data frames: paired by their index, and given back by scikit-learn's rules. Fitting succeeds or changes nothing."""

import numpy as np
import pytest
import sklearn

import relatent as rl

pd = pytest.importorskip("pandas")
KEYS = [f"item {i}" for i in range(60)]


@pytest.fixture
def frames(rng):
    x = rng.normal(size=(60, 5))
    return pd.DataFrame(x, index=KEYS), pd.DataFrame(x @ rng.normal(size=(5, 4)), index=KEYS)


FITS = {
    "translator": lambda x, y: rl.Translator(map="ridge").fit(x, y),
    "chunks": lambda x, y: rl.Translator(map="ridge").partial_fit(x, y),
    "relative": lambda x, y: rl.RelativeTranslator().fit(x, y),
    "asif": lambda x, y: rl.ASIF(top=5).fit(x, y),
    "hub": lambda x, y: rl.Hub().fit({"x": x, "y": y}),
    "compared": lambda x, y: rl.evaluate.cka(x, y),
}


def outcome(fitted, x):
    """What tells two fits apart."""
    if isinstance(fitted, rl.Hub):
        return fitted.translate(x.to_numpy(), "x", "y")
    return fitted.transform(x.to_numpy()) if hasattr(fitted, "transform") else fitted


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_the_same_labels_in_another_order_are_joined(frames, fit, rng):
    x, y = frames
    expected = outcome(fit(x.to_numpy(), y.to_numpy()), x)
    np.testing.assert_allclose(outcome(fit(x, y), x), expected)
    np.testing.assert_allclose(outcome(fit(x, y.iloc[rng.permutation(60)]), x), expected)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_other_labels_and_labels_that_are_there_twice_are_refused(frames, fit):
    x, y = frames
    for other in (y.reset_index(drop=True), y.rename(index={KEYS[3]: "another"}), y.iloc[:50]):
        with pytest.raises(ValueError, match=r"labels in its index.*same labels.*\.loc.*\.to_numpy"):
            fit(x, other)
    with pytest.raises(ValueError, match="in its index twice"):
        fit(x, y.rename(index={KEYS[3]: KEYS[4]}))


def test_equal_indexes_and_arrays_beside_frames_are_paired_by_row(frames):
    x, y = frames
    twice = ["same"] * 60
    expected = rl.Translator(map="ridge").fit(x.to_numpy(), y.to_numpy()).matrix_
    for pair in ((x.set_axis(twice), y.set_axis(twice)), (x, y.to_numpy()), (x.to_numpy(), y)):
        np.testing.assert_array_equal(rl.Translator(map="ridge").fit(*pair).matrix_, expected)


# What comes out.


@pytest.mark.parametrize("goal", ["vectors", "retrieval"])
def test_frames_come_out_where_they_are_asked_for(frames, goal, tmp_path):
    x, y = frames
    t = rl.Translator(goal).fit(x, y)
    plain = t.transform(x), t.transform_target(y)
    assert {type(side) for side in plain} == {np.ndarray}
    t.set_output(transform="pandas")
    for found, expected in zip((t.transform(x), t.transform_target(y)), plain, strict=True):
        assert found.index.equals(x.index)
        assert list(found.columns) == list(t.get_feature_names_out())
        np.testing.assert_array_equal(found, expected)
    assert isinstance(t.query(x.iloc[0].to_numpy()), np.ndarray)
    np.testing.assert_allclose(t.query(x.iloc[0].to_list()), plain[0][0])
    assert t.score(x, y) > 0.99
    assert type(t.set_output(transform="default").transform(x)) is np.ndarray


ESTIMATORS = {
    "translator": rl.Translator(map="ridge"),
    "relative translator": rl.RelativeTranslator(),
    "projection": rl.RelativeProjection(),
    "encoder": rl.RelativeEncoder(),
    "asif": rl.ASIF(top=5),
}


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "asif"])
def test_a_space_becomes_a_space_whatever_is_asked_for(frames, name):
    x, y = frames
    space = rl.Space(x.to_numpy(), KEYS)
    fitted = sklearn.clone(ESTIMATORS[name]).fit(x.to_numpy(), y.to_numpy())
    expected = fitted.transform(space)
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(fitted.transform(x), pd.DataFrame)
        found = fitted.transform(space)
    assert (type(found), found.keys.tolist()) == (rl.Space, KEYS)
    np.testing.assert_array_equal(found.vectors, expected.vectors)


def test_the_library_itself_needs_no_frames(frames):
    """What calls transform inside works whatever scikit-learn was told to give."""
    x, y = (frame.to_numpy() for frame in frames)
    t = rl.Translator("retrieval").fit(x, y)
    hub = rl.Hub().fit({"x": x, "y": y})
    expected = hub.translate(x, "x", "y"), t.score(x, y), t.query(x[0].tolist())
    with sklearn.config_context(transform_output="pandas"):
        found = hub.translate(x, "x", "y"), t.score(x, y), t.query(x[0].tolist())
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


# Fitting again.


BAD = {"NaN": lambda x: np.where(np.arange(60)[:, None] == 7, np.nan, x), "no rows": lambda x: x[:0]}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_failed_refit_leaves_what_was_fitted(frames, name, bad):
    x, y = (frame.to_numpy() for frame in frames)
    fitted = sklearn.clone(ESTIMATORS[name]).fit(x, y)
    before, names = fitted.transform(x), set(vars(fitted))
    methods = [fitted.fit, *([fitted.partial_fit] if hasattr(fitted, "partial_fit") else [])]
    for again in methods:
        with pytest.raises(ValueError, match=r"NaN|0 sample"):
            again(bad(x), y)
        assert set(vars(fitted)) == names
        np.testing.assert_array_equal(fitted.transform(x), before)


@pytest.mark.parametrize("options", [{"goal": "nothing"}, {"map": "nothing"}, {"penalty": -1.0}])
def test_settings_that_are_refused_leave_what_was_fitted(frames, options):
    x, y = (frame.to_numpy() for frame in frames)
    t = rl.Translator().fit(x, y)
    before = t.transform(x)
    with pytest.raises(ValueError, match=r"nothing|penalty"):
        t.set_params(**options).fit(x, y)
    np.testing.assert_array_equal(t.transform(x), before)


def test_a_fit_that_fails_late_leaves_what_was_fitted_and_what_was_summed(frames, monkeypatch):
    x, y = (frame.to_numpy() for frame in frames)
    chunks = rl.Translator(map="ridge").partial_fit(x[:30], y[:30])
    before = chunks.transform(x)
    with monkeypatch.context() as broken:
        broken.setattr("relatent.translate.goals.named_map.solve", lambda *_: 1 / 0)
        for again in (chunks.partial_fit, chunks.fit):
            with pytest.raises(ZeroDivisionError):
                again(x[30:], y[30:])
    assert chunks.n_pairs_ == 30
    np.testing.assert_array_equal(chunks.transform(x), before)
    chunks.partial_fit(x[30:], y[30:])
    whole = rl.Translator(map="ridge").partial_fit(x[:30], y[:30]).partial_fit(x[30:], y[30:])
    np.testing.assert_array_equal(chunks.transform(x), whole.transform(x))


def test_a_hub_that_cannot_be_fitted_again_stays(frames):
    x, y = (frame.to_numpy() for frame in frames)
    hub = rl.Hub().fit({"x": x, "y": y})
    before = hub.translate(x, "x", "y")
    with pytest.raises(ValueError, match="NaN"):
        hub.fit({"x": x, "y": np.full_like(y, np.nan)})
    np.testing.assert_array_equal(hub.translate(x, "x", "y"), before)


# Too few.


@pytest.mark.parametrize("options", [{}, {"frozen_target": True}, {"penalty": 1.0}], ids=str)
def test_two_pairs_are_too_few_to_choose_a_ranking_by(frames, options):
    x, y = (frame.to_numpy() for frame in frames)
    with pytest.raises(ValueError, match=r"n_samples=2: too few pairs.*hold some of them out.*at least 3"):
        rl.Translator("retrieval", **options).fit(x[:2], y[:2])
    rl.Translator("retrieval", **options).fit(x[:3], y[:3])
    with pytest.raises(ValueError, match="fewer than 3 anchors"):
        rl.Hub("retrieval").fit({"x": x[:2], "y": y[:2]})
