"""Every public function that takes vectors takes a Space too, and joins two of them on their keys."""

import dataclasses
import inspect

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import relatent as rl
from relatent.spaces import Space

N, D = 60, 4
VECTORS = ("x", "y", "anchors", "gallery", "y_gallery", "r", "decoded", "original", "source", "target")
PAIRS = (("x", "y"), ("source", "target"))
OTHERS = {
    "k": 5,
    "budget": 5,
    "delta": 0.2,
    "omega": 2,
    "alpha": 2.0,
    "alphas": [1.0, 2.0],
    "anchor_rows": np.arange(10),
    "labels": np.arange(N) % 2,
    "model": lambda x: np.asarray(x)[:, :2],
}
# Those that take spaces by other names, nothing but spaces, or many rows in no common order (tested below).
NO_VECTORS = ("parallel", "stitching_matrix", "align_unpaired", "grow_pairs", "gain_recovered")
# Those whose x and y may have different rows: row i of one is not that of the other.
NOT_PARALLEL = ("hubness", "arr", "intrinsic_distance")


def functions():
    """Find every public function with a parameter for vectors."""
    for module in (rl, rl.evaluate, rl.anchors):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function) and name not in NO_VECTORS and set(VECTORS) & set(parameters(function)):
                yield pytest.param(function, id=f"{module.__name__}.{name}")


def parameters(function):
    return list(inspect.signature(function).parameters)


def arguments(function, **vectors):
    required = {n: p for n, p in inspect.signature(function).parameters.items() if p.default is p.empty or n in vectors}
    return {name: vectors[name] if name in vectors else OTHERS[name] for name in required}


def arrays():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    y = x @ rng.normal(size=(D, D)) + 0.1 * rng.normal(size=(N, D))
    named = {"y": y, "target": y, "decoded": y, "y_gallery": y, "anchors": x[:20], "r": rng.normal(size=(N, 20))}
    return {name: named.get(name, x) for name in VECTORS}


def same(a, b):
    """Compare results of any kind, exactly."""
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(*pair) for pair in zip(a, b, strict=True))
    if isinstance(a, np.ndarray | float):
        return np.array_equal(a, b, equal_nan=True)
    return bool(a == b)


@pytest.mark.parametrize("function", list(functions()))
def test_a_space_gives_what_its_array_gives(function):
    given = {name: value for name, value in arrays().items() if name in parameters(function)}
    expected = function(**arguments(function, **given))
    assert same(function(**arguments(function, **{name: Space(value) for name, value in given.items()})), expected)


@pytest.mark.parametrize("function", [f for f in functions() if f.values[0].__name__ not in NOT_PARALLEL])
def test_two_spaces_are_joined_on_their_keys(function):
    first, second = next((pair for pair in PAIRS if set(pair) <= set(parameters(function))), ("", ""))
    if not first:
        pytest.skip("takes no parallel vectors")
    given = arrays()
    pair = {name: given[name] for name in (first, second)}
    order = np.random.default_rng(1).permutation(N)
    keys = np.arange(N)
    joined = {
        first: Space(pair[first], keys=keys),
        second: Space(np.vstack([pair[second][order], np.ones((3, D))]), keys=[*keys[order], -1, -2, -3]),
    }
    assert same(function(**arguments(function, **joined)), function(**arguments(function, **pair)))


@pytest.mark.parametrize(
    "estimator",
    [
        rl.RelativeProjection(),
        rl.Translator(),
        rl.Translator("retrieval"),
        rl.RelativeEncoder(),
        rl.RelativeTranslator(),
        rl.ASIF(),
    ],
    ids=repr,
)
def test_an_estimator_fits_and_transforms_spaces(estimator):
    x, y = arrays()["x"], arrays()["y"]
    pair = (x,) if isinstance(estimator, rl.RelativeProjection | rl.RelativeEncoder) else (x, y)
    expected = estimator.fit(*pair).transform(x)
    got = estimator.fit(*map(Space, pair)).transform(Space(x))
    # A translator streams two spaces and solves from their sums, where it solves from float64 arrays themselves.
    rounding = 1e-9 if isinstance(estimator, rl.Translator) else 0
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=rounding)


def test_the_hub_takes_spaces():
    x, y = arrays()["x"], arrays()["y"]
    expected = rl.Hub().fit({"a": x, "b": y}).translate(x, "a", "b")
    np.testing.assert_array_equal(rl.Hub().fit({"a": Space(x), "b": Space(y)}).translate(Space(x), "a", "b"), expected)


def test_the_stitching_matrix_takes_spaces():
    x, y = arrays()["x"], arrays()["y"]
    options = {"anchors": 20, "methods": ("orthogonal",), "progress": False}
    head = LogisticRegression()
    expected = rl.stitching_matrix({"a": x, "b": y}, head, OTHERS["labels"], **options)
    got = rl.stitching_matrix({"a": Space(x), "b": Space(y)}, head, OTHERS["labels"], **options)
    assert str(got) == str(expected)


@pytest.mark.parametrize("function", [rl.translate.align_unpaired, rl.grow_pairs], ids=lambda f: f.__name__)
def test_rows_in_no_common_order_may_come_in_spaces(function):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(120, D)), rng.normal(size=(110, D))
    known = () if function is rl.translate.align_unpaired else ((range(12), range(12)),)
    expected, got = (function(a, b, *known, progress=False) for a, b in ((x, y), (Space(x), Space(y))))
    assert str(got) == str(expected)
    assert got.rows_y.tolist() == expected.rows_y.tolist()


def test_a_normalizer_takes_spaces():
    x = arrays()["x"]
    np.testing.assert_array_equal(rl.Normalizer.fit(Space(x)).apply(Space(x)), rl.Normalizer.fit(x).apply(x))
