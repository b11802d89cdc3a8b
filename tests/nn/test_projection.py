from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import relatent as rl


def _encoder(dims: int = 6, *, width: int = 4, dropout: float = 0.5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(dims, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, width))


@pytest.fixture
def samples() -> torch.Tensor:
    return torch.randn(7, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(11, 6, generator=torch.Generator().manual_seed(2))


def _relative(encoder: nn.Module, samples: torch.Tensor, **options) -> nn.Sequential:
    layer = rl.nn.RelativeProjection(samples, encoder=encoder, **{"output": "none", **options})
    return nn.Sequential(encoder, layer)


@pytest.mark.parametrize("name", rl.project.similarity.SIMILARITIES)
def test_the_layer_is_the_core_on_vectors(name, rng):
    x, anchors = rng.normal(size=(30, 4)), rng.normal(size=(9, 4))
    layer = rl.nn.RelativeProjection(torch.from_numpy(anchors), name, output="none")
    assert np.allclose(layer(torch.from_numpy(x)).numpy(), rl.relative_projection(x, anchors, name))


@pytest.mark.parametrize("normalize", ["none", "center", "standard"])
@pytest.mark.parametrize("output", ["none", "l2", "layer"])
def test_options_mean_what_they_mean_in_the_estimator(normalize, output, rng):
    x, anchors = rng.normal(size=(30, 4)), rng.normal(size=(9, 4))
    layer = rl.nn.RelativeProjection(torch.from_numpy(anchors), normalize=normalize, output=output)
    estimator = rl.RelativeProjection(normalize=normalize, output=output).fit(anchors)
    assert np.allclose(layer(torch.from_numpy(x)).numpy(), estimator.transform(x))


def test_by_default_what_follows_reads_rows_of_mean_0_and_variance_1(rng):
    """A head that sees the spread of raw cosines learns it, and no other encoder has the same."""
    x, anchors = (torch.from_numpy(rng.normal(size=(n, 4))) for n in (30, 9))
    out = rl.nn.RelativeProjection(anchors)(x)
    assert torch.allclose(out, nn.functional.layer_norm(rl.project.similarity.cosine(x, anchors), (9,)))


@pytest.mark.parametrize(("change", "normalize", "survives"), [
    ("rotate", "none", True),
    ("rescale", "none", True),
    ("offset", "none", False),
    ("offset", "center", True),
    ("coordinates", "none", False),
    ("coordinates", "center", False),
    ("coordinates", "standard", True),
    ("offset", "standard", True),
    ("rotate", "standard", False),
])  # fmt: skip
def test_what_the_output_is_unchanged_by(change, normalize, survives, x, samples, orthogonal):
    encoder = _encoder().double().eval()
    rotation = torch.from_numpy(orthogonal(4))
    one_by_one = torch.tensor([0.5, 3.0, 1.0, 7.0], dtype=torch.float64)
    changes = {
        "rotate": lambda z: z @ rotation,
        "rescale": lambda z: 3 * z,
        "offset": lambda z: z + 2,
        "coordinates": lambda z: (z * one_by_one)[:, [2, 0, 3, 1]],
    }
    before = _relative(encoder, samples.double(), normalize=normalize).eval()(x.double())
    other = lambda s: changes[change](encoder(s))  # noqa: E731
    layer = rl.nn.RelativeProjection(samples.double(), encoder=other, normalize=normalize, output="none").eval()
    assert torch.allclose(before, layer(other(x.double()))) is survives


def test_batch_normalization_at_the_end_of_the_encoder_is_that_of_samples_and_of_anchors(x, samples):
    encoder = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4, affine=False))
    out = _relative(encoder, samples)(x)
    batches = (encoder[0](a) for a in (x, samples))
    a, b = ((z - z.mean(0)) / (z.var(0, unbiased=False) + 1e-5) ** 0.5 for z in batches)
    assert torch.allclose(out, nn.functional.cosine_similarity(a[:, None], b[None], dim=2), atol=1e-5)


def test_dead_coordinates_are_left_as_they_are_and_have_a_gradient(rng):
    x, anchors = (torch.from_numpy(rng.normal(size=(n, 4))) for n in (9, 7))
    x, anchors = (torch.cat([a, torch.full((len(a), 1), 3.0)], dim=1) for a in (x, anchors))
    layer = rl.nn.RelativeProjection(anchors, normalize="standard", output="none", anchor_grad=True)
    expected = rl.RelativeProjection(normalize="standard").fit(anchors.numpy()).transform(x.numpy())
    out = layer(x)
    assert np.allclose(out.detach(), expected)
    out.sum().backward()
    assert torch.isfinite(layer.anchors.grad).all()


