"""Where a report comes from: files, fingerprints, versions and the command, without a password."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from relatent._terminal import plain
from relatent.decide.anchors import AnchorDiagnosis
from relatent.decide.threshold import Thresholds
from relatent.decide.verdict import Verdict
from relatent.evaluate.comparison import Comparison
from relatent.evaluate.interval import Estimate, Report
from relatent.evaluate.scale import NormDistribution
from relatent.migrate import MigrationPlan, Verification
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.schemes import is_store
from relatent.spaces.space import Space
from relatent.stores.address import Address
from relatent.translate.joined import FitReport
from relatent.translate.overview import Overview


@dataclass(frozen=True)
class SpaceFacts:
    """What is known about a space without reading its vectors, and a hash of its fingerprint."""

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
        """Describe a space. Its fingerprint is measured on some rows where none was recorded."""
        path = None if space.path is None else without_secrets(str(space.path))
        known = space.fingerprint
        name = space.name or (path or role)
        return SpaceFacts(role, name, path, len(space), space.dim, str(space.dtype), known.model, short_hash(known))


@dataclass(frozen=True)
class Provenance:
    """Which files and versions a report was made from, when, and by which command."""

    spaces: tuple[SpaceFacts, ...]
    command: str | None
    date: str
    versions: Mapping[str, str]
    seed: int

    @staticmethod
    def of(spaces: Mapping[str, Space], command: str | None = None, seed: int = 0) -> Provenance:
        """Describe spaces by their roles, and this moment and machine."""
        from relatent import __version__

        versions = {"relatent": __version__, "Python": platform.python_version(), "NumPy": np.__version__}
        facts = tuple(SpaceFacts.of(role, space) for role, space in spaces.items())
        return Provenance(facts, command, datetime.now(UTC).isoformat(timespec="seconds"), versions, seed)


def short_hash(fingerprint: Fingerprint) -> str:
    """Return twelve hexadecimal digits that tell one fingerprint from another."""
    return hashlib.sha256(fingerprint.to_json().encode()).hexdigest()[:12]


def command_line(words: Sequence[str]) -> str:
    """Return a command as it can be typed again, without passwords.

    >>> command_line(["fit", "old files/", "postgresql://ann:secret@db/shop/items"])
    "relatent fit 'old files/' postgresql://ann@db/shop/items"
    """
    return shlex.join(["relatent", *map(without_secrets, words)])


def without_secrets(word: str) -> str:
    """Return a word of a command as it may be shown: a URL without its password, and without options that may be one.

    >>> without_secrets("--out=s3://key:secret@bucket/a.parquet?token=x")
    '--out=s3://key@bucket/a.parquet'
    """
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if "://" not in value:
        return word
    if is_store(value):
        return f"{option}{equals}{Address.parse(value)}"
    parts = urlsplit(value)
    user = f"{parts.username}@" if parts.username else ""
    host = parts.netloc.rpartition("@")[2]
    return f"{option}{equals}{parts.scheme}://{user}{host}{parts.path}"


@dataclass(frozen=True)
class PairsCurve:
    """The MRR of held-out items at each number of ``pairs``, the last being all, and what twice as many would add."""

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
    """How values are spread: the share of each named series between consecutive edges."""

    edges: tuple[float, ...]
    shares: Mapping[str, tuple[float, ...]]

    @staticmethod
    def of(values: Mapping[str, np.ndarray], bins: int = 40) -> Spread:
        """Count values of several series between common edges.

        >>> Spread.of({"a": np.asarray([0.0, 1.0, 1.0, 1.0])}, bins=2).shares["a"]
        (0.25, 0.75)
        """
        edges = np.histogram_bin_edges(np.concatenate(list(values.values())), bins)
        shares = {name: np.histogram(v, edges)[0] / len(v) for name, v in values.items()}
        return Spread(tuple(edges.tolist()), {name: tuple(s.tolist()) for name, s in shares.items()})


@dataclass(frozen=True)
class WorstRow:
    """An item that fares badly: its score under the translation, what it is measured against, and its text if asked."""

    key: str
    value: float
    against: float | None = None
    text: str | None = None


@dataclass(frozen=True)
class Closeness:
    """How close translated vectors of held-out items come to the true ones.

    ``untranslated`` is the cosine of the old vectors themselves, None where the dimensions differ.
    """

    rows: int
    fidelity: Report
    untranslated: Estimate | None
    cosines: Spread
    worst: tuple[WorstRow, ...]


@dataclass(frozen=True)
class Anchors:
    """The anchors that a translator was fitted on, ``looked_at`` of ``known``, and what can be said of them."""

    known: int
    looked_at: int
    diagnosis: AnchorDiagnosis


@dataclass(frozen=True)
class Geometry:
    """The shape of spaces by their names: singular values of the centered rows, the largest being 1, and norms.

    ``norm_spread`` is of norms over the mean norm of their space, without spaces in which all norms are the same.
    """

    rows: int
    singular: Mapping[str, tuple[float, ...]]
    norms: Mapping[str, NormDistribution]
    norm_spread: Spread | None


@dataclass(frozen=True)
class Similarity:
    """How similar several spaces are to one another, by the names of the measures."""

    rows: int
    names: tuple[str, ...]
    measures: Mapping[str, tuple[tuple[float, ...], ...]]


@dataclass(frozen=True)
class Findings:
    """Everything that a report tells; what was not looked at is None."""

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
    plan: MigrationPlan | None = None
    verification: Verification | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what was not looked at is left out."""
        found = {
            name: getattr(self, name)
            for name in (*SUMMED_UP, *WHOLE)
            if getattr(self, name) is not None and getattr(self, name) != ()
        }
        told = {name: value.to_dict() for name, value in found.items() if name in SUMMED_UP}
        whole = {name: plain(value) for name, value in found.items() if name in WHOLE}
        thresholds = {name: table.to_dict() for name, table in (self.thresholds or {}).items()}
        return {"title": self.title} | told | whole | ({"thresholds": thresholds} if thresholds else {})


# Findings that say themselves what JSON is to hold, and findings that it holds whole.
SUMMED_UP = ("translator", "fit", "verdict", "curve", "comparison", "plan", "verification")
WHOLE = ("closeness", "worst_queries", "anchors", "geometry", "similarity", "provenance")
