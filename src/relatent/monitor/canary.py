"""A canary: a few items with their vectors, which tell whether the model behind a name is still the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from relatent._array import as_matrix
from relatent._terminal import Result
from relatent.anchors import farthest_point
from relatent.evaluate.linear import cka
from relatent.spaces.fingerprint import one_model
from relatent.spaces.io.files import AnyPath, check_new, write_space
from relatent.spaces.join import match_keys
from relatent.spaces.sample import sample_rows
from relatent.spaces.space import Space

CanaryOutcome = Literal["same", "renamed", "rescaled", "changed"]
# Items to choose from, so that a file of any size takes seconds.
MAX_CANDIDATES = 10_000
# Norms that differ by more than this share were normalized in another way.
NORM_TOLERANCE = 0.01


@dataclass(frozen=True)
class CanaryCheck(Result):
    """Whether fresh vectors of the canary items are those that were kept.

    ``outcome`` is "same", "renamed" (the same vectors under another name: nothing has to be embedded again),
    "rescaled" (the same directions, other norms) or "changed". ``cosine`` is the smallest over the items and
    ``median`` the median. ``structure`` tells how far a changed space is a rotation of the old one (linear CKA):
    near 1, a translator fitted on few pairs will do.
    """

    outcome: CanaryOutcome
    reason: str
    items: int
    missing: int
    cosine: float | None = None
    median: float | None = None
    norm_ratio: float | None = None
    structure: float | None = None

    @property
    def ok(self) -> bool:
        """Whether old vectors can be used beside fresh ones."""
        return self.outcome in ("same", "renamed")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for JSON, and whether all is well."""
        return {**super().to_dict(), "ok": self.ok}

    def __str__(self) -> str:
        lost = f" {self.missing} items have no fresh vector." if self.missing else ""
        return f"{self.outcome}: {self.reason}.{lost}"


def make_canary(space: Space, path: AnyPath, *, items: int = 32, overwrite: bool = False, seed: int = 0) -> Space:
    """Write a few items that lie far apart, with their vectors, keys and other columns (texts, where it has any).

    The file is a space like any other. Embed its items again with the model, and check (:func:`check_canary`).
    """
    check_new(path, space, overwrite=overwrite)
    rows = sample_rows(len(space), MAX_CANDIDATES, seed)
    if not 1 <= items <= len(rows):
        raise ValueError(f"{items} items were asked for of {len(space)}: expected from 1 to {len(rows)}.")
    chosen = rows[np.sort(farthest_point(space.take(rows), items, seed=seed))]
    kept = space.subset(chosen)
    write_space(kept, path, overwrite=overwrite)
    return kept


def check_canary(kept: Space, fresh: Space, *, tolerance: float = 1e-3) -> CanaryCheck:
    """Compare fresh vectors of the canary items with those that were kept, joined on their keys.

    Every item must have a cosine of at least 1 − ``tolerance``: half precision, other hardware and batching change
    far less, another model far more.

    >>> x = np.random.default_rng(0).normal(size=(8, 4))
    >>> check_canary(Space(x), Space(x)).outcome, check_canary(Space(x), Space(-x)).outcome
    ('same', 'changed')
    """
    if not 0 < tolerance < 1:
        raise ValueError(f"The tolerance is {tolerance}: expected between 0 and 1, such as 0.001.")
    matched = match_keys(kept, fresh)
    items, missing = len(matched), len(kept) - len(matched)
    if kept.dim != fresh.dim:
        return CanaryCheck("changed", f"{kept.dim} coordinates became {fresh.dim}: another model", items, missing)
    x, y = (
        as_matrix(s.take(rows), s.name or which).astype(np.float64)
        for s, rows, which in ((kept, matched.x_rows, "the canary"), (fresh, matched.y_rows, "the fresh space"))
    )
    norms = np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1)
    cosines = np.sum(x * y, axis=1) / np.maximum(norms[0] * norms[1], 1e-300)
    ratio = float(np.median(norms[1] / np.maximum(norms[0], 1e-300)))
    structure = float(cka(x, y)) if items > 2 else None
    worst, median = float(cosines.min()), float(np.median(cosines))
    outcome, reason = _outcome(worst, ratio, kept, fresh, tolerance, structure)
    return CanaryCheck(outcome, reason, items, missing, worst, median, ratio, structure)


def _outcome(
    worst: float, ratio: float, kept: Space, fresh: Space, tolerance: float, structure: float | None
) -> tuple[CanaryOutcome, str]:
    names = kept.fingerprint.model, fresh.fingerprint.model
    agree = f"every cosine is at least {worst:.5f}"
    if worst < 1 - tolerance:
        alike = "" if structure is None else f"; as a whole they are alike to {structure:.2f} (CKA)"
        return "changed", f"a cosine fell to {worst:.4f}: another model, or another preparation of the items{alike}"
    if abs(ratio - 1) > NORM_TOLERANCE:
        return "rescaled", f"{agree}, and norms are {ratio:.3g} times what they were: normalize in the same way"
    if None not in names and not one_model(*names):  # type: ignore[arg-type]
        return "renamed", f"{agree}, but {names[0]!r} is now called {names[1]!r}: nothing has to be embedded again"
    return "same", agree
