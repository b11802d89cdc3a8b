"""A fitted translator as a layer, and back."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relatent._array import check_one_device, to_numpy
from relatent.nn.forward import check_batch, in_single_at_least
from relatent.steps import Map

# What a translator keeps to learn more from, or to be taken apart. A layer needs neither, nor does the saved file.
LEARNING = ("parts_", "pairs_", "bank_", "choice_", "encoder_", "decoder_")


class Translation(nn.Module):
    """A fitted translator as a layer: the same map, on the device and in the precision of the network around it.

    Built from a fitted :class:`~relatent.Translator` with any goal and map, a :class:`~relatent.RelativeTranslator`, or
    one of its halves. It is frozen, unless ``trainable``: then the matrix and the offset are parameters and what
    prepares the rows stays as it was fitted. ``to_translator`` returns a translator, with the fingerprints of
    the spaces that it joins.

    A translator for retrieval has two sides: ``layer(x)`` prepares queries, ``layer.transform_target(y)`` the index.
    Each side is a module of its own (``source``, ``target``), to be exported alone.

    >>> from relatent import Translator
    >>> x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    >>> translator = Translator(map="affine").fit(x, 2 * x + 1)
    >>> layer = Translation(translator)
    >>> bool(np.allclose(layer(torch.from_numpy(x)), translator.transform(x), atol=1e-5))
    True
    """

    def __init__(self, translator: Any, *, trainable: bool = False) -> None:
        super().__init__()
        if not isinstance(getattr(translator, "map_", None), Map):
            raise TypeError(
                f"This {type(translator).__name__} has no map: expected a fitted Translator, RelativeTranslator, "
                "RelativeEncoder or RelativeDecoder. Fit it first."
            )
        self.source = FittedMap(translator.map_, trainable=trainable)
        target = getattr(translator, "target_map_", None)
        self.target = None if target is None else FittedMap(target, trainable=trainable)
        self._about = copy(translator)
        for name in LEARNING:
            self._about.__dict__.pop(name, None)
        self._fill(self._about, filled=False)

    def forward(self, x: Tensor) -> Tensor:
        """Translate vectors of the source."""
        return self.source(x)  # type: ignore[no-any-return]

    def transform_target(self, y: Tensor) -> Tensor:
        """Prepare vectors of the target for comparison; changes them only if the translator is for retrieval."""
        return y if self.target is None else self.target(y)

    def to_translator(self) -> Any:
        """Return a translator whose map is that of the layer now."""
        translator = copy(self._about)
        self._fill(translator, filled=True)
        return translator

    def _fill(self, translator: Any, *, filled: bool) -> None:
        translator.map_ = self.source.fitted() if filled else self.source.empty
        if self.target is not None:
            translator.target_map_ = self.target.fitted() if filled else self.target.empty


class FittedMap(nn.Module):
    """One side: a map of the core whose arrays are tensors of this module."""

    matrix: Tensor

    def __init__(self, fitted: Map, *, trainable: bool = False) -> None:
        super().__init__()
        arrays = _arrays(fitted)
        self.dims_in, self.width, self.kinds = fitted.dims_in, fitted.width, [step.kind for step in fitted.steps]
        self.types = {name: float if isinstance(value, float) else value.dtype for name, value in arrays.items()}
        self.empty = _with_arrays(fitted, dict.fromkeys(arrays))
        for name, value in arrays.items():
            tensor = torch.from_numpy(np.array(value, dtype=fitted.matrix.dtype))
            if trainable and "." not in name:  # what lies deeper prepares the rows
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(_attribute(name), tensor)

    def forward(self, x: Tensor) -> Tensor:
        """Map rows."""
        check_batch(x)
        check_one_device(x=x, matrix=self.matrix)
        if x.shape[1] != self.dims_in:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: expected {self.dims_in} columns, as the space that was fitted."
            )
        return in_single_at_least(self._mapped, x)

    def fitted(self) -> Map:
        """Return the map with its arrays in NumPy, in the dtypes that they were fitted in."""
        arrays = {name: _typed(tensor, self.types[name]) for name, tensor in self._tensors().items()}
        return _with_arrays(self.empty, arrays)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Name the dimensions."""
        return f"{self.dims_in} → {self.width}, {', '.join(self.kinds)}"

    def _mapped(self, x: Tensor) -> Tensor:
        return _with_arrays(self.empty, self._tensors())(x)  # type: ignore[no-any-return]

    def _tensors(self) -> dict[str, Tensor]:
        return {name: getattr(self, _attribute(name)) for name in self.types}


def _arrays(fitted: Any, prefix: str = "") -> dict[str, np.ndarray | float]:
    """Find the arrays and floats of a map and of its parts, named by their path."""
    found: dict[str, np.ndarray | float] = {}
    for field in fields(fitted):
        value, path = getattr(fitted, field.name), prefix + field.name
        if isinstance(value, np.ndarray | float):
            found[path] = value
        elif is_dataclass(value):
            found |= _arrays(value, f"{path}.")
    return found


def _with_arrays(fitted: Any, arrays: dict[str, Any], prefix: str = "") -> Any:
    """Return the map with its arrays replaced."""
    changed: dict[str, Any] = {}
    for field in fields(fitted):
        value, path = getattr(fitted, field.name), prefix + field.name
        if path in arrays:
            changed[field.name] = arrays[path]
        elif is_dataclass(value):
            changed[field.name] = _with_arrays(value, arrays, f"{path}.")
    return replace(fitted, **changed)


def _typed(tensor: Tensor, kind: Any) -> np.ndarray | float:
    return float(tensor) if kind is float else to_numpy(tensor).astype(kind)


def _attribute(path: str) -> str:
    return path.replace(".", "_")
