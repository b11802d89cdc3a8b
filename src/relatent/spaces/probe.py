r"""Probes: a few hundred numbers that tell whether two sets of vectors can come from one space.

A probe holds the norms of the rows, their mean and standard deviation along fixed random directions, and the directions
in which they hardly vary (:mod:`relatent.spaces.quiet`). The last tell an encoder from others on any corpus, from a few
rows, which must be at hand; the norms tell vectors that were rescaled, and the mean those that were centered.

Of files written before there were quiet directions, and of two probes without rows, only the profiles along the random
directions can be compared, by a weaker rule (:mod:`relatent.spaces.profile`).

The limits were set on some encoders and corpora, and confirmed on others: ``python -m experiments.trust.fingerprints``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Any, Literal

import numpy as np

from relatent.spaces.profile import profile_agreement, random_directions
from relatent.spaces.quiet import Quiet, find_quiet

Outcome = Literal["same", "unsure", "foreign"]

# Rows that a probe takes from one chunk, spread evenly over it, and rows that it keeps to find quiet directions on.
ROWS_PER_CHUNK, KEPT_ROWS = 1_024, 1_024
# Fewer rows than this say little.
MIN_ROWS = 20
# At least this much agreement along quiet directions is one space, less than that is another; between them, either.
SAME, FOREIGN = 0.19, 0.10
# More excess than this, and some rows are of another space; it is less certain along few directions.
EXCESS, EXCESS_OF_FEW = 0.5, 1.5
# Parts of one file, of which many are compared, are told apart by this number of rows, and by less agreement.
MIN_KNOWN, FOREIGN_PART = 400, 0.05
# The same for the profiles along random directions.
PROFILE_SAME, PROFILE_FOREIGN = 0.45, 0.02
# A profile that could reach no more agreement than this with its own space cannot tell: the space is isotropic.
TELLING = 0.2
# Mean norms that differ by more than the first factor are suspicious, by more than the second another space.
NORM_UNSURE, NORM_FOREIGN = 2.2, 20.0
# Norms of single rows differ by less than this factor, in most rows.
NORM_OF_ROW = 6.0
# Where the mean of a space is at least the first share of its norms, a mean of less than the second along it is
# suspicious. Normalized spaces keep more of it on other corpora.
OFF_CENTER, CENTERED = 0.5, 0.05
UNIT_OFF_CENTER, UNIT_CENTERED = 0.7, 0.25
# A file is probed in BLOCKS blocks of BLOCK_ROWS rows, and a folder in one block of at most MAX_FILES files.
BLOCKS, BLOCK_ROWS, MAX_FILES = 8, 128, 64
# Rows whose norm is this near one have norm one; the share of rows that a block must have of a kind to be of it.
NEAR_UNIT, MOST = 0.02, 0.95
SEVERITY = ("same", "unsure", "foreign")
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
    """The norms of the rows, their mean and std along fixed random directions, and their quiet directions.

    A probe that was just measured has some of its rows at hand, ``sample``; they are not saved.
    """

    rows: int
    norm: float
    norm_std: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    quiet: Quiet | None = None
    sample: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def unit(self) -> bool:
        """Whether all rows have norm one."""
        return abs(self.norm - 1) < 0.01 and self.norm_std < 0.01

    def without_rows(self) -> Probe:
        """Return the same without the rows at hand: what is saved."""
        return replace(self, sample=None)

    def to_dict(self) -> dict[str, Any]:
        """Return what to save."""
        about = asdict(self.without_rows())
        return {name: value for name, value in about.items() if value is not None}

    @staticmethod
    def from_dict(given: dict[str, Any]) -> Probe | None:
        """Rebuild from what was saved; None for the coordinate-wise probe of earlier files, which is not comparable."""
        if "length" in given:
            return None
        known = {f.name: given[f.name] for f in fields(Probe) if f.name in given and f.name != "sample"}
        quiet = Quiet.from_dict(known.pop("quiet")) if known.get("quiet") is not None else None
        return Probe(**{**known, "mean": tuple(known["mean"]), "std": tuple(known["std"]), "quiet": quiet})


class ProbeBuilder:
    """Collects a probe over chunks, from a few rows of each."""

    def __init__(self) -> None:
        self._rows = 0
        self._sums: np.ndarray | None = None
        self._kept: list[np.ndarray] = []
        self._stride = 1

    def add(self, vectors: np.ndarray) -> None:
        """Take a chunk into account. Rows that are not finite, or too large to be squared, are passed over.

        So are rows of zeros among others, which encoders give for an empty text.
        """
        n, d = vectors.shape
        if n == 0 or d == 0:
            return
        rows = vectors[_spaced(n, ROWS_PER_CHUNK)].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(np.vecdot(rows, rows))
        if not np.all((norms > 0) & (norms < HUGE)):
            rows = rows[(np.abs(rows) < HUGE).all(axis=1)]
            live = rows.any(axis=1)
            rows = rows[live] if live.any() else rows
            norms = np.linalg.norm(rows, axis=1)
        seen = rows @ random_directions(d)
        sums = np.stack([np.append(norms.sum(), seen.sum(axis=0)), np.append(norms @ norms, np.vecdot(seen.T, seen.T))])
        self._sums = sums if self._sums is None else self._sums + sums
        first = -self._rows % self._stride
        self._rows += len(rows)
        self._keep([rows[first :: self._stride]])

    def _keep(self, rows: list[np.ndarray]) -> None:
        """Keep rows that are evenly spaced over all that were seen, at most twice KEPT_ROWS."""
        self._kept += [part for part in rows if len(part)]
        while sum(map(len, self._kept)) > 2 * KEPT_ROWS:
            self._kept, self._stride = [np.concatenate(self._kept)[::2]], 2 * self._stride

    def __add__(self, other: ProbeBuilder) -> ProbeBuilder:
        """Put together what two builders have seen."""
        both = ProbeBuilder()
        both._rows, both._stride = self._rows + other._rows, max(self._stride, other._stride)
        known = [b._sums for b in (self, other) if b._sums is not None]
        both._sums = np.sum(known, axis=0) if known else None
        for one in (self, other):
            both._keep([part[:: both._stride // one._stride] for part in one._kept])
        return both

    def probe(self, *, quiet: bool = True) -> Probe | None:
        """Return the statistic, or None when no finite row was seen."""
        if self._sums is None or self._rows == 0:
            return None
        mean, square = self._sums / self._rows
        std = np.sqrt(np.maximum(square - mean**2, 0))
        short = [_rounded(values).tolist() for values in (mean, std)]
        sample = np.concatenate(self._kept)
        sample = sample[_spaced(len(sample), KEPT_ROWS)]
        found = find_quiet(sample) if quiet else None
        return Probe(self._rows, short[0][0], short[1][0], tuple(short[0][1:]), tuple(short[1][1:]), found, sample)


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


def find_change(blocks: Sequence[ProbeBuilder]) -> tuple[int, Match] | None:
    """Return the block that looks like another space than others do; None if none.

    Each block is compared with those of the other half, of which there are two pairs: the first and the last, and the
    even and the odd. A space that makes up one part of a file, and one that makes up a file of many, differs in either.
    """
    every = range(len(blocks))
    middle = len(blocks) // 2
    halves = [(every[:middle], every[middle:]), (every[0::2], every[1::2])]
    found: list[tuple[int, Match]] = []
    for known, given in [pair for a, b in halves for pair in ((a, b), (b, a))]:
        probe = sum((blocks[i] for i in known), ProbeBuilder()).probe()
        if probe is not None and probe.quiet is not None and probe.quiet.tells and probe.rows >= MIN_KNOWN:
            samples = ((i, blocks[i].probe(quiet=False)) for i in given)
            found += [
                (i, compare_probes(probe, one, 0)) for i, one in samples if one is not None and one.rows >= MIN_ROWS
            ]
    foreign = [(i, match) for i, match in found if not match and not (match.agreement or 0.0) >= FOREIGN_PART]
    return min(foreign, key=lambda one: one[0], default=None)


def probe_of(vectors: np.ndarray, *, quiet: bool = True) -> Probe | None:
    """Return the probe of some rows."""
    builder = ProbeBuilder()
    builder.add(vectors)
    return builder.probe(quiet=quiet)


def compare_probes(a: Probe, b: Probe, dim: int) -> Match:
    """Say whether two probes of vectors of equal dimension can be of one space.

    Rows at hand of one are measured along the quiet directions of the other; where both can be, along the quieter.
    """
    ways = [
        (x.quiet.level, x, y.sample)
        for x, y in ((a, b), (b, a))
        if x.quiet is not None and x.quiet.tells and y.sample is not None and len(y.sample) >= MIN_ROWS
    ]
    if ways:
        _, known, rows = min(ways, key=lambda way: way[0])
        return compare_blocks(known, rows[None])[0]
    agreement, possible = profile_agreement(a, b, dim)
    return _worst(_by_profile(agreement, possible), _by_norm(a, b.norm, b.norm_std, b.unit))


def compare_blocks(known: Probe, blocks: np.ndarray) -> list[Match]:
    """Say of each block of rows, (blocks, rows, d), whether it can be of a space with quiet directions."""
    assert known.quiet is not None
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.vecdot(blocks, blocks)
    norms = np.sqrt(squares.astype(np.float64))
    look, shares = known.quiet.look(blocks, squares), _center_shares(known, blocks, norms)
    few = EXCESS_OF_FEW / sqrt(len(known.quiet.levels))
    two = (look.excess > EXCESS + few) | (look.core_agreement < SAME - few + EXCESS_OF_FEW / 4)
    outlying, rows = look.outlying.sum(axis=1).tolist(), blocks.shape[1]
    found = zip(look.agreement.tolist(), two.tolist(), outlying, _by_norms(known, norms), shares, strict=True)
    return [
        _worst(_by_quiet(agreement, mixed, out, rows), by_norm, _by_center(known.unit, *share))
        for agreement, mixed, out, by_norm, share in found
    ]


def _worst(*matches: Match) -> Match:
    """Return the match of the worst outcome, with the agreement that was found."""
    worst = max(matches, key=lambda match: SEVERITY.index(match.outcome))
    return replace(worst, agreement=next((m.agreement for m in matches if m.agreement is not None), None))


def _by_norm(known: Probe, norm: float, std: float, unit: bool) -> Match:
    if known.unit != unit:
        which = f"{known.norm:.3g} ± {known.norm_std:.2g} in one and {norm:.3g} ± {std:.2g} in the other"
        return Match("foreign", f"the rows have norm {which}: one space is normalized and the other is not")
    low, high = sorted((known.norm, norm))
    said = f"the mean norm of the rows is {known.norm:.3g} in one and {norm:.3g} in the other"
    if high > NORM_UNSURE * low or not np.isfinite(high):
        return Match("unsure" if high <= NORM_FOREIGN * low else "foreign", said)
    return Match("same", said)


def _by_norms(known: Probe, norms: np.ndarray) -> Iterator[Match]:
    """Compare the norms of the rows of each block, (blocks, rows)."""
    unit = np.mean(np.abs(norms - 1) < NEAR_UNIT, axis=1) >= MOST
    unusual = (norms <= known.norm / NORM_OF_ROW) | (norms >= known.norm * NORM_OF_ROW) | np.isnan(norms)
    figures = np.median(norms, axis=1), norms.std(axis=1), unit, unusual.sum(axis=1)
    for norm, std, is_unit, far in zip(*(values.tolist() for values in figures), strict=True):
        match = _by_norm(known, norm, std, is_unit)
        if match.outcome == "same" and 1 - far / norms.shape[1] < MOST:
            said = f"{far} of {norms.shape[1]} rows looked at have a norm far from {known.norm:.3g}"
            match = Match("unsure", f"{said}: two models, mixed, or rows that are damaged")
        yield match


def _by_quiet(agreement: float, mixed: bool, outlying: int, rows: int) -> Match:
    said = (
        f"they agree to {agreement:.2f} where the space hardly varies (one space: at least {SAME:.2f}, another: less "
        f"than {FOREIGN:.2f})"
    )
    if not agreement >= SAME:
        why = "a related model, or very different data"
        if not agreement >= FOREIGN:
            return Match("foreign", f"{said}: these look like different models", float(agreement))
        return Match("unsure", f"{said}: {why}", float(agreement))
    if mixed:
        far = f"{outlying} of {rows} rows looked at are far out where the others hardly vary"
        return Match("unsure", f"{far}: they look like two models, mixed", float(agreement))
    return Match("same", said, float(agreement))


def _center_shares(known: Probe, blocks: np.ndarray, norms: np.ndarray) -> list[tuple[float, float]]:
    """Return the mean of the space and of each block, along the former, in units of the root mean square norm."""
    direction, size = _center(known.mean, blocks.shape[2])
    means = (np.full((1, blocks.shape[1]), 1 / blocks.shape[1], dtype=blocks.dtype) @ blocks)[:, 0]
    along = means @ direction / np.sqrt(np.mean(norms**2, axis=1) + 1e-300)
    expected = size / (float(np.hypot(known.norm, known.norm_std)) + 1e-300)
    return [(expected, value) for value in along.tolist()]


@lru_cache(maxsize=8)
def _center(mean: tuple[float, ...], dim: int) -> tuple[np.ndarray, float]:
    """Return the direction and the norm of a mean that is known along random directions."""
    size = sqrt(dim * float(np.mean(np.square(mean)))) + 1e-300
    return random_directions(dim)[:, : len(mean)] @ np.asarray(mean) * (dim / len(mean) / size), size


def _by_center(unit: bool, expected: float, found: float) -> Match:
    said = f"the mean of the rows is {expected:.2f} of their norm in one, and {found:.2f} along it in the other"
    least, limit = (UNIT_OFF_CENTER, UNIT_CENTERED) if unit else (OFF_CENTER, CENTERED)
    if expected >= least and found < limit:
        return Match("unsure", f"{said}: another model, or one of the two was centered")
    return Match("same", said)


def _by_profile(agreement: float, possible: float) -> Match:
    if possible < TELLING:
        return Match("same", "the dimensions are equal and the probes cannot tell more")
    limit = min(PROFILE_SAME, possible / 2)  # fewer rows of a space agree less with it
    limits = f"one space: at least {limit:.2f}, another: less than {PROFILE_FOREIGN}"
    said = f"their profiles agree to {agreement:.2f} ({limits})"
    if agreement < PROFILE_FOREIGN:
        return Match("foreign", f"{said}: these look like different models, or very different data", agreement)
    if agreement < limit:
        return Match("unsure", f"{said}: a related model, or very different data", agreement)
    return Match("same", said, agreement)


def _rounded(values: np.ndarray, digits: int = 4) -> np.ndarray:
    """Round to significant digits, so that the probe is short as text."""
    places = digits - 1 - np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    rounded: np.ndarray = np.round(values * up / down) * down / up
    return np.where(np.isfinite(rounded), rounded, values)


def _spaced(n: int, max_rows: int) -> np.ndarray:
    return np.linspace(0, n - 1, min(n, max_rows)).round().astype(np.intp)
