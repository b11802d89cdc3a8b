"""Networks that are cut at inner layers: every shape of activations, exact where the networks are rotated copies."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import relatent as rl
from relatent.stitching.modules import as_positions, as_rows, passing, resized


def orthogonal(width: int) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(5)))[0]


def rotated(network: nn.Sequential, before: nn.Module, after: nn.Module) -> nn.Sequential:
    """A copy whose hidden space is rotated: the layer before is multiplied by q, and the layer after undoes it."""
    other = copy.deepcopy(network)
    places = {id(old): new for old, new in zip(network.modules(), other.modules(), strict=True)}
    q = orthogonal(before.weight.shape[0])
    with torch.no_grad():
        first, second = places[id(before)], places[id(after)]
        first.weight.copy_(torch.einsum("oi...,op->pi...", before.weight, q))
        first.bias.copy_(before.bias @ q)
        second.weight.copy_(torch.einsum("oi...,ip->op...", after.weight, q))
    return other


def vectors() -> tuple[nn.Sequential, torch.Tensor]:
    return nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(300, 6)


def tokens() -> tuple[nn.Sequential, torch.Tensor]:
    return nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(40, 9, 6)


def maps() -> tuple[nn.Sequential, torch.Tensor]:
    body = [nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 4, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)]
    return nn.Sequential(*body), torch.randn(60, 2, 8, 8)


@pytest.mark.parametrize("build", [vectors, tokens, maps])
def test_a_rotated_copy_is_stitched_without_loss(build):
    torch.manual_seed(0)
    network, samples = build()
    other = rotated(network, network[0], network[1])
    model = rl.stitch_at(other, "0", network, "0", samples, rl.Translator(map="affine"))
    with torch.no_grad():
        assert torch.allclose(model(samples), network(samples), atol=1e-4)
        assert not torch.allclose(network[1:](other[0](samples)), network(samples), atol=0.1), "absolute must not do"


def test_activations_become_rows_and_come_back():
    for shape in ((4, 3), (4, 7, 3), (4, 3, 5, 6), (4, 3, 2, 5, 6)):
        x = torch.randn(shape)
        rows = as_rows(x)
        assert rows.shape == (x.numel() // 3, 3)
        assert torch.equal(as_positions(rows, x), x)
    x = torch.randn(2, 3, 5, 6)
    assert torch.equal(as_rows(x)[6 * 4 + 2], x[0, :, 4, 2])


def test_feature_maps_take_the_size_of_the_back():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert resized(x, torch.zeros(1, 9, 2, 2)).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert resized(x, torch.zeros(1, 9, 8, 8)).shape == (1, 1, 8, 8)


@pytest.mark.parametrize(
    ("given", "like", "said"),
    [
        ((2, 3), (2, 3, 4, 4), "equal axes"),
        ((2, 5, 3), (2, 6, 3), "5,.*6,.*equal numbers"),
        ((2,), (2,), "2 to 5 axes"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(given, like, said):
    with pytest.raises(ValueError, match=said):
        resized(torch.zeros(given), torch.zeros(like))


def test_what_lies_behind_the_layer_is_not_run():
    class Trap(nn.Module):
        def forward(self, x):
            raise AssertionError("ran")

    assert passing(nn.Sequential(nn.Linear(2, 3), Trap()), "0", torch.zeros(1, 2)).shape == (1, 3)


def test_a_bypass_of_the_cut_warns():
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return x + self.inner(x)

    with pytest.warns(UserWarning, match="bypass 'inner'"):
        rl.stitch_at(Skip(), "inner", Skip(), "inner", torch.randn(50, 4))


def test_names_and_modes_are_kept_and_checked():
    front, samples = vectors()
    back, _ = vectors()
    front.train()
    model = rl.stitch_at(front, "1", back, "1", samples, rows=100)
    assert front.training
    assert model.front is front
    assert model.back is back
    with pytest.raises(ValueError, match="no layer '9'"):
        rl.stitch_at(front, "9", back, "1", samples)


def test_samples_by_name_and_outputs_in_tuples():
    """As the transformers library has them."""

    class Layer(nn.Linear):
        def forward(self, x):
            return super().forward(x), "attention"

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = Layer(4, 4), nn.Linear(4, 2)

        def forward(self, tokens, scale):
            return {"logits": self.head(self.layer(tokens)[0]) * scale.mean()}

    samples = {"tokens": torch.randn(30, 6, 4), "scale": torch.ones(30)}
    back = Model()
    model = rl.stitch_at(Model(), "layer", back, "layer", samples)
    assert model(samples)["logits"].shape == (30, 6, 2)
    own = rl.stitch_at(back, "layer", back, "layer", samples, rl.Translator(map="affine"))
    assert np.allclose(own(samples)["logits"].detach(), back(**samples)["logits"].detach(), atol=1e-4)
