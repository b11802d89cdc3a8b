"""Heads: what turns a latent vector into class scores."""

from __future__ import annotations

from torch import nn


def norm_head(width: int, classes: int, hidden: int = 128) -> nn.Sequential:
    """LayerNorm, Linear, GELU, Linear: the head of Moschella et al. (2023). The norm is per vector, never per batch."""
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, classes))


def tanh_head(width: int, classes: int) -> nn.Sequential:
    """Three linear layers, narrowing by half before the last: the head of Maiorca et al. (2023)."""
    half = max(width // 2, 1)
    return nn.Sequential(
        nn.Linear(width, width), nn.Tanh(), nn.Linear(width, half), nn.ReLU(), nn.Linear(half, classes)
    )
