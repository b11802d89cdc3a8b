import subprocess
import sys

import numpy as np
import pytest
from tests.exports.translators import CASES, fitted, near, nonlinear, rounding, spaces

import relatent as rl
from relatent.exports import Step, export, steps_of, translate_with_numpy
from relatent.exports.onnx import NODES
from relatent.exports.translate_with_numpy import apply, unit
from relatent.steps import STEPS


def program(steps):
    return [(step.kind, step.arrays) for step in steps]


@pytest.mark.parametrize(("setting", "space"), CASES)
def test_steps_are_the_map(setting, space):
    x, y = spaces(space)
    t = fitted(setting, space)
    near(apply(program(steps_of(t)), x[500:]), t.transform(x[500:]), rounding(t))
    if t.target_map_ is not None:
        near(apply(program(steps_of(t, "target")), y[500:]), t.transform_target(y[500:]))


@pytest.mark.parametrize("codes", ["iso", "center+l2", "l2", "standard"])
def test_relative_translators_and_their_halves_have_steps(codes):
    x, y = spaces("digits")
    t = rl.RelativeTranslator(normalize=codes).fit(x[:60], y[:60])
    for part, rows in ((t, x), (t.encoder_, x), (t.decoder_, t.encoder_.transform(x))):
        near(apply(program(steps_of(part)), rows[500:]), part.transform(rows[500:]), rtol=1e-4)


@pytest.mark.parametrize("codes", ["parseval", "cosine"])
def test_other_codes_have_steps_too(codes):
    x, y = spaces("digits")
    t = rl.RelativeTranslator(codes).fit(x[:60], y[:60])
    for part, rows in ((t, x), (t.encoder_, x), (t.decoder_, t.encoder_.transform(x))):
        near(apply(program(steps_of(part)), rows[500:]), part.transform(rows[500:]), rtol=1e-4)


def test_an_offset_is_one_linear_step_and_leaves_by_itself(tmp_path):
    x, _ = spaces("correlated")
    t = rl.Translator(map="offset").fit(x[:60], x[:60] + 3)
    assert [step.kind for step in steps_of(t)] == ["linear"]
    export(t, tmp_path / "t.onnx", to="onnx")
    session = pytest.importorskip("onnxruntime").InferenceSession(str(tmp_path / "t.onnx"))
    near(session.run(None, {"vectors": x[500:]})[0], x[500:] + 3)


def test_normalize_adds_unit_norm():
    x, _ = spaces("digits")
    found = apply(program(steps_of(fitted("orthogonal", "digits"), normalize=True)), x)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)


def test_rows_of_any_size_get_unit_norm_and_zero_stays():
    rows = np.asarray([[3e30, 4e30], [3e-30, 4e-30], [0, 0]], dtype=np.float32)
    np.testing.assert_allclose(unit(rows), [[0.6, 0.8], [0.6, 0.8], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize(("setting", "space"), CASES)
def test_a_map_is_nothing_but_its_steps(setting, space):
    x, _ = spaces(space)
    t = fitted(setting, space)
    found = x[500:600]
    for step in steps_of(t):
        found = step(found)
    np.testing.assert_array_equal(found, t.map_(x[500:600]))


def test_every_kind_of_step_is_known_to_the_exports_that_take_any_map():
    assert STEPS.keys() == translate_with_numpy.STEPS.keys() == NODES.keys()


def test_a_step_that_is_not_known_is_refused():
    with pytest.raises(KeyError, match="fourier"):
        apply([("fourier", {})], np.ones((1, 2)))
    with pytest.raises(KeyError, match="fourier"):
        Step("fourier")(np.ones((1, 2)))


@pytest.mark.parametrize(
    ("made", "options", "says"),
    [
        (lambda: fitted("orthogonal", "digits"), {"side": "target"}, "no map to export"),
        (lambda: fitted("orthogonal", "digits"), {"side": "left"}, "expected 'source' or 'target'"),
        (lambda: fitted("retrieval", "digits"), {"normalize": True}, "compared by inner product"),
        (rl.Translator, {}, "expected a fitted Translator"),
        (rl.Hub, {}, "no single map"),
    ],
)
def test_what_has_no_such_map_is_refused(made, options, says):
    with pytest.raises(ValueError, match=says):
        steps_of(made(), **options)


@pytest.mark.parametrize("make", [lambda: fitted("retrieval, unit rows", "digits"), lambda: nonlinear("digits")])
def test_the_numpy_folder_needs_numpy_alone(make, tmp_path):
    x, _ = spaces("digits")
    t = make()
    export(t, tmp_path / "alone", "numpy")
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys; sys.path.insert(0, 'alone'); import numpy as np; from translate_with_numpy import load;"
        "np.save('y.npy', load('alone/map.npz')(np.load('x.npy'))); print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-c", code]
    loaded = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
    assert {"relatent", "sklearn", "scipy"}.isdisjoint(loaded)
    near(np.load(tmp_path / "y.npy"), t.transform(x))


def test_export_refuses_what_it_does_not_know(tmp_path):
    t = fitted("orthogonal", "digits")
    with pytest.raises(ValueError, match="Did you mean 'onnx'"):
        export(t, tmp_path / "t.onnx", "onxx")
    with pytest.raises(ValueError, match="takes only: side, normalize"):
        export(t, tmp_path / "t.onnx", "onnx", encoder="folder")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced_unless_told(tmp_path):
    t = fitted("orthogonal", "digits")
    path = tmp_path / "t.onnx"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        export(t, path, "onnx")
    assert path.read_text() == "mine"
    export(t, path, "onnx", overwrite=True)
    assert path.read_bytes() != b"mine"
