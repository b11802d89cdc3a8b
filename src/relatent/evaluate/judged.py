"""Which rows a search should find and how much each is worth; ranked lists scored against that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Judgments", "Relevant", "first_hit"]

# One entry per query: a row number, several, or a mapping from row numbers to grades.
Relevant = Sequence[Any] | np.ndarray


@dataclass(frozen=True, eq=False)
class Judgments:
    """The rows that are relevant to each query, (n, r), and their grades; filled up with −1 and 0.

    Found rows, (n, k), are scored query by query. What is not named here is not relevant.
    """

    rows: np.ndarray
    grades: np.ndarray

    @staticmethod
    def of(relevant: Relevant, n: int, m: int) -> Judgments:
        """Return the judgments of n queries over m rows. A grade of 0 or less is not relevant; rows alone have 1.

        >>> Judgments.of([{3: 2.0, 5: 0.0}, [4, 4, 1]], 2, 9).rows.tolist()
        [[3, -1], [1, 4]]
        """
        if len(relevant) != n:
            raise ValueError(f"relevant has {len(relevant)} entries and x {n} rows: expected one entry per row of x.")
        graded = [_graded(entry) for entry in relevant]
        widest = max(map(len, graded), default=0)
        rows, grades = np.full((n, widest), -1, dtype=np.int64), np.zeros((n, widest))
        for query, entry in enumerate(graded):
            if not entry:
                raise ValueError(f"Query {query} has no relevant row: leave it out.")
            if min(entry) < 0 or max(entry) >= m:
                raise ValueError(f"relevant holds row numbers outside 0…{m - 1}, the rows of y.")
            rows[query, : len(entry)], grades[query, : len(entry)] = zip(*sorted(entry.items()), strict=True)
        return Judgments(rows, grades)

    @staticmethod
    def own(n: int) -> Judgments:
        """Return the judgments of n queries that should each find the row of their own number."""
        return Judgments(np.arange(n)[:, None], np.ones((n, 1)))

    def grades_of(self, found: np.ndarray) -> np.ndarray:
        """Return the grade of each found row, (n, k)."""
        graded = np.zeros(found.shape)
        for rows, grades in zip(self.rows.T, self.grades.T, strict=True):
            graded += np.where(found == rows[:, None], grades[:, None], 0)
        return graded

    def recall(self, found: np.ndarray) -> np.ndarray:
        r"""Return the share of the relevant rows that are found: :math:`|N_i \cap R_i| / |R_i|`."""
        return np.asarray(np.sum(self.grades_of(found) > 0, axis=1) / np.sum(self.grades > 0, axis=1))

    def reciprocal_rank(self, found: np.ndarray) -> np.ndarray:
        """Return 1 / the place of the first relevant row, 0 where none is found."""
        return first_hit(self.grades_of(found) > 0)

    def ndcg(self, found: np.ndarray) -> np.ndarray:
        r"""Return the normalized discounted cumulative gain of the k found rows.

        .. math:: \frac{\sum_{j \le k} g_{(j)} / \log_2(1 + j)}{\max \sum_{j \le k} g_{(j)} / \log_2(1 + j)}

        g are the grades in the order found. 1: the most valuable rows first. The gain is linear in the grade, as in
        trec_eval and scikit-learn.

        References: Järvelin & Kekäläinen, ACM TOIS 2002.
        """
        best = -np.sort(-self.grades, axis=1)[:, : found.shape[1]]
        return np.asarray(_discounted(self.grades_of(found)) / _discounted(best))


def first_hit(hits: np.ndarray) -> np.ndarray:
    """Return 1 / the place of the first hit of each row of (n, k) truth values, 0 where there is none.

    >>> first_hit(np.asarray([[False, True], [False, False]])).tolist()
    [0.5, 0.0]
    """
    return np.asarray(np.where(np.any(hits, axis=1), 1 / (np.argmax(hits, axis=1) + 1), 0.0))


def _graded(entry: Any) -> dict[int, float]:
    """Return the relevant rows of one query with their grades."""
    pairs = entry.items() if isinstance(entry, Mapping) else ((row, 1.0) for row in np.atleast_1d(entry))
    return {int(row): float(grade) for row, grade in pairs if grade > 0}


def _discounted(grades: np.ndarray) -> np.ndarray:
    return np.asarray(grades @ (1 / np.log2(np.arange(2, grades.shape[1] + 2))))
