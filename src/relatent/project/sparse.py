"""Sparse relative representations: of all similarities to the anchors only the largest stay."""

from __future__ import annotations

import numpy as np

from relatent._array import Array, array_namespace
from relatent._linalg import unit_norm

__all__ = ["sparse_codes"]


def sparse_codes(r: Array, top: int, power: float) -> Array:
    r"""Keep the largest similarities of every row, raise them to a power, and scale the row to length 1.

    .. math:: c_j \propto \operatorname{sgn}(r_j)\,|r_j|^p \text{ if } r_j \text{ is among the largest, else } 0

    Equals at the last place all stay, so that the order of the anchors decides nothing. With all of them kept and
    power 1 it is r in unit rows. Unchanged when a row is multiplied by a positive number.

    References: Norelli et al., NeurIPS 2023, section 2.

    >>> sparse_codes(np.asarray([[0.6, 0.3, 0.1]]), top=2, power=2.0).round(3).tolist()
    [[0.97, 0.243, 0.0]]
    """
    xp = array_namespace(r)
    if top < r.shape[1]:
        r = xp.where(r >= _kth_largest(r, top), r, xp.zeros_like(r))
    size = xp.abs(r)
    largest = xp.max(size, axis=1, keepdims=True)  # a high power of small numbers would vanish
    size = (size / xp.where(largest == 0, xp.ones_like(largest), largest)) ** power
    return unit_norm(xp.sign(r) * size)


def _kth_largest(r: Array, k: int) -> Array:
    """Give the k-th largest entry of every row, as a column."""
    if isinstance(r, np.ndarray):
        return np.partition(r, r.shape[1] - k, axis=1)[:, r.shape[1] - k, None]
    if hasattr(r, "topk"):
        return r.topk(k, dim=1).values[:, -1:]
    return array_namespace(r).sort(r, axis=1)[:, r.shape[1] - k, None]
