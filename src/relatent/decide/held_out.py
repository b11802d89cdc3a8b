"""What a verdict may rest on: rows that were held out, no copies of fitted ones, and like those to be migrated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relatent._array import random_generator
from relatent._linalg import unit_norm
from relatent.evaluate.neighbors import nearest

# Fitted rows around an item whose distances tell what is near; the middle one stands in for the rest.
NEIGHBORS, MIDDLE = 10, 5
# A copy is nearer than this share of the distance to the tenth, and than one in a thousand would be by chance.
COPY, CHANCE = 1 / 3, 1e-3
# Rows that are compared of each side, and how few tell nothing.
MAX_ROWS, MIN_ROWS = 2_000, 50
# The share of known rows that is let go as outliers, and the share of unlike rows from which there is no GO.
TAIL, MAX_UNLIKE = 0.05, 0.05

UNKNOWN = "It is not known what the translator was fitted on: some items here may be"
ELSEWHERE = "The fitted items are not in these spaces: near-copies of them cannot be found"


@dataclass(frozen=True)
class HeldOut:
    """What is known about the items that were judged.

    ``known`` tells whether the translator knows the keys it was fitted on; ``fitted`` of these rows are in the spaces.
    ``copies`` held-out items were left out because they are near-copies of fitted ones under other keys
    (``near_copies``). ``unlike`` is the share of the rows to be migrated that resemble neither the fitted nor the
    relevant items (``share_unlike``); None where there are too few to tell. ``forced`` lets doubts pass.
    """

    known: bool
    fitted: int
    copies: int
    unlike: float | None
    forced: bool = False
    made: bool = False
    """Whether the queries were made of the items' own texts."""

    def doubts(self) -> list[str]:
        """Return what speaks against a GO."""
        if self.forced:
            return []
        doubts = []
        if self.made:
            doubts.append(
                "The queries were made of the items' own texts: that they find their items is no judgment of what "
                "people look for. Give judged pairs; or, if your queries are like these, force the evaluation"
            )
        if not self.known:
            doubts.append(
                "The translator does not know the keys it was fitted on, so it may have seen every item here. Fit it "
                "on spaces with keys and hold part out; or, if these items were held out, force the evaluation"
            )
        if self.unlike is not None and self.unlike > MAX_UNLIKE:
            doubts.append(
                f"{self.unlike:.0%} of the rows to migrate resemble neither the items fitted on nor those judged "
                "relevant, and the scores say nothing about them. Add anchors and judged queries of their kind, or "
                "migrate the others only; where they do not matter, force the evaluation"
            )
        return [f"{doubt}." for doubt in doubts]

    def __str__(self) -> str:
        copies = f"{self.fitted:,} fitted items are in these spaces; {self.copies:,} near-copies of them are left out"
        fitted = copies if self.fitted else ELSEWHERE if self.known else UNKNOWN
        told = "too few items to tell" if self.unlike is None else f"{self.unlike:.0%}"
        return f"{fitted}. Rows to migrate that resemble neither fitted nor relevant items: {told}."


def near_copies(x: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    r"""Return which rows of x are near-copies of fitted rows, by distances to the nearest ten of them.

    .. math:: d_1 \le \min\left(\tfrac13, (p/9)^{1/D}\right) d_{10}, \qquad
              D = \log 2 / \operatorname{median} \log(d_{10}/d_5)

    In D dimensions the chance of :math:`d_1 \le t\, d_{10}` is about :math:`9\, t^D`, so that p = 0.001 is the share of
    rows taken for copies where there are none. The tenth and the fifth neighbor are the scale, and not the first, so
    that up to four copies of an item do not hide each other. Unchanged when both are rotated, rescaled or shifted.

    References: Levina & Bickel, NeurIPS 2004 (intrinsic dimension from ratios of distances).

    >>> fitted = np.random.default_rng(0).normal(size=(200, 6))
    >>> near_copies(np.concatenate([fitted[:2] + 0.01, fitted[:1] + 2]), fitted).tolist()
    [True, True, False]
    """
    if len(fitted) < NEIGHBORS or not len(x):
        return np.zeros(len(x), dtype=bool)
    distance = -nearest(x, fitted, NEIGHBORS, "euclidean").similarities.astype(np.float64)
    first, middle, last = distance[:, 0], distance[:, MIDDLE - 1], distance[:, -1]
    apart = middle > 0
    spread = np.median(np.log(last[apart] / middle[apart])) if np.any(apart) else 0.0
    ratio = min(COPY, (CHANCE / (NEIGHBORS - 1)) ** (spread / np.log(NEIGHBORS / MIDDLE)))
    return np.asarray(first <= ratio * last)


def least_unlike(rows: np.ndarray, *known: np.ndarray, seed: int = 0) -> float | None:
    """Return the share of rows that are unlike any of several sets of known rows, and unlike all of them together.

    The least of the shares: anchors that are outliers by choice resemble few rows, and still cover them.
    """
    shares = [share_unlike(rows, part, seed=seed) for part in (*known, np.concatenate(known))]
    return min((share for share in shares if share is not None), default=None)


def share_unlike(rows: np.ndarray, known: np.ndarray, *, seed: int = 0) -> float | None:
    r"""Return the share of rows that are unlike known ones: scored by a classifier below 95 % of these, less 5 %.

    .. math:: w = (\Sigma + \lambda I)^{-1} (\mu_{known} - \mu_{rows}), \qquad \lambda = \operatorname{tr} \Sigma / d

    The classifier is a regularized linear discriminant on centered unit rows, both sides weighing the same; each half
    is scored by the one fitted on the other half. About 0 where both are draws of the same kind. None for fewer than
    50 known rows.

    References: Rabanser et al., NeurIPS 2019 (domain classifiers detect shifts).
    """
    if len(known) < MIN_ROWS or len(rows) < MIN_ROWS:
        return None
    x = np.concatenate([known, rows]).astype(np.float64)
    x = unit_norm(x - np.mean(x, axis=0))
    is_known = np.arange(len(x)) < len(known)
    half = random_generator(seed).permutation(len(x)) % 2
    scores = np.empty(len(x))
    for fold in (0, 1):
        scores[half == fold] = x[half == fold] @ _discriminant(x[half != fold], is_known[half != fold])
    threshold = np.quantile(scores[is_known], TAIL)
    return max(0.0, float(np.mean(scores[~is_known] < threshold)) - TAIL)


def _discriminant(x: np.ndarray, is_known: np.ndarray) -> np.ndarray:
    known, rows = x[is_known], x[~is_known]
    means = np.mean(known, axis=0), np.mean(rows, axis=0)
    covariance = sum(
        (part - mean).T @ (part - mean) / (2 * len(part)) for part, mean in zip((known, rows), means, strict=True)
    )
    ridge = np.trace(covariance) / len(covariance)
    return np.asarray(np.linalg.solve(covariance + ridge * np.eye(len(covariance)), means[0] - means[1]))
