r"""Quiet directions: those in which the vectors of an encoder hardly vary, whatever it reads.

What a corpus is about decides where vectors vary most. Where they hardly vary is decided by the weights: layer
normalization, for one, keeps a weighted sum of the coordinates constant. The vectors of another encoder vary there as
much as anywhere, and so do rotated and permuted ones. The *level* of rows is

.. math:: \frac{1}{k}\sum_{j=1}^{k} \log\frac{\operatorname{var}(X q_j)}{\overline{\operatorname{var}}(X)}

of rows of norm 1, over the k directions :math:`q_j` of least variance in the known rows, against the mean variance of
a coordinate: far below 0 for rows of the same encoder, about 0 for others. It is divided by that of known rows which
the directions were not found on: the *agreement* is about 1 on similar data, smaller on other corpora, about 0 for
another encoder. The logarithm keeps a direction that is quiet on one corpus only from outweighing the others. What did
not separate other corpora from other encoders: the mean in place of the mean logarithm, the angles between the quiet
directions of two samples, the distance of their means, and the profiles of :mod:`relatent.spaces.profile`.

Where some rows are of another encoder, all rows vary far more than the half that varies least. The *excess* is the mean
logarithm of the ratio of their variances.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

# Directions that are kept, and the coordinates that they may have; of wider spaces, some are left out.
DIRECTIONS, MAX_COORDINATES = 16, 384
# Rows that directions are found on, to each coordinate; every fourth row is held out to measure the level.
ROWS_PER_COORDINATE, HELD_OUT = 1.1, 4
MIN_ROWS = 40
# A space whose level is not below this cannot be told from others; along few directions, it is less certain.
TELLING, TELLING_OF_FEW = -0.2, -1.2
# Rows that are stored as int8 or float16 vary this much in every direction, in units of the mean variance.
ROUNDING = 1e-4
# Rows that vary less than this, in units of the known spread, are nearly the same: noise would decide.
NARROW = 0.05
# A row is named when it is this far out along the quiet directions, in units of the typical square.
OUTLYING = 10.0
STEPS = 5
# The variance of that half of normal data which is nearest to the center in 1, 2, … 16 directions, in units of all.
HALF = (
    *(0.143, 0.307, 0.407, 0.474, 0.523, 0.56, 0.59, 0.615),
    *(0.635, 0.653, 0.668, 0.682, 0.694, 0.704, 0.714, 0.723),
)


@dataclass(frozen=True)
class Quiet:
    """The quiet directions of a space, its level along each, and the variance of its rows."""

    coordinates: int
    levels: tuple[float, ...]
    spread: float
    codes: str = field(repr=False)
    """The directions, as base64 of int8, one after the other."""

    @property
    def level(self) -> float:
        """The mean level."""
        return float(np.mean(self.levels))

    @property
    def tells(self) -> bool:
        """Whether vectors of other encoders can be told; not so where all directions are alike."""
        return self.level < TELLING + TELLING_OF_FEW / sqrt(len(self.levels))

    @staticmethod
    def from_dict(given: dict[str, Any]) -> Quiet:
        """Rebuild from what was saved."""
        levels = tuple(float(level) for level in given["levels"])
        made = Quiet(int(given["coordinates"]), levels, float(given["spread"]), str(given["codes"]))
        if _directions(made.codes, made.coordinates, made.coordinates).shape[1] != len(levels):
            raise ValueError("the quiet directions are damaged")
        return made

    def look(self, blocks: np.ndarray, squares: np.ndarray) -> Look:
        """Measure blocks of rows, (blocks, rows, d), with the squares of their norms.

        Rows of zeros, of items that have no vector, are left out.
        """
        with np.errstate(all="ignore"):  # what overflows is neither quiet nor loud, and is refused for its norm
            rows = _Rows.of(blocks, squares, _directions(self.codes, self.coordinates, blocks.shape[2]))
            narrow = NARROW * self.spread / blocks.shape[2]
            total, variance, _ = rows.variances(rows.present, narrow)
            within, core, squares = rows.variances(_core(rows.along, rows.present, total), narrow)
            core = core / HALF[len(self.levels) - 1]
            typical = np.maximum(core, np.exp(self.levels) / 2 * total) + ROUNDING * total
            excess = np.log((variance + ROUNDING * total) / typical).mean(axis=1)
            return Look(
                agreement=np.log(variance / total + ROUNDING).mean(axis=1) / self.level,
                core_agreement=np.log(core / within + ROUNDING).mean(axis=1) / self.level,
                # Where most rows are equal, they say nothing of the others.
                excess=np.where(within[:, 0] > 2 * narrow, excess, 0.0),
                outlying=((squares / typical[:, None]).mean(axis=2) > OUTLYING) & (rows.present > 0),
            )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows at norm 1, which are not written out: they would be copied several times."""

    blocks: np.ndarray
    inverse: np.ndarray
    """One over the norms, 0 for rows of zeros."""
    along: np.ndarray
    present: np.ndarray
    """Equal weights of all rows but zeros, which sum to 1."""

    @staticmethod
    def of(blocks: np.ndarray, squares: np.ndarray, directions: np.ndarray) -> _Rows:
        inverse = np.where(squares > 0, 1 / np.sqrt(np.maximum(squares, np.finfo(blocks.dtype).tiny)), 0)
        present = (inverse > 0).astype(blocks.dtype)
        along = np.where(present[..., None] > 0, (blocks @ directions.astype(blocks.dtype)) * inverse[..., None], 0)
        return _Rows(blocks, inverse, along, present / np.maximum(present.sum(axis=1, keepdims=True), 1))

    def variances(self, weights: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the mean variance of weighted rows, (blocks, 1), that along each direction, and the squares there."""
        mean = ((weights * self.inverse)[:, None] @ self.blocks)[:, 0]
        total = np.maximum((weights.sum(axis=1) - np.square(mean).sum(axis=1)) / mean.shape[1], least) + 1e-300
        squares = np.square(self.along - weights[:, None] @ self.along)
        return total[:, None], (weights[:, None] @ squares)[:, 0], squares


@dataclass(frozen=True, eq=False)
class Look:
    """What was seen of some blocks: the agreement of all rows and of the core, the excess, the rows far out."""

    agreement: np.ndarray
    core_agreement: np.ndarray
    excess: np.ndarray
    outlying: np.ndarray


def _core(along: np.ndarray, present: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return weights of the half of each block's rows that varies least, (blocks, rows), which sum to 1.

    The half nearest to the median, and then the half nearest to the center of that: a few steps of the minimum
    covariance determinant (Rousseeuw and Van Driessen, 1999).
    """
    least, half = ROUNDING * total[..., None], max(1, along.shape[1] // 2)
    every = np.full((1, along.shape[1]), 1 / along.shape[1], dtype=along.dtype)
    squares, scale = np.square(along - _median(along)), every @ np.square(along - every @ along)
    for _ in range(STEPS):
        far = (squares @ (1 / (scale + least)).swapaxes(1, 2))[..., 0]
        near = np.argpartition(np.where(present > 0, far, np.inf), half - 1, axis=1)[:, :half]
        weights = np.zeros((len(along), 1, along.shape[1]), dtype=along.dtype)
        np.put_along_axis(weights[:, 0], near, 1 / half, axis=1)
        center = weights @ along
        squares = np.square(along - center)
        scale = weights @ squares
    return weights[:, 0]


def _median(along: np.ndarray) -> np.ndarray:
    """Return the median of the rows of each block, (blocks, 1, k): of so few values, a sort is ten times as fast."""
    ordered, n = np.sort(along.swapaxes(1, 2).copy(), axis=2), along.shape[1]
    middle: np.ndarray = (ordered[:, :, (n - 1) // 2] + ordered[:, :, n // 2])[:, None] / 2
    return middle


def find_quiet(rows: np.ndarray) -> Quiet | None:
    """Find the quiet directions of rows; None for few rows, or rows that are all the same."""
    if len(rows) < MIN_ROWS:
        return None
    rows = _unit(rows.astype(np.float64))
    held = np.arange(len(rows)) % HELD_OUT == HELD_OUT - 1
    found, rest = rows[~held] - rows[~held].mean(axis=0), rows[held]
    chosen = _chosen(int(min(len(found) / ROWS_PER_COORDINATE, MAX_COORDINATES)), rows.shape[1])
    spread = float(rest.var(axis=0).sum())
    if not spread > 1e-12:
        return None
    from scipy.linalg import eigh

    part, least = found[:, chosen], max(1, min(DIRECTIONS, len(chosen) // 3))
    quiet = eigh(part.T @ part, subset_by_index=(0, least - 1), check_finite=False)[1].T
    codes = np.round(quiet * (127 / np.abs(quiet).max(axis=1, keepdims=True))).astype(np.int8)
    made = Quiet(len(chosen), (), round(spread, 6), b64encode(codes.tobytes()).decode())
    along = rest @ _directions(made.codes, made.coordinates, rows.shape[1])
    levels = np.log(along.var(axis=0) / rest.var(axis=0).mean() + ROUNDING).round(3)
    return replace(made, levels=tuple(levels.tolist()))


def _unit(rows: np.ndarray) -> np.ndarray:
    """Divide rows by their norms, which depend on the length of texts; zeros stay."""
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: np.ndarray = rows / np.where(norms > 0, norms, 1)
    return unit


def _chosen(count: int, dim: int) -> np.ndarray:
    """Return which coordinates are looked at: evenly spaced, all where there are few."""
    return np.unique(np.linspace(0, dim - 1, min(count, dim)).round().astype(np.intp))


@lru_cache(maxsize=8)
def _directions(codes: str, coordinates: int, dim: int) -> np.ndarray:
    """Return the directions as columns of unit norm, (d, k)."""
    read = np.frombuffer(b64decode(codes), dtype=np.int8).reshape(-1, coordinates).astype(np.float64)
    out = np.zeros((dim, len(read)))
    out[_chosen(coordinates, dim)] = (read / np.linalg.norm(read, axis=1, keepdims=True)).T
    return out
