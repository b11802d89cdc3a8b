"""Convolutions that halve an image, and their mirror image."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn


def halve(given: int, made: int) -> list[nn.Module]:
    """One 3×3 convolution with a stride of 2, from ``given`` channels to ``made``."""
    return [nn.Conv2d(given, made, 3, stride=2, padding=1), nn.BatchNorm2d(made), nn.GELU()]


def shrink(channels: Sequence[int], colors: int = 1) -> nn.Sequential:
    """Halve the image with each 3×3 convolution, then flatten."""
    layers: list[nn.Module] = []
    for given, made in pairwise((colors, *channels)):
        layers += halve(given, made)
    return nn.Sequential(*layers, nn.Flatten())


def grow(channels: Sequence[int], sizes: Sequence[int], colors: int = 1) -> nn.Sequential:
    """Mirror :func:`shrink`, ending in pixels between 0 and 1."""
    layers: list[nn.Module] = [nn.Unflatten(1, (channels[-1], sizes[-1], sizes[-1]))]
    for (given, made), (small, large) in zip(pairwise((*channels[::-1], colors)), pairwise(sizes[::-1]), strict=True):
        # A stride of 2 gives 2·small − 1 pixels; the padding adds what the mirrored convolution had rounded away.
        layers += [nn.ConvTranspose2d(given, made, 3, stride=2, padding=1, output_padding=large - 2 * small + 1)]
        layers += [nn.BatchNorm2d(made), nn.GELU()]
    return nn.Sequential(*layers[:-2], nn.Sigmoid())


def halved(side: int, times: int) -> list[int]:
    """Sizes that a stride of 2 leaves.

    >>> halved(28, 4)
    [28, 14, 7, 4, 2]
    """
    sizes = [side]
    for _ in range(times):
        sizes.append((sizes[-1] + 1) // 2)
    return sizes
