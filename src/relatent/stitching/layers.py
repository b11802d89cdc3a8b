"""Two torch networks cut at inner layers: the front of one runs with the back of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from warnings import warn

import numpy as np
import torch
from torch import Tensor, nn

from relatent.nn import Translation
from relatent.nn.forward import in_mode
from relatent.nn.monitor import submodule

Samples = Tensor | Mapping[str, Tensor]
# Where the coordinates of a vector lie, by the number of axes: vectors, token sequences, feature maps.
CHANNELS = {2: 1, 3: 2, 4: 1, 5: 1}
TOLERANCE = 1e-3


class CutNetwork(nn.Module):
    """What :func:`relatent.stitch_at` returns: run ``front`` up to its layer, translate, go on in ``back``.

    ``back`` is given the samples as well, and what it makes of them up to its layer is replaced. So both networks must
    read the same samples.
    """

    def __init__(self, front: nn.Module, front_layer: str, back: nn.Module, back_layer: str) -> None:
        super().__init__()
        self.front, self.back = front, back
        self.translator: nn.Module = nn.Identity()
        self.front_layer, self.back_layer = front_layer, back_layer

    def forward(self, samples: Samples) -> Any:
        """Return what the back makes of the front's translated activations."""
        given = passing(self.front, self.front_layer, samples)

        def translated(own: Tensor) -> Tensor:
            return as_positions(self.translator(as_rows(resized(given, own))), own)

        return self._continued(samples, translated)

    def fit(self, samples: Samples, translator: Any, *, rows: int, batch_size: int, seed: int) -> Self:
        """Fit the translator on what passes both layers, and warn if something passes around the back's."""
        rng, share = np.random.default_rng(seed), rows / _length(samples)
        pairs = [self._pairs(batch, share, rng) for batch in _batches(samples, batch_size)]
        x, y = (np.concatenate(side) for side in zip(*pairs, strict=True))
        place = next(self.back.parameters(), torch.zeros(0))
        self.translator = Translation(translator.fit(x, y)).to(place.device, place.dtype)
        self._warn_of_bypass(next(_batches(samples, batch_size)))
        return self

    def extra_repr(self) -> str:
        """Name the layers."""
        return f"front up to {self.front_layer!r}, back from {self.back_layer!r}"

    def _continued(self, samples: Samples, replace: Callable[[Tensor], Tensor]) -> Any:
        """Run the back with its layer's activations replaced."""

        def hook(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            return _with_first(output, replace(_first(output)))

        with _hook(submodule(self.back, self.back_layer), hook):
            return call(self.back, samples)

    def _pairs(self, batch: Samples, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return parallel vectors of one batch: ``share`` positions of each sample, on average."""
        with in_mode(self, lambda _: False), torch.no_grad():
            x, y = passing(self.front, self.front_layer, batch), passing(self.back, self.back_layer, batch)
            both = [as_rows(one).float().cpu().numpy() for one in (resized(x, y), y)]
        kept = rng.permutation(len(both[0]))[: max(1, round(share * len(y)))]
        return both[0][kept], both[1][kept]

    def _warn_of_bypass(self, batch: Samples) -> None:
        """Warn if the back's answer depends on its own activations before the cut: other samples must not change it."""
        other = {k: v.flip(0) for k, v in batch.items()} if isinstance(batch, Mapping) else batch.flip(0)
        with in_mode(self, lambda _: False), torch.no_grad():
            given = passing(self.back, self.back_layer, batch)
            expected, found = (_first(self._continued(one, lambda _: given)) for one in (batch, other))
        if not torch.allclose(expected, found, rtol=TOLERANCE, atol=TOLERANCE * float(expected.abs().max())):
            warn(
                f"What the back makes of the samples reaches its output around {self.back_layer!r} too (a skip "
                "connection, or a mask), so that the stitched network is not the front's alone. Cut it where "
                "everything passes.",
                stacklevel=4,
            )


def passing(network: nn.Module, layer: str, samples: Samples) -> Tensor:
    """Return what a layer gives, and run nothing behind it."""

    def stop(_module: nn.Module, _inputs: Any, output: Any) -> None:
        raise _ReachedError(_first(output))

    with _hook(submodule(network, layer), stop):
        try:
            call(network, samples)
        except _ReachedError as reached:
            return reached.activations
    raise ValueError(f"The samples do not pass the layer {layer!r}: name one that they pass.")


def call(network: nn.Module, samples: Samples) -> Any:
    """Run a network on samples; a mapping is given as keyword arguments, as the transformers library wants it."""
    return network(**samples) if isinstance(samples, Mapping) else network(samples)


def as_rows(activations: Tensor) -> Tensor:
    """Return one vector per position: (n, d) as it is, tokens (n, t, d) and feature maps (n, d, …) unrolled.

    >>> as_rows(torch.zeros(2, 8, 5, 5)).shape, as_rows(torch.zeros(2, 7, 8)).shape
    (torch.Size([50, 8]), torch.Size([14, 8]))
    """
    axis = _channels(activations)
    return activations.movedim(axis, -1).reshape(-1, activations.shape[axis])


def as_positions(rows: Tensor, like: Tensor) -> Tensor:
    """Undo :func:`as_rows`, in the shape of other activations."""
    axis = _channels(like)
    return rows.reshape(*like.movedim(axis, -1).shape[:-1], rows.shape[1]).movedim(-1, axis)


def resized(given: Tensor, like: Tensor) -> Tensor:
    """Bring feature maps to the size of others: averaged where they are larger, interpolated where they are smaller."""
    if given.ndim != like.ndim:
        raise ValueError(
            f"The front's layer gives {tuple(given.shape)} and the back's {tuple(like.shape)}: expected as many axes. "
            "Cut both networks at vectors, both at token sequences, or both at feature maps."
        )
    positions = [tuple(one.movedim(_channels(one), -1).shape[1:-1]) for one in (given, like)]
    if positions[0] == positions[1]:
        return given
    if given.ndim != 4:
        raise ValueError(
            f"The layers give {positions[0]} and {positions[1]} positions a sample: expected equal numbers. "
            "Only feature maps are resized."
        )
    size = (int(like.shape[2]), int(like.shape[3]))
    if all(a >= b for a, b in zip(given.shape[2:], size, strict=True)):
        return nn.functional.adaptive_avg_pool2d(given, size)
    return nn.functional.interpolate(given, size=size, mode="bilinear", align_corners=False)


class _ReachedError(Exception):
    def __init__(self, activations: Tensor) -> None:
        super().__init__()
        self.activations = activations


@contextmanager
def _hook(module: nn.Module, function: Callable[..., Any]) -> Iterator[None]:
    handle = module.register_forward_hook(function)
    try:
        yield
    finally:
        handle.remove()


def _batches(samples: Samples, size: int) -> Iterator[Samples]:
    for start in range(0, _length(samples), size):
        part = slice(start, start + size)
        yield {k: v[part] for k, v in samples.items()} if isinstance(samples, Mapping) else samples[part]


def _length(samples: Samples) -> int:
    return len(next(iter(samples.values()))) if isinstance(samples, Mapping) else len(samples)


def _channels(activations: Tensor) -> int:
    if activations.ndim not in CHANNELS:
        raise ValueError(f"The layer gives {tuple(activations.shape)}: expected 2 to 5 axes, the first for samples.")
    return CHANNELS[activations.ndim]


def _first(output: Any) -> Tensor:
    """Return the tensor of an output, the first of several; of the transformers library's outputs the same."""
    found = output
    while not isinstance(found, Tensor):
        found = next(iter(found.values())) if isinstance(found, Mapping) else found[0]
    return found


def _with_first(output: Any, first: Tensor) -> Any:
    if isinstance(output, Tensor):
        return first
    if isinstance(output, tuple):
        return (first, *output[1:])
    raise TypeError(f"The layer gives a {type(output).__name__}: expected a tensor or a tuple. Name a layer that does.")
