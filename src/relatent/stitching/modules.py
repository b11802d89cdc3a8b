"""Stitches of torch modules: three modules in a row, and two networks cut at inner layers. Imports torch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, cast
from warnings import warn

import numpy as np
import torch
from torch import Tensor, nn

import relatent.nn as layers
from relatent._array import to_numpy
from relatent.nn.forward import in_mode
from relatent.nn.monitor import submodule
from relatent.project import RelativeProjection
from relatent.stitching.compose import TRANSLATORS, is_module, warn_training

Samples = Tensor | Mapping[str, Tensor]
# Layers whose output in training mode differs from that in evaluation.
MODE_DEPENDENT: tuple[Any, ...] = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.RReLU)
# Normalizations that the relative layer has too.
LAYER_NORMALIZATIONS = ("none", "center")
KEEPING_WIDTH = ("torch.nn.modules.activation", "torch.nn.modules.dropout")
# The axis of the coordinates by the number of axes: vectors, token sequences, feature maps.
CHANNELS = {2: 1, 3: 2, 4: 1, 5: 1}
TOLERANCE = 1e-3


class FunctionLayer(nn.Module):
    """A function as a layer; the module that it is a method of is registered, so that its parameters are found."""

    def __init__(self, function: Callable[[Any], Any], module: nn.Module | None = None) -> None:
        super().__init__()
        self.function, self.module = function, module

    def forward(self, x: Any) -> Any:
        """Call the function."""
        out = self.function(x)
        return out if isinstance(out, torch.Tensor) or self.module is None else as_input(out, self.module)


def as_module(encoder: nn.Module, translator: Any, decoder: nn.Module) -> nn.Sequential:
    """Return the three parts as one Sequential. ``encode`` and ``decode`` are used if the modules have them."""
    for role, part in (("encoder", encoder), ("decoder", decoder)):
        warn_training(role, part)
    place = _common_device(encoder=encoder, translator=translator, decoder=decoder)
    between = translator if is_module(translator) else _as_layer(translator).to(place, _home(decoder)[1])
    parts = {"encoder": _by_method(encoder, "encode"), "translator": between, "decoder": _by_method(decoder, "decode")}
    return nn.Sequential(OrderedDict(parts))


def as_input(x: Any, module: nn.Module) -> Any:
    """Return an input for a module: NumPy arrays as tensors of its device and dtype; tensors are only checked."""
    device, dtype = _home(module)
    if isinstance(x, torch.Tensor):
        if device is not None and x.device != device:
            raise ValueError(
                f"The vectors are on {x.device} and the {type(module).__name__} is on {device}: expected one device. "
                f"Move one of them with .to({str(device)!r})."
            )
        return x
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub":
        return x
    tensor = torch.from_numpy(np.array(x))
    return tensor.to(device, dtype if tensor.is_floating_point() else None)


def edge_width(module: nn.Module, first: bool) -> int | None:
    """Return the input (or output) width of a module, if it is known from the outermost layer of a Sequential."""
    if isinstance(module, nn.Linear):
        return module.in_features if first else module.out_features
    if isinstance(module, nn.LayerNorm):
        return int(module.normalized_shape[0]) if len(module.normalized_shape) == 1 else None
    if type(module).forward is not nn.Sequential.forward:
        return None
    for layer in module.children() if first else reversed(list(module.children())):
        width = edge_width(layer, first)
        if width is not None:
            return width
        if not _keeps_width(layer):
            return None
    return None


def mode_matters(module: nn.Module) -> bool:
    """Return whether a module holds layers in training mode whose output depends on the mode."""
    return any(layer.training and isinstance(layer, MODE_DEPENDENT) for layer in module.modules())


def _keeps_width(layer: nn.Module) -> bool:
    if isinstance(layer, nn.GLU | nn.MultiheadAttention):
        return False
    if type(layer).forward is nn.Sequential.forward:
        return all(map(_keeps_width, layer.children()))
    return isinstance(layer, nn.Identity) or type(layer).__module__ in KEEPING_WIDTH


def _by_method(module: nn.Module, name: str) -> nn.Module:
    """Return the method of a module as a layer if it has one, such as ``encode`` of an autoencoder."""
    return FunctionLayer(getattr(module, name), module) if hasattr(module, name) else module


def _as_layer(translator: Any) -> nn.Module:
    if translator is None:
        return nn.Identity()
    if isinstance(translator, RelativeProjection) and translator.normalize in LAYER_NORMALIZATIONS:
        anchors, options = torch.from_numpy(np.array(to_numpy(translator.anchors_))), translator.get_params()
        return layers.RelativeProjection(
            anchors, **{name: options[name] for name in ("similarity", "normalize", "output")}
        )
    if isinstance(translator, TRANSLATORS) and not isinstance(translator, RelativeProjection):
        return layers.Translation(translator)
    return FunctionLayer(getattr(translator, "transform", translator))


def _home(module: nn.Module) -> tuple[torch.device | None, torch.dtype]:
    tensors = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()]
    return (tensors[0].device, tensors[0].dtype) if tensors else (None, torch.get_default_dtype())


def _common_device(**parts: Any) -> torch.device | None:
    """Return the one device of all modules; modules that are spread over several devices are not checked."""
    places: dict[str, torch.device] = {}
    for role, part in parts.items():
        devices = {p.device for p in part.parameters()} if is_module(part) else set()
        if len(devices) == 1:
            places[role] = devices.pop()
    if len(set(places.values())) > 1:
        given = " and ".join(f"the {role} is on {place}" for role, place in places.items())
        raise ValueError(f"{given[0].upper()}{given[1:]}: expected one device. Move one of them with .to(…).")
    return next(iter(places.values()), None)


class CutNetwork(nn.Module):
    """What :func:`relatent.stitch_at` returns: ``front`` up to its layer, the translator, ``back`` after its layer.

    ``back`` runs on the samples too, with the output of its layer replaced: both networks must take the same samples.
    """

    def __init__(self, front: nn.Module, front_layer: str, back: nn.Module, back_layer: str) -> None:
        super().__init__()
        self.front, self.back = front, back
        self.translator: nn.Module = nn.Identity()
        self.front_layer, self.back_layer = front_layer, back_layer

    def forward(self, samples: Samples) -> Any:
        """Return the output of the back for the translated activations of the front."""
        given = passing(self.front, self.front_layer, samples)

        def translated(own: Tensor) -> Tensor:
            return as_positions(self.translator(as_rows(resized(given, own))), own)

        return self._continued(samples, translated)

    def fit(self, samples: Samples, translator: Any, *, rows: int, batch_size: int, seed: int) -> Self:
        """Fit the translator on the outputs of both layers, and warn if something bypasses the back's."""
        rng, share = np.random.default_rng(seed), rows / _length(samples)
        pairs = [self._pairs(batch, share, rng) for batch in _batches(samples, batch_size)]
        x, y = (np.concatenate(side) for side in zip(*pairs, strict=True))
        place = next(self.back.parameters(), torch.zeros(0))
        self.translator = layers.Translation(translator.fit(x, y)).to(place.device, place.dtype)
        self._warn_bypass(next(_batches(samples, batch_size)))
        return self

    def extra_repr(self) -> str:
        """Name the layers."""
        return f"front up to {self.front_layer!r}, back from {self.back_layer!r}"

    def _continued(self, samples: Samples, replace: Callable[[Tensor], Tensor]) -> Any:
        """Run the back with the output of its layer replaced."""

        def hook(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            return _with_first(output, replace(_first(output)))

        with submodule(self.back, self.back_layer).register_forward_hook(hook):
            return call(self.back, samples)

    def _pairs(self, batch: Samples, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return parallel vectors of one batch: ``share`` positions of each sample, on average."""
        with in_mode(self, lambda _: False), torch.no_grad():
            x, y = passing(self.front, self.front_layer, batch), passing(self.back, self.back_layer, batch)
            both = [as_rows(one).float().cpu().numpy() for one in (resized(x, y), y)]
        kept = rng.permutation(len(both[0]))[: max(1, round(share * len(y)))]
        return both[0][kept], both[1][kept]

    def _warn_bypass(self, batch: Samples) -> None:
        """Warn if other samples change the output of the back although the output of its layer is the same."""
        other = {k: v.flip(0) for k, v in batch.items()} if isinstance(batch, Mapping) else batch.flip(0)
        with in_mode(self, lambda _: False), torch.no_grad():
            given = passing(self.back, self.back_layer, batch)
            expected, found = (_first(self._continued(one, lambda _: given)) for one in (batch, other))
        if not torch.allclose(expected, found, rtol=TOLERANCE, atol=TOLERANCE * float(expected.abs().max())):
            warn(
                f"The output of the back also depends on its own activations that bypass {self.back_layer!r} (a skip "
                "connection, or a mask). Cut it at a layer that everything passes through.",
                stacklevel=4,
            )


def passing(network: nn.Module, layer: str, samples: Samples) -> Tensor:
    """Return the output of a layer; layers after it are not run."""

    def stop(_module: nn.Module, _inputs: Any, output: Any) -> None:
        raise _ReachedError(_first(output))

    with submodule(network, layer).register_forward_hook(stop):
        try:
            call(network, samples)
        except _ReachedError as reached:
            return cast(Tensor, reached.args[0])
    raise ValueError(f"The samples do not pass through the layer {layer!r}: name one that they pass through.")


def call(network: nn.Module, samples: Samples) -> Any:
    """Run a network on samples; a mapping is passed as keyword arguments, as for transformers models."""
    return network(**samples) if isinstance(samples, Mapping) else network(samples)


def as_rows(activations: Tensor) -> Tensor:
    """Return one vector per position: (n, d) as it is, tokens (n, t, d) and feature maps (n, d, …) unrolled.

    >>> as_rows(torch.zeros(2, 8, 5, 5)).shape, as_rows(torch.zeros(2, 7, 8)).shape
    (torch.Size([50, 8]), torch.Size([14, 8]))
    """
    axis = _channels(activations)
    return activations.movedim(axis, -1).reshape(-1, activations.shape[axis])


def as_positions(rows: Tensor, like: Tensor) -> Tensor:
    """Undo :func:`as_rows`, with the positions of other activations."""
    axis = _channels(like)
    return rows.reshape(*like.movedim(axis, -1).shape[:-1], rows.shape[1]).movedim(-1, axis)


def resized(given: Tensor, like: Tensor) -> Tensor:
    """Resize feature maps to the size of others: averaged if they are larger, interpolated if they are smaller."""
    if given.ndim != like.ndim:
        raise ValueError(
            f"The front's layer gives {tuple(given.shape)} and the back's {tuple(like.shape)}: expected equal axes. "
            "Cut both networks at vectors, both at token sequences, or both at feature maps."
        )
    positions = [tuple(one.movedim(_channels(one), -1).shape[1:-1]) for one in (given, like)]
    if positions[0] == positions[1]:
        return given
    if given.ndim != 4:
        raise ValueError(
            f"The layers give {positions[0]} and {positions[1]} positions per sample: expected equal numbers. "
            "Only feature maps are resized."
        )
    size = (int(like.shape[2]), int(like.shape[3]))
    if all(a >= b for a, b in zip(given.shape[2:], size, strict=True)):
        return nn.functional.adaptive_avg_pool2d(given, size)
    return nn.functional.interpolate(given, size=size, mode="bilinear", align_corners=False)


class _ReachedError(Exception):
    """Carries the activations out of a network."""


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
    """Return the tensor of an output, or its first tensor; also of the outputs of transformers models."""
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
