"""FAISS: the map as transforms in front of an index (``IndexPreTransform``)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from relatent._errors import needs, with_remedy
from relatent._files import FileError, atomic_write
from relatent.exports.formats import map_of, steps_of
from relatent.steps import Step
from relatent.translate.endpoints import Side


def transforms(translator: Any, *, side: Side = "source", normalize: bool = False) -> list[Any]:
    """Return the map as FAISS transforms, to be applied in turn."""
    faiss, width = _faiss(), map_of(translator, side).dims_in
    made = []
    for step in steps_of(translator, side, normalize=normalize):
        made.append(_transform(faiss, step, width))
        width = made[-1].d_out
    return made


def wrap(translator: Any, index: Any, *, side: Side = "source", normalize: bool = False) -> Any:
    """Return an index that translates what it is asked, and what is added to it, and hands it on to the given one.

    ``index`` holds vectors of the target, and is not changed or copied: ``wrap(t, index).search(x, k)`` is
    ``index.search(t.transform(x), k)``.
    """
    width = map_of(translator, side).width
    if index.d != width:
        raise ValueError(
            f"The index holds {index.d} coordinates and the translator gives {width}: expected as many. Give the index "
            "of the space that it translates into."
        )
    wrapped = _faiss().IndexPreTransform(index)
    for transform in reversed(transforms(translator, side=side, normalize=normalize)):
        wrapped.prepend_transform(transform)  # FAISS keeps it, and the index, alive as long as what wraps them
    return wrapped


def write(
    translator: Any,
    path: str | os.PathLike[str],
    *,
    side: Side = "source",
    normalize: bool = False,
    index: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write an index that translates: a copy of a FAISS index behind the map, or an empty one by inner product."""
    faiss = _faiss()
    inner = faiss.IndexFlatIP(map_of(translator, side).width) if index is None else _read(faiss, index)
    wrapped = wrap(translator, inner, side=side, normalize=normalize)
    with atomic_write(path, overwrite=overwrite) as tmp:
        faiss.write_index(wrapped, str(tmp))


def _faiss() -> Any:
    return needs("faiss", "faiss", "put a translator into a FAISS index")


def _read(faiss: Any, path: str | os.PathLike[str]) -> Any:
    try:
        return faiss.read_index(os.fspath(path))
    except RuntimeError as error:
        raise FileError(f"{path} cannot be read as a FAISS index: expected what faiss.write_index wrote.") from error


def _transform(faiss: Any, step: Step, width: int) -> Any:
    if step.kind == "unit":
        return faiss.NormalizationTransform(width, 2.0)
    if step.kind != "linear":
        raise with_remedy(
            ValueError(
                f"FAISS has no transform for the {step.kind} part of this map, which is not affine: translate vectors "
                "before the search, or fit an affine map:"
            ),
            python='Translator(max_cost="affine").',
            command="relatent fit --max-cost affine.",
        )
    matrix = step.arrays.get("matrix", np.ones(width))
    matrix = matrix if matrix.ndim == 2 else np.diag(matrix)
    made = faiss.LinearTransform(width, matrix.shape[1], True)
    offset = step.arrays.get("offset", np.zeros(matrix.shape[1]))
    faiss.copy_array_to_vector(np.ascontiguousarray(matrix.T, np.float32).ravel(), made.A)
    faiss.copy_array_to_vector(np.ascontiguousarray(offset, np.float32), made.b)
    made.is_trained = True
    return made
