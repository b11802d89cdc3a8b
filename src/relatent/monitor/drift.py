"""Drift: whether new batches still resemble the space that a translator was fitted on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relatent._array import as_matrix
from relatent._files import FileError, writing
from relatent._terminal import Result, plain
from relatent.evaluate.fidelity import fidelity_report
from relatent.evaluate.interval import Estimate
from relatent.spaces.join import match_keys
from relatent.spaces.profile import drift
from relatent.spaces.space import Space
from relatent.translate import Translator

DriftOutcome = Literal["stable", "drifting", "refit", "another space", "too few"]
# Shifts of the mean, in standard deviations: random batches of one space stay below the first, new kinds of items
# exceed the second (python -m experiments.trust.drift).
MIN_DRIFT, MIN_REFIT = 0.1, 0.2
MIN_ROWS = 100


@dataclass(frozen=True)
class DriftReport(Result):
    """How a batch compares with the space that a translator was fitted on.

    ``shift`` is how far the mean moved, in standard deviations, less what chance gives; ``spread`` how far the
    variances changed, in the same way. ``cosine`` is that of translated vectors to true ones, where these were given,
    and ``first`` what it was in the first line of the log.
    """

    outcome: DriftOutcome
    reason: str
    rows: int
    shift: float | None = None
    spread: float | None = None
    cosine: Estimate | None = None
    first: Estimate | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing has to be done."""
        return self.outcome in ("stable", "drifting")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for JSON, and whether nothing has to be done."""
        return {**super().to_dict(), "ok": self.ok}

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}."


def check_drift(
    translator: Translator, batch: Space, truth: Space | None = None, *, log: Path | None = None
) -> DriftReport:
    """Compare a batch of source vectors with the space that a translator was fitted on, and report when to refit.

    A shift of the mean of 0.1 standard deviations is drift, of 0.2 a new kind of item, on which a translator does
    worse. With ``truth``, vectors of the target for some of the keys, the translation itself is measured. Each call
    appends a line to the ``log``; the cosine is then compared with that of the first line.
    """
    match = translator.endpoints_.source.recorded().matches(batch.fingerprint.recorded())
    if match and len(batch):
        as_matrix(batch.vectors, batch.name or "the batch")  # a probe leaves out what is not finite
    probes = translator.endpoints_.source.probe, batch.fingerprint.probe
    if not match or None in probes:
        unknown = "the translator has no probe" if probes[0] is None else f"{len(batch)} rows tell nothing"
        why = match.reason if not match else unknown
        return _logged(DriftReport("another space" if not match else "too few", why, len(batch)), log)
    if len(batch) < MIN_ROWS:
        why = f"{len(batch)} rows tell little: give at least {MIN_ROWS}"
        return _logged(DriftReport("too few", why, len(batch)), log)
    shift, spread = drift(*probes)  # type: ignore[arg-type]
    kept = None if truth is None else _cosine(translator, batch, truth)
    first = None if log is None or kept is None else _first(log)
    outcome, reason = _outcome(shift, kept, first)
    return _logged(DriftReport(outcome, reason, len(batch), shift, spread, kept, first), log)


def _outcome(shift: float, kept: Estimate | None, first: Estimate | None) -> tuple[DriftOutcome, str]:
    moved = f"the mean moved by {shift:.2f} standard deviations"
    if kept is not None and first is not None and kept.high < first.low:
        return "refit", f"the cosine to true vectors fell from {first.value:.3f} to {kept.value:.3f}; {moved}"
    if shift >= MIN_REFIT:
        return "refit", f"{moved}: items of a new kind. Fit again with pairs of them among the anchors"
    if shift >= MIN_DRIFT:
        return "drifting", f"{moved}; from {MIN_REFIT:g} on, fit again"
    return "stable", moved


def _cosine(translator: Translator, batch: Space, truth: Space) -> Estimate:
    if translator.target_map_ is not None:
        raise ValueError(
            "This translator maps queries and documents into a shared space, where translated vectors are not near "
            "true ones: leave the truth out, and measure its rankings (relatent.decide.evaluate_spaces)."
        )
    matched = match_keys(batch, truth)
    translated = translator.transform(batch.take(matched.x_rows))
    return fidelity_report(translated, truth.take(matched.y_rows))["cosine"]


def _first(log: Path) -> Estimate | None:
    """Return the first cosine that was logged."""
    if not log.exists():
        return None
    for number, line in enumerate(log.read_text("utf8").splitlines(), start=1):
        try:
            found = json.loads(line).get("cosine")
        except (ValueError, AttributeError, RecursionError):
            raise FileError(f"Line {number} of {log} is not an entry of a drift log: give another log.") from None
        if found is not None:
            return Estimate(**found)
    return None


def _logged(report: DriftReport, log: Path | None) -> DriftReport:
    if log is not None:
        with writing(log), log.open("a", encoding="utf8") as file:
            file.write(json.dumps(plain(report.to_dict())) + "\n")
    return report
