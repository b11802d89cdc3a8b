"""Rank the target's items for queries of the source: the likelihood ratio, both sides moved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from relatent.evaluate.retrieval import mean_reciprocal_rank
from relatent.translate.folded import fold
from relatent.translate.goals.choice import Choice, Selection, Settings, Solution, per_pair
from relatent.translate.likelihood import LikelihoodPath
from relatent.translate.pairs import MANY, Pairs

__all__ = ["LikelihoodChoice", "choose", "needs", "solve"]

# What is tried where the user keeps the default normalization.
NORMALIZATIONS = ("iso", "center+l2")
PENALTIES = tuple(float(p) for p in np.logspace(-3, 1, 9))


@dataclass(frozen=True)
class LikelihoodChoice(Choice):
    """A likelihood ratio: its normalization, and a penalty for each side in units of the mean eigenvalue."""

    penalty_x: float
    penalty_y: float

    def stricter(self, factor: float) -> LikelihoodChoice:
        """Multiply both penalties."""
        return replace(self, penalty_x=factor * self.penalty_x, penalty_y=factor * self.penalty_y)

    @property
    def shrinks(self) -> bool:
        """Whether there is a penalty."""
        return True

    @property
    def words(self) -> tuple[str, ...]:
        """The penalties."""
        same = self.penalty_x == self.penalty_y
        return (self.normalize, f"λ={self.penalty_x:.3g}" + ("" if same else f" and {self.penalty_y:.3g}"))


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    return True, True


def choose(pairs: Pairs, settings: Settings) -> LikelihoodChoice:
    """Choose the normalization and penalties that rank held-out pairs best.

    The two penalties are the same multiple of each side's mean eigenvalue, or of one unit for both, which suits
    spaces of different dimensions. A penalty that suits the share of the pairs which a trial leaves is, per pair, that
    much smaller for all of them.
    """
    names = NORMALIZATIONS if settings.normalize == "iso" else (settings.normalize,)
    tried = [(name, grid) for name in names for grid in _grids(pairs, settings.penalty)]
    scores: list[list[list[float]]] = [[] for _ in tried]
    shares = []
    for rest, rows in pairs.trials(settings.seed):
        shares.append(len(rest) / len(pairs))
        for (name, grid), found_so_far in zip(tried, scores, strict=True):
            found_so_far.append(_scores(rest, pairs, rows, name, grid))
    share, found = float(np.mean(shares)), {}
    for (name, grid), trials in zip(tried, scores, strict=True):
        for (x, y), score in zip(grid, _smoothed(np.mean(trials, axis=0)).tolist(), strict=True):
            found[LikelihoodChoice(name, len(pairs), None, share * x, share * y)] = score
    best = max(found, key=found.__getitem__)
    named = {f"likelihood ratio, {', '.join(c.words)}": score for c, score in found.items()}
    return replace(best, selection=Selection.best("out-of-fold reciprocal rank", named))


def solve(pairs: Pairs, choice: LikelihoodChoice) -> Solution:
    """Return the maps of both sides; vectors are compared by inner product."""
    p = pairs.normalized(choice.normalize)
    penalties = (per_pair(penalty, choice, pairs) for penalty in (choice.penalty_x, choice.penalty_y))
    ratio = LikelihoodPath.of(p.summary).at(*penalties)
    target = fold(ratio.target, p.target, None, dtype=pairs.dtype, bias=ratio.bias)
    return Solution(fold(ratio.query, p.source, None, dtype=pairs.dtype), target)


def _grids(pairs: Pairs, penalty: float | None) -> list[list[tuple[float, float]]]:
    """Return paths of penalties to try, (source, target) each."""
    # Many pairs need no strong penalty, and a coarse grid is enough for them.
    grid = PENALTIES[:7:2] if len(pairs.sample) >= MANY else PENALTIES
    if penalty is not None:
        return [[(penalty, penalty)]]
    tilts = sorted({1.0, pairs.dims[0] / pairs.dims[1]})
    return [[(e * tilt**0.5, e / tilt**0.5) for e in grid] for tilt in tilts]


def _scores(
    rest: Pairs, pairs: Pairs, rows: np.ndarray, name: str, penalties: list[tuple[float, float]]
) -> list[float]:
    """Rank held-out pairs by what the others teach, for each pair of penalties."""
    p = rest.normalized(name)
    held, path = p.of(pairs.sample.part(rows)), LikelihoodPath.of(p.summary)
    return [mean_reciprocal_rank(*path.at(*e).vectors(*held)) for e in penalties]


def _smoothed(scores: np.ndarray) -> np.ndarray:
    """Average each score with its neighbors: of a broad summit the middle, and no lucky spike."""
    padded = np.pad(scores, 1, mode="edge")
    return np.asarray(padded[:-2] + padded[1:-1] + padded[2:]) / 3
