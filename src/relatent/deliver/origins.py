"""`relatent mixed`: which rows of a collection are of which of two spaces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from relatent._atomic import FileError, atomic_write
from relatent.evaluate.origin import Origin, tell_apart
from relatent.spaces.space import Space

__all__ = ["list_origins"]

WRITERS = {".parquet": parquet.write_table, ".csv": csv.write_csv}
# Rows of a sample that are looked at; the covariance of more is hardly better.
SAMPLE = 10_000


def list_origins(collection: Space, old: Space, new: Space, out: str | Path | None = None) -> Origin:
    """Return the origin of every row, chunk by chunk; ``out`` lists keys, spaces and log-likelihood ratios.

    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(50, 3)), rng.normal(size=(50, 3)) + 9
    >>> print(list_origins(Space(np.concatenate([a, b])), Space(a), Space(b)))
    two spaces: 50 rows of the old and 50 of the new one; 0 of these may be of either
    """
    if out is not None and Path(out).suffix not in WRITERS:
        raise FileError(f"{out} ends in {Path(out).suffix!r}: expected one of {', '.join(WRITERS)}.")
    samples = [_some(space) for space in (old, new)]
    ratios = [tell_apart(chunk.vectors, *samples).ratio for chunk in collection.chunks() if len(chunk)]
    found = Origin(np.concatenate(ratios) if ratios else np.empty(0))
    if out is not None:
        keys = collection.key_column()
        table = pa.table(
            {
                "key": pa.array(np.arange(len(found.ratio))) if keys is None else keys,
                "space": np.where(found.is_new, "new", "old"),
                "log_likelihood_ratio": found.ratio,
            }
        )
        with atomic_write(out, overwrite=False) as aside:
            WRITERS[Path(out).suffix](table, str(aside))
    return found


def _some(space: Space) -> np.ndarray:
    """Return rows of a sample, spread over it."""
    rows = np.linspace(0, len(space) - 1, min(len(space), SAMPLE)).astype(np.intp)
    return np.asarray(space.vectors)[rows]
