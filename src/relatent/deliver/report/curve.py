"""Score against number of pairs, on held-out rows: whether it is worth buying more pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._linalg import unit_norm
from relatent.evaluate.interval import Estimate, bootstrap
from relatent.evaluate.retrieval import reciprocal_ranks
from relatent.translate import Translator
from relatent.translate.curve import LearningCurve
from relatent.translate.goals import Solution

__all__ = ["PairsCurve", "measure_curve"]

# Shares of the largest part of the pairs that is fitted again, and how many pairs that part has at most.
SHARES, MOST_REFITTED = (0.25, 0.5, 1.0), 2_000
# Fewer pairs may need a stricter penalty by these factors.
STRICTER = (1.0, 8.0)
# Fewer pairs, or held-out rows, than this give no curve.
FEWEST = 40


@dataclass(frozen=True)
class PairsCurve:
    """The MRR of held-out items at each number of ``pairs``, the last being all, and what twice as many would add."""

    pairs: tuple[int, ...]
    mrr: tuple[Estimate, ...]
    twice: Estimate
    gallery: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        points = [{"pairs": n, **e.to_dict()} for n, e in zip(self.pairs, self.mrr, strict=True)]
        return {"gallery": self.gallery, "mrr": points, "twice_the_pairs_add": self.twice.to_dict()}


def measure_curve(translator: Translator, x: np.ndarray, y: np.ndarray, seed: int) -> PairsCurve | None:
    """Fit the same map again on some of the pairs, and look held-out sources up among the held-out targets.

    None where the translator has no pairs, because it was loaded, or where there are too few.
    """
    pairs = getattr(translator, "pairs_", None)
    if pairs is None or min(len(pairs.sample), len(x)) < FEWEST:
        return None
    order = np.random.default_rng(seed).permutation(len(pairs.sample))
    largest = min(len(order) // 2, MOST_REFITTED)
    sizes = [round(share * largest) for share in SHARES]
    columns = [_best_scores(translator, order[:size], x, y) for size in sizes]
    columns.append(_scores(Solution(translator.map_, translator.target_map_), x, y))
    scores, counts = np.stack(columns, axis=1), (*sizes, len(pairs))
    gain = LearningCurve("mrr", counts, scores).gain(len(pairs), 2 * len(pairs))
    room = 1 - float(np.mean(scores[:, -1]))
    twice = Estimate(*(min(value, room) for value in (gain.value, gain.low, gain.high)))
    return PairsCurve(counts, tuple(bootstrap(column, seed=seed) for column in columns), twice, len(y))


def _best_scores(translator: Translator, rows: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Score a fit on some of the sampled pairs, with the penalty that suits so few."""
    fewer, choice = translator.pairs_.only(np.sort(rows)), translator.choice_
    penalties = STRICTER if choice.shrinks else (1.0,)
    tried = [_scores(translator.goal_.solve(fewer, choice.stricter(by)), x, y) for by in penalties]
    return max(tried, key=lambda scores: float(np.mean(scores)))


def _scores(solved: Solution, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the reciprocal rank of each source's own target among all targets."""
    queries, gallery = np.asarray(solved.source(x)), y if solved.target is None else np.asarray(solved.target(y))
    if solved.metric == "cosine":
        queries, gallery = unit_norm(queries), unit_norm(gallery)
    return reciprocal_ranks(queries @ gallery.T, np.arange(len(x)))
