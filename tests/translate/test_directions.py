from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.linear_model import LogisticRegression

from relatent import Hub, Translator, load
from relatent._array import to_numpy

AFFINE = [
    {"map": "affine"},
    {"map": "ridge"},
    {"map": "orthogonal", "normalize": "standard"},
    {"map": "whitened", "normalize": "whiten"},
    {"map": "low_rank", "rank": 3},
    {"goal": "stitching", "max_cost": "affine"},
    {"goal": "vectors", "max_cost": "affine"},
]
BY_LENGTH = [{"map": "orthogonal", "normalize": "center+l2"}, {"map": "ridge", "normalize": "l2"}, {"goal": "index"}]


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(120, 6)) + 2.0
    return x, np.tanh(x @ rng.normal(size=(6, 5)) / 3) + 0.05 * rng.normal(size=(120, 5)) - 1.0


@pytest.fixture
def bent(pair):
    """A kernel map."""
    t = Translator(seed=0).fit(pair[0], np.cos(2 * pair[0][:, :3]))
    assert t.map_.features is not None
    return t


def difference(t, v, at, step=1e-5):
    """Central finite difference of a translation."""
    ends = t.transform(np.stack([at + step * v, at - step * v]))
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize("options", AFFINE, ids=str)
def test_of_an_affine_map_it_is_the_difference_of_two_translations(pair, options):
    x, y = pair
    t = Translator(**options).fit(x, y)
    moved = t.direction(x[:20] - x[20:40])
    np.testing.assert_allclose(moved, t.transform(x[:20]) - t.transform(x[20:40]), atol=1e-10)
    assert not np.allclose(t.transform(x[:20] - x[20:40]), moved, atol=0.01)  # which moves a point


@pytest.mark.parametrize("far", [0.0, 1e4])
def test_few_pairs_and_far_means_are_affine_as_well(rng, far):
    x = rng.normal(size=(12, 60)).astype(np.float64) + far
    t = Translator(map="ridge").fit(x, x[:, :50] * 2 + 3)
    np.testing.assert_allclose(t.direction(x[0] - x[1]), (t.transform(x[:1]) - t.transform(x[1:2]))[0], atol=1e-8)


@pytest.mark.parametrize("options", [*AFFINE, *BY_LENGTH], ids=str)
def test_it_is_linear(pair, options, rng):
    x, y = pair
    t = Translator(**options).fit(x, y)
    a, b = rng.normal(size=(2, 6))
    moved = t.direction(np.stack([a, b, 2 * a - 3 * b]), at=x[0])
    np.testing.assert_allclose(moved[2], 2 * moved[0] - 3 * moved[1], atol=1e-10)


def test_of_a_kernel_map_it_is_the_jacobian(bent, pair, rng):
    x, v = pair[0], rng.normal(size=6)
    np.testing.assert_allclose(bent.direction(v, at=x[3]), difference(bent, v, x[3]), rtol=1e-6)
    np.testing.assert_allclose(bent.direction(v), difference(bent, v, x.mean(axis=0)), rtol=1e-6)
    some = np.mean([difference(bent, v, one) for one in x[:7]], axis=0)
    np.testing.assert_allclose(bent.direction(v, at=x[:7]), some, rtol=1e-6)
    assert not np.allclose(bent.direction(v, at=x[3]), bent.direction(v, at=x[4]), rtol=0.01)


@pytest.mark.parametrize("normalize", ["none", "center", "standard"])
def test_a_kernel_map_has_its_source_mean_under_every_normalization(pair, normalize, rng):
    x, v = pair[0], rng.normal(size=6)
    t = Translator(normalize=normalize).fit(x, np.cos(2 * x[:, :3]), force=True)
    assert t.map_.features is not None
    np.testing.assert_allclose(t.direction(v), difference(t, v, x.mean(axis=0)), rtol=1e-5)


@pytest.mark.parametrize("options", BY_LENGTH, ids=str)
def test_rows_scaled_by_their_length_have_a_jacobian_where_one_says(pair, options, rng):
    x, y = pair
    t, v = Translator(**options).fit(x, y), rng.normal(size=6)
    np.testing.assert_allclose(t.direction(v, at=x[3]), difference(t, v, x[3]), rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="depends on where it begins"):
        t.direction(v)


def test_where_a_row_has_no_length_there_is_no_derivative(pair):
    x, y = pair
    t = Translator(map="orthogonal", normalize="l2").fit(x, y)
    with pytest.raises(ValueError, match="no derivative"):
        t.direction(x[0], at=np.zeros(6))


def test_a_frozen_target_has_directions_and_a_shared_space_has_none(pair):
    x, y = pair
    t = Translator("retrieval", frozen_target=True).fit(x, y)
    np.testing.assert_allclose(t.direction(x[0], at=x[3]), difference(t, x[0], x[3]), rtol=1e-6, atol=1e-9)
    shared = Translator("retrieval").fit(x, y)
    for ask in (lambda: shared.direction(x[0]), lambda: shared.pull_back(y[:2]), lambda: shared.subspace(x[:2])):
        with pytest.raises(ValueError, match="shared space"):
            ask()


