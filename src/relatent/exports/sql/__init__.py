"""SQL: a script that has a database translate vectors itself, where the index is, with nothing of ours installed there.

The name of the file is that of the function. ``t.sql`` makes

==============  ====================================================================================================
postgresql      the table ``t__map`` and the function ``t(vector)``; needs pgvector 0.7 (:mod:`.postgresql`)
duckdb          the table ``t__map`` and the macro ``t(list)`` (:mod:`.duckdb`)
sqlite          the tables ``t__map`` and ``t__given``, and the view ``t``: what is given, as JSON, translated
                (:mod:`.sqlite`)
==============  ====================================================================================================

A script runs in one transaction, and fails where these names are taken. All kinds of steps can be expressed.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._files import atomic_write
from relatent.exports.formats import described, map_of, steps_of
from relatent.exports.sql.literals import name_of
from relatent.translate.endpoints import Side

DIALECTS = ("postgresql", "duckdb", "sqlite")


def write(
    translator: Any,
    path: str | os.PathLike[str],
    *,
    side: Side = "source",
    normalize: bool = False,
    dialect: str = "postgresql",
    overwrite: bool = False,
) -> None:
    """Write the script of a dialect."""
    if dialect not in DIALECTS:
        raise ValueError(f"There is no SQL of {dialect!r}: expected {', '.join(DIALECTS)}.{suggest(dialect, DIALECTS)}")
    steps, fitted = steps_of(translator, side, normalize=normalize), map_of(translator, side)
    for step in steps:
        if not all(np.isfinite(np.asarray(value, np.float64)).all() for value in step.arrays.values()):
            raise ValueError(
                f"The step {step.kind!r} has numbers that are not finite, which SQL cannot hold: fit the translator "
                "again."
            )
    module = import_module(f"relatent.exports.sql.{dialect}")
    about = json.dumps(described(translator, side), ensure_ascii=False).replace("\n", " ")
    head = f"-- Written by relatent for {dialect}: {fitted.dims_in} to {fitted.width} coordinates.\n-- {about}\n"
    with atomic_write(path, overwrite=overwrite) as tmp, tmp.open("w", encoding="utf8") as out:
        out.write(head)
        for part in module.script(name_of(Path(path).stem), steps, (fitted.dims_in, fitted.width)):
            out.write(part + "\n")
