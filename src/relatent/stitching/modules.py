"""Stitches of torch modules: what needs torch itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

import relatent.nn as layers
from relatent._array import to_numpy
from relatent.project import RelativeProjection
from relatent.stitching.roles import TRANSLATORS, is_module, warn_training

MODE_DEPENDENT: tuple[Any, ...] = (
    nn.modules.batchnorm._BatchNorm,
    nn.modules.dropout._DropoutNd,
    nn.RReLU,
)
"""Layers whose output in training mode differs from that in evaluation."""

LAYER_NORMALIZATIONS = ("none", "center")
"""Preparations that the relative layer has too."""

KEEPING_WIDTH = ("torch.nn.modules.activation", "torch.nn.modules.dropout")


class FunctionLayer(nn.Module):
    """Any function as a layer; a module that it belongs to is registered, so that its parameters are found."""

    def __init__(self, function: Callable[[Any], Any], module: nn.Module | None = None) -> None:
        super().__init__()
        self.function = function
        self.module = module

    def forward(self, x: Any) -> Any:
        """Call the function."""
        out = self.function(x)
        return out if isinstance(out, torch.Tensor) or self.module is None else as_input(out, self.module)


def as_module(encoder: nn.Module, translator: Any, decoder: nn.Module) -> nn.Sequential:
    """Set three parts in a row, under their names. Modules that have ``encode`` or ``decode`` are used by it."""
    for role, part in (("encoder", encoder), ("decoder", decoder)):
        warn_training(role, part)
    place = _common_device(encoder=encoder, translator=translator, decoder=decoder)
    between = translator if is_module(translator) else _as_layer(translator).to(place, _home(decoder)[1])
    parts = {"encoder": _by_method(encoder, "encode"), "translator": between, "decoder": _by_method(decoder, "decode")}
    return nn.Sequential(OrderedDict(parts))


def as_input(x: Any, module: nn.Module) -> Any:
    """Return what a module reads: a NumPy array as a tensor on its device, floats in its dtype; a tensor is checked."""
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
    """Width of what a module reads (or gives), if its layers stand in a row and the outermost with a width says it."""
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
    """Use an autoencoder by its half, and whatever else is more than one function by the one that is meant."""
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
    """Find the one device of all modules; modules that are spread over several are left to their owner."""
    places: dict[str, torch.device] = {}
    for role, part in parts.items():
        devices = {p.device for p in part.parameters()} if is_module(part) else set()
        if len(devices) == 1:
            places[role] = devices.pop()
    if len(set(places.values())) > 1:
        given = " and ".join(f"the {role} is on {place}" for role, place in places.items())
        raise ValueError(f"{given[0].upper()}{given[1:]}: expected one device. Move one of them with .to(…).")
    return next(iter(places.values()), None)
