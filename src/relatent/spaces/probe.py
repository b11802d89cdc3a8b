r"""Probes: a few hundred numbers that tell whether two sets of vectors can come from one space.

All coordinates are projected on fixed random directions, whose signs sum to zero (a shift of all coordinates at once,
which every rectified network has, says nothing). Kept are the mean and the standard deviation along each direction.
Two samples of one space agree in the profile of the means or in that of the deviations, even on different data: means
where the space is off-center, deviations where it is anisotropic. Two spaces agree in neither, nor do a space and its
own rotation or permutation.

The agreement is :math:`\sum_i \max(r_i - c_i, 0)` over the two correlations r, less what chance gives: one standard
deviation of r between unrelated spaces, :math:`c = \sqrt{1/m + 1/d}` for means and :math:`\sqrt{1/m}` for deviations.
The limits below were set on real encoders; ``python -m experiments.trust.fingerprints`` says on which, and measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Any, Literal

import numpy as np

Outcome = Literal["same", "unsure", "foreign"]

# Directions that vectors are projected on.
DIRECTIONS = 512
SEED = 20_261_117
# Rows that a probe takes from one chunk, spread evenly over it.
ROWS_PER_CHUNK = 1_024
# Fewer rows than this say little.
MIN_ROWS = 20
# At least this much agreement is one space, less than that is another; between them it may be either.
SAME, FOREIGN = 0.45, 0.02
# A probe that could reach no more agreement than this with its own space cannot tell: the space is isotropic.
TELLING = 0.2
# Mean norms that differ by more than the first factor are suspicious, by more than the second another space.
NORM_UNSURE, NORM_FOREIGN = 4.0, 20.0
# A file is probed in BLOCKS blocks of BLOCK_ROWS rows, and a folder in one block of at most MAX_FILES files.
BLOCKS, BLOCK_ROWS, MAX_FILES = 8, 128, 64
# Squares of larger numbers, and sums of them, may overflow.
HUGE = 1e100


class SpaceWarning(UserWarning):
    """Vectors look as if they were of another space than they should be, or of two."""


@dataclass(frozen=True)
class Match:
    """Whether two sets of vectors can belong to one space, and why. False in an ``if`` only if they cannot."""

    outcome: Outcome
    reason: str
    agreement: float | None = None
    """How far the profiles agree, where they were compared: about 1 within a space, about 0 between two."""

    def __bool__(self) -> bool:
        """Whether they may be used together."""
        return self.outcome != "foreign"


@dataclass(frozen=True)
class Probe:
    """The norms of the rows, and the mean and std of the rows along fixed random directions."""

    rows: int
    norm: float
    norm_std: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def unit(self) -> bool:
        """Whether all rows have norm one."""
        return abs(self.norm - 1) < 0.01 and self.norm_std < 0.01

    def along(self, directions: int) -> Probe:
        """Return the same along fewer directions."""
        return replace(self, mean=self.mean[:directions], std=self.std[:directions])

    @staticmethod
    def from_dict(given: dict[str, Any]) -> Probe | None:
        """Rebuild from what was saved; None for the coordinate-wise probe of earlier files, which is not comparable."""
        if "length" in given:
            return None
        return Probe(**{**given, "mean": tuple(given["mean"]), "std": tuple(given["std"])})


class ProbeBuilder:
    """Collects a probe over chunks, from a few rows of each."""

    def __init__(self, directions: int = DIRECTIONS) -> None:
        self._rows, self._directions = 0, directions
        self._sums: np.ndarray | None = None

    def add(self, vectors: np.ndarray) -> None:
        """Take a chunk into account. Rows that are not finite, or too large to be squared, are passed over."""
        n, d = vectors.shape
        if n == 0 or d == 0:
            return
        rows = vectors[_spaced(n, ROWS_PER_CHUNK)].astype(np.float64)
        rows = rows[(np.abs(rows) < HUGE).all(axis=1)]
        seen = np.column_stack([np.linalg.norm(rows, axis=1), rows @ _directions(d)[:, : self._directions]])
        sums = np.stack([seen.sum(axis=0), (seen**2).sum(axis=0)])
        self._sums = sums if self._sums is None else self._sums + sums
        self._rows += len(rows)

    def __add__(self, other: ProbeBuilder) -> ProbeBuilder:
        """Put together what two builders have seen."""
        both = ProbeBuilder()
        both._rows = self._rows + other._rows
        known = [b._sums for b in (self, other) if b._sums is not None]
        both._sums = np.sum(known, axis=0) if known else None
        return both

    def probe(self) -> Probe | None:
        """Return the statistic, or None when no finite row was seen."""
        if self._sums is None or self._rows == 0:
            return None
        mean, square = self._sums / self._rows
        std = np.sqrt(np.maximum(square - mean**2, 0))
        short = [_rounded(values).tolist() for values in (mean, std)]
        return Probe(self._rows, short[0][0], short[1][0], tuple(short[0][1:]), tuple(short[1][1:]))


def probed_ranges(starts: Sequence[int]) -> list[tuple[int, int]]:
    """Return which rows of files to probe, given their first rows and the end: a few blocks, spread over all of them.

    Of many files, at most MAX_FILES are read, spread over all, so that the cost stays bounded.

    >>> probed_ranges([0, 100_000])[:2], len(probed_ranges([0, 100_000]))
    ([(0, 128), (14267, 14395)], 8)
    """
    parts = [(first, last) for first, last in pairwise(starts) if first < last]
    parts = [parts[i] for i in _spaced(len(parts), MAX_FILES)] if parts else []
    blocks = -(-BLOCKS // max(len(parts), 1))
    ranges = []
    for first, last in parts:
        size = min(BLOCK_ROWS, -(-(last - first) // blocks))
        begin = np.linspace(first, last - size, blocks).astype(int).tolist()
        ranges += [(b, min(b + size, after)) for b, after in pairwise([*begin, last]) if b < after]
    return ranges


def find_change(blocks: Sequence[ProbeBuilder], dim: int) -> tuple[int, Match] | None:
    """Return the block that looks like another space than the rest, or with which another space begins; None if none.

    Every block is compared with all others, and all blocks before each cut with all after it.
    """
    every = list(range(len(blocks)))
    parts = [(cut, every[:cut], every[cut:]) for cut in every[1:]]
    parts += [(i, [j for j in every if j != i], [i]) for i in every]
    found = []
    for place, *sides in parts:
        before, after = (sum((blocks[j] for j in side), ProbeBuilder()).probe() for side in sides)
        if before is not None and after is not None and min(before.rows, after.rows) >= MIN_ROWS:
            found.append((place, compare_probes(before, after, dim)))
    foreign = [(place, match) for place, match in found if not match]
    return min(foreign, key=lambda one: one[1].agreement or 0.0, default=None)


def probe_of(vectors: np.ndarray, directions: int = DIRECTIONS) -> Probe | None:
    """Return the probe of some rows."""
    builder = ProbeBuilder(directions)
    builder.add(vectors)
    return builder.probe()


def compare_probes(a: Probe, b: Probe, dim: int) -> Match:
    """Say whether two probes of vectors of equal dimension can be of one space."""
    if a.unit != b.unit:
        which = f"{a.norm:.3g} ± {a.norm_std:.2g} in one and {b.norm:.3g} ± {b.norm_std:.2g} in the other"
        return Match("foreign", f"the rows have norm {which}: one space is normalized and the other is not")
    low, high = sorted((a.norm, b.norm))
    norms = f"the mean norm of the rows is {a.norm:.3g} in one and {b.norm:.3g} in the other"
    if high > NORM_FOREIGN * low:
        return Match("foreign", norms)
    if len(a.mean) != len(b.mean):
        return Match("same", "the dimensions are equal and the probes cannot be compared")
    agreement, possible = _agreement(a, b, dim)
    if possible < TELLING:
        return Match("same", "the dimensions are equal and the probes cannot tell more")
    limit = min(SAME, possible / 2)  # fewer rows of a space agree less with it
    said = f"their probes agree to {agreement:.2f} (one space: at least {limit:.2f}, another: less than {FOREIGN})"
    if agreement < FOREIGN:
        return Match("foreign", f"{said}: these look like different models, or very different data", agreement)
    if agreement < limit:
        return Match("unsure", f"{said}: a related model, or very different data", agreement)
    if high > NORM_UNSURE * low:
        return Match("unsure", norms, agreement)
    return Match("same", said, agreement)


def drift(before: Probe, after: Probe) -> tuple[float, float]:
    r"""Return how far the mean moved and how far the variances changed, less what chance gives for samples so large.

    .. math::
        \text{shift}^2 = \frac{1}{m}\sum_j \frac{(\mu_j - \mu'_j)^2}{\bar\sigma^2} - \frac{1}{n} - \frac{1}{n'}
        \qquad
        \text{spread}^2 = \frac{1}{m}\sum_j \log^2\frac{\sigma_j'^2}{\sigma_j^2} - \frac{2}{n} - \frac{2}{n'}

    over the directions of the probe: a shift of 1 is one standard deviation. About 0 for two samples of the same data.
    """
    variances = [np.square(np.asarray(p.std)) + 1e-300 for p in (before, after)]
    scale = float(np.mean(variances[0]))
    moved = np.mean(np.square(np.asarray(before.mean) - np.asarray(after.mean))) / scale
    noise = 1 / before.rows + float(np.mean(variances[1])) / scale / after.rows
    changed = np.mean(np.square(np.log(variances[1] / variances[0]))) - 2 / before.rows - 2 / after.rows
    return float(np.sqrt(max(moved - noise, 0.0))), float(np.sqrt(max(changed, 0.0)))


def surely_same(a: Probe, b: Probe, dim: int) -> bool:
    """Return whether probes along a few directions are enough to tell that they are of one space.

    They do if they agree, or if they are so flat that no number of directions could tell.
    """
    match = compare_probes(a, b, dim)
    return match.outcome == "same" and (match.agreement is not None or _agreement(a, b, dim)[1] == 0)


def _agreement(a: Probe, b: Probe, dim: int) -> tuple[float, float]:
    """Return the agreement of two probes, and what two samples of one space of these sizes would reach."""
    m = len(a.mean)
    agreement = possible = 0.0
    for which, chance in (("mean", sqrt(1 / m + 1 / dim)), ("std", sqrt(1 / m))):
        x, y = _profile(a, which), _profile(b, which)
        size = sqrt((x @ x) * (y @ y))
        agreement += max(float(x @ y) / size - chance, 0.0) if size > 0 else 0.0
        possible += max(_reliability(a, b, x, y, which) - chance, 0.0)
    return agreement, possible


def _profile(probe: Probe, which: str) -> np.ndarray:
    """Return the means in units of the spread, or the logarithms of the variances less their mean."""
    variance = np.square(np.asarray(probe.std))
    scale = float(np.mean(variance)) or 1.0
    if which == "mean":
        means: np.ndarray = np.asarray(probe.mean) / np.sqrt(scale)
        return means
    logs: np.ndarray = np.log(variance / scale + 1e-12)
    logs -= np.mean(logs)
    return logs


def _reliability(a: Probe, b: Probe, x: np.ndarray, y: np.ndarray, which: str) -> float:
    """Return the correlation that two samples of one space would have, given the noise of either.

    The noise of a mean is 1/n in units of the variance, that of a log-variance 2/n (normal data). A profile counts as
    signal where it is clearly above its own noise, in either sample.
    """
    noise = [(1 if which == "mean" else 2) / probe.rows for probe in (a, b)]
    power = [float(np.mean(profile**2)) for profile in (x, y)]
    signal = max((p - e if p > 3 * e else 0.0) for p, e in zip(power, noise, strict=True))
    return float(np.sqrt(np.prod([signal / (signal + e) for e in noise])))


@lru_cache(maxsize=8)
def _directions(dim: int) -> np.ndarray:
    """Return DIRECTIONS random directions of zero sum: signs, the same on every machine and in every version."""
    bits = np.random.PCG64(SEED).random_raw(-(-dim * DIRECTIONS // 64))
    signs = np.unpackbits(bits.astype("<u8").view(np.uint8))[: dim * DIRECTIONS].reshape(dim, DIRECTIONS)
    directions = 2.0 * signs - 1.0
    return np.asarray((directions - directions.mean(axis=0)) / np.sqrt(dim))


def _rounded(values: np.ndarray, digits: int = 4) -> np.ndarray:
    """Round to significant digits, so that the probe is short as text."""
    places = digits - 1 - np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    rounded: np.ndarray = np.round(values * up / down) * down / up
    return np.where(np.isfinite(rounded), rounded, values)


def _spaced(n: int, max_rows: int) -> np.ndarray:
    return np.linspace(0, n - 1, min(n, max_rows)).round().astype(np.intp)
