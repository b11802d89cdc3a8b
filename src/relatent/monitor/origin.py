"""Which of two spaces each vector comes from: a collection that was half migrated, told apart row by row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet
from scipy.linalg import solve_triangular
from sklearn.covariance import ledoit_wolf

from relatent._array import as_same_space, row_chunks, to_numpy
from relatent._files import FileError, atomic_write
from relatent.spaces.space import Space

# A row whose log-likelihood ratio is within this of zero may be of either space.
UNSURE = 5.0
# A covariance of fewer rows says nothing about directions.
MIN_ROWS = 20


@dataclass(frozen=True)
class Origin:
    """Where each row comes from: ``ratio`` is the log-likelihood of the new space less that of the old one."""

    ratio: np.ndarray

    @property
    def is_new(self) -> np.ndarray:
        """Which rows are of the new space."""
        return np.asarray(self.ratio > 0)

    @property
    def unsure(self) -> np.ndarray:
        """Which rows may be of either."""
        return np.asarray(np.abs(self.ratio) < UNSURE)

    def __str__(self) -> str:
        n, new, unsure = len(self.ratio), int(self.is_new.sum()), int(self.unsure.sum())
        said = "one space" if new in (0, n) else "two spaces"
        return f"{said}: {n - new:,} rows of the old and {new:,} of the new one; {unsure:,} of these may be of either"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        new = int(self.is_new.sum())
        return {"old": len(self.ratio) - new, "new": new, "unsure": int(self.unsure.sum())}


def tell_apart(x: Any, old: Any, new: Any) -> Origin:
    r"""Return which of two spaces of equal dimension each row of x is of, given a sample of either.

    Each sample is described by a normal distribution, :math:`\mathcal N(\mu, \Sigma)`, with a covariance that is shrunk
    (Ledoit and Wolf, 2004), so that fewer rows than coordinates suffice. A row is of the space under which it is more
    likely:

    .. math:: \log p_\text{new}(x) - \log p_\text{old}(x) > 0

    Not changed by an affine change of coordinates of all three arguments up to the shrinkage. Two spaces with equal
    means and covariances cannot be told apart, such as a space and its own permuted rows; neither can two models whose
    coordinates are both whitened. ``python -m experiments.migration.mixed`` measures it on real encoders.

    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) * [1, 5, 9]
    >>> bool(tell_apart(b, a, b).is_new.mean() > 0.8)
    True
    """
    given = as_same_space(x=x, old=old, new=new)
    rows, *samples = (to_numpy(array) for array in given)
    for name, sample in zip(("old", "new"), samples, strict=True):
        if len(sample) < MIN_ROWS:
            raise ValueError(f"The sample of the {name} space has {len(sample)} rows: expected at least {MIN_ROWS}.")
    before, after = (_Normal.of(sample) for sample in samples)
    ratio = np.empty(len(rows))
    for block in row_chunks(len(rows)):
        part = rows[block].astype(np.float64)
        ratio[block] = after.log_likelihood(part) - before.log_likelihood(part)
    return Origin(ratio)


@dataclass(frozen=True)
class _Normal:
    """A normal distribution, by its mean and the Cholesky factor of its covariance."""

    mean: np.ndarray
    factor: np.ndarray

    @staticmethod
    def of(sample: np.ndarray) -> _Normal:
        sample = sample.astype(np.float64)
        covariance, _ = ledoit_wolf(sample)
        # A coordinate that never varies has no variance to divide by.
        floor = 1e-9 * np.trace(covariance) / len(covariance) or 1e-30
        return _Normal(sample.mean(axis=0), np.linalg.cholesky(covariance + floor * np.eye(len(covariance))))

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return it up to a constant that all distributions share."""
        z = solve_triangular(self.factor, (x - self.mean).T, lower=True)
        return np.asarray(-0.5 * np.sum(z**2, axis=0) - np.sum(np.log(np.diag(self.factor))))


WRITERS = {".parquet": parquet.write_table, ".csv": csv.write_csv}
# Rows of a sample that are looked at; the covariance of more is hardly better.
SAMPLE = 10_000


def list_origins(
    collection: Space, old: Space, new: Space, out: str | Path | None = None, *, overwrite: bool = False
) -> Origin:
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
        with atomic_write(out, overwrite=overwrite) as aside:
            WRITERS[Path(out).suffix](table, str(aside))
    return found


def _some(space: Space) -> np.ndarray:
    """Return rows of a sample, spread over it."""
    rows = np.linspace(0, len(space) - 1, min(len(space), SAMPLE)).astype(np.intp)
    return np.asarray(space.vectors)[rows]
