"""Late interaction: items of several vectors, compared vector by vector."""

from __future__ import annotations

import numpy as np

from relatent._array import check_same_width, row_chunks
from relatent._linalg import unit_norm
from relatent.spaces.multi_vectors import MultiVectors

__all__ = ["maxsim"]

# Vectors of queries that meet all vectors of the documents at a time.
BLOCK = 2_048


def maxsim(queries: MultiVectors, documents: MultiVectors, *, normalize: bool = True) -> np.ndarray:
    r"""Return the late-interaction score of every query and document, (queries, documents).

    .. math:: S_{qd} = \sum_{i \in q} \max_{j \in d} \langle u_i, v_j \rangle

    Vectors are scaled to unit norm first, unless ``normalize=False``. Unchanged when both sides are rotated; the sum
    is not divided by the number of the query's vectors, so that only scores of one query can be compared.

    References: Khattab & Zaharia, SIGIR 2020 (ColBERT).

    >>> a, b = MultiVectors.of([np.eye(2)]), MultiVectors.of([np.eye(2)[:1], np.eye(2)])
    >>> maxsim(a, b).tolist()
    [[1.0, 2.0]]
    """
    check_same_width(queries=queries.vectors, documents=documents.vectors)
    u, v = (unit_norm(side.vectors) if normalize else side.vectors for side in (queries, documents))
    best = np.empty((len(u), len(documents)), dtype=np.result_type(u, v))
    for rows in row_chunks(len(u), BLOCK):
        best[rows] = np.maximum.reduceat(u[rows] @ v.T, documents.offsets[:-1], axis=1)
    return np.asarray(np.add.reduceat(best, queries.offsets[:-1], axis=0))
