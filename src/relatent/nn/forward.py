"""Helpers of forward passes: checks of a batch, precision, and an encoder that is left unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Encoder = Callable[[Tensor], Tensor]


def check_batch(x: Tensor, name: str = "x") -> None:
    """Check the shape and dtype of a batch. Values are not checked: a gradient scaler needs to see infinity."""
    if x.ndim != 2 or not x.is_floating_point():
        raise ValueError(
            f"{name} has shape {tuple(x.shape)} and dtype {x.dtype}: expected floating 2-D, one vector per row. "
            "Flatten or pool the other axes first."
        )


def in_single_at_least(compute: Callable[..., Tensor], x: Tensor, *others: Tensor) -> Tensor:
    """Compute in the widest dtype given, at least float32: float16 loses the digits that distinguish two anchors.

    The result has the dtype of x. Under autocast it stays wide, as with torch's own normalizations.
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
    """Cast weights for this pass only: older torch (its issue 112583) caches those cast without gradient."""
    if not _autocasts(device_type):
        return nullcontext()
    return torch.autocast(device_type, torch.get_autocast_dtype(device_type), cache_enabled=False)


def ordinary_tensors() -> AbstractContextManager[Any]:
    """Leave inference mode if it is on: its tensors cannot take part in autograd."""
    inferring = not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()
    return torch.inference_mode(False) if inferring else nullcontext()


def _autocasts(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


def embed(encoder: Encoder, samples: Tensor, *, training: bool) -> Tensor:
    """Embed samples without changing a running statistic, counter or flag of the encoder.

    Dropout is switched off. Batch normalization works as for other samples: in training with the statistics of the
    batch, otherwise with the running ones. A method of a module counts as the module; any other function is just
    called.
    """
    module = _module_of(encoder)
    if module is None:
        return encoder(samples)
    with in_mode(module, lambda m: training and m.training and isinstance(m, _BatchNorm)), _on_copies(module):
        return encoder(samples)


@contextmanager
def in_mode(module: nn.Module, training: Callable[[nn.Module], bool]) -> Iterator[None]:
    """Set the training flag of every submodule within a ``with`` block."""
    before = [(m, m.training) for m in module.modules()]
    try:
        for m, _ in before:
            m.training = training(m)
        yield
    finally:
        for m, flag in before:
            m.training = flag


@contextmanager
def _on_copies(module: nn.Module) -> Iterator[None]:
    """Replace buffers by copies, so that a pass does not change them."""
    before = [(m, name, buffer) for m in module.modules() for name, buffer in m.named_buffers(recurse=False)]
    try:
        for m, name, buffer in before:
            setattr(m, name, buffer.clone())
        yield
    finally:
        for m, name, buffer in before:
            setattr(m, name, buffer)


def normalizes_by_batch(encoder: Encoder) -> bool:
    """Return whether the encoder is in training with a batch normalization, so that vectors depend on their batch."""
    module = _module_of(encoder)
    return module is not None and any(m.training and isinstance(m, _BatchNorm) for m in module.modules())


def _module_of(encoder: Any) -> nn.Module | None:
    owner = getattr(encoder, "__self__", encoder)
    return owner if isinstance(owner, nn.Module) else None
