"""The newcomer's loop: what it builds, and what it counts."""

import pytest
import torch
from experiments.relative_representations.newcomer import Model, accuracy, load, stitched, train


@pytest.fixture(scope="module")
def digits():
    return load().part(0, 300)


def test_a_network_with_its_own_head_is_the_network(digits):
    network = train(Model("batch norm", "two layers", 20, "none", "layer"), digits, seed=0, epochs=1)
    right = (network(digits.images).argmax(1) == digits.labels).float().mean()
    assert accuracy(network, network, digits) == pytest.approx(float(right))


def test_every_encoder_meets_every_other_head(digits):
    network = train(Model("plain", "linear", 20, "center", "none"), digits, seed=0, epochs=0)
    found = stitched([network] * 3, digits)
    assert found == [accuracy(network, network, digits)] * 6


def test_a_seed_gives_the_same_network_again(digits):
    model = Model("plain", "linear", 20, "none", "layer")
    one, two = (train(model, digits, seed=3, epochs=1)(digits.images) for _ in range(2))
    assert torch.equal(one, two)
