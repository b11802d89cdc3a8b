"""`relatent thresholds`: new cut-offs on similarity for old ones, from two spaces that share keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relatent._array import random_generator
from relatent.deliver.relevance import Relevance
from relatent.evaluate.cutoffs import CUTOFFS, MOST_ROWS, Thresholds, thresholds
from relatent.spaces.join import match_keys
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space

__all__ = ["threshold_spaces"]


def threshold_spaces(
    old: Space,
    new: Space,
    cutoffs: Sequence[float] = CUTOFFS,
    *,
    purpose: str = "link",
    same: Relevance | None = None,
    max_rows: int = MOST_ROWS,
    seed: int = 0,
) -> Thresholds:
    """Return new cut-offs for old ones (:func:`relatent.thresholds`), reading no more than ``max_rows`` rows.

    ``same`` names the keys that belong together; the rows drawn are those that it names, and others after them.
    """
    matched = match_keys(old, new)
    hashes = key_hashes(matched.keys)
    named = np.zeros(len(matched), bool) if same is None else np.isin(hashes, key_hashes([*same.queries, *same.items]))
    order = random_generator(seed).permutation(len(matched))
    rows = np.sort(order[np.argsort(~named[order], kind="stable")][:max_rows])
    pairs = None if same is None else _row_pairs(same, hashes[rows])
    x, y = old.take(matched.x_rows[rows]), new.take(matched.y_rows[rows])
    return thresholds(x, y, cutoffs, purpose=purpose, same=pairs, max_rows=max_rows, seed=seed)


def _row_pairs(same: Relevance, hashes: np.ndarray) -> np.ndarray:
    row_of = {key: row for row, key in enumerate(hashes.tolist())}
    keys = (key_hashes(same.queries).tolist(), key_hashes(same.items).tolist())
    grades = [1.0] * len(keys[0]) if same.grades is None else same.grades
    pairs = [(row_of.get(a), row_of.get(b)) for a, b, grade in zip(*keys, grades, strict=True) if grade > 0]
    found = [pair for pair in pairs if None not in pair]
    if not found:
        raise ValueError(f"None of {same.name} has both keys in both spaces: check the keys.")
    return np.asarray(found, dtype=np.int64)
