"""Fingerprints: which model made these vectors, and a statistic that gives a wrong answer away."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

__all__ = ["Fingerprint", "Match", "Probe", "ProbeBuilder"]

# Coordinates that a probe looks at, spread evenly over all of them.
COORDINATES = 64
# Rows that a probe takes from one chunk, spread evenly over it: enough for a std to within 3 %.
ROWS_PER_CHUNK = 1_024
# Chosen on a few real encoders: samples of one model agree to 0.75–1.0, and to 0.2–0.9 across different domains;
# two related models of equal dimension (two MiniLMs) to 0.15–0.45, rotated or unrelated ones to 0 ± 0.15.
AGREEMENT = 0.5
# Fewer coordinates than this cannot correlate by more than luck.
FEW = 16
# Squares of larger numbers, and sums of them, may overflow.
HUGE = 1e100


@dataclass(frozen=True)
class Match:
    """Whether two fingerprints can belong to one space, and why. True or false in an ``if``."""

    ok: bool
    reason: str

    def __bool__(self) -> bool:
        """Whether they match."""
        return self.ok


@dataclass(frozen=True)
class Probe:
    """A cheap statistic of a space: the lengths of its rows, and the mean and std of some of its coordinates."""

    rows: int
    length: float
    length_std: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def unit(self) -> bool:
        """Whether all rows have length one."""
        return abs(self.length - 1) < 0.01 and self.length_std < 0.01


@dataclass(frozen=True)
class Fingerprint:
    """What is known about where vectors come from. What is not known is None and is not compared.

    >>> old = Fingerprint(dim=384, model="all-MiniLM-L6-v2", pooling="mean")
    >>> bool(old.matches(Fingerprint(dim=384, model="all-MiniLM-L6-v2")))
    True
    >>> old.matches(Fingerprint(dim=384, model="paraphrase-MiniLM-L3-v2")).reason
    "the model is 'all-MiniLM-L6-v2' in one and 'paraphrase-MiniLM-L3-v2' in the other"
    """

    dim: int
    model: str | None = None
    revision: str | None = None
    pooling: str | None = None
    normalization: str | None = None
    layer: int | None = None
    probe: Probe | None = None

    @staticmethod
    def of(vectors: np.ndarray, **known: Any) -> Fingerprint:
        """Derive the fingerprint of vectors: their dimension and a probe, and what else is known."""
        builder = ProbeBuilder()
        builder.add(vectors)
        return Fingerprint(dim=int(vectors.shape[1]), probe=builder.probe(), **known)

    def matches(self, other: Fingerprint) -> Match:
        """Say whether both can describe one space.

        What both record must be equal. When a model is recorded on one side only, or on neither, the probes decide:
        the profiles of coordinate means and stds of one model agree even on different texts, those of two models do
        not. A very different domain (questions against two-word names) can look like another model; that errs on
        the side of refusing. Isotropic spaces have flat profiles, and there a probe cannot tell.
        """
        for name in ("dim", "model", "revision", "pooling", "normalization", "layer"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is not None and theirs is not None and mine != theirs:
                return Match(False, f"the {name} is {mine!r} in one and {theirs!r} in the other")
        if self.model is not None and self.model == other.model:
            return Match(True, f"both are from {self.model!r}")
        if self.probe is None or other.probe is None:
            return Match(True, "the dimensions are equal; nothing else is known")
        return _compare(self.probe, other.probe)

    def recorded(self) -> Fingerprint:
        """Return the same without the probe: what was said about the vectors, not what was measured."""
        return replace(self, probe=None)

    def to_json(self) -> str:
        """Write as one line of JSON, without what is not known."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(known, allow_nan=False, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Fingerprint:
        """Read what :meth:`to_json` wrote; entries of later versions are passed over."""
        try:
            given = dict(json.loads(text))
            names = {f.name for f in fields(Fingerprint)}
            known = {name: value for name, value in given.items() if name in names}
            if known.get("probe") is not None:
                known["probe"] = _probe_from(known["probe"])
            return Fingerprint(**{**known, "dim": int(known["dim"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"This is not a fingerprint ({error}): expected what Fingerprint.to_json gives."
            ) from error


class ProbeBuilder:
    """Collects a probe over chunks, looking at a few rows of each."""

    def __init__(self) -> None:
        self._rows = 0
        self._sums: np.ndarray | None = None

    def add(self, vectors: np.ndarray) -> None:
        """Take a chunk into account. Rows that are not finite, or too large to be squared, are passed over."""
        n, d = vectors.shape
        if n == 0 or d == 0:
            return
        rows = vectors[_spaced(n, ROWS_PER_CHUNK)].astype(np.float64)
        rows = rows[(np.abs(rows) < HUGE).all(axis=1)]
        lengths = np.linalg.norm(rows, axis=1)
        seen = np.column_stack([lengths, rows[:, _spaced(d, COORDINATES)]])
        sums = np.stack([seen.sum(axis=0), (seen**2).sum(axis=0)])
        self._sums = sums if self._sums is None else self._sums + sums
        self._rows += len(rows)

    def probe(self) -> Probe | None:
        """Return the statistic, or None when no finite row was seen."""
        if self._sums is None or self._rows == 0:
            return None
        mean, square = self._sums / self._rows
        std = np.sqrt(np.maximum(square - mean**2, 0))
        short = [[float(f"{value:.5g}") for value in values] for values in (mean, std)]
        return Probe(self._rows, short[0][0], short[1][0], tuple(short[0][1:]), tuple(short[1][1:]))


def _spaced(n: int, most: int) -> np.ndarray:
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.intp)


def _probe_from(given: dict[str, Any]) -> Probe:
    return Probe(**{**given, "mean": tuple(given["mean"]), "std": tuple(given["std"])})


def _compare(a: Probe, b: Probe) -> Match:
    if a.unit != b.unit:
        which = f"{a.length:.3g} ± {a.length_std:.2g} in one and {b.length:.3g} ± {b.length_std:.2g} in the other"
        return Match(False, f"the rows have length {which}: one space is normalized and the other is not")
    agreements = [r for r in (_agreement(a, b, "mean"), _agreement(a, b, "std")) if r is not None]
    if not agreements:
        return Match(True, "the dimensions are equal and the probes cannot tell more")
    r = float(np.mean(agreements))
    if r < AGREEMENT:
        return Match(
            False,
            f"the profiles of the coordinates agree only to {r:.2f} (expected at least {AGREEMENT}): "
            "these look like different models, or very different data",
        )
    return Match(True, f"the profiles of the coordinates agree to {r:.2f}")


def _agreement(a: Probe, b: Probe, which: str) -> float | None:
    """Correlate two profiles; None where either is flat, that is not above its own sampling noise."""
    x, y = np.asarray(getattr(a, which)), np.asarray(getattr(b, which))
    if len(x) != len(y) or len(x) < FEW or _flat(a, x, which) or _flat(b, y, which):
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _flat(probe: Probe, profile: np.ndarray, which: str) -> bool:
    noise = np.mean(np.square(probe.std)) / (probe.rows * (1 if which == "mean" else 2))
    return bool(np.var(profile) <= 3 * noise)
