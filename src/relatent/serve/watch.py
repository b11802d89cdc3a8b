"""Whether what is translated still comes from the space that the translator was fitted on."""

from __future__ import annotations

import logging
from collections import deque
from threading import Lock

import numpy as np

from relatent.spaces.fingerprint import Fingerprint, Match
from relatent.translate.endpoints import Endpoints

__all__ = ["SourceWatch"]

# Rows that are looked at together, and rows from one look to the next.
LOOKED_AT, EVERY = 64, 256
log = logging.getLogger("relatent.serve")


class SourceWatch:
    """Keeps the last rows, and compares them with the fitted space now and then.

    An embedder whose model was changed behind its name answers with vectors of the right width that mean nothing here.
    """

    def __init__(self, endpoints: Endpoints, side: str) -> None:
        known = endpoints.source if side == "source" else endpoints.target
        self._known = (known, *endpoints.accepted)
        self._rows: deque[np.ndarray] = deque(maxlen=LOOKED_AT)
        self._unseen, self._lock = EVERY - LOOKED_AT, Lock()
        self.match = Match("same", "fewer rows were seen than it takes to tell")

    def see(self, rows: np.ndarray) -> None:
        """Take rows into account; looks at them once enough have come."""
        with self._lock:
            self._rows.extend(rows[-LOOKED_AT:].copy())
            self._unseen += len(rows)
            if self._unseen >= EVERY and len(self._rows) == LOOKED_AT:
                self._unseen = 0
                self._look()

    def _look(self) -> None:
        given = Fingerprint.of(np.stack(self._rows))
        matches = [known.matches(given) for known in self._known]
        found = next((match for match in matches if match.outcome == "same"), matches[0])
        if found.outcome != "same" and self.match.outcome == "same":
            log.warning("The vectors that come in may not be of the space that this translator was fitted on.")
        self.match = found
