"""The cache of the causal transformer: what it holds is what reading the context again would give."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from experiments.models.causal import ALPHABET, LENGTH, Causal  # noqa: E402


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Causal().eval().requires_grad_(False)


def test_behind_its_own_cache_a_model_says_what_it_says_behind_the_context(model):
    tokens = torch.randint(ALPHABET, (3, LENGTH))
    whole, behind = model(tokens)[:, 40:], model(tokens[:, 40:], model.cache(tokens[:, :40]))
    torch.testing.assert_close(behind, whole)
    assert not torch.allclose(model(tokens[:, 40:]), whole, atol=1e-2)  # without it, it says something else


def test_no_token_sees_what_follows(model):
    tokens = torch.randint(ALPHABET, (2, 20))
    changed = tokens.clone()
    changed[:, 12:] = 0
    torch.testing.assert_close(model(changed)[:, :12], model(tokens)[:, :12])
