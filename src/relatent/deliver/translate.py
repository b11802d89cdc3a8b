"""Spaces through a function into new files: chunk by chunk, whole or not at all, never in place."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from relatent._terminal import progress_bar
from relatent.spaces.chunks import Chunk
from relatent.spaces.files import AnyPath, check_new, file_row, space_writer
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.endpoints import check_side

__all__ = ["check_new", "check_translator", "map_space", "translate_space", "warn_two_sided"]


def translate_space(
    translator: Translator,
    space: Space,
    path: AnyPath,
    *,
    side: str = "source",
    accept: bool = False,
    format: str | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Fingerprint:
    """Translate a space into a new file, with bounded memory; keys and other columns are kept.

    The fingerprint of the space is checked before anything is read. ``side="target"`` prepares the vectors of the
    target for the comparison that a two-sided retrieval translator makes. ``accept`` lets a space pass whose
    fingerprint is another's. float16 becomes float32.
    """
    check_translator(translator)
    check_side(side)
    if accept:
        translator.accept(space)
    translator.endpoints_.check(space, side)
    warn_two_sided(translator, side)
    transform = translator.transform if side == "source" else translator.transform_target
    there = side == "target" and translator.target_map_ is None
    width = space.dim if there else (translator.target_map_ or translator.map_).width
    known = space.fingerprint if there else translator.endpoints_.outcome(width)
    map_space(space, path, transform, known, format=format, overwrite=overwrite, progress=progress)
    return known


def map_space(
    space: Space,
    path: AnyPath,
    function: Callable[[np.ndarray], Any],
    fingerprint: Fingerprint,
    *,
    column: tuple[str, Callable[[np.ndarray], Any]] | None = None,
    format: str | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> None:
    """Write a space whose vectors are a function of another's, in as many rows and with the same other columns.

    ``column`` adds one more column, made of the new vectors.
    """
    check_new(path, space, overwrite=overwrite)
    with (
        progress_bar(len(space), f"→ {Path(str(path)).name}", progress) as advance,
        space_writer(path, fingerprint=replace(fingerprint, probe=None), format=format, overwrite=overwrite) as out,
    ):
        for chunk in space.chunks():
            new = chunk.with_vectors(_applied(function, chunk, fingerprint.dim, space))
            out.write(new if column is None else _with_column(new, *column))
            advance(len(chunk))


def _applied(function: Callable[[np.ndarray], Any], chunk: Chunk, width: int, space: Space) -> np.ndarray:
    """Apply the function to a chunk; refuse a row that is not finite, or that does not stay so, by file and key."""
    if not len(chunk):
        return np.empty((0, width), dtype=np.result_type(chunk.vectors.dtype, np.float32))
    _check_rows(chunk.vectors, chunk, space, "holds NaN or infinity and")
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.asarray(function(chunk.vectors))
    _check_rows(out, chunk, space, f"becomes infinite in {out.dtype} and")
    return out


def _check_rows(vectors: np.ndarray, chunk: Chunk, space: Space, problem: str) -> None:
    bad = ~np.isfinite(vectors).all(axis=1)
    if not bad.any():
        return
    i = int(np.argmax(bad))
    row = chunk.start + i
    name, row = (space.name or "the space", row) if space.path is None else file_row(space.path, row)
    key = "" if chunk.keys is None else f" (key {chunk.keys[i].as_py()!r})"
    raise ValueError(f"Row {row}{key} of {name} {problem} cannot be translated: drop or mend it.")


def _with_column(chunk: Chunk, name: str, values: Callable[[np.ndarray], Any]) -> Chunk:
    import pyarrow as pa

    if name in chunk.others.column_names:
        raise ValueError(f"There is a column {name!r} already: rename it first, since it would be replaced.")
    others = chunk.others.append_column(name, pa.array(values(chunk.vectors)))
    layout = replace(chunk.layout, order=(*chunk.layout.order, name) if chunk.layout.order else ())
    return replace(chunk, others=others, layout=layout)


def check_translator(translator: Any) -> None:
    """Refuse what is saved in the same way but joins no two spaces."""
    if not isinstance(translator, Translator):
        kind = getattr(translator, "kind", type(translator).__name__)
        raise ValueError(f"A {kind} was given: expected a translator, such as relatent fit writes.")


def warn_two_sided(translator: Translator, side: str) -> None:
    """Warn that a translator which moves both sides is of no use on one side only."""
    if translator.target_map_ is not None:
        other = "target" if side == "source" else "source"
        warnings.warn(
            f"This translator moves both sides: the {side}'s vectors can only be compared, by inner product, with the "
            f"{other}'s that went through it too (relatent translate --side {other}). For an index that stays as it "
            "is, fit with --frozen-target.",
            stacklevel=3,
        )
