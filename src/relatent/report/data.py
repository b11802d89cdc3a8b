"""What a report tells: its findings, and their provenance (files, fingerprints, versions, the command)."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import numpy as np

from relatent._schemes import public_url
from relatent._terminal import plain
from relatent.decide.anchors import AnchorDiagnosis
from relatent.decide.threshold import Thresholds
from relatent.decide.verdict import Verdict
from relatent.evaluate.comparison import Comparison
from relatent.evaluate.interval import Estimate, Report
from relatent.evaluate.scale import NormDistribution
from relatent.evaluate.several import Comparisons
from relatent.migrate import MigrationPlan, Verification
from relatent.spaces.space import Space
from relatent.translate.joined import FitReport
from relatent.translate.overview import Overview


@dataclass(frozen=True)
class SpaceFacts:
    """What is known about a space without reading all of its vectors."""

    role: str
    name: str
    path: str | None
    rows: int
    dim: int
    dtype: str
    model: str | None
    fingerprint: str

    @staticmethod
    def of(role: str, space: Space) -> SpaceFacts:
        """Describe a space. If it has no recorded fingerprint, one is measured on a sample of rows."""
        path = None if space.path is None else public_url(str(space.path))
        name, known = space.name or path or role, space.fingerprint
        return SpaceFacts(role, name, path, len(space), space.dim, str(space.dtype), known.model, known.id)


@dataclass(frozen=True)
class Provenance:
    """The files and versions behind a report, its date, and the command that made it."""

    spaces: tuple[SpaceFacts, ...]
    command: str | None
    date: str
    versions: Mapping[str, str]
    seed: int

    @staticmethod
    def of(spaces: Sequence[Space], command: str | None = None, seed: int = 0) -> Provenance:
        """Describe spaces (the source, the target, then others) and this environment."""
        from relatent import __version__

        roles = ["source", "target", *(f"other {i}" for i in range(1, len(spaces)))]
        facts = tuple(SpaceFacts.of(role, space) for role, space in zip(roles, spaces, strict=False))
        versions = {"relatent": __version__, "Python": platform.python_version(), "NumPy": np.__version__}
        return Provenance(facts, command, datetime.now(UTC).isoformat(timespec="seconds"), versions, seed)


def command_line(words: Sequence[str]) -> str:
    """Return a command as it can be typed again, without passwords.

    >>> command_line(["fit", "old files/", "postgresql://ann:secret@db/shop/items"])
    "relatent fit 'old files/' postgresql://ann@db/shop/items"
    """
    return shlex.join(["relatent", *map(public_url, words)])


@dataclass(frozen=True)
class PairsCurve:
    """The MRR of held-out items at each number of ``pairs``, the last being all, and the gain of doubling them."""

    pairs: tuple[int, ...]
    mrr: tuple[Estimate, ...]
    twice: Estimate
    gallery: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        points = [{"pairs": n, **e.to_dict()} for n, e in zip(self.pairs, self.mrr, strict=True)]
        return {"gallery": self.gallery, "mrr": points, "twice_the_pairs_add": self.twice.to_dict()}


@dataclass(frozen=True)
class Spread:
    """A histogram: the share of each named series between consecutive edges."""

    edges: tuple[float, ...]
    shares: Mapping[str, tuple[float, ...]]

    @staticmethod
    def of(values: Mapping[str, np.ndarray], bins: int = 40) -> Spread:
        """Count the values of several series between common edges.

        >>> Spread.of({"a": np.asarray([0.0, 1.0, 1.0, 1.0])}, bins=2).shares["a"]
        (0.25, 0.75)
        """
        edges = np.histogram_bin_edges(np.concatenate(list(values.values())), bins)
        shares = {name: np.histogram(v, edges)[0] / len(v) for name, v in values.items()}
        return Spread(tuple(edges.tolist()), {name: tuple(s.tolist()) for name, s in shares.items()})


@dataclass(frozen=True)
class WorstRow:
    """An item with a low score: its score when translated, the score to compare with, and its text if requested."""

    key: str
    value: float
    against: float | None = None
    text: str | None = None


@dataclass(frozen=True)
class Closeness:
    """How close translated vectors of held-out items are to the true ones.

    ``untranslated`` is the cosine of the source vectors themselves, None if the dimensions differ. ``queries`` is that
    of queries in their own role, where they were given: one far below that of items shows that the role matters.
    """

    rows: int
    fidelity: Report
    untranslated: Estimate | None
    cosines: Spread
    worst: tuple[WorstRow, ...]
    queries: Estimate | None = None


@dataclass(frozen=True)
class Anchors:
    """The number of anchors a translator was fitted on, how many were examined, and their diagnosis."""

    known: int
    looked_at: int
    diagnosis: AnchorDiagnosis


@dataclass(frozen=True)
class Geometry:
    """The shape of spaces by name: singular values of the centered rows, relative to the largest, and norms.

    ``norm_spread`` is of norms divided by the mean norm of their space, without spaces of constant norm.
    """

    rows: int
    singular: Mapping[str, tuple[float, ...]]
    norms: Mapping[str, NormDistribution]
    norm_spread: Spread | None


@dataclass(frozen=True)
class Similarity:
    """The similarity of every two of several spaces, as one matrix per measure."""

    rows: int
    names: tuple[str, ...]
    measures: Mapping[str, tuple[tuple[float, ...], ...]]


@dataclass(frozen=True)
class Findings:
    """Everything that a report tells. What was not measured is None."""

    title: str
    provenance: Provenance
    translator: Overview | None = None
    fit: FitReport | None = None
    verdict: Verdict | None = None
    curve: PairsCurve | None = None
    closeness: Closeness | None = None
    worst_queries: tuple[WorstRow, ...] = ()
    thresholds: Mapping[str, Thresholds] | None = None
    """New thresholds for old ones: under the new model, and among translated vectors."""
    anchors: Anchors | None = None
    geometry: Geometry | None = None
    similarity: Similarity | None = None
    comparison: Comparison | None = None
    comparisons: Comparisons | None = None
    plan: MigrationPlan | None = None
    verification: Verification | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON, without what was not measured."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _plain(value) for name, value in found.items() if value is not None and value != ()}


def _plain(value: Any) -> Any:
    """Return a result by its own ``to_dict``, and everything else field by field."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return plain(value.to_dict() if hasattr(value, "to_dict") else value)