@pytest.mark.parametrize("at", [None, 3])
def test_arrays_come_out_as_they_go_in(xp, bent, pair, at):
    v = pair[0][:4].astype(np.float32)
    point = None if at is None else xp(pair[0][at].astype(np.float32))
    found = bent.direction(xp(v), at=point)
    assert isinstance(found, type(xp(v)))
    assert found.dtype == xp(v).dtype
    np.testing.assert_allclose(
        to_numpy(found), bent.direction(v.astype(np.float64), at=None if at is None else pair[0][at]), rtol=1e-3
    )
    assert tuple(bent.direction(xp(v)[0, :]).shape) == (3,)


def test_torch_differentiates_through_it(pair):
    torch = pytest.importorskip("torch")
    t = Translator(map="ridge").fit(*pair)
    v = torch.ones(6, dtype=torch.float64, requires_grad=True)
    t.direction(v).sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), t.map_.product.sum(axis=1))


def test_it_is_saved(pair, bent, tmp_path):
    bent.save(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "t.safetensors").direction(pair[0][0]), bent.direction(pair[0][0]))


@pytest.mark.parametrize(
    ("v", "at", "says"),
    [
        (np.ones(5), None, "expected 6 columns"),
        (np.ones(6), np.ones(4), "at has shape"),
        (np.ones((2, 2, 6)), None, "expected one direction"),
        (np.full(6, np.nan), None, "NaN"),
        (np.ones((0, 6)), None, "minimum of 1"),
    ],
)
def test_what_is_no_direction_is_refused(bent, v, at, says):
    with pytest.raises(ValueError, match=says):
        bent.direction(v, at=at)


