"""Translate vectors with NumPy alone. This file imports nothing else, and is copied beside the arrays it reads.

translate = load("map.npz"); y = translate(x)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import numpy as np

Array = np.ndarray
Step = tuple[str, dict[str, Array]]


def linear(x: Array, matrix: Array | None = None, offset: Array | None = None) -> Array:
    """Multiply rows by a matrix, or by a diagonal that is given as a vector, and add an offset."""
    if matrix is not None:
        x = x @ matrix if matrix.ndim == 2 else x * matrix
    return x if offset is None else x + offset


def unit(x: Array) -> Array:
    """Scale rows to norm one; a zero row stays zero."""
    for order in (np.inf, 2):  # by the largest entry first: a square might overflow
        norm = np.linalg.norm(x, ord=order, axis=1, keepdims=True)
        x = x / np.where(norm == 0, 1, norm)
    return x


def length(x: Array, length: Array, power: Array) -> Array:
    """Bring the length of rows toward a common one; a zero row stays zero."""
    ones = unit(x)
    grown = ones * (length**power * (x * ones).sum(axis=1, keepdims=True) ** (1 - power))
    return np.asarray(grown, dtype=x.dtype)


def gaussian(x: Array, centers: Array, width: Array) -> Array:
    """Append the Gaussian similarity of each row to each center."""
    a, b = (rows - centers.mean(axis=0) for rows in (x, centers))
    square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.concatenate([x, np.exp(-np.maximum(square, 0) / width).astype(x.dtype)], axis=1)


def squares(x: Array, weights: Array) -> Array:
    """Append one coordinate: a weighted sum of the squares of the others."""
    return np.concatenate([x, (x * x) @ weights[:, None]], axis=1)


def hubness(x: Array, weights: Array, queries: Array, offsets: Array, weight: Array, neighbors: Array) -> Array:
    """Append one coordinate: squares as above, less the mean of the best scores that a bank of queries gives."""
    bias, k = (x * x) @ weights[:, None], int(neighbors)
    best = np.partition(x @ queries.T + offsets, len(queries) - k, axis=1)[:, len(queries) - k :]
    last = bias - weight * (bias + best.mean(axis=1, keepdims=True))
    return np.concatenate([x, last.astype(x.dtype)], axis=1)


STEPS: dict[str, Callable[..., Array]] = {f.__name__: f for f in (linear, unit, length, gaussian, squares, hubness)}


def apply(steps: Iterable[Step], x: Any) -> Array:
    """Take rows through steps, each the name of a function above with its arrays. Single numbers stay double."""
    x = np.asarray(x)
    x = x if x.dtype == np.float64 else x.astype(np.float32)
    typed = [(kind, {n: _typed(a, x.dtype) for n, a in arrays.items()}) for kind, arrays in steps]
    return reduce(lambda y, step: STEPS[step[0]](y, **step[1]), typed, x)


def _typed(value: Any, dtype: Any) -> Any:
    return np.asarray(value, dtype=dtype) if np.ndim(value) else value


def load(path: Any) -> Callable[[Any], Array]:
    """Return the function that translates rows, from the arrays in a file. No code in the file is run."""
    with np.load(path, allow_pickle=False) as file:
        steps: list[Step] = [(str(kind), {}) for kind in file["steps"]]
        for i, (_, arrays) in enumerate(steps):
            names = (name for name in file.files if name.startswith(f"{i}."))
            arrays.update({name.split(".", 1)[1]: file[name] for name in names})
    return partial(apply, steps)
