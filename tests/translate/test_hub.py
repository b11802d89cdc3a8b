from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import relatent as rl
from relatent.translate import hub as module


@pytest.fixture
def turned(rng, orthogonal):
    """One geometry in three frames, of different size and place."""
    x = rng.normal(size=(80, 6))
    return {"a": x, "b": 3 * x @ orthogonal(6) + 5, "c": x @ orthogonal(6) / 7 - 1}


def digit_views(names="abcd"):
    pixels = load_digits().data / 16
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(pixels))
    widths = dict(zip(names, (40, 30, 50, 40), strict=True))
    return {name: np.tanh(pixels[rows] @ rng.normal(size=(64, w)) / 3) for name, w in widths.items()}


def test_equal_geometries_are_recovered_exactly(turned):
    hub = rl.Hub().fit({name: x[:40] for name, x in turned.items()})
    codes = [hub.transform(x, name) for name, x in turned.items()]
    assert np.allclose(codes[0], codes[1])
    assert np.allclose(codes[0], codes[2])
    for source in turned:
        for target in turned:
            assert np.allclose(hub.translate(turned[source], source, target), turned[target])


def test_a_stretched_space_is_not_recovered_by_rotations(turned):
    stretched = {**turned, "c": turned["c"] * np.arange(1, 7)}
    hub = rl.Hub().fit(stretched)
    assert not np.allclose(hub.translate(stretched["a"], "a", "c"), stretched["c"], atol=0.1)


def test_a_wider_space_that_holds_a_narrow_one_gives_it_back(rng, orthogonal):
    x = rng.normal(size=(60, 4))
    wide = np.pad(x, ((0, 0), (0, 3))) @ orthogonal(7)
    hub = rl.Hub().fit({"narrow": x, "wide": wide})
    assert np.allclose(hub.translate(x, "narrow", "wide"), wide)
    assert np.allclose(hub.translate(wide, "wide", "narrow"), x)


@pytest.mark.parametrize("goal", ["vectors", "retrieval"])
def test_a_space_added_later_moves_no_other(goal):
    views = digit_views()
    late = views.pop("d")
    hub = rl.Hub(goal).fit({name: x[:300] for name, x in views.items()})
    before = {name: hub.transform(x, name) for name, x in views.items()}
    hub.add("d", late[:300])
    for name, x in views.items():
        assert np.array_equal(hub.transform(x, name), before[name])
    found = rl.evaluate.mrr(hub.transform(late[300:], "d"), hub.transform(views["a"][300:], "a"))
    among = rl.evaluate.mrr(hub.transform(views["b"][300:], "b"), hub.transform(views["a"][300:], "a"))
    assert found > 0.6 * among > 0.1


def test_the_likely_hub_searches_better_than_the_rigid_one():
    views = digit_views()
    scores = {}
    for goal in ("vectors", "retrieval"):
        hub = rl.Hub(goal).fit({name: x[:300] for name, x in views.items()})
        codes = {name: hub.transform(x[300:], name) for name, x in views.items()}
        scores[goal] = np.mean([rl.evaluate.mrr(codes[a], codes[b]) for a in views for b in views if a != b])
    assert scores["retrieval"] > scores["vectors"] + 0.05


@pytest.mark.parametrize("goal", ["vectors", "retrieval"])
def test_what_comes_out_is_close_to_the_target(goal):
    views = digit_views()
    hub = rl.Hub(goal).fit({name: x[:600] for name, x in views.items()})
    for source, target in ("ab", "cd", "da"):
        moved = hub.translate(views[source][600:], source, target)
        assert rl.evaluate.r2(moved, views[target][600:]) > 0.2


def test_the_iteration_lowers_the_distance_to_the_mean():
    views = {name: x[:300] for name, x in digit_views().items()}
    hub = rl.Hub().fit(views)
    codes = [hub.transform(x, name) for name, x in views.items()]
    spread = sum(np.sum((c - np.mean(codes, axis=0)) ** 2) for c in codes)
    one = rl.Translator(map="orthogonal")
    normal = {name: rl.Normalizer.fit(x).apply(x) for name, x in views.items()}
    onto_widest = [
        normal["c"] if n == "c" else one.set_params(normalize="none").fit(x, normal["c"]).transform(x)
        for n, x in normal.items()
    ]
    assert spread < sum(np.sum((c - np.mean(onto_widest, axis=0)) ** 2) for c in onto_widest)


@pytest.mark.parametrize("goal", ["vectors", "retrieval"])
def test_dead_coordinates_stay_at_their_level(goal, turned):
    dead = {**turned, "b": np.column_stack([turned["b"], np.full(80, 2.5)])}
    hub = rl.Hub(goal, penalty=0.1).fit(dead)
    assert np.array_equal(hub.translate(turned["a"], "a", "b")[:, -1], np.full(80, 2.5))


