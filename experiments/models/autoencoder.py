"""Convolutional autoencoders and variational autoencoders, absolute and relative (Moschella et al., ICLR 2023, A.5.5).

Each model is ``nn.Sequential(encoder, decoder)``: the encoder returns the latent vector, the decoder reads it, and a
stitched model is the encoder of one with the decoder of another. A relative encoder ends in cosines to its anchors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from experiments.data.images import Images
from experiments.models.convolutions import grow, halved, shrink
from experiments.models.training import Training, train, trained
from torch import nn

import relatent as rl

CHANNELS = (32, 64, 128, 256)
LATENT = 500


@dataclass(frozen=True)
class Autoencoding(Training):
    """An autoencoder and its training, next to the images and the seed."""

    channels: tuple[int, ...] = CHANNELS
    latent: int = LATENT
    variational: bool = False
    relative: bool = False
    unit: bool = False
    gelu: bool = True

    @property
    def name(self) -> str:
        """What it is called in the folder of models."""
        family, kind = "VAE" if self.variational else "AE", "relative" if self.relative else "absolute"
        return f"{family}-{kind}{'-unit' if self.unit else ''}{'' if self.gelu else '-linear'}-{self.latent}"


def fitted(images: Images, how: Autoencoding, seed: int, folder: Path) -> nn.Module:
    """Return the autoencoder of a seed, trained on first use. All relative models share their anchor images."""
    x, labels, build = torch.from_numpy(images.train), torch.from_numpy(images.train_labels), builder(images, how)
    fit = partial(train, build, x, labels, reconstruction_loss, how, seed=seed)
    return trained(folder / f"{images.name}-{how.name}-{seed}.safetensors", how, build, fit)


def builder(images: Images, how: Autoencoding) -> Callable[[], nn.Module]:
    """Return what builds an autoencoder for these images."""
    return partial(
        autoencoder,
        images.side,
        torch.from_numpy(images.anchors(how.anchors)) if how.relative else None,
        variational=how.variational,
        channels=how.channels,
        latent=how.latent,
        colors=images.colors,
        unit=how.unit,
        gelu=how.gelu,
    )


def untrained(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Build a model and leave it as the seed draws it: what stitching it gives is due to the other parts."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().eval()


def autoencoder(
    side: int,
    anchors: torch.Tensor | None = None,
    *,
    variational: bool = False,
    channels: Sequence[int] = CHANNELS,
    latent: int = LATENT,
    colors: int = 1,
    unit: bool = False,
    gelu: bool = True,
) -> nn.Sequential:
    """Build an autoencoder for images of ``side`` pixels; with anchor images, a relative one.

    ``unit`` scales what an absolute decoder reads to norm 1, as Maiorca et al. (2023) do in one of two variants. The
    code of an absolute autoencoder passes a GELU, as the authors' does: codes are then mostly positive, so that those
    of different seeds have a cosine well above 0. Without ``gelu`` it does not, so that a plane is used on all sides.

    A variational model draws its latent vector where an absolute one keeps it, in the encoder. A relative one draws it
    on the decoder's side of the relative layer: the cosines themselves are what two models share, and stay exact.
    """
    sizes = halved(side, len(channels))
    flat = channels[-1] * sizes[-1] ** 2
    down, up = shrink(channels, colors), grow(channels, sizes, colors)
    if anchors is None:
        bottleneck = (
            [Gaussian(flat, latent)] if variational else [nn.Linear(flat, latent), *([nn.GELU()] if gelu else [])]
        )
        encoder, entry = [down, *bottleneck], [UnitNorm()] if unit else []
    else:
        latent = latent if variational else len(anchors)
        encoder = [down, rl.nn.RelativeProjection(anchors, encoder=down, output="none")]
        entry = [nn.LayerNorm(len(anchors)), *([Gaussian(len(anchors), latent)] if variational else [])]
    decoder = nn.Sequential(*entry, nn.Linear(latent, flat), nn.GELU(), *up)
    return nn.Sequential(OrderedDict(encoder=nn.Sequential(*encoder), decoder=decoder))


class UnitNorm(nn.Module):
    """Scale every vector to norm 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one vector per row."""
        return nn.functional.normalize(x, dim=1)


class Gaussian(nn.Module):
    r"""Draw a vector while training, return its mean otherwise.

    .. math:: z = \mu(x) + \sigma(x) \odot \epsilon, \qquad
        \mathrm{KL} = \tfrac12 \sum_j \mu_j^2 + \sigma_j^2 - 1 - \log \sigma_j^2

    ``divergence`` is the KL to the standard normal at the last training step, averaged over the batch.
    """

    def __init__(self, wide: int, latent: int) -> None:
        super().__init__()
        self.mean, self.log_variance = nn.Linear(wide, latent), nn.Linear(wide, latent)
        self.divergence: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one vector per row."""
        mean = self.mean(x)
        if not self.training:
            return mean
        log_variance = self.log_variance(x)
        self.divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return mean + torch.exp(log_variance / 2) * torch.randn_like(mean)


def reconstruction_loss(model: nn.Module, x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    r"""Gaussian likelihood with a calibrated error, plus the divergence of a variational model, summed over the batch.

    .. math:: \sum \tfrac12 (x - \hat x)^2 / \sigma^2 + \log \sigma \quad [+ \mathrm{KL}], \qquad
        \sigma^2 = \operatorname{mean} (x - \hat x)^2

    With :math:`\sigma^2` at its optimum the first term is constant, and what is left is half the log error. So an
    autoencoder has the minima of the squared error, and a variational one needs no weight between the two terms (Rybkin
    et al., 2021, which the authors follow).
    """
    error = nn.functional.mse_loss(model(x), x)
    likelihood = x.numel() * (1 + torch.log(error + 1e-12)) / 2
    return likelihood + len(x) * sum(m.divergence for m in model.modules() if isinstance(m, Gaussian))
