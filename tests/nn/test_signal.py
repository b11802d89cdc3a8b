"""Relative similarity as a loss, and latent similarity as a figure to watch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import relatent as rl
from relatent.nn.monitor import captured

loss = rl.nn.RelativeSimilarityLoss()


def _draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("center", [True, False])
def test_the_loss_is_one_minus_the_measure(center):
    x, y = _draw(40, 6).double(), _draw(40, 9, seed=1).double()
    rows = np.arange(0, 40, 3)
    value = rl.nn.RelativeSimilarityLoss(center=center)(x, y, x[rows], y[rows])
    assert np.isclose(float(value), 1 - float(rl.evaluate.relative_similarity(x, y, rows, center=center)))


@pytest.mark.parametrize(
    ("change", "center", "survives"),
    [
        (lambda z, q: z @ q, True, True),
        (lambda z, q: 3 * z, True, True),
        (lambda z, q: z + 1, True, True),
        (lambda z, q: z + 1, False, False),
        (lambda z, q: z**3, True, False),
    ],
    ids=["rotate", "rescale", "offset", "offset, not centred", "distort"],
)
def test_what_the_loss_is_unchanged_by(change, center, survives, orthogonal):
    y, q = _draw(40, 6).double(), torch.from_numpy(orthogonal(6))
    x = change(y, q)
    value = float(rl.nn.RelativeSimilarityLoss(center=center)(x, y, x[:9], y[:9]))
    assert (abs(value) < 1e-9) is survives


def test_gradients_reach_the_student_and_not_the_teacher():
    x, y = _draw(4, 3).double().requires_grad_(), _draw(4, 5, seed=1).double().requires_grad_()
    a, b = _draw(6, 3, seed=2).double().requires_grad_(), _draw(6, 5, seed=3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, a: loss(x, y.detach(), a, b.detach()), (x, a))
    loss(x, y, a, b).backward()
    assert x.grad is not None
    assert a.grad is not None
    assert y.grad is None
    assert b.grad is None


def test_a_student_learns_the_teachers_space_without_labels():
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 16)).requires_grad_(False)
    student = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 5))
    anchors, train, test = _draw(30, 10), _draw(256, 10, seed=1), _draw(100, 10, seed=2)
    optimizer = torch.optim.Adam(student.parameters(), lr=0.01)

    def unseen() -> dict[str, float]:
        return rl.nn.latent_similarity(student, teacher(test), test)

    before = unseen()
    for _ in range(60):
        optimizer.zero_grad()
        loss(student(train), teacher(train), student(anchors), teacher(anchors)).backward()
        optimizer.step()
    after = unseen()
    # At least half of what was missing, on samples that neither saw, though the student has a third of the width.
    assert all(1 - after[name] < 0.5 * (1 - before[name]) for name in before)


def test_the_loss_is_computed_in_single_precision():
    x, y = _draw(40, 6), _draw(40, 9, seed=1)
    expected = loss(x.bfloat16().float(), y, x[:9].bfloat16().float(), y[:9])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(x.bfloat16(), y, x[:9].bfloat16(), y[:9])
    assert value.dtype == torch.float32
    assert torch.allclose(value, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(8, 3), (7, 5), (4, 3), (4, 5)], "student has 8 rows and teacher has 7 rows"),
        ([(8, 3), (8, 5), (4, 3), (3, 5)], "student_anchors has 4 rows and teacher_anchors has 3 rows"),
        ([(8, 3), (8, 5), (4, 5), (4, 3)], r"student \(8, 3\) and student_anchors \(4, 5\)"),
        ([(8, 3), (8, 5), (4, 3), (4, 5, 1)], "teacher_anchors has shape .* expected floating 2-D"),
    ],
)
def test_what_does_not_fit_is_named(shapes, message):
    with pytest.raises(ValueError, match=message):
        loss(*(_draw(*shape) for shape in shapes))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Tanh())
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


def test_a_named_layer_is_measured_against_a_reference():
    model, x = Net().eval(), _draw(50, 6)
    reference, logged = x.numpy() ** 3, []
    rows = np.arange(0, 50, 4)
    values = rl.nn.latent_similarity(
        model, reference, x, layer="encoder", anchor_rows=rows, prefix="val/", log=logged.append, batch_size=7
    )
    z = model.encoder(x).detach().numpy().astype(np.float64)
    assert np.isclose(values["val/relative_similarity"], float(rl.evaluate.relative_similarity(z, reference, rows)))
    assert np.isclose(values["val/cka"], float(rl.evaluate.cka(z, reference.astype(np.float64))))
    assert logged == [values]
    assert rl.nn.latent_similarity(z, reference, anchor_rows=rows, prefix="val/") == pytest.approx(values)


@pytest.mark.parametrize("fails", [False, True])
def test_watching_leaves_the_model_as_it_was(fails):
    model, x = Net(), _draw(50, 6)
    model.head.eval()
    model.head.weight.requires_grad_(False)
    model(x).sum().backward()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gradients = {name: p.grad for name, p in model.named_parameters()}
    flags = [m.training for m in model.modules()]
    if fails:
        model.head.forward = lambda _: 1 / 0
        with pytest.raises(ZeroDivisionError):
            rl.nn.latent_similarity(model, x, x, layer="encoder.1")
    else:
        rl.nn.latent_similarity(model, x, x, layer="encoder.1")
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert [m.training for m in model.modules()] == flags
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is gradients[name] for name, p in model.named_parameters())
    assert not model.head.weight.requires_grad
    assert torch.is_grad_enabled()


def test_the_watched_encoder_may_feed_a_relative_layer():
    x = _draw(50, 6)
    encoder = nn.Linear(6, 4)
    model = nn.Sequential(encoder, rl.nn.RelativeProjection(x[:10], encoder=encoder))
    model(x)
    assert torch.allclose(captured(model, x, layer="0", batch_size=25), encoder(x))
    assert torch.allclose(captured(model, x, layer="1"), rl.similarity.cosine(encoder(x), encoder(x[:10])), atol=1e-6)


def test_outputs_of_other_shapes():
    images = _draw(5, 1, 8, 8)
    assert captured(nn.Conv2d(1, 3, 3), images).shape == (5, 3 * 6 * 6)
    assert captured(nn.LSTM(6, 4), _draw(5, 6)).shape == (5, 4)
    assert captured(lambda s: s.flatten(1), images).shape == (5, 64)


def test_what_cannot_be_watched_is_named():
    model, x = Net(), _draw(50, 6)
    with pytest.raises(ValueError, match=r"no layer 'encode'\. Did you mean 'encoder'"):
        rl.nn.latent_similarity(model, x, x, layer="encode")
    with pytest.raises(ValueError, match="without samples"):
        rl.nn.latent_similarity(model, x)
    with pytest.raises(TypeError, match="the model is a function"):
        rl.nn.latent_similarity(lambda s: s, x, x, layer="0")
    with pytest.raises(ValueError, match="x has 50 rows and y has 49 rows"):
        rl.nn.latent_similarity(model, x[:49], x)
    with pytest.raises(ValueError, match="expected one vector per sample"):
        captured(nn.Flatten(0), x)
