"""Running an encoder on the side: whatever the pass does to the encoder is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["Encoder", "embed", "in_mode", "normalizes_by_batch"]

Encoder = Callable[[Tensor], Tensor]


def embed(encoder: Encoder, samples: Tensor, *, training: bool) -> Tensor:
    """Embed samples and leave no trace: no running statistic, counter or flag of the encoder is changed.

    Dropout and the like are switched off. Batch normalisation is as it is for the other samples: in training it uses
    the statistics of what it is given, otherwise the running ones.
    """
    if not isinstance(encoder, nn.Module):
        return encoder(samples)
    buffers = {name: buffer.clone() for name, buffer in encoder.named_buffers()}
    with in_mode(encoder, lambda m: training and m.training and isinstance(m, _BatchNorm)):
        return functional_call(encoder, buffers, (samples,))  # type: ignore[no-any-return]


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


def normalizes_by_batch(encoder: Encoder) -> bool:
    """Tell whether the encoder is in training with a batch normalisation, so that a vector depends on its batch."""
    return isinstance(encoder, nn.Module) and any(m.training and isinstance(m, _BatchNorm) for m in encoder.modules())
