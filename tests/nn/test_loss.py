"""Relative similarity as a loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import relatent as rl

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
    ids=["rotate", "rescale", "offset", "offset, not centered", "distort"],
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


def test_the_loss_is_computed_in_float32():
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
def test_wrong_shapes_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        loss(*(_draw(*shape) for shape in shapes))
