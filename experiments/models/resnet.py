"""Residual networks for small photos (He et al., 2016, section 4.2): depth 6n + 2, 64 pooled features."""

from __future__ import annotations

import torch
from torch import nn

WIDTHS = (16, 32, 64)


def resnet(depth: int, classes: int = 10) -> nn.Sequential:
    """Build a network of ``depth`` layers: its encoder ends in the mean over positions, its decoder is linear.

    >>> resnet(8)[0](torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 64])
    """
    blocks, given = [], WIDTHS[0]
    for made in WIDTHS:
        for i in range((depth - 2) // 6):
            blocks.append(Block(given, made, stride=2 if i == 0 and made != WIDTHS[0] else 1))
            given = made
    start = (nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU())
    encoder = nn.Sequential(*start, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(encoder, nn.Linear(WIDTHS[-1], classes))


class Block(nn.Module):
    """Two convolutions beside the identity; where the shape changes, pixels are skipped and channels padded."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.stride, self.more = stride, made - given
        first = (nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU())
        self.change = nn.Sequential(*first, nn.Conv2d(made, made, 3, padding=1, bias=False), nn.BatchNorm2d(made))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the convolutions make of the input."""
        kept = nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return nn.functional.relu(kept + self.change(x))
