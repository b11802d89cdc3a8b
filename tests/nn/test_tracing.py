"""Graphs: what torch.compile, torch.export and ONNX make of the layers must give what the layers give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import relatent as rl

slow = pytest.mark.slow
# One without and one with an inverse; the others take a second or two each.
TRACED = [
    "cosine",
    "mahalanobis",
    *(pytest.param(name, marks=slow) for name in ("inner", "angular", "euclidean", "l1", "linf", "lp", "basis")),
]
BATCH = {0: torch.export.Dim.DYNAMIC}


def _model(similarity: str = "cosine", **options) -> nn.Sequential:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4))
    options = {"normalize": "center", "output": "layer", "encoder": encoder} | options
    return nn.Sequential(encoder, rl.nn.RelativeProjection(torch.randn(7, 6), similarity, **options), nn.Linear(7, 2))


def _translation(**options) -> tuple[rl.nn.Translation, torch.Tensor]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6)).astype(np.float32)
    return rl.nn.Translation(rl.Translator(**options).fit(x, np.tanh(x[:, :5]))), torch.from_numpy(x)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(11, 6, generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()


def _compiled(model: nn.Module) -> nn.Module:
    return torch.compile(model, fullgraph=True, backend="eager")  # the tracing is ours, the rest torch's


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("similarity", TRACED)
def test_an_evaluated_model_compiles_to_one_graph(similarity, x):
    model = _model(similarity).eval()
    assert _close(_compiled(model)(x), model(x))


def test_standardized_anchors_compile_to_one_graph(x):
    model = _model(normalize="standard").eval()
    assert _close(_compiled(model)(x), model(x))


def test_a_training_step_compiles_to_one_graph(x):
    ours, theirs = _model(), _model()
    for model in (ours, theirs):
        model[0][2].p = 0.0
    compiled = _compiled(ours)
    for _ in range(2):
        for model in (compiled, theirs):
            model(x).square().sum().backward()
    assert all(_close(a.grad, b.grad) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(ours[0].buffers(), theirs[0].buffers(), strict=True))
    ours.eval()
    assert _close(compiled(x), theirs.eval()(x))


@slow
def test_averaged_anchors_compile(x):
    ours, theirs = (_model(momentum=0.5) for _ in range(2))
    compiled = _compiled(ours)
    for _ in range(3):
        compiled(x), theirs(x)
        for model in (ours, theirs):
            with torch.no_grad():
                model[0][3].weight.mul_(-1.2)
    assert _close(ours[1].anchors, theirs[1].anchors)


@pytest.mark.parametrize("similarity", TRACED)
def test_an_exported_model_takes_any_batch(similarity, x):
    model = _model(similarity).eval()
    model(x)
    exported = torch.export.export(model, (x[:3],), dynamic_shapes=(BATCH,)).module()
    assert all(_close(exported(batch), model(batch)) for batch in (x, x[:1]))


@pytest.mark.parametrize("similarity", ["geodesic", "quantized"])
def test_similarities_outside_of_torch_are_refused_when_exported(similarity, x):
    layer = rl.nn.RelativeProjection(x[:4], similarity)
    with pytest.raises(RuntimeError, match=f"{similarity!r} compares all samples outside of torch"):
        torch.export.export(layer, (x,))


@slow
@pytest.mark.parametrize("similarity", ["geodesic", "quantized"])
def test_a_graph_that_may_break_goes_around_it(similarity, x):
    layer = rl.nn.RelativeProjection(x[:4], similarity)
    assert torch.equal(torch.compile(layer, backend="eager")(x), layer(x))


def test_an_export_refuses_anchors_of_an_earlier_step(x):
    model = _model().eval()
    model[1].train()(torch.randn(2, 4))
    model.eval()
    with pytest.raises(RuntimeError, match=r"call model.eval\(\), then freeze\(\)"):
        torch.export.export(model, (x,))
    model[1].freeze()
    exported = torch.export.export(model, (x,))
    assert not exported.constants  # the samples stay behind


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="kernel"),
        pytest.param({"goal": "retrieval"}, id="retrieval", marks=slow),
        pytest.param({"map": "affine", "normalize": "center+l2"}, id="unit rows", marks=slow),
    ],
)
def test_translations_compile_and_export(options):
    layer, x = _translation(**options)
    assert _close(_compiled(layer)(x), layer(x))
    exported = torch.export.export(layer, (x[:3],), dynamic_shapes=(BATCH,)).module()
    assert _close(exported(x), layer(x))


def _run(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    program = torch.onnx.export(model, (x[:3],), dynamo=True, dynamic_shapes=(BATCH,), verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


# The exporter warns of what it uses itself.
@slow
@pytest.mark.filterwarnings("ignore")
def test_a_whole_model_runs_in_onnxruntime(x):
    relative = _model(rl.project.similarity.combine("cosine", "euclidean", how="mean")).eval()
    layer, _ = _translation()
    model = nn.Sequential(layer, nn.Linear(5, 6), relative).eval()
    model(x)
    assert _close(_run(model, x), model(x))


@slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("similarity", ["cosine", "inner", "euclidean", "l1", "lp", "angular"])
def test_similarities_run_in_onnxruntime(similarity, x):
    model = _model(similarity).eval()
    model(x)
    assert _close(_run(model, x), model(x))


@slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("side", ["source", "target"])
def test_both_sides_of_a_retrieval_run_in_onnxruntime(side, x):
    layer, _ = _translation(goal="retrieval")
    part = getattr(layer, side)
    x = x if side == "source" else x[:, :5].contiguous()
    assert _close(_run(part, x), part(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("similarity", "normalize"), [("basis", "none"), ("mahalanobis", "center")])
def test_what_onnx_cannot_invert_is_inverted_before(similarity, normalize, x, monkeypatch):
    anchors = torch.randn(9, 6, generator=torch.Generator().manual_seed(3))
    layer = rl.nn.RelativeProjection(anchors, similarity, output="none")
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    with pytest.raises(RuntimeError, match=f"{similarity!r} inverts the anchors"):
        torch.export.export(layer, (x,))
    codes = rl.nn.Translation(rl.RelativeEncoder(normalize=normalize, ridge=0.0).fit(anchors))(x)
    assert torch.allclose(layer(x), codes * (1 if similarity == "basis" else 8), atol=1e-4)
