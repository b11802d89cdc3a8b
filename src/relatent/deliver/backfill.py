"""`relatent backfill`: in which order to embed stored items anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent.deliver.translate import check_translator
from relatent.search.backfill import ExpectedError, backfill_order
from relatent.spaces.files import AnyPath, check_new, write_space
from relatent.spaces.join import match_keys
from relatent.spaces.space import Space
from relatent.translate import Translator

__all__ = ["BackfillReport", "plan_backfill"]

MOST_PAIRS = 5_000


@dataclass(frozen=True)
class BackfillReport:
    """How many items there are, after how many one may stop, and how the errors are spread."""

    items: int
    stop: int
    left: float
    error: float
    first_tenth: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return self.__dict__.copy()

    def __str__(self) -> str:
        """Say it in a few lines for a person."""
        return (
            f"{self.items:,} items, expected error (1 - cosine) {self.error:.3f} on average.\n"
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
    """Order the items of the source by how little their translation is to be trusted, and how often they are met.

    ``target`` holds true vectors of some of the items, to learn errors from; those are not ordered. ``counts`` names a
    column of the source that says how often each item was retrieved. Written are the keys and other columns in order,
    with the ``expected_error``.
    """
    check_translator(translator)
    check_new(path, source, target, overwrite=overwrite)
    matched = match_keys(source, target)
    kept = np.random.default_rng(seed).permutation(len(matched))[:MOST_PAIRS]
    expected = ExpectedError.fit(
        source.take(matched.x_rows[kept]), target.take(matched.y_rows[kept]), translator, seed=seed
    )
    errors = np.concatenate([expected.predict(chunk.vectors) for chunk in source.chunks() if len(chunk)])
    rows = np.setdiff1d(np.arange(len(source)), matched.x_rows)
    if not len(rows):
        raise ValueError(f"All {len(source)} items have true vectors already: nothing is left to embed.")
    met = None if counts is None else _counts(source, counts)[rows]
    plan = backfill_order(errors[rows], met)
    ordered = rows[plan.rows]
    others = source.others.take(pa.array(ordered)).append_column("expected_error", pa.array(errors[ordered]))
    write_space(_with_others(source, ordered, others), path, overwrite=overwrite)
    tenth = float(np.sum(plan.worth[: -(-len(rows) // 10)]) / np.sum(plan.worth))
    return BackfillReport(len(rows), plan.stop(left), left, float(np.mean(errors[rows])), tenth)


def _with_others(source: Space, rows: np.ndarray, others: pa.Table) -> Space:
    key = source.layout.key
    keys = others.column(key) if key is not None else pa.array(rows)
    rest = others.drop_columns([key]) if key is not None else others
    return Space(source.take(rows), keys.combine_chunks() if key is not None else keys, source.name, others=rest)


def _counts(source: Space, name: str) -> np.ndarray:
    if name not in source.schema.names:
        raise ValueError(f"There is no column {name!r} of counts.{suggest(name, source.schema.names)}")
    return np.asarray(source.others.column(name).to_numpy(), dtype=np.float64)