@pytest.mark.parametrize("goal", ["vectors", "retrieval"])
def test_a_saved_hub_does_the_same(goal, turned, tmp_path):
    hub = rl.Hub(goal, penalty=0.1).fit(turned)
    hub.save(tmp_path / "hub.safetensors", anchors="codes")
    again = rl.load(tmp_path / "hub.safetensors")
    assert list(again.spokes_) == list(turned)
    assert np.array_equal(again.translate(turned["a"], "a", "c"), hub.translate(turned["a"], "a", "c"))
    extra = turned["b"][:, ::-1]
    added, expected = again.add("d", extra).transform(extra, "d"), hub.add("d", extra).transform(extra, "d")
    np.testing.assert_allclose(added, expected, rtol=1e-12)


def test_a_file_without_codes_cannot_be_added_to(turned, tmp_path):
    rl.Hub().fit(turned).save(tmp_path / "hub.safetensors")
    with pytest.raises(ValueError, match='save it with anchors="codes"'):
        rl.load(tmp_path / "hub.safetensors").add("d", turned["a"])


@pytest.mark.parametrize("goal", ["vectors", "retrieval"])
@pytest.mark.parametrize("penalty", [None, 0.3])
def test_few_anchors_give_in_their_span_what_they_give_in_the_whole_space(goal, penalty, rng, monkeypatch):
    x = rng.normal(size=(12, 5))
    spaces = {name: np.tanh(x @ rng.normal(size=(5, d))) for name, d in (("a", 30), ("b", 20), ("c", 8))}
    fresh = rng.normal(size=(4, 30))
    in_span = rl.Hub(goal, penalty=penalty).fit(spaces)
    assert in_span.codes_.shape[1] <= 12
    of = module._Anchors.of

    def in_whole_space(*arguments):
        a = of(*arguments)
        frame = replace(a.frame, basis=None)
        return replace(a, frame=frame, vectors=frame.apply(a.given))

    monkeypatch.setattr(module._Anchors, "of", in_whole_space)
    whole = rl.Hub(goal, penalty=penalty).fit(spaces)
    assert whole.penalty_ == in_span.penalty_
    for target in "bc":
        np.testing.assert_allclose(
            in_span.translate(fresh, "a", target), whole.translate(fresh, "a", target), atol=1e-7
        )
    scores = [hub.transform(fresh, "a") @ hub.transform(spaces["b"], "b").T for hub in (in_span, whole)]
    np.testing.assert_allclose(*scores, atol=1e-7)


def test_spaces_are_joined_on_their_keys_also_those_added_later(turned, rng, tmp_path):
    keys = np.asarray([f"k{i}" for i in range(80)])
    orders = {name: rng.permutation(80) for name in turned}
    spaces = {name: rl.Space(x[orders[name]], keys[orders[name]]) for name, x in turned.items()}
    late = spaces.pop("c")
    hub = rl.Hub().fit(spaces)
    hub.save(tmp_path / "hub.safetensors", anchors="codes")
    for each in (hub, rl.load(tmp_path / "hub.safetensors")):
        each.add("c", late)
        assert np.allclose(each.translate(turned["a"], "a", "c"), turned["c"])
    by_row = rl.Hub().fit({name: space.vectors for name, space in spaces.items()})
    assert not np.allclose(by_row.translate(turned["a"], "a", "b"), turned["b"], atol=0.1)
    with pytest.raises(KeyError, match="79 of the 80 wanted keys are not in the space"):
        hub.add("d", late.subset([0]))


def test_arrays_come_back_as_they_went_in(turned):
    hub = rl.Hub().fit({name: x.astype(np.float32) for name, x in turned.items()})
    assert hub.transform(turned["a"].astype(np.float32), "a").dtype == np.float32
    x = torch.tensor(turned["a"], requires_grad=True)
    moved = hub.translate(x, "a", "b")
    moved.sum().backward()
    assert isinstance(moved, torch.Tensor)
    assert torch.isfinite(x.grad).all()


def test_bad_input_is_explained(turned):
    hub = rl.Hub().fit(turned)
    with pytest.raises(ValueError, match=r"There is no goal 'vector'\. Did you mean 'vectors'"):
        rl.Hub("vector").fit(turned)
    with pytest.raises(ValueError, match="1 spaces were given: expected at least 2"):
        rl.Hub().fit({"a": turned["a"]})
    with pytest.raises(ValueError, match="a has 80 rows and b has 79 rows"):
        rl.Hub().fit({"a": turned["a"], "b": turned["b"][:79]})
    with pytest.raises(ValueError, match="b has 80 anchors that do not differ"):
        rl.Hub().fit({"a": turned["a"], "b": np.ones((80, 3))})
    with pytest.raises(ValueError, match="already has a space 'a'"):
        hub.add("a", turned["a"])
    with pytest.raises(ValueError, match="d has 5 rows: expected the hub's 80 anchors"):
        hub.add("d", turned["a"][:5])
    with pytest.raises(ValueError, match="no space 'z'"):
        hub.transform(turned["a"], "z")
    with pytest.raises(ValueError, match=r"x has shape \(80, 5\): expected 6 columns for space 'a'"):
        hub.transform(turned["a"][:, :5], "a")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        rl.Hub().transform(turned["a"], "a")
