"""Running an encoder on the side: whatever the pass does to the encoder is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["Encoder", "embed", "in_mode", "normalizes_by_batch"]

Encoder = Callable[[Tensor], Tensor]


def embed(encoder: Encoder, samples: Tensor, *, training: bool) -> Tensor:
    """Embed samples and leave no trace: no running statistic, counter or flag of the encoder is changed.

    Dropout and the like are switched off. Batch normalisation is as it is for the other samples: in training it uses
    the statistics of what it is given, otherwise the running ones. A method of a module counts as the module; any
    other function is called as it is.
    """
    module = _module_of(encoder)
    if module is None:
        return encoder(samples)
    with in_mode(module, lambda m: training and m.training and isinstance(m, _BatchNorm)), _on_copies(module):
        return encoder(samples)


@contextmanager
def in_mode(module: nn.Module, training: Callable[[nn.Module], bool]) -> Iterator[None]:
    """Set the training flag of every submodule for a while."""
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
    """Let whatever a pass writes into buffers go into copies of them."""
    before = [(m, name, buffer) for m in module.modules() for name, buffer in m.named_buffers(recurse=False)]
    try:
        for m, name, buffer in before:
            setattr(m, name, buffer.clone())
        yield
    finally:
        for m, name, buffer in before:
            setattr(m, name, buffer)


def normalizes_by_batch(encoder: Encoder) -> bool:
    """Tell whether the encoder is in training with a batch normalisation, so that a vector depends on its batch."""
    module = _module_of(encoder)
    return module is not None and any(m.training and isinstance(m, _BatchNorm) for m in module.modules())


def _module_of(encoder: Any) -> nn.Module | None:
    owner = getattr(encoder, "__self__", encoder)
    return owner if isinstance(owner, nn.Module) else None
