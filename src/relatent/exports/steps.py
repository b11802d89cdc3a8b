"""A fitted map as a short list of elementary steps, which every export puts into the words of its library.

This is the one place that knows how a map is built. A new kind of step needs a function in
:data:`relatent.exports.translate_with_numpy.STEPS`, and an entry in the table of each export that can express it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np

from relatent._errors import with_remedy
from relatent.exports.translate_with_numpy import apply
from relatent.project.coded_map import CodedMap
from relatent.spaces.normalize import Normalizer
from relatent.translate.map import FoldedMap

# Rows that a list of steps is tried on, and how near to the map it must come.
TRIED_ROWS, NEAR = 4, 1e-8


@dataclass(frozen=True)
class Step:
    """One step: the name of a function of rows, and the arrays that it takes."""

    kind: str
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def map_of(translator: Any, side: str = "source") -> Any:
    """Return the fitted map of one side, refusing what has none to export."""
    if side not in ("source", "target"):
        raise ValueError(f"side is {side!r}: expected 'source' or 'target'.")
    if not isinstance(getattr(translator, "map_", None), FoldedMap | CodedMap):
        raise ValueError(
            f"A {type(translator).__name__} has no single map to export: expected a fitted Translator, "
            "RelativeTranslator, or one of its halves."
        )
    if side == "source":
        return translator.map_
    target = getattr(translator, "target_map_", None)
    if target is None:
        raise with_remedy(
            ValueError("This translator leaves its target as it is: the target side has no map to export."),
            python='Use side="source"; only goal="retrieval" without a frozen target moves both sides.',
            command="Use --side source; only --goal retrieval without --frozen-target moves both sides.",
        )
    return target


def steps_of(translator: Any, side: str = "source", *, normalize: bool = False) -> list[Step]:
    """Return the steps of one side of a fitted translator; ``normalize`` adds unit norm of what comes out.

    >>> from relatent import Translator
    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> [step.kind for step in steps_of(Translator(map="affine", normalize="l2").fit(x, x + 1))]
    ['unit', 'linear']
    """
    fitted = map_of(translator, side)
    steps = _steps(fitted)
    _check(fitted, steps)
    if normalize and getattr(translator, "target_map_", None) is not None:
        raise ValueError(
            "This translator moves both sides, which are compared by inner product: unit norms would change the order. "
            "Leave out normalize, or fit with frozen_target=True."
        )
    return [*steps, Step("unit")] if normalize else steps


@singledispatch
def _steps(fitted: Any) -> list[Step]:
    raise TypeError(f"A {type(fitted).__name__} is no map that is known here.")


@_steps.register
def _(fitted: FoldedMap) -> list[Step]:
    steps = [] if fitted.before is None else _prepared(fitted.before)
    if fitted.basis is not None:
        steps.append(Step("linear", {"matrix": fitted.basis}))
    if fitted.features is not None:
        f = fitted.features
        steps.append(Step("gaussian", {"centers": f.centers, "width": np.asarray(f.width)}))
    steps.append(Step("linear", {"matrix": fitted.matrix, "offset": fitted.offset}))
    if fitted.bias is None:
        return steps
    if fitted.bank is None:
        return [*steps, Step("squares", {"weights": fitted.bias})]
    b = fitted.bank
    numbers = {"weight": np.asarray(b.weight), "neighbors": np.asarray(b.neighbors)}
    return [*steps, Step("crowding", {"weights": fitted.bias, "queries": b.queries, "offsets": b.offsets, **numbers})]


@_steps.register
def _(fitted: CodedMap) -> list[Step]:
    steps = [] if fitted.before is None else _prepared(fitted.before)
    steps += [Step("linear", {"matrix": m}) for m in (fitted.matrix, fitted.second) if m is not None]
    after = fitted.after
    if after is None:
        return steps
    scale = after.unscale * (after.mean_norm if after.unit else 1.0)
    unit = [Step("unit")] if fitted.rescale and after.unit else []
    return [*steps, *unit, Step("linear", {"matrix": scale, "offset": after.mean})]


def _prepared(normalizer: Normalizer) -> list[Step]:
    """Return the steps of a normalization. The mean goes first: far from it, a float32 product has no digits left."""
    steps = []
    if np.any(normalizer.mean):
        steps.append(Step("linear", {"offset": -normalizer.mean}))
    if normalizer.scale.ndim == 2 or np.any(normalizer.scale != 1):
        steps.append(Step("linear", {"matrix": normalizer.scale}))
    return [*steps, Step("unit")] if normalizer.unit else steps


def _check(fitted: Any, steps: list[Step]) -> None:
    """Try the steps: a part of a map that is not known here must not be left out in silence."""
    x = np.random.default_rng(0).normal(size=(TRIED_ROWS, fitted.dims_in))
    expected, found = fitted(x), apply([(step.kind, step.arrays) for step in steps], x)
    if expected.shape != found.shape or not np.allclose(expected, found, rtol=NEAR, atol=NEAR * np.abs(expected).max()):
        raise NotImplementedError("This map has a part that cannot be exported yet: update relatent.")
