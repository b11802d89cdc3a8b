"""Which precision the mathematics runs in when the network around it runs in another."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

__all__ = ["in_single_at_least"]


def in_single_at_least(compute: Callable[..., Tensor], x: Tensor, *others: Tensor) -> Tensor:
    """Compute in the widest dtype given, float32 at least: a half loses the digits that tell two anchors apart.

    The result has the dtype of x. Under autocast it stays wide, as with torch's own normalisations.
    """
    dtype = reduce(torch.promote_types, (a.dtype for a in others), torch.promote_types(x.dtype, torch.float32))
    wide = [a.to(dtype) for a in (x, *others)]
    if not _autocasts(x.device.type):
        return compute(*wide).to(x.dtype)
    with torch.autocast(x.device.type, enabled=False):
        return compute(*wide)


def _autocasts(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)
