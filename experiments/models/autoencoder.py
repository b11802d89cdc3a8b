"""Convolutional autoencoders and variational autoencoders, absolute and relative (Moschella et al., ICLR 2023, A.5.5).

Each model is ``nn.Sequential(encoder, decoder)``: the encoder gives the latent vector, the decoder reads it, and a
stitched model is the encoder of one with the decoder of another. A relative encoder ends in cosines to its anchors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from experiments.models.convolutions import grow, halved, shrink
from torch import nn

import relatent as rl

CHANNELS = (32, 64, 128, 256)
LATENT = 500


def autoencoder(
    side: int,
    anchors: torch.Tensor | None = None,
    *,
    variational: bool = False,
    channels: Sequence[int] = CHANNELS,
    latent: int = LATENT,
) -> nn.Sequential:
    """Build an autoencoder for images of ``side`` pixels; with anchor images, a relative one.

    A variational model draws its latent vector where an absolute one keeps it, in the encoder. A relative one draws it
    on the decoder's side of the relative layer: the cosines themselves are what two models share, and stay exact.
    """
    sizes = halved(side, len(channels))
    flat = channels[-1] * sizes[-1] ** 2
    down, up = shrink(channels), grow(channels, sizes)
    if anchors is None:
        bottleneck = Gaussian(flat, latent) if variational else nn.Linear(flat, latent)
        encoder, entry = [down, bottleneck], []
    else:
        latent = latent if variational else len(anchors)
        encoder = [down, rl.nn.RelativeProjection(anchors, encoder=down, output="none")]
        entry = [nn.LayerNorm(len(anchors)), *([Gaussian(len(anchors), latent)] if variational else [])]
    decoder = nn.Sequential(*entry, nn.Linear(latent, flat), nn.GELU(), *up)
    return nn.Sequential(OrderedDict(encoder=nn.Sequential(*encoder), decoder=decoder))


class Gaussian(nn.Module):
    r"""Draw a vector while training, give its mean otherwise.

    .. math:: z = \mu(x) + \sigma(x) \odot \epsilon, \qquad
        \mathrm{KL} = \tfrac12 \sum_j \mu_j^2 + \sigma_j^2 - 1 - \log \sigma_j^2

    ``divergence`` is the KL to the standard normal at the last training step, averaged over the batch.
    """

    def __init__(self, wide: int, latent: int) -> None:
        super().__init__()
        self.mean, self.log_variance = nn.Linear(wide, latent), nn.Linear(wide, latent)
        self.divergence: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give one vector per row."""
        mean = self.mean(x)
        if not self.training:
            return mean
        log_variance = self.log_variance(x)
        self.divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return mean + torch.exp(log_variance / 2) * torch.randn_like(mean)


def reconstruction_loss(model: nn.Module, x: torch.Tensor, _: torch.Tensor, weight: float = 1e-3) -> torch.Tensor:
    """Mean squared error per pixel, plus the divergence per pixel times ``weight`` for a variational model."""
    error = nn.functional.mse_loss(model(x), x)
    drawn = [m.divergence for m in model.modules() if isinstance(m, Gaussian)]
    return error + weight * sum(drawn) / x[0].numel() if drawn else error
