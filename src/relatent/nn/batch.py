"""What the layers ask of a batch, and which precision they compute in when the network around runs in another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import Any

import torch
from torch import Tensor

__all__ = ["check_batch", "in_single_at_least", "no_autocast", "no_autocast_cache", "ordinary_tensors"]


def check_batch(x: Tensor, name: str = "x") -> None:
    """Check one batch by its shape and dtype alone: values pass as they are, for a scaler may want to see infinity."""
    if x.ndim != 2 or not x.is_floating_point():
        raise ValueError(
            f"{name} has shape {tuple(x.shape)} and dtype {x.dtype}: expected floating 2-D, one vector per row. "
            "Flatten or pool the other axes first."
        )


def in_single_at_least(compute: Callable[..., Tensor], x: Tensor, *others: Tensor) -> Tensor:
    """Compute in the widest dtype given, float32 at least: a half loses the digits that tell two anchors apart.

    The result has the dtype of x. Under autocast it stays wide, as with torch's own normalisations.
    """
    dtype = reduce(torch.promote_types, (a.dtype for a in others), torch.promote_types(x.dtype, torch.float32))
    wide = [a.to(dtype) for a in (x, *others)]
    if not _autocasts(x.device.type):
        return compute(*wide).to(x.dtype)
    with no_autocast(x.device.type):
        return compute(*wide)


def no_autocast(device_type: str) -> AbstractContextManager[Any]:
    """Switch autocast off where it is on."""
    return torch.autocast(device_type, enabled=False) if _autocasts(device_type) else nullcontext()


def no_autocast_cache(device_type: str) -> AbstractContextManager[Any]:
    """Cast weights for this pass alone: older torch (its issue 112583) keeps those cast without gradient for later."""
    if not _autocasts(device_type):
        return nullcontext()
    return torch.autocast(device_type, torch.get_autocast_dtype(device_type), cache_enabled=False)


def ordinary_tensors() -> AbstractContextManager[Any]:
    """Leave inference mode where it is on: its tensors can never meet a gradient."""
    inferring = not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()
    return torch.inference_mode(False) if inferring else nullcontext()


def _autocasts(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)
