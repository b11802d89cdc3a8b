"""Which of two spaces each vector comes from: a collection that was half migrated, told apart row by row."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import as_matrix, check_same_width, is_space, row_chunks, to_numpy
from relatent._files import FileError, atomic_write
from relatent._terminal import Result

# A row whose log-likelihood ratio is within this of zero may be of either space.
UNSURE = 5.0
# A covariance of fewer rows says nothing about directions.
MIN_ROWS = 20
# Rows of a sample that are used; the covariance of more is hardly better.
SAMPLE = 10_000
WRITERS = {".parquet": ("pyarrow.parquet", "write_table"), ".csv": ("pyarrow.csv", "write_csv")}


@dataclass(frozen=True)
class Origin(Result):
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
        """Return how many rows are of each space, and of either."""
        new = int(self.is_new.sum())
        return {"old": len(self.ratio) - new, "new": new, "unsure": int(self.unsure.sum())}


def tell_apart(x: Any, old: Any, new: Any, path: str | Path | None = None, *, overwrite: bool = False) -> Origin:
    r"""Return which of two spaces of equal dimension each row of x is of, given a sample of either.

    Each sample is described by a normal distribution, :math:`\mathcal N(\mu, \Sigma)`, with a covariance that is shrunk
    (Ledoit and Wolf, 2004), so that fewer rows than coordinates suffice. A row is of the space under which it is more
    likely:

    .. math:: \log p_\text{new}(x) - \log p_\text{old}(x) > 0

    All three are arrays or spaces; a space x is read chunk by chunk, and of a sample at most 10,000 rows are used. A
    table of keys, spaces and log-likelihood ratios is written to ``path``, a .parquet or .csv.

    Not changed by an affine change of coordinates of all three arguments up to the shrinkage. Two spaces with equal
    means and covariances cannot be told apart, such as a space and its own permuted rows; neither can two models whose
    coordinates are both whitened. ``python -m experiments.migration.mixed`` measures it on real encoders.

    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(50, 3)), rng.normal(size=(50, 3)) + 9
    >>> print(tell_apart(np.concatenate([a, b]), a, b))
    two spaces: 50 rows of the old and 50 of the new one; 0 of these may be of either
    """
    if path is not None and Path(path).suffix not in WRITERS:
        raise FileError(f"{path} ends in {Path(path).suffix!r}: expected one of {', '.join(WRITERS)}.")
    x = x if is_space(x) else as_matrix(x)
    samples = {"old": _sample(old, "old"), "new": _sample(new, "new")}
    check_same_width(x=x, **samples)
    before, after = (_Normal.of(sample, name) for name, sample in samples.items())
    parts = (as_matrix(chunk.vectors) for chunk in x.chunks() if len(chunk)) if is_space(x) else (x,)
    ratios = [_log_ratio(to_numpy(part), before, after) for part in parts]
    found = Origin(np.concatenate(ratios) if ratios else np.empty(0))
    if path is not None:
        _write(found, x.key_column() if is_space(x) else None, Path(path), overwrite)
    return found


def _sample(sample: Any, name: str) -> np.ndarray:
    """Return the rows of a sample; of a space, some that are spread over it."""
    if is_space(sample):
        sample = sample.take(np.linspace(0, len(sample) - 1, min(len(sample), SAMPLE)).astype(np.intp))
    return to_numpy(as_matrix(sample, name))


def _log_ratio(rows: np.ndarray, before: _Normal, after: _Normal) -> np.ndarray:
    ratio = np.empty(len(rows))
    for block in row_chunks(len(rows)):
        part = rows[block].astype(np.float64)
        ratio[block] = after.log_likelihood(part) - before.log_likelihood(part)
    return ratio


def _write(found: Origin, keys: Any, path: Path, overwrite: bool) -> None:
    import pyarrow as pa

    key = pa.array(np.arange(len(found.ratio))) if keys is None else keys
    origin = np.where(found.is_new, "new", "old")
    table = pa.table({"key": key, "space": origin, "log_likelihood_ratio": found.ratio})
    with atomic_write(path, overwrite=overwrite) as tmp:
        getattr(import_module(WRITERS[path.suffix][0]), WRITERS[path.suffix][1])(table, str(tmp))


@dataclass(frozen=True)
class _Normal:
    """A normal distribution, by its mean and the Cholesky factor of its covariance."""

    mean: np.ndarray
    factor: np.ndarray

    @staticmethod
    def of(sample: np.ndarray, name: str) -> _Normal:
        from sklearn.covariance import ledoit_wolf

        if len(sample) < MIN_ROWS:
            raise ValueError(f"The sample of the {name} space has {len(sample)} rows: expected at least {MIN_ROWS}.")
        sample = sample.astype(np.float64)
        covariance, _ = ledoit_wolf(sample)
        # A coordinate that never varies has no variance to divide by.
        floor = 1e-9 * np.trace(covariance) / len(covariance) or 1e-30
        return _Normal(sample.mean(axis=0), np.linalg.cholesky(covariance + floor * np.eye(len(covariance))))

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return it up to a constant that all distributions share."""
        from scipy.linalg import solve_triangular

        z = solve_triangular(self.factor, (x - self.mean).T, lower=True)
        return np.asarray(-0.5 * np.sum(z**2, axis=0) - np.sum(np.log(np.diag(self.factor))))