def test_anchors_are_embedded_again_at_every_step(x, samples):
    encoder = _encoder(dropout=0.0)
    model = _relative(encoder, samples)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    seen = []
    for _ in range(3):
        twin = copy.deepcopy(encoder)
        expected = rl.project.similarity.cosine(twin(x), twin(samples))
        out = model(x)
        assert torch.allclose(out, expected, atol=1e-6)
        seen.append(out.detach())
        optimizer.zero_grad()
        out.sum().backward()
        optimizer.step()
    assert not torch.allclose(seen[0], seen[-1], atol=1e-3)


def test_the_anchor_pass_leaves_no_trace(x, samples):
    encoder, twin = _encoder(), _encoder()
    fired = []
    encoder[0].register_forward_hook(lambda *_: fired.append(1))
    encoder[4].eval()
    flags = [m.training for m in encoder.modules()]
    model = _relative(encoder, samples)
    for batch in (x, 2 * x, x + 1):
        twin(batch)
        model(batch)
    ours, theirs = dict(encoder.named_buffers()), dict(twin.named_buffers())
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert [m.training for m in encoder.modules()] == flags
    assert len(encoder[0]._forward_hooks) == 1
    assert fired


def test_dropout_does_not_touch_the_anchors(x, samples):
    encoder = _encoder(dropout=0.9)
    layer = rl.nn.RelativeProjection(samples, encoder=encoder).train()
    z = encoder(x).detach()
    assert torch.equal(layer(z), layer(z))


def test_in_evaluation_anchors_are_embedded_once_after_the_last_step(x, samples):
    encoder, calls = _encoder(), []
    encoder.register_forward_hook(lambda *_: calls.append(1))
    model = _relative(encoder, samples)
    model(x)
    with torch.no_grad():
        encoder[4].weight.add_(1.0)  # an optimiser's step
    model.eval()
    calls.clear()
    first, second = model(x), model(x)
    assert len(calls) == 3  # two batches, and the anchors once
    assert torch.equal(first, second)
    assert torch.allclose(first, rl.project.similarity.cosine(encoder(x), encoder(samples)), atol=1e-6)


def test_the_encoder_is_registered_once(samples):
    model = _relative(_encoder(), samples)
    names = list(model.state_dict())
    assert sum("weight" in name for name in names) == 3
    assert names[-1] == "1.anchors"
    assert "1.samples" not in names


def test_a_loaded_model_needs_no_samples(x, samples):
    model = _relative(_encoder(), samples)
    model(x)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = nn.Sequential(_encoder(), rl.nn.RelativeProjection(None, output="none")).eval()
    with pytest.raises(RuntimeError, match="There are no anchors yet"):
        fresh(x)
    fresh.load_state_dict(torch.load(file))
    assert torch.equal(fresh(x), model.eval()(x))


@pytest.mark.parametrize("asked", [False, True])
def test_gradients_pass_through_anchors_only_when_asked(asked, samples):
    encoder = _encoder(dropout=0.0)
    layer = rl.nn.RelativeProjection(samples, encoder=encoder, anchor_grad=asked)
    z = torch.ones(2, 4, requires_grad=True)
    layer(z).sum().backward()
    assert z.grad is not None
    assert (encoder[4].weight.grad is not None) is asked


def test_anchor_vectors_are_a_parameter_when_they_may_learn(samples):
    assert not list(rl.nn.RelativeProjection(samples).parameters())
    layer = rl.nn.RelativeProjection(samples, anchor_grad=True)
    layer(torch.ones(2, 6)).sum().backward()
    assert layer.anchors.grad.abs().sum() > 0


def test_averaged_anchors_follow_a_hand_computed_mean(x, samples):
    encoder = nn.Linear(6, 4)
    layer = rl.nn.RelativeProjection(samples, encoder=encoder, momentum=0.75, output="none")
    expected = None
    for _ in range(3):
        fresh = encoder(samples).detach()
        expected = fresh if expected is None else 0.75 * expected + 0.25 * fresh
        out = layer(encoder(x))
        assert torch.allclose(layer.anchors, expected, atol=1e-6)
        assert torch.allclose(out, rl.project.similarity.cosine(encoder(x), expected), atol=1e-6)
        with torch.no_grad():
            encoder.weight.mul_(-1.3)
    layer.eval()(encoder(x))
    assert torch.allclose(layer.anchors, expected, atol=1e-6)


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_several_batches_may_wait_for_one_backward_pass(momentum, x, samples):
    model = _relative(_encoder(), samples, momentum=momentum, similarity="euclidean")
    (model(x).sum() + model(2 * x).sum()).backward()
    assert torch.isfinite(model[0][0].weight.grad).all()


