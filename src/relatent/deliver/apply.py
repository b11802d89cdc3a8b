"""A function on the vectors of a chunk, whose rows are named by file and key where it cannot be applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relatent.spaces.chunks import Chunk
from relatent.spaces.files import file_row
from relatent.spaces.space import Space

__all__ = ["applied"]


def applied(function: Callable[[np.ndarray], Any], chunk: Chunk, width: int, space: Space) -> Chunk:
    """Return the chunk with new vectors; refuse a row that is not finite, or that does not stay so."""
    if not len(chunk):
        return chunk.with_vectors(np.empty((0, width), dtype=np.result_type(chunk.vectors.dtype, np.float32)))
    _check_rows(chunk.vectors, chunk, space, "holds NaN or infinity and")
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.asarray(function(chunk.vectors))
    _check_rows(out, chunk, space, f"becomes infinite in {out.dtype} and")
    return chunk.with_vectors(out)


def _check_rows(vectors: np.ndarray, chunk: Chunk, space: Space, problem: str) -> None:
    bad = ~np.isfinite(vectors).all(axis=1)
    if not bad.any():
        return
    i = int(np.argmax(bad))
    row = chunk.start + i
    name, row = (space.name or "the space", row) if space.path is None else file_row(space.path, row)
    key = "" if chunk.keys is None else f" (key {chunk.keys[i].as_py()!r})"
    raise ValueError(f"Row {row}{key} of {name} {problem} cannot be translated: drop or mend it.")
