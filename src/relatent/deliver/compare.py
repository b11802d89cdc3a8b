"""`relatent compare`: every measure of similarity between two spaces that share keys."""

from __future__ import annotations

import numpy as np

from relatent.evaluate import Comparison, compare
from relatent.spaces.join import match_keys
from relatent.spaces.space import Space

__all__ = ["compare_spaces"]


def compare_spaces(x: Space, y: Space, *, max_rows: int = 5_000, k: int = 10, seed: int = 0) -> Comparison:
    """Compare two spaces of any dimension by the keys they share, by every measure (:func:`relatent.compare`).

    Of more than ``max_rows`` keys in common, so many are drawn by the seed.
    """
    matched = match_keys(x, y)
    rows = np.arange(len(matched))
    if len(rows) > max_rows:
        rows = np.sort(np.random.default_rng(seed).choice(rows, max_rows, replace=False))
    return compare(x.take(matched.x_rows[rows]), y.take(matched.y_rows[rows]), k=k, seed=seed)
