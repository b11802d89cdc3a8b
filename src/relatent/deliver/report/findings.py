"""What a report tells, as values: each renderer reads the same findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._terminal import plain
from relatent.deliver.fit import FitReport
from relatent.deliver.migration import MigrationPlan, Verification
from relatent.deliver.report.curve import PairsCurve
from relatent.deliver.report.provenance import Provenance
from relatent.evaluate.comparison import Comparison
from relatent.evaluate.cutoffs import Thresholds
from relatent.evaluate.diagnose import AnchorDiagnosis
from relatent.evaluate.interval import Estimate, Report
from relatent.evaluate.scale import NormDistribution
from relatent.evaluate.verdict import Verdict
from relatent.translate.overview import Overview

__all__ = ["Anchors", "Closeness", "Findings", "Geometry", "Similarity", "Spread", "WorstRow"]


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
    """New cut-offs for old ones: under the new model, and among translated vectors."""
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
        cutoffs = {name: table.to_dict() for name, table in (self.thresholds or {}).items()}
        return {"title": self.title} | told | whole | ({"thresholds": cutoffs} if cutoffs else {})


# Findings that say themselves what JSON is to hold, and findings that it holds whole.
SUMMED_UP = ("translator", "fit", "verdict", "curve", "comparison", "plan", "verification")
WHOLE = ("closeness", "worst_queries", "anchors", "geometry", "similarity", "provenance")
