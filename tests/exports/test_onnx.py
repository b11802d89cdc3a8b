import json

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.exports.translators import CASES, SPACES, fitted, near, nonlinear, rounding, spaces

from relatent.exports import export
from relatent.exports.onnx import IR_VERSION, OPSET, model


def run(built, x):
    session = onnxruntime.InferenceSession(built.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["translated"], {"vectors": x})[0]


@pytest.mark.parametrize(("setting", "space"), CASES)
def test_onnxruntime_gives_what_transform_gives(setting, space):
    x, y = spaces(space)
    t = fitted(setting, space)
    near(run(model(t), x[500:]), t.transform(x[500:]), rounding(t))
    if t.target_map_ is not None:
        near(run(model(t, side="target"), y[500:]), t.transform_target(y[500:]))


@pytest.mark.parametrize("space", SPACES)
def test_a_nonlinear_map_is_a_graph_too(space):
    x, _ = spaces(space)
    t = nonlinear(space)
    near(run(model(t), x[500:]), t.transform(x[500:]), rounding(t))


@pytest.mark.parametrize("rows", [1, 2, 17])
def test_any_batch_size_passes(rows):
    x, _ = spaces("digits")
    t = fitted("ridge, center+l2", "digits")
    near(run(model(t), x[:rows]), t.transform(x[:rows]))


def test_zero_and_huge_rows_get_the_norms_that_transform_gives_them():
    t = fitted("ridge, l2", "digits")
    rows = np.zeros((3, 48), dtype=np.float32)
    rows[1], rows[2, :2] = 1e30, 1e-30
    near(run(model(t), rows), t.transform(rows))


def test_the_file_says_what_it_is(tmp_path):
    t = fitted("retrieval", "digits")
    export(t, tmp_path / "t.onnx", "onnx", side="target")
    read = onnx.load(tmp_path / "t.onnx")
    assert (read.opset_import[0].version, read.ir_version) == (OPSET, IR_VERSION)
    about = json.loads({p.key: p.value for p in read.metadata_props}["relatent"])
    assert (about["side"], about["metric"], about["dims"]) == ("target", "inner", [32, 33])
    assert about["source"]["id"] != about["target"]["id"]
