"""The product of invariances: what the summed parts compute, and what they are unchanged by."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import relatent as rl
from relatent.project.similarity import combine

K, D, DIM = 9, 5, 4


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(11, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.fixture
def anchors() -> torch.Tensor:
    return torch.randn(K, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _summed(parts: int, dim: int | None = DIM) -> rl.nn.SumAggregation:
    torch.manual_seed(0)
    return rl.nn.SumAggregation(K, parts, dim).double()


def _relative(anchors: torch.Tensor, *kinds: str) -> rl.nn.RelativeProjection:
    return rl.nn.RelativeProjection(anchors, combine(*kinds), output="none")


def test_it_is_the_sum_of_each_part_normalized_and_projected(x, anchors):
    kinds = ("cosine", "euclidean", "l1")
    layer = _summed(len(kinds))
    expected = 0
    for kind, (norm, linear, _) in zip(kinds, layer.parts, strict=True):
        r = rl.relative_projection(x.numpy(), anchors.numpy(), kind)
        r = (r - r.mean(1, keepdims=True)) / np.sqrt(r.var(1, keepdims=True) + norm.eps)
        expected = expected + np.tanh(r @ linear.weight.detach().numpy().T + linear.bias.detach().numpy())
    assert np.allclose(layer(_relative(anchors, *kinds)(x)).detach(), expected)


MOVES = {
    "rotation": lambda q: lambda z: z @ q,
    "permutation": lambda q: lambda z: z[:, torch.arange(D - 1, -1, -1)],
    "one scale": lambda q: lambda z: 3 * z,
    "offset": lambda q: lambda z: z + 2,
    "scale of each coordinate": lambda q: lambda z: z * torch.arange(1, D + 1),
}
SURVIVES = {
    ("cosine",): {"rotation", "permutation", "one scale"},
    ("euclidean",): {"rotation", "permutation", "one scale", "offset"},
    ("l1",): {"permutation", "one scale", "offset"},
    ("linf",): {"permutation", "one scale", "offset"},
    ("cosine", "euclidean"): {"rotation", "permutation", "one scale"},
    ("euclidean", "l1"): {"permutation", "one scale", "offset"},
    ("cosine", "euclidean", "l1", "linf"): {"permutation", "one scale"},
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("kinds", SURVIVES)
def test_the_sum_is_unchanged_by_what_every_part_is_unchanged_by(x, anchors, orthogonal, kinds, move):
    moved, layer = MOVES[move](torch.from_numpy(orthogonal(D))), _summed(len(kinds))
    before, after = layer(_relative(anchors, *kinds)(x)), layer(_relative(moved(anchors), *kinds)(moved(x)))
    assert torch.allclose(before, after, atol=1e-4) is (move in SURVIVES[kinds])


def test_the_width_is_that_of_the_anchors_unless_given(x, anchors):
    assert _summed(2, None)(_relative(anchors, "cosine", "l1")(x)).shape == (11, K)
    assert _summed(2, DIM)(_relative(anchors, "cosine", "l1")(x)).shape == (11, DIM)


def test_what_does_not_fit_is_refused(x, anchors):
    with pytest.raises(ValueError, match=r"r has shape \(11, 9\): expected 18 columns, 2 similarities to 9 anchors"):
        _summed(2)(_relative(anchors, "cosine")(x))
    with pytest.raises(ValueError, match="parts is 0: expected at least 1"):
        rl.nn.SumAggregation(K, 0)


def test_a_head_with_it_reads_a_turned_encoder_as_its_own(x, orthogonal):
    """Zero-shot stitching: the parts go with the head, the anchors with the encoder."""
    turn = torch.from_numpy(orthogonal(D))
    one, other = nn.Linear(D, D).double(), nn.Linear(D, D).double()
    with torch.no_grad():
        other.weight.copy_(turn.T @ one.weight)
        other.bias.copy_(one.bias @ turn)
    kinds = ("cosine", "euclidean")
    head = nn.Sequential(_summed(len(kinds)), nn.Linear(DIM, 2).double())
    answers = [rl.stitch(e, _relative(e(x[:K]).detach(), *kinds), head)(x) for e in (one, other)]
    assert torch.allclose(*answers)


def test_it_is_trained_saved_and_compiled(x, anchors):
    layer, relative = _summed(2), _relative(anchors, "cosine", "l1")
    layer(relative(x)).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in layer.parameters())
    other = rl.nn.SumAggregation(K, 2, DIM).double()
    other.load_state_dict(layer.state_dict())
    torch.compiler.reset()
    compiled = torch.compile(other, fullgraph=True, backend="eager")
    assert torch.allclose(compiled(relative(x)), layer(relative(x)))
