"""Which units of two models mean the same: neurons, channels, or features of sparse autoencoders, by correlation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import as_parallel, random_generator, row_chunks, to_numpy
from relatent._terminal import Tabular, progress_bar

# Units of y whose correlations with all units of x are held at a time, for shuffled rows.
BLOCK_UNITS = 1_024


@dataclass(frozen=True, eq=False)
class FeatureMatches(Tabular):
    """Correlations of all units of two spaces, which units are matched, and what chance gives.

    ``correlations`` is (units of x, units of y); ``pairs`` are the units that are matched one-to-one, by their numbers;
    ``null`` is the largest correlation of any two units, for each of several shuffles of the rows.
    """

    correlations: np.ndarray
    pairs: np.ndarray
    null: np.ndarray
    n: int
    absolute: bool
    seed: int

    def p_values(self, correlations: Any) -> np.ndarray:
        """Return the family-wise p-value of each correlation: the share of shuffles in which *any* pair had as much.

        That is the single-step method of Westfall and Young (max statistic): if nothing is shared, the chance that a
        single one of all pairs of units gets p ≤ 0.05 is at most 5 %, however many units there are.
        """
        size = self._size(np.asarray(correlations))
        above = len(self.null) - np.searchsorted(np.sort(self.null), size - 1e-9)
        return np.asarray((1 + above) / (1 + len(self.null)))

    def one_to_many(self, alpha: float = 0.05) -> dict[int, list[int]]:
        """Return for each unit of x the units of y that are surely correlated with it, the most correlated first.

        Units without any are left out. "Surely" is a family-wise p-value of at most ``alpha``.
        """
        size = self._size(self.correlations)
        sure = self.p_values(self.correlations) <= alpha
        order = np.argsort(-size, axis=1, kind="stable")
        return {i: order[i][sure[i][order[i]]].tolist() for i in np.flatnonzero(sure.any(axis=1)).tolist()}

    def mutual(self) -> np.ndarray:
        """Return the pairs of units (i, j) that are each other's most correlated: Rosetta neurons, if p is small."""
        size = self._size(self.correlations)
        best, back = np.argmax(size, axis=1), np.argmax(size, axis=0)
        rows = np.flatnonzero((back[best] == np.arange(len(best))) & (size.max(axis=1) > 0))
        return np.stack([rows, best[rows]], axis=1)

    def records(self) -> list[dict[str, Any]]:
        """Return one record per matched pair, the most correlated first."""
        values = self.correlations[self.pairs[:, 0], self.pairs[:, 1]]
        mutual = set(map(tuple, self.mutual().tolist()))
        order = np.argsort(-self._size(values), kind="stable")
        p = self.p_values(values)
        return [
            {
                "x": int(self.pairs[i, 0]),
                "y": int(self.pairs[i, 1]),
                "correlation": float(values[i]),
                "p_value": float(p[i]),
                "mutual": tuple(self.pairs[i].tolist()) in mutual,
            }
            for i in order
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        about = {"n": self.n, "units": list(self.correlations.shape), "permutations": len(self.null), "seed": self.seed}
        return about | {"pairs": self.records()}

    def __str__(self) -> str:
        found = self.records()
        sure = sum(one["p_value"] <= 0.05 for one in found)
        units = " and ".join(f"{d:,}" for d in self.correlations.shape)
        mean = float(np.mean(self._size(np.asarray([one["correlation"] for one in found])))) if found else float("nan")
        return (
            f"{sure:,} of {len(found):,} one-to-one pairs have p ≤ 0.05 (family-wise); mean correlation {mean:.3f}; "
            f"{len(self.mutual()):,} pairs are each other's best.\nShuffled rows: the best of all pairs has "
            f"{float(np.mean(self.null)):.3f}. {units} units, {self.n:,} rows, {len(self.null)} shuffles, "
            f"seed {self.seed}"
        )

    def _size(self, values: np.ndarray) -> np.ndarray:
        return np.abs(values) if self.absolute else values


def match_features(
    x: Any,
    y: Any,
    *,
    absolute: bool = False,
    permutations: int = 99,
    seed: int = 0,
    progress: bool | None = None,
) -> FeatureMatches:
    r"""Match the units of two models that react to the same rows: one-to-one, one-to-many, and mutually.

    .. math:: \max_\Pi \sum_i C_{i \Pi(i)}, \quad C_{ij} = \operatorname{corr}(x_{\cdot i}, y_{\cdot j})

    ``x`` (n, units) and ``y`` (n, units) are activations on the same rows; spaces are joined on their keys. Widths may
    differ: then some units of the wider one stay alone. The one-to-one matching is the best of all (Hungarian
    algorithm); ``FeatureMatches.mutual`` has the pairs that are each other's best, as the Rosetta neurons of Dravid
    et al. and the matched features of sparse autoencoders are, and ``FeatureMatches.one_to_many`` all that are
    surely correlated. p-values are family-wise, from ``permutations`` shuffles of the rows of y; none can be below
    1 / (1 + ``permutations``). They hold for rows that are exchangeable: take one token per text, not all.

    Unchanged by a positive scale and an offset of any unit; with ``absolute``, also by its sign. Changed by rotation:
    units, not subspaces, are what is compared. Units that never vary are matched with nothing. Memory: the matrix of
    correlations; the shuffles go through it in blocks.

    References: Li et al., ICLR 2016; Dravid et al., ICCV 2023; Westfall & Young, 1993.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 4))
    >>> found = match_features(x, x[:, [2, 0, 3, 1]] + 0.1 * rng.normal(size=(200, 4)))
    >>> found.pairs.tolist(), found.records()[0]["p_value"]
    ([[0, 1], [1, 3], [2, 0], [3, 2]], 0.01)
    """
    from scipy.optimize import linear_sum_assignment

    if permutations < 1:
        raise ValueError(f"permutations is {permutations}: expected at least 1. There is no score without its null.")
    a, b = (_standardized(to_numpy(values)) for values in as_parallel(x=x, y=y))
    if len(a) < 3:
        raise ValueError(f"{len(a)} rows were given: expected at least 3, and hundreds, for a correlation of units.")
    correlations = a.T @ b
    size = np.abs(correlations) if absolute else correlations
    rows, columns = linear_sum_assignment(size, maximize=True)
    live = np.any(a, axis=0)[rows] & np.any(b, axis=0)[columns]
    null = _null(a.astype(np.float32), b.astype(np.float32), absolute, permutations, seed, progress)
    return FeatureMatches(correlations, np.stack([rows, columns], axis=1)[live], null, len(a), absolute, seed)


def _standardized(x: np.ndarray) -> np.ndarray:
    """Return units with mean 0 and length 1; those that never vary are 0."""
    centered = x.astype(np.float64) - np.mean(x, axis=0, dtype=np.float64)
    centered[:, np.all(x == x[:1], axis=0)] = 0
    lengths = np.linalg.norm(centered, axis=0)
    return np.asarray(centered / np.where(lengths > 0, lengths, 1))


def _null(
    a: np.ndarray, b: np.ndarray, absolute: bool, permutations: int, seed: int, progress: bool | None
) -> np.ndarray:
    """Return the largest correlation of any two units, for each of several orders of the rows of b."""
    rng = random_generator(seed)
    found = np.empty(permutations)
    with progress_bar(permutations, "shuffling rows", progress) as advance:
        for i in range(permutations):
            shuffled = b[rng.permutation(len(b))]
            blocks = (a.T @ shuffled[:, units] for units in row_chunks(b.shape[1], BLOCK_UNITS))
            found[i] = max(float(np.max(np.abs(c) if absolute else c)) for c in blocks)
            advance(1)
    return found
