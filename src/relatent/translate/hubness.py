"""A bank of queries that shows, when an index is built, which of its items crowd out the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import Array, array_namespace, like, row_chunks
from relatent._torch import is_tracked
from relatent.spaces.sample import shuffled_rows

if TYPE_CHECKING:
    from relatent.translate.pairs import Pairs


# Rows beyond which a bank takes space and time, and tells little more.
BANK_SIZE = 1_000
# The best queries of a large bank that are looked at (CSLS takes ten); of a small one, this share.
NEIGHBORS, SHARE = 5, 0.05


@dataclass(frozen=True, eq=False)
class Bank:
    r"""Translated queries, and how much an item loses for scoring high with them.

    .. math:: s'(x, y) = s(x, y) - w \, \frac1k \sum_{j \in N_k(y)} s(x_j, y)

    with N the k queries of the bank that score highest with y. It is the half of CSLS that concerns the items: a number
    per item that no query changes, so it is known before the first query comes. The other half, that of the query,
    changes no ranking; CSLS has w = ½.

    References: Conneau et al., ICLR 2018 (CSLS); Bogolin et al., CVPR 2022 (a bank of queries).

    >>> bank = Bank(np.eye(2), np.zeros(2), weight=0.5, neighbors=1)
    >>> bank.crowding(np.asarray([[3.0, 1.0]]), np.asarray([[-1.0]])).tolist()
    [[1.0]]
    """

    queries: np.ndarray
    """(m, r), in the coordinates that targets are mapped to."""
    offsets: np.ndarray
    """(m,), the part of the score that depends on the query alone: it says how common a query is."""
    weight: float
    neighbors: int

    @staticmethod
    def of(queries: np.ndarray, offsets: np.ndarray, weight: float) -> Bank:
        """Return the bank of these queries, looking at no more of them than tell neighbors from strangers."""
        return Bank(queries, offsets, weight, min(NEIGHBORS, int(np.ceil(SHARE * len(queries)))))

    def crowding(self, targets: Array, bias: Array) -> Array:
        """Return what to take off the score of each mapped target, (n, 1); ``bias`` (n, 1) is in all its scores."""
        xp, n = array_namespace(targets), targets.shape[0]
        queries, offsets = xp.matrix_transpose(like(self.queries, targets)), like(self.offsets, targets)
        chunks = [slice(None)] if is_tracked(targets) else row_chunks(max(n, 1))
        means = [best_mean(targets[c, :] @ queries + offsets, self.neighbors) for c in chunks]
        return self.weight * (bias + xp.concat(means, axis=0))

    def astype(self, dtype: np.dtype) -> Bank:
        """Return the bank in another precision."""
        return replace(self, queries=self.queries.astype(dtype), offsets=self.offsets.astype(dtype))

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the arrays to save."""
        return {f"{prefix}queries": self.queries, f"{prefix}offsets": self.offsets}

    def about(self) -> dict[str, Any]:
        """Return what else to save."""
        return {"weight": self.weight, "neighbors": self.neighbors}

    @staticmethod
    def from_saved(arrays: dict[str, np.ndarray], about: dict[str, Any], prefix: str) -> Bank:
        """Rebuild from what :meth:`arrays` and :meth:`about` gave."""
        weight, neighbors = float(about["weight"]), int(about["neighbors"])
        return Bank(arrays[f"{prefix}queries"], arrays[f"{prefix}offsets"], weight, neighbors)


@dataclass(frozen=True, eq=False)
class BankRows:
    """Where the queries of a bank come from: source vectors that were given for it, or the pairs' own."""

    given: np.ndarray | None = None
    size: int = BANK_SIZE
    """At most so many; 0 is no bank."""
    seed: int = 0

    def of(self, pairs: Pairs) -> np.ndarray:
        """Return the source vectors for a map that is fitted to these pairs."""
        rows = pairs.sample.x if self.given is None else self.given
        if len(rows) <= self.size:
            return rows
        return np.asarray(rows[np.sort(shuffled_rows(len(rows), self.size, self.seed))])


def with_bias(targets: Array, weights: np.ndarray, bank: Bank | None = None) -> Array:
    """Return mapped targets with their bias as a last coordinate: weighted squares, less what a bank takes off."""
    bias = (targets * targets) @ like(weights, targets)[:, None]
    last = bias if bank is None else bias - bank.crowding(targets, bias)
    return array_namespace(targets).concat([targets, last], axis=1)


def best_mean(scores: Array, k: int) -> Array:
    """Return the mean of the k highest scores of each row, (n, 1)."""
    if isinstance(scores, np.ndarray):
        best = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k :]
        return np.mean(best, axis=1, keepdims=True)
    xp = array_namespace(scores)
    return xp.mean(xp.sort(scores, axis=1)[:, scores.shape[1] - k :], axis=1, keepdims=True)
