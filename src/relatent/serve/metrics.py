"""Metrics in the text format of Prometheus, and a check that incoming vectors are those of the fitted space."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate
from threading import Lock

import numpy as np

from relatent.spaces.probe import Match
from relatent.translate.endpoints import Endpoints, Side

# Rows that are compared with the fitted space together, and rows from one such check to the next.
WINDOW, EVERY = 64, 1_024
# Upper bounds in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
HELP = {
    "relatent_requests_total": ("counter", "Requests by path and status."),
    "relatent_rows_total": ("counter", "Vectors translated."),
    "relatent_exact_rows_total": ("counter", "Texts of low confidence that the model of the target embedded."),
    "relatent_requests_in_progress": ("gauge", "Requests in progress."),
    "relatent_source_mismatch": ("gauge", "1 if the last vectors do not look like the fitted space."),
    "relatent_request_seconds": ("histogram", "Time to answer, by path."),
    "relatent_upstream_seconds": ("histogram", "Time of the upstream to answer."),
}
Labels = tuple[tuple[str, str], ...]
log = logging.getLogger("relatent.serve")


class Metrics:
    """Counters, gauges and histograms. The paths are those of the routes, so that clients cannot add series."""

    def __init__(self) -> None:
        self._lock = Lock()  # large requests are processed in threads
        self.values: dict[tuple[str, Labels], float] = defaultdict(float)
        self.times: dict[tuple[str, Labels], list[float]] = {}

    def add(self, name: str, value: float = 1, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self.values[name, tuple(sorted(labels.items()))] += value

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self.values[name, ()] = value

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Count a time in its bucket."""
        with self._lock:
            found = self.times.setdefault((name, tuple(sorted(labels.items()))), [0.0] * (len(BUCKETS) + 2))
            found[bisect_left(BUCKETS, seconds)] += 1
            found[-1] += seconds

    def text(self) -> str:
        """Return all metrics in the text format."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> list[str]:
        lines = []
        for name, (kind, help_) in HELP.items():
            lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_shown(labels)} {value:g}" for (n, labels), value in self.values.items() if n == name]
            for (n, labels), found in self.times.items():
                lines += _histogram(name, labels, found) if n == name else []
        return lines


def _histogram(name: str, labels: Labels, found: list[float]) -> list[str]:
    counts = list(accumulate(found[:-1]))
    bounds = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]
    lines = [f"{name}_bucket{_shown((*labels, ('le', b)))} {c:g}" for b, c in zip(bounds, counts, strict=True)]
    return [*lines, f"{name}_sum{_shown(labels)} {found[-1]:g}", f"{name}_count{_shown(labels)} {counts[-1]:g}"]


def _shown(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""


class SourceWatch:
    """Compares some of the rows with the fitted space from time to time.

    An embedder whose model was replaced under the same name returns vectors of the right width and another space.
    """

    def __init__(self, endpoints: Endpoints, side: Side) -> None:
        self._endpoints, self._side = endpoints, side
        self._kept: list[np.ndarray] = []
        self._passing, self._lock = 0, Lock()
        self.match = Match("same", f"fewer than {WINDOW} rows were seen")

    def see(self, rows: np.ndarray) -> None:
        """Check ``WINDOW`` rows, and let others pass until ``EVERY`` have been seen."""
        with self._lock:
            self._passing -= len(rows)
            if self._passing >= 0:
                return
            self._kept.append(rows[-WINDOW:].copy())
            if sum(map(len, self._kept)) >= WINDOW:
                self._check(np.concatenate(self._kept)[-WINDOW:])
                self._kept, self._passing = [], EVERY - WINDOW

    def _check(self, rows: np.ndarray) -> None:
        found = self._endpoints.find_rows(rows, self._side).match
        if found.outcome != "same" and self.match.outcome == "same":
            log.warning("The incoming vectors may not be of the space that this translator was fitted on.")
        self.match = found