def test_averages_lose_no_digits_under_autocast(samples):
    encoder = nn.Linear(6, 4)
    layer = rl.nn.RelativeProjection(samples, encoder=encoder, momentum=0.999)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(torch.ones(2, 4))
    first = layer.anchors.clone()
    with torch.no_grad():
        encoder.weight.mul_(1.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(20):
            layer(torch.ones(2, 4))
        last = encoder(samples).detach().float()
    assert torch.allclose(layer.anchors, last + 0.999**20 * (first - last), atol=1e-5)
    assert not torch.allclose(layer.anchors, first, atol=1e-4)


def test_under_autocast_the_encoder_still_learns(x, samples):
    encoder = nn.Linear(6, 4)
    layer = rl.nn.RelativeProjection(samples, encoder=encoder)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(torch.ones(2, 4))  # before the samples pass
        layer(encoder(x)).sum().backward()
    assert encoder.weight.grad.abs().sum() > 0


def test_averaged_anchors_stay_when_frozen(x, samples):
    encoder = nn.Linear(6, 4)
    layer = rl.nn.RelativeProjection(samples, encoder=encoder, momentum=0.5)
    layer(encoder(x))
    held = layer.anchors.clone()
    with torch.no_grad():
        encoder.weight.mul_(2.0)
    assert torch.equal(layer.freeze().anchors, held)


def test_anchors_embedded_in_inference_mode_can_be_trained_with(x, samples):
    encoder = nn.Linear(6, 4)
    layer = rl.nn.RelativeProjection(samples, encoder=encoder)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        layer.eval()(encoder(x))
    assert layer.anchors.dtype == torch.float32
    layer.freeze().train()(encoder(x)).sum().backward()
    assert encoder.weight.grad.abs().sum() > 0


def test_given_anchors_are_not_those_of_the_layer(samples):
    given = samples.clone().requires_grad_()
    layer = rl.nn.RelativeProjection(given)
    layer.load_state_dict({"anchors": torch.zeros(7, 6)})
    assert torch.equal(given, samples)
    assert not layer(torch.ones(2, 6)).requires_grad


def test_freezing_lets_the_encoder_go(x, samples):
    encoder = _encoder().eval()
    layer = rl.nn.RelativeProjection(samples, encoder=encoder).freeze()
    expected = encoder(samples).detach()
    with torch.no_grad():
        encoder[0].weight.add_(1.0)
    layer.train()(torch.ones(3, 4))
    assert torch.equal(layer.anchors, expected)
    assert layer.samples is None
    with pytest.raises(RuntimeError, match="no anchor samples"):
        layer.refresh()


def test_a_method_of_a_module_is_protected_as_the_module(x, samples):
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = _encoder()
            self.relative = rl.nn.RelativeProjection(samples, encoder=self.encode, output="none")

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relative(self.encode(x))

    model, twin = Model(), _encoder()
    model(x)
    twin(x)
    assert torch.equal(model.body[1].running_mean, twin[1].running_mean)
    assert model.body[1].num_batches_tracked == 1
    assert all(m.training for m in model.modules())
    model.eval()
    assert torch.allclose(model(x), rl.project.similarity.cosine(model.body(x), model.body(samples)), atol=1e-6)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_of_a_model_embeds_with_its_own_encoder(duplicate, x, samples):
    model = _relative(_encoder(dropout=0.0), samples)
    twin = duplicate(model)
    assert twin[1]._encoder is twin[0]
    assert torch.equal(twin(x), model(x))
    with torch.no_grad():
        twin[0][4].weight.add_(1.0)
    assert not torch.allclose(twin(x), model(x))


def test_it_moves_with_the_model(x, samples):
    model = _relative(_encoder(), samples).eval()
    before = model(x)
    moved = model.double()
    assert moved(x.double()).dtype == torch.float64
    assert moved[1].samples.dtype == torch.float64
    assert torch.allclose(moved(x.double()).float(), before, atol=1e-5)
    assert moved.to("meta")(x.double().to("meta")).device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float16_is_compared_in_float32(dtype, rng):
    x, anchors = (torch.from_numpy(rng.normal(size=(n, 64))).to(dtype) for n in (50, 9))
    out = rl.nn.RelativeProjection(anchors, output="none")(x)
    exact = nn.functional.cosine_similarity(x.double()[:, None], anchors.double()[None], dim=-1)
    assert out.dtype == dtype
    assert torch.equal(out, exact.to(dtype)) or (out - exact.to(dtype)).abs().max() <= torch.finfo(dtype).eps
    assert rl.nn.RelativeProjection(anchors.float())(x).dtype == dtype


def test_under_autocast_similarities_stay_float32(x, samples):
    encoder = _encoder().eval()
    layer = rl.nn.RelativeProjection(samples, encoder=encoder, output="none").eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = encoder(x)
        out = layer(z)
        matmul = nn.functional.normalize(z.float()) @ nn.functional.normalize(layer.anchors.float()).T
    exact = nn.functional.cosine_similarity(z.double()[:, None], layer.anchors.double()[None], dim=-1)
    assert z.dtype == matmul.dtype == torch.bfloat16
    assert out.dtype == torch.float32
    assert (out - exact).abs().max() < 1e-6 < (matmul - exact).abs().max()


GRADED = [name for name in rl.project.similarity.SIMILARITIES if name not in ("geodesic", "quantized")]


@pytest.mark.parametrize("normalize", ["none", "center"])
@pytest.mark.parametrize("name", [*GRADED, rl.project.similarity.combine("cosine", "euclidean")])
def test_gradcheck(name, normalize, rng):
    x, anchors = (torch.from_numpy(rng.normal(size=(n, 3))).requires_grad_() for n in (4, 5))
    layer = rl.nn.RelativeProjection(anchors.detach(), name, normalize=normalize, output="layer", anchor_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, a: torch.func.functional_call(layer, {"anchors": a}, (x,)), (x, anchors), atol=1e-4
    )


@pytest.mark.parametrize("name", GRADED)
def test_gradients_are_finite_where_the_formula_has_none(name):
    anchors = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    x = torch.cat([torch.zeros(1, 3), anchors, 1e30 * anchors[:1], 1e-30 * anchors[:1]]).requires_grad_()
    layer = rl.nn.RelativeProjection(anchors, name, anchor_grad=True)
    out = layer(x[:4] if name in ("lp", "linf", "inner", "l1", "basis", "mahalanobis", "euclidean") else x)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(layer.anchors.grad).all()


def test_the_gradient_of_the_cosine_is_that_of_torch(rng):
    x, anchors = (torch.from_numpy(rng.normal(size=(n, 3))).requires_grad_() for n in (4, 5))
    ours = torch.autograd.grad(rl.project.similarity.cosine(x, anchors).square().sum(), (x, anchors))
    torchs = nn.functional.cosine_similarity(x[:, None], anchors[None], dim=-1)
    theirs = torch.autograd.grad(torchs.square().sum(), (x, anchors))
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


def test_it_warns_when_anchors_for_evaluation_meet_an_encoder_in_training(x, samples):
    encoder = _encoder()
    layer = rl.nn.RelativeProjection(samples, encoder=encoder)
    with pytest.warns(UserWarning, match=r"call encoder.eval\(\) first"):
        layer.eval()(encoder(x))
    with pytest.warns(UserWarning, match=r"call encoder.eval\(\) first"):
        layer.refresh()
    encoder.eval()
    layer.refresh()


def test_wrong_shapes_are_refused(x, samples):
    layer = rl.nn.RelativeProjection(samples)
    with pytest.raises(ValueError, match="x is on meta and anchors is on cpu"):
        layer(x.to("meta"))
    with pytest.raises(ValueError, match=r"x \(11, 5\) and anchors \(7, 6\)"):
        layer(x[:, :5])
    with pytest.raises(ValueError, match=r"x has shape \(11, 6, 1\).*expected floating 2-D"):
        layer(x[..., None])
    with pytest.raises(ValueError, match=r"dtype torch\.int64"):
        layer(x.long())
    with pytest.raises(TypeError, match="The anchors are a dict: expected a tensor"):
        rl.nn.RelativeProjection({"ids": samples}, encoder=nn.Identity())
    with pytest.raises(ValueError, match=r"anchors have shape \(7, 6, 1\).*need an encoder"):
        rl.nn.RelativeProjection(samples[..., None])
    with pytest.raises(ValueError, match=r"anchors have shape \(7, 3, 2\).*nn.Flatten"):
        rl.nn.RelativeProjection(samples, encoder=lambda s: s.reshape(7, 3, 2))(x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"similarity": "cosin"}, "Did you mean 'cosine'"),
        ({"normalize": "centre"}, "Did you mean 'center'"),
        ({"output": "L2"}, "There are: none, l2, layer"),
        ({"momentum": 0.9}, "give encoder"),
        ({"momentum": 1.0, "encoder": nn.Identity()}, "less than 1"),
        ({"momentum": 0.9, "encoder": nn.Identity(), "anchor_grad": True}, "choose momentum or anchor_grad"),
    ],
)
def test_options_that_make_no_sense(options, message, samples):
    with pytest.raises(ValueError, match=message):
        rl.nn.RelativeProjection(samples, **options)


def test_a_missing_torch_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; import relatent as rl; rl.nn"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'relatent[torch]'" in run.stderr
