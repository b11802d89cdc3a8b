"""`relatent compare`: every measure of similarity between two spaces that share keys."""

from __future__ import annotations

import numpy as np

from relatent._terminal import stages
from relatent.evaluate import Comparison, compare
from relatent.spaces.join import match_keys
from relatent.spaces.space import Space

__all__ = ["compare_spaces"]


def compare_spaces(
    x: Space,
    y: Space,
    *,
    max_rows: int = 5_000,
    k: int = 10,
    permutations: int = 20,
    seed: int = 0,
    progress: bool | None = False,
) -> Comparison:
    """Return every measure of two spaces of any dimension, by the keys they share (:func:`relatent.compare`).

    Of more than ``max_rows`` keys in common, so many are drawn by the seed.
    """
    with stages(progress) as stage:
        stage("joining keys")
        matched = match_keys(x, y)
        rows = np.arange(len(matched))
        if len(rows) > max_rows:
            rows = np.sort(np.random.default_rng(seed).choice(rows, max_rows, replace=False))
        stage(f"reading {len(rows):,} rows of both")
        pair = x.take(matched.x_rows[rows]), y.take(matched.y_rows[rows])
        return compare(*pair, k=k, permutations=permutations, seed=seed, on_stage=stage)