def test_a_subspace_moves_as_its_directions_do(pair, rng):
    x, y = pair
    t, V = Translator(map="ridge").fit(x, y), rng.normal(size=(2, 6))
    own = rng.normal(size=(2, 5))
    s = t.subspace(V, own=own)
    np.testing.assert_allclose(s.basis @ s.basis.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(s.angles, subspace_angles(t.direction(V).T, own.T), atol=1e-10)
    assert np.allclose(t.subspace(np.r_[V, V]).gains, s.gains)  # the span counts, not its basis
    same = t.subspace(V, own=t.direction(V[::-1]))
    np.testing.assert_allclose(same.angles, 0, atol=1e-7)


def test_directions_that_a_map_forgets_leave_the_subspace(rng):
    x = rng.normal(size=(100, 4))
    t = Translator(map="affine").fit(x, x[:, :2])
    s = t.subspace(np.eye(4)[1:])
    np.testing.assert_allclose(s.gains, [1.0])
    np.testing.assert_allclose(np.abs(s.basis), [[0, 1]], atol=1e-9)
    with pytest.raises(ValueError, match="zeros only"):
        t.subspace(np.zeros((2, 4)))


@pytest.mark.parametrize("options", AFFINE, ids=str)
def test_a_head_that_is_pulled_back_reads_what_the_translator_makes(pair, options, rng):
    x, y = pair
    t, W, b = Translator(**options).fit(x, y), rng.normal(size=(3, 5)), rng.normal(size=3)
    head = t.pull_back(W, b)
    np.testing.assert_allclose(head(x), t.transform(x) @ W.T + b, atol=1e-6)
    one = t.pull_back(W[0], 2.0)
    np.testing.assert_allclose(x @ one.weight + one.bias, t.transform(x) @ W[0] + 2.0, atol=1e-6)


def test_a_probe_of_scikit_learn_reads_the_source(rng):
    x = rng.normal(size=(300, 6))
    y, labels = x @ rng.normal(size=(6, 6)), x[:, 0] > 0
    probe, t = LogisticRegression().fit(y, labels), Translator(map="affine").fit(x, y)
    head = t.pull_back(probe.coef_, probe.intercept_)
    np.testing.assert_array_equal(head(x)[:, 0] > 0, probe.predict(t.transform(x)))


def test_a_head_comes_out_as_the_array_it_was(xp, pair):
    t = Translator(map="ridge").fit(*pair)
    head = t.pull_back(xp(np.ones((2, 5), dtype=np.float32)))
    assert head.weight.dtype == head.bias.dtype == xp(np.ones(1, dtype=np.float32)).dtype
    assert isinstance(head.weight, type(xp(np.ones(1))))
    np.testing.assert_allclose(to_numpy(head.bias), to_numpy(t.offset_).sum() * np.ones(2), rtol=1e-5)


def test_only_an_affine_map_pulls_a_head_back(bent, pair):
    with pytest.raises(ValueError, match="not affine"):
        bent.pull_back(np.ones((2, 3)))
    t = Translator(map="ridge").fit(*pair)
    with pytest.raises(ValueError, match=r"expected \(outputs, 5\)"):
        t.pull_back(np.ones((5, 2)))
    with pytest.raises(ValueError, match="b has 3 entries for 2 outputs"):
        t.pull_back(np.ones((2, 5)), np.ones(3))


@pytest.fixture
def labeled(rng):
    """Two rotated copies of three classes, with noise of their own."""
    labels = np.arange(600) % 3
    x = rng.normal(size=(600, 12)) + 3 * np.eye(12)[labels]
    y = x @ np.linalg.qr(rng.normal(size=(12, 12)))[0] + 0.3 * rng.normal(size=x.shape)
    return x, y, labels


def test_quality_is_the_cosine_of_both_class_differences(labeled):
    x, y, labels = labeled
    t = Translator(map="ridge").fit(x[:300], y[:300])
    x, y, labels = (a[300:] for a in labeled)
    found = t.direction_quality(x, y, labels)
    inside = labels == 1
    v, w = (a[inside].mean(axis=0) - a[~inside].mean(axis=0) for a in (x, y))
    moved = t.direction(v)
    assert found[1].value == pytest.approx(moved @ w / np.linalg.norm(moved) / np.linalg.norm(w))
    assert found[1].low < found[1].value <= found[1].high <= 1
    assert set(found.cosines) == {0, 1, 2}
    assert found.angles.shape == (2,)
    assert np.degrees(found.angles).max() < 15
    assert "principal angles" in str(found)
    assert found.to_dict()["rows"] == 300


def test_quality_tells_a_good_map_from_a_wrong_one(labeled, rng):
    x, y, labels = labeled
    good = Translator(map="ridge").fit(x[:300], y[:300])
    wrong = Translator(map="orthogonal").fit(x[:300], y[:300][rng.permutation(300)], force=True)
    good, wrong = (t.direction_quality(x[300:], y[300:], labels[300:]) for t in (good, wrong))
    for label in range(3):
        assert good[label].low > 0.9 > good.random[label]
        assert wrong[label].value < 0.9 < good.own[label]
        assert good.own[label] <= 1


def test_quality_of_two_classes_has_one_direction(labeled):
    x, y, labels = labeled
    t = Translator(map="ridge").fit(x[:300], y[:300])
    found = t.direction_quality(x[300:], y[300:], np.where(labels[300:] == 0, "no", "yes"))
    assert list(found.cosines) == ["yes"]
    assert found.angles is None
    with pytest.raises(KeyError, match="There are: yes"):
        found["no"]


def test_the_interval_narrows_with_rows(rng):
    def width(n):
        labels = np.arange(n) % 2
        x = rng.normal(size=(n, 8)) + labels[:, None]
        y = x + rng.normal(size=x.shape)
        e = Translator(map="identity").fit(x, y).direction_quality(x, y, labels)[1]
        return e.high - e.low

    assert width(4000) < 0.6 * width(400)


@pytest.mark.parametrize(
    ("labels", "says"), [(np.zeros(40), "two classes"), (np.arange(3) % 2, "3 labels"), (np.arange(40) == 1, "1 pairs")]
)
def test_labels_that_show_no_direction_are_refused(rng, labels, says):
    x = rng.normal(size=(40, 3))
    t = Translator(map="affine").fit(x, x)
    with pytest.raises(ValueError, match=says):
        t.direction_quality(x, x, labels)


@pytest.fixture
def rotated(rng, orthogonal):
    x = rng.normal(size=(200, 8))
    turns = {name: orthogonal(8) for name in "abcd"}
    return {name: 3 * x @ turn + 1 for name, turn in turns.items()}, turns


def test_a_canonical_direction_is_the_one_of_all_rotated_copies(rotated, rng):
    spaces, turns = rotated
    hub, v = Hub().fit(spaces), rng.normal(size=8)
    found = hub.direction({name: v @ turns[name] for name in "abc"})
    for name in "abcd":  # of d no direction was given
        np.testing.assert_allclose(found.moved[name], v @ turns[name] / np.linalg.norm(v), atol=1e-6)
    assert min(found.scores.values()) > 1 - 1e-9
    assert np.linalg.norm(found.vector) == pytest.approx(1)


def test_an_odd_one_out_has_a_low_score(rotated, rng):
    spaces, turns = rotated
    v = rng.normal(size=8)
    given = {name: v @ turns[name] for name in "abc"} | {"d": rng.normal(size=8)}
    found = Hub().fit(spaces).direction(given)
    assert min(found.scores, key=found.scores.get) == "d"
    assert 0 < found.random < 1


def test_a_hub_of_unit_rows_needs_a_point(rotated, rng):
    spaces, turns = rotated
    hub = Hub("retrieval").fit(spaces)
    given = {name: np.eye(8)[0] @ turns[name] for name in "ab"}
    with pytest.raises(ValueError, match="depends on where it begins"):
        hub.direction(given)
    found = hub.direction(given, at={name: spaces[name][:50] for name in "ab"})
    assert min(found.scores.values()) > 0.9
    for wrong, says in (({"a": np.ones(8)}, "1 spaces"), ({"a": np.ones(8), "z": np.ones(8)}, "no space 'z'")):
        with pytest.raises(ValueError, match=says):
            hub.direction(wrong)
