"""Translate whole spaces into new files: chunk by chunk, atomic, never in place."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from relatent.engines import Engine, Serial
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.files import AnyPath, check_new, writes_folder
from relatent.spaces.io.mapping import job_hash, map_space, write_parts
from relatent.spaces.quantize import Quantizer
from relatent.spaces.space import Space
from relatent.translate.endpoints import check_side
from relatent.translate.translator import Translator


def translate_space(
    translator: Translator,
    space: Space,
    path: AnyPath,
    *,
    side: str = "source",
    accept: bool = False,
    format: str | None = None,
    quantize: str | Quantizer | None = None,
    overwrite: bool = False,
    engine: Engine | None = None,
    progress: bool | None = None,
) -> Fingerprint:
    """Translate a space into a new file or folder, with bounded memory; keys and other columns are kept.

    The fingerprint of the space is checked before anything is read. ``side="target"`` prepares the vectors of the
    target for the comparison that a two-sided retrieval translator makes. ``accept`` lets a space pass whose
    fingerprint is another's. float16 becomes float32. ``quantize`` writes codes with their scale
    (:func:`relatent.spaces.space_writer`).

    A path without a suffix becomes a folder of Parquet parts: an ``engine`` (:mod:`relatent.engines`) writes several at
    a time, and the same call after a killed one goes on where that stopped. A single file, and codes, are begun again.
    """
    check_translator(translator)
    check_side(side)
    if accept:
        translator.accept(space)
    translator.endpoints_.check(space, side)
    warn_two_sided(translator, side)
    translate = translator.batch_udf(side=side)
    there = side == "target" and translator.target_map_ is None
    width = translate.dims[1]
    known = space.fingerprint if there else translator.endpoints_.outcome(width)
    if writes_folder(path, format) and quantize is None:
        check_new(path, space, overwrite=overwrite)
        job = job_hash(space, translate.hash, known)
        write_parts(space, Path(path), translate.vectors, known, job, engine=engine or Serial(), progress=progress)
    else:
        _check_one_writer(path, engine)
        map_space(
            translate.vectors,
            space,
            path,
            known,
            format=format,
            quantize=quantize,
            overwrite=overwrite,
            progress=progress,
        )
    return known


def _check_one_writer(path: AnyPath, engine: Engine | None) -> None:
    if engine is not None and not isinstance(engine, Serial):
        raise ValueError(
            f"{path} is one file, or a remote one: several workers write a local folder of Parquet files. Give a path "
            "without a suffix, or take the engine serial."
        )


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
