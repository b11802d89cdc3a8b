"""Image classifiers of three architectures, absolute and relative, with latent vectors of one width.

Each model is ``nn.Sequential(encoder, decoder)``; a stitched model is the encoder of one with the decoder of another.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from experiments.models.convolutions import halve, halved, shrink
from experiments.models.heads import norm_head
from torch import nn

import relatent as rl

LATENT = 128


def classifier(
    architecture: str,
    side: int,
    classes: int,
    anchors: torch.Tensor | None = None,
    *,
    latent: int = LATENT,
    colors: int = 1,
) -> nn.Sequential:
    """Build one of ARCHITECTURES for images of ``side`` pixels; with anchor images, a relative one.

    The two differ only in the relative layer between encoder and head: the width of the head's input follows it.
    """
    encoder = ARCHITECTURES[architecture](side, latent, colors)
    if anchors is None:
        return nn.Sequential(OrderedDict(encoder=encoder, decoder=norm_head(latent, classes)))
    # The head normalizes what it reads, as in the paper.
    relative = nn.Sequential(encoder, rl.nn.RelativeProjection(anchors, encoder=encoder, output="none"))
    return nn.Sequential(OrderedDict(encoder=relative, decoder=norm_head(len(anchors), classes)))


def classification_loss(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy."""
    return nn.functional.cross_entropy(model(x), labels)


def plain(side: int, latent: int, colors: int) -> nn.Sequential:
    """Three convolutions, each halving the image."""
    return nn.Sequential(shrink((16, 32, 64), colors), nn.Linear(64 * halved(side, 3)[-1] ** 2, latent))


def residual(side: int, latent: int, colors: int) -> nn.Sequential:
    """Two convolutions, two residual blocks, and what is left averaged to 2×2."""
    body = [*halve(colors, 16), *halve(16, 32), Residual(32), Residual(32)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32 * 4, latent))


def mlp(side: int, latent: int, colors: int, hidden: int = 256) -> nn.Sequential:
    """Two hidden layers on the bare pixels."""
    first = [nn.Linear(colors * side**2, hidden), nn.BatchNorm1d(hidden), nn.GELU()]
    second = [nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.GELU()]
    return nn.Sequential(nn.Flatten(), *first, *second, nn.Linear(hidden, latent))


ARCHITECTURES = {"plain": plain, "residual": residual, "mlp": mlp}


class Residual(nn.Module):
    """Add to the input what two convolutions make of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        same = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)]
        norm = [nn.BatchNorm2d(channels) for _ in range(2)]
        self.change = nn.Sequential(same[0], norm[0], nn.GELU(), same[1], norm[1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        return nn.functional.gelu(x + self.change(x))
