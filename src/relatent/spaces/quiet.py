r"""Quiet directions: those in which the vectors of an encoder hardly vary, whatever it reads.

What a corpus is about decides where vectors vary most. Where they hardly vary is decided by the weights: layer
normalization, for one, keeps a weighted sum of the coordinates constant. The vectors of another encoder vary there as
much as anywhere, and so do rotated and permuted ones. The *level* of rows is

.. math:: \frac{1}{k}\sum_{j=1}^{k} \log\frac{\operatorname{var}(X q_j)}{\overline{\operatorname{var}}(X)}

over the k directions :math:`q_j` of least variance in the known rows, against the mean variance of a coordinate: far
below 0 for rows of the same encoder, about 0 for others. It is divided by that of known rows which the directions were
not found on: the *agreement* is about 1 on similar data, smaller on other corpora, about 0 for another encoder. The
logarithm keeps a direction that is quiet on one corpus only from outweighing the others; with the mean variance in its
place, the two overlap, as they do in the correlation of means or of variances per coordinate.

Where some rows are of another encoder, the variances are far larger than the medians of the squares. This *excess* is
the mean logarithm of their ratio.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

# Directions that are kept, and the coordinates that they may have; of wider spaces, some are left out.
DIRECTIONS, MAX_COORDINATES = 16, 512
# Rows that directions are found on, to each coordinate; every fourth row is held out to measure the level.
ROWS_PER_COORDINATE, HELD_OUT = 1.1, 4
MIN_ROWS = 40
# A space whose level is not below this cannot be told from others.
TELLING = -0.5
# Rows that are stored as int8 or float16 vary this much in every direction, in units of the mean variance.
ROUNDING = 1e-4
# Rows that vary less than this, in units of the known spread, are nearly the same: noise would decide.
NARROW = 0.05
# A row is named when it is this far out along the quiet directions, in units of the typical square.
OUTLYING = 10.0
# The squared median deviation of normal data, in units of its variance.
NORMAL = 0.6745**2


@dataclass(frozen=True)
class Quiet:
    """The quiet directions of a space, its level, and its variance in units of its mean square."""

    coordinates: int
    level: float
    spread: float
    codes: str
    """The directions, as base64 of int8, one after the other."""

    @property
    def tells(self) -> bool:
        """Whether vectors of other encoders can be told; not so where all directions are alike."""
        return self.level < TELLING

    @staticmethod
    def from_dict(given: dict[str, Any]) -> Quiet:
        """Rebuild from what was saved."""
        made = Quiet(int(given["coordinates"]), float(given["level"]), float(given["spread"]), str(given["codes"]))
        _directions(made.codes, made.coordinates, made.coordinates)  # what was damaged is refused here, not at its use
        return made

    def look(self, blocks: np.ndarray) -> Look:
        """Measure blocks of rows, (blocks, rows, d)."""
        with np.errstate(all="ignore"):  # what overflows is neither quiet nor loud, and is refused for its norm
            centered = blocks - blocks.mean(axis=1, keepdims=True)
            total = np.einsum("bnd,bnd->b", centered, centered) / centered[0].size
            square = np.einsum("bnd,bnd->b", blocks, blocks) / centered[0].size
            total = np.maximum(total, NARROW * self.spread * square)[:, None] + 1e-300
            along = centered @ _directions(self.codes, self.coordinates, blocks.shape[2]).astype(blocks.dtype)
            squares = np.square(along - np.median(along, axis=1, keepdims=True)) / total[:, None]
            variance = along.var(axis=1) / total + ROUNDING
            typical = np.maximum(np.median(squares, axis=1) / NORMAL, np.exp(self.level)) + ROUNDING
            level, excess = np.log(variance).mean(axis=1), np.log(variance / typical).mean(axis=1)
            return Look(level / self.level, excess, (squares / typical[:, None]).mean(axis=2) > OUTLYING)


@dataclass(frozen=True, eq=False)
class Look:
    """What was seen of some blocks: the agreement and the excess of each, and which rows are far out."""

    agreement: np.ndarray
    excess: np.ndarray
    outlying: np.ndarray


def find_quiet(rows: np.ndarray) -> Quiet | None:
    """Find the quiet directions of rows; None for few rows, or rows that are all the same."""
    if len(rows) < MIN_ROWS:
        return None
    rows = rows.astype(np.float64)
    held = np.arange(len(rows)) % HELD_OUT == HELD_OUT - 1
    found, rest = rows[~held] - rows[~held].mean(axis=0), rows[held]
    chosen = _chosen(int(min(len(found) / ROWS_PER_COORDINATE, MAX_COORDINATES)), rows.shape[1])
    spread = float(rest.var(axis=0).mean() / (np.mean(rest**2) + 1e-300))
    if not spread > 1e-12:
        return None
    _, vectors = np.linalg.eigh(found[:, chosen].T @ found[:, chosen])
    quiet = vectors[:, : max(1, min(DIRECTIONS, len(chosen) // 3))].T
    codes = np.round(quiet * (127 / np.abs(quiet).max(axis=1, keepdims=True))).astype(np.int8)
    made = Quiet(len(chosen), -1.0, round(spread, 6), b64encode(codes.tobytes()).decode())
    level = -float(made.look(rest[None]).agreement[0])
    return Quiet(made.coordinates, round(level, 4), made.spread, made.codes)


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
