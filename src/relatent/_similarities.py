"""What a map computes from rows that it holds: similarities to centers, and what a bank of queries takes off scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from relatent._array import Array, array_namespace, is_tracked, like, row_chunks


def gaussian_kernel(x: Array, centers: Array, width: float | Array) -> Array:
    r"""Return :math:`e^{-\lVert x - c \rVert^2 / w}` of every row and every center, in the dtype of the rows."""
    xp = array_namespace(x)
    # Rows about the centers' mean are near enough for the expanded square to keep its digits.
    origin = xp.mean(centers, axis=0, keepdims=True)
    x, centers = x - origin, centers - origin
    distances = xp.sum(x * x, axis=1)[:, None] + xp.sum(centers * centers, axis=1)[None, :]
    return xp.exp(-xp.clip(distances - 2 * (x @ xp.matrix_transpose(centers)), 0.0, None) / width)


@dataclass(frozen=True, eq=False)
class Gaussians:
    r"""The same for rows of NumPy, as one product and one exponential, filled in place.

    .. math:: -\lVert x - c \rVert^2 / w = [x,\, \lVert x \rVert^2,\, 1] \cdot [2c,\, -1,\, -\lVert c \rVert^2] / w

    with rows and centers about the mean of the centers.
    """

    origin: np.ndarray
    weights: np.ndarray
    """(d + 2, k)."""

    @staticmethod
    def of(centers: np.ndarray, width: float | np.ndarray) -> Gaussians:
        """Prepare the centers."""
        origin = centers.mean(axis=0)
        about = centers - origin
        squares = np.einsum("kd,kd->k", about, about)
        weights = np.concatenate([2 * about.T, -np.ones_like(squares)[None], -squares[None]])
        return Gaussians(origin, (weights / width).astype(centers.dtype, copy=False))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return rows beside their similarities."""
        (n, d), k = x.shape, self.weights.shape[1]
        about, features = np.empty((n, d + 2), dtype=x.dtype), np.empty((n, d + k), dtype=x.dtype)
        features[:, :d], about[:, d + 1], rows, found = x, 1, about[:, :d], features[:, d:]
        np.subtract(x, self.origin, out=rows)
        np.einsum("nd,nd->n", rows, rows, out=about[:, d])
        np.matmul(about, self.weights, out=found)
        np.minimum(found, 0, out=found)  # rounding may leave it above
        np.exp(found, out=found)
        return features


def best_mean(scores: Array, k: int) -> Array:
    """Return the mean of the k highest scores of each row, (n, 1)."""
    if isinstance(scores, np.ndarray):
        best = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k :]
        return np.mean(best, axis=1, keepdims=True)
    xp = array_namespace(scores)
    return xp.mean(xp.sort(scores, axis=1)[:, scores.shape[1] - k :], axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Bank:
    r"""Translated queries, and how much an item loses for scoring high with them.

    .. math:: s'(x, y) = s(x, y) - w \, \frac1k \sum_{j \in N_k(y)} s(x_j, y)

    with N the k queries of the bank that score highest with y. It is the half of CSLS that concerns the items: a number
    per item that no query changes, so it is known before the first query comes. The other half, that of the query,
    changes no ranking; CSLS has w = ½.

    References: Conneau et al., ICLR 2018 (CSLS); Bogolin et al., CVPR 2022 (a bank of queries).

    >>> bank = Bank(np.eye(2), np.zeros(2), weight=0.5, neighbors=1)
    >>> bank.correction(np.asarray([[3.0, 1.0]]), np.asarray([[-1.0]])).tolist()
    [[1.0]]
    """

    queries: np.ndarray
    """(m, r), in the coordinates that targets are mapped to."""
    offsets: np.ndarray
    """(m,), the part of the score that depends on the query alone: it says how common a query is."""
    weight: float
    neighbors: int

    def correction(self, targets: Array, bias: Array) -> Array:
        """Return what to take off the score of each mapped target, (n, 1); ``bias`` (n, 1) is in all its scores."""
        xp, n = array_namespace(targets), targets.shape[0]
        queries, offsets = xp.matrix_transpose(like(self.queries, targets)), like(self.offsets, targets)
        chunks = [slice(None)] if is_tracked(targets) else row_chunks(max(n, 1))
        means = [best_mean(targets[c, :] @ queries + offsets, self.neighbors) for c in chunks]
        return self.weight * (bias + xp.concat(means, axis=0))

    def astype(self, dtype: np.dtype) -> Bank:
        """Return the bank in another precision."""
        return replace(self, queries=self.queries.astype(dtype), offsets=self.offsets.astype(dtype))
