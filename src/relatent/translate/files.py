"""Translate whole spaces, and batches of rows in other engines: chunk by chunk, atomic, never in place."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import Array
from relatent._errors import with_remedy
from relatent._saved import Saved, content_hash
from relatent.engines import Engine, Serial
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import Batch, BatchVectors, batch_vectors, with_vectors
from relatent.spaces.io.files import AnyPath, check_new, writes_folder
from relatent.spaces.io.mapping import job_hash, map_space, write_parts
from relatent.spaces.multi_vectors import MultiSpace
from relatent.spaces.quantize import Quantizer
from relatent.spaces.space import Space
from relatent.steps import Map
from relatent.translate.endpoints import Endpoints, Side, check_side
from relatent.translate.translator import Translator


def translate_space(
    translator: Translator,
    space: Space,
    path: AnyPath,
    *,
    side: Side = "source",
    accept: bool = False,
    format: str | None = None,
    quantize: str | Quantizer | None = None,
    overwrite: bool = False,
    engine: Engine | None = None,
    progress: bool | None = None,
) -> Fingerprint:
    """Translate a space into a new file or folder, with bounded memory; keys and other columns are kept.

    The fingerprint of the space is checked before anything is read. ``side="target"`` prepares the vectors of the
    target for comparison, where a translator maps queries and documents into a shared space. ``accept`` lets a space
    pass whose fingerprint is another's. float16 becomes float32. ``quantize`` writes codes with their scale
    (:func:`relatent.spaces.space_writer`).

    A path without a suffix becomes a folder of Parquet parts: an ``engine`` (:mod:`relatent.engines`) writes several at
    a time, and the same call after a killed one resumes where that stopped. A single file, and codes, start over.
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
    if isinstance(space, MultiSpace):
        check_new(path, space, overwrite=overwrite)
        if quantize is not None:
            raise ValueError("Codes of several vectors per item cannot be written: translate without quantize.")
        space.map(translate.vectors, path, known, overwrite=overwrite)
    elif writes_folder(path, format) and quantize is None:
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
        raise with_remedy(
            ValueError(f"A {kind} was given: expected a translator, such as"),
            python="Translator.fit gives.",
            command="relatent fit writes.",
        )


def warn_two_sided(translator: Translator, side: Side) -> None:
    """Warn that a translator with a map for each side is of no use on one side only."""
    if translator.target_map_ is not None:
        other = "target" if side == "source" else "source"
        problem = UserWarning(
            f"This translator maps queries and documents into a shared space: the {side}'s vectors can only be "
            f"compared, by inner product, with the {other}'s that went through it too."
        )
        words = "Translate those with {}; for an index that stays as it is, fit with {}."
        python = words.format(f"side={other!r}", "frozen_target=True")
        command = words.format(f"--side {other}", "--frozen-target")
        warnings.warn(with_remedy(problem, python=python, command=command), stacklevel=3)


@dataclass(frozen=True, eq=False)
class BatchTranslator:
    """RecordBatch → RecordBatch: one more column, the translation of a column of vectors.

    It holds the arrays of one map and the fingerprints of its spaces, and nothing else of the translator: a linear map
    of 384 coordinates takes 0.6 MB when pickled. Made by :meth:`relatent.Translator.batch_udf`.
    """

    folded: Map | None
    """None for a side that stays as it is."""
    endpoints: Endpoints
    side: Side
    column: str
    into: str
    replace: bool = False

    def __call__(self, batch: Batch) -> Batch:
        """Translate a record batch or a table; a null vector stays null."""
        found = batch_vectors(batch, self.column, self.dims[0])
        return with_vectors(
            batch, self.into, BatchVectors(self.vectors(found.vectors), found.rows), replace=self.replace
        )

    def vectors(self, x: np.ndarray) -> Array:
        """Translate finite rows, float16 as float32; warn if they look like those of another space."""
        x = x.astype(np.result_type(x, np.float32), copy=False)
        if not len(x):
            return np.empty((0, self.dims[1]), x.dtype)
        self.endpoints.check_array(x, self.side)
        return x if self.folded is None else self.folded(x)

    @property
    def dims(self) -> tuple[int, int]:
        """Coordinates that come in and that go out."""
        if self.folded is None:
            return self.endpoints.target.dim, self.endpoints.target.dim
        return self.folded.dims_in, self.folded.width

    @property
    def hash(self) -> str:
        """A hash of what it does to vectors, the same in every process."""
        about = {"side": self.side, "map": None if self.folded is None else self.folded.about()}
        arrays = {} if self.folded is None else self.folded.arrays("map.")
        return content_hash(Saved("batch translator", arrays, about))
