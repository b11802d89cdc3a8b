"""Which items to re-embed first: those whose translation is least to be trusted, and that are retrieved most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._terminal import Result, doing, progress_bar
from relatent.decide.anchors import drawn_pairs
from relatent.spaces.io.files import AnyPath, check_new, write_space
from relatent.spaces.join import match_keys
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.files import check_translator

# What keeps a share of nothing finite.
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Backfill:
    """Rows in the order in which to re-embed them, and what each is worth.

    ``worth`` is the probability that an item is not found times how often it is retrieved, in the order of ``rows``.
    """

    rows: np.ndarray
    worth: np.ndarray

    def stop(self, left: float = 0.05) -> int:
        """Return after how many rows at most this share of what they are worth is left in the others.

        >>> Backfill(np.asarray([2, 0, 1]), np.asarray([8.0, 1.0, 1.0])).stop(0.25)
        1
        """
        if not 0 <= left < 1:
            raise ValueError(f"The share that may be left is {left}: expected from 0 to less than 1, such as 0.05.")
        remaining = 1 - np.cumsum(self.worth) / max(float(np.sum(self.worth)), TINY)
        return int(np.searchsorted(-remaining, -(left + 1e-12))) + 1 if len(remaining) else 0


def backfill_order(confidence: np.ndarray, counts: Sequence[float] | np.ndarray | None = None) -> Backfill:
    """Order rows by 1 − confidence times how often each is retrieved, by default equally often.

    ``confidence`` is that of :meth:`relatent.Translator.confidence`. ``counts`` are such as those of
    :attr:`relatent.Reranker.asked`; one is added, so that what was never retrieved is ordered by its confidence.

    >>> backfill_order(np.asarray([0.9, 0.6, 0.8]), [9, 0, 0]).rows.tolist()
    [0, 1, 2]
    """
    found = np.asarray(confidence, dtype=np.float64)
    retrieved = np.zeros(len(found)) if counts is None else np.asarray(counts, dtype=np.float64)
    if found.ndim != 1 or retrieved.shape != found.shape:
        raise ValueError(
            f"There is confidence of shape {found.shape} and counts of {retrieved.shape}: expected one count per row."
        )
    if np.any(retrieved < 0) or not np.all((found >= 0) & (found <= 1)):
        raise ValueError("A count is negative or a confidence is not in [0, 1]: expected counts of 0 or more.")
    worth = (1 - found) * (1 + retrieved)
    order = np.argsort(-worth, kind="stable")
    return Backfill(order, worth[order])


@dataclass(frozen=True)
class BackfillReport(Result):
    """How many items there are, after how many one may stop, and how what is to be gained is spread."""

    items: int
    stop: int
    left: float
    confidence: float
    first_tenth: float

    def __str__(self) -> str:
        return (
            f"{self.items:,} items, confidence {self.confidence:.3f} on average.\n"
            f"The first tenth holds {self.first_tenth:.0%} of what is to be gained; after {self.stop:,} items "
            f"({self.stop / max(self.items, 1):.0%}), {self.left:.0%} of it is left."
        )


def plan_backfill(
    translator: Translator,
    source: Space,
    target: Space,
    path: AnyPath,
    *,
    counts: str | None = None,
    left: float = 0.05,
    overwrite: bool = False,
    seed: int = 0,
) -> BackfillReport:
    """Order the items of the source by how little their translation is to be trusted and how often they are retrieved.

    ``target`` holds true vectors of some of the items; those are not ordered. On them, a translator of the same
    settings is fitted and calibrated: all that are known by now, whatever the given one was fitted on. ``counts`` names
    a column of the source that says how often each item was retrieved. Written are the keys and other columns in
    order, with the ``confidence`` that an item is found among those of the source.
    """
    import pyarrow as pa
    from sklearn.base import clone

    check_translator(translator)
    check_new(path, source, target, overwrite=overwrite)
    matched = match_keys(source, target)
    with doing("fitting on the items that have true vectors"):
        fitted = clone(translator).fit(*drawn_pairs(source, target, matched, seed))
    chunks = (chunk.vectors for chunk in source.chunks() if len(chunk))
    with progress_bar(len(source), "confidence of rows", wanted=False) as advance:
        confidences = []
        for rows in chunks:
            confidences.append(fitted.confidence(rows, items=len(source)))
            advance(len(rows))
    confidence = np.concatenate(confidences)
    rows = np.setdiff1d(np.arange(len(source)), matched.x_rows)
    if not len(rows):
        raise ValueError(f"All {len(source)} items have true vectors already: nothing is left to embed.")
    plan = backfill_order(confidence[rows], None if counts is None else _counts(source, counts)[rows])
    ordered = rows[plan.rows]
    others = source.others.take(pa.array(ordered)).append_column("confidence", pa.array(confidence[ordered]))
    write_space(_with_others(source, ordered, others), path, overwrite=overwrite)
    tenth = float(np.sum(plan.worth[: -(-len(rows) // 10)]) / max(np.sum(plan.worth), TINY))
    return BackfillReport(len(rows), plan.stop(left), left, float(np.mean(confidence[rows])), tenth)


def _with_others(source: Space, rows: np.ndarray, others: Any) -> Space:
    import pyarrow as pa

    key = source.layout.key
    if key is None:
        return Space(source.take(rows), pa.array(rows), source.name, others=others)
    return Space(source.take(rows), others.column(key).combine_chunks(), source.name, others=others.drop_columns([key]))


def _counts(source: Space, name: str) -> np.ndarray:
    if name not in source.schema.names:
        raise ValueError(f"There is no column {name!r} of counts.{suggest(name, source.schema.names)}")
    return np.asarray(source.others.column(name).to_numpy(), dtype=np.float64)
