"""What the linear measures need of two parallel spaces: their second moments, and the principal axes of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import Array, as_parallel, to_numpy
from relatent.evaluate.checks import check_varies
from relatent.summary import Summary, accumulate

__all__ = ["Axes", "as_moments", "principal_axes"]

# Directions with less than this share of the largest variance are rounding noise (a share 1e-6 of its spread).
NOISE = 1e-12


def as_moments(x: Any, y: Any = None, *, wide: bool = True) -> Summary:
    """Take a summary as it is, or make one from two parallel matrices (:func:`relatent.summary.accumulate`)."""
    if y is not None:
        x, y = as_parallel(x=x, y=y)
        check_varies(x=x, y=y)
        return accumulate(x, y, wide=wide)
    if not isinstance(x, Summary):
        raise TypeError(
            f"One argument of type {type(x).__name__} was given: expected two parallel matrices x and y, "
            "or a summary of them (relatent.summarize)."
        )
    return x


@dataclass(frozen=True)
class Axes:
    """The principal axes of a space: ``values`` fall, and column i of ``vectors`` is the axis of ``values[i]``."""

    values: np.ndarray
    vectors: np.ndarray


def principal_axes(scatter: Array) -> Axes:
    """Decompose a scatter matrix; axes that hold rounding noise are dropped."""
    values, vectors = np.linalg.eigh(to_numpy(scatter).astype(np.float64, copy=False))
    live = values > NOISE * values[-1]
    return Axes(values[live][::-1], vectors[:, live][:, ::-1])
