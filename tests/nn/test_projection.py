from __future__ import annotations

import copy
import io

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
    return nn.Sequential(encoder, rl.nn.RelativeProjection(samples, encoder=encoder, **options))


@pytest.mark.parametrize("name", rl.similarity.SIMILARITIES)
def test_the_layer_is_the_core_on_vectors(name, rng):
    x, anchors = rng.normal(size=(30, 4)), rng.normal(size=(9, 4))
    layer = rl.nn.RelativeProjection(torch.from_numpy(anchors), name)
    assert np.allclose(layer(torch.from_numpy(x)).numpy(), rl.relative_projection(x, anchors, name))


@pytest.mark.parametrize("normalize", ["none", "center"])
@pytest.mark.parametrize("output", ["none", "l2", "layer"])
def test_options_mean_what_they_mean_in_the_estimator(normalize, output, rng):
    x, anchors = rng.normal(size=(30, 4)), rng.normal(size=(9, 4))
    layer = rl.nn.RelativeProjection(torch.from_numpy(anchors), normalize=normalize, output=output)
    estimator = rl.RelativeProjection(normalize=normalize, output=output).fit(anchors)
    assert np.allclose(layer(torch.from_numpy(x)).numpy(), estimator.transform(x))


@pytest.mark.parametrize(("change", "normalize", "survives"), [
    ("rotate", "none", True),
    ("rescale", "none", True),
    ("offset", "none", False),
    ("offset", "center", True),
])  # fmt: skip
def test_what_the_output_is_unchanged_by(change, normalize, survives, x, samples, orthogonal):
    encoder = _encoder().double().eval()
    changes = {
        "rotate": lambda z: z @ torch.from_numpy(orthogonal(4)),
        "rescale": lambda z: 3 * z,
        "offset": lambda z: z + 2,
    }
    rotation = torch.from_numpy(orthogonal(4))
    changes["rotate"] = lambda z: z @ rotation
    before = _relative(encoder, samples.double(), normalize=normalize).eval()(x.double())
    other = lambda s: changes[change](encoder(s))  # noqa: E731
    layer = rl.nn.RelativeProjection(samples.double(), encoder=other, normalize=normalize).eval()
    assert torch.allclose(before, layer(other(x.double()))) is survives


def test_anchors_are_embedded_anew_at_every_step(x, samples):
    encoder = _encoder(dropout=0.0)
    model = _relative(encoder, samples)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    seen = []
    for _ in range(3):
        twin = copy.deepcopy(encoder)
        expected = rl.similarity.cosine(twin(x), twin(samples))
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
    torch.manual_seed(3)
    twin(x)
    torch.manual_seed(3)
    model(x)
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
    assert torch.allclose(first, rl.similarity.cosine(encoder(x), encoder(samples)), atol=1e-6)


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
    fresh = nn.Sequential(_encoder(), rl.nn.RelativeProjection(None)).eval()
    with pytest.raises(RuntimeError, match="There are no anchors yet"):
        fresh(x)
    fresh.load_state_dict(torch.load(file))
    assert torch.equal(fresh(x), model.eval()(x))


def test_gradients_pass_through_anchors_only_when_asked(x, samples):
    gradients = {}
    for asked in (False, True):
        encoder = _encoder(dropout=0.0)
        layer = rl.nn.RelativeProjection(samples, encoder=encoder, anchor_grad=asked)
        layer(torch.ones(2, 4)).sum().backward() if asked else layer(torch.ones(2, 4))
        gradients[asked] = encoder[4].weight.grad
    assert gradients[False] is None
    assert gradients[True].abs().sum() > 0


def test_averaged_anchors_follow_a_hand_computed_mean(x, samples):
    encoder = nn.Linear(6, 4)
    layer = rl.nn.RelativeProjection(samples, encoder=encoder, momentum=0.75)
    expected = None
    for _ in range(3):
        fresh = encoder(samples).detach()
        expected = fresh if expected is None else 0.75 * expected + 0.25 * fresh
        out = layer(encoder(x))
        assert torch.allclose(layer.anchors, expected, atol=1e-6)
        assert torch.allclose(out, rl.similarity.cosine(encoder(x), expected), atol=1e-6)
        with torch.no_grad():
            encoder.weight.mul_(-1.3)
    layer.eval()(encoder(x))
    assert torch.allclose(layer.anchors, expected, atol=1e-6)
