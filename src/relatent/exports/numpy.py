"""A folder for NumPy alone: the arrays of a map, and the short program that applies them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from relatent._files import atomic_write
from relatent.exports import translate_with_numpy
from relatent.exports.formats import steps_of
from relatent.spaces.io.files import AnyPath
from relatent.translate.endpoints import Side


def write(
    translator: Any, path: AnyPath, *, side: Side = "source", normalize: bool = False, overwrite: bool = False
) -> None:
    """Write a folder with ``map.npz`` and ``translate_with_numpy.py``, which needs NumPy and nothing else."""
    steps = steps_of(translator, side, normalize=normalize)
    arrays = {f"{i}.{name}": array for i, step in enumerate(steps) for name, array in step.arrays.items()}
    with atomic_write(path, overwrite=overwrite) as folder:
        folder.mkdir()
        kinds = {"steps": np.asarray([step.kind for step in steps])}
        np.savez(folder / "map.npz", allow_pickle=False, **kinds, **arrays)
        (folder / "translate_with_numpy.py").write_text(inspect.getsource(translate_with_numpy), encoding="utf8")
