"""Search an index that cannot be touched, by cosine: the map whose translated queries rank held-out pairs best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from relatent._linalg import unit_norm
from relatent.evaluate.retrieval import mean_reciprocal_rank
from relatent.translate.folded import FoldedMap, fold
from relatent.translate.goals.choice import Choice, Selection, Settings, Solution
from relatent.translate.likelihood import LikelihoodPath
from relatent.translate.maps import Affine, orthogonal, ridge, whitened
from relatent.translate.pairs import NormalizedPairs, Pairs

__all__ = ["FrozenChoice", "choose", "needs", "solve"]


# For canonical variables, in units of the mean eigenvalue of each side.
PENALTIES = (1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Rule:
    """A map, with the target's mean or without: queries may rank better by what sets them apart."""

    map: Callable[[NormalizedPairs], Affine]
    with_mean: bool = True

    def folded(self, p: NormalizedPairs, dtype: np.dtype) -> FoldedMap:
        """Solve for pairs."""
        target = p.target
        if not self.with_mean:
            origin = np.zeros_like(target.normalizer.mean)
            target = replace(target, normalizer=replace(target.normalizer, mean=origin))
        return fold(self.map(p), p.source, target, dtype=dtype)


def canonical(p: NormalizedPairs, penalty: float) -> Affine:
    r"""Return the queries whose inner product with a target is that of the canonical variables of both.

    .. math:: W = \Sigma_x^{-1/2}\, U V^\top\, \Sigma_y^{-1/2} \qquad xW \cdot y = a(x) \cdot b(y)

    with :math:`USV^\top` the whitened cross-covariance. The index need not be whitened: the query is, twice. It holds
    where the target's coordinates are scaled alike.
    """
    wx, _, wy = LikelihoodPath.of(p.summary, p.spectra).canonical(penalty, penalty)
    matrix = wx @ wy.T
    return Affine(matrix, -p.summary.mean_x @ matrix)


RULES = {
    "orthogonal": Rule(lambda p: orthogonal(p.summary)),
    "ridge": Rule(lambda p: ridge(p.summary)),
    "whitened": Rule(lambda p: whitened(p.summary)),
    "orthogonal without mean": Rule(lambda p: orthogonal(p.summary), with_mean=False),
    "ridge without mean": Rule(lambda p: ridge(p.summary), with_mean=False),
    **{f"canonical, λ={e:g}": Rule(partial(canonical, penalty=e), with_mean=False) for e in PENALTIES},
}
# What else is tried where the user keeps the default normalization.
OTHERS = [("standard", "orthogonal"), ("l2", "orthogonal"), ("center+l2", "orthogonal without mean")]
# Normalizations that scale coordinates apart, under which no query undoes the whitening of the target.
UNEVEN = ("standard", "whiten")


@dataclass(frozen=True)
class FrozenChoice(Choice):
    """A rule by its name."""

    rule: str

    @property
    def words(self) -> tuple[str, ...]:
        """The rule."""
        return (self.normalize, self.rule)


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    return True, True


def choose(pairs: Pairs, settings: Settings) -> FrozenChoice:
    """Choose the normalization and the rule that rank held-out pairs best."""
    wide = np.dtype(np.float64)
    trials: dict[FrozenChoice, list[float]] = {choice: [] for choice in _candidates(pairs, settings)}
    for rest, rows in pairs.trials(settings.seed):
        held = pairs.sample.part(rows)
        x, gallery = held.x.astype(wide), unit_norm(held.y.astype(wide))
        for choice, ranks in trials.items():
            folded = RULES[choice.rule].folded(rest.normalized(choice.normalize), wide)
            ranks.append(mean_reciprocal_rank(unit_norm(folded(x)), gallery))
    scores = {choice: float(np.mean(ranks)) for choice, ranks in trials.items()}
    named = {", ".join(choice.words): score for choice, score in scores.items()}
    best = max(scores, key=scores.__getitem__)
    return replace(best, selection=Selection.best("out-of-fold reciprocal rank", named))


def solve(pairs: Pairs, choice: FrozenChoice) -> Solution:
    """Return the map that the rule makes."""
    folded = RULES[choice.rule].folded(pairs.normalized(choice.normalize), pairs.dtype)
    return Solution(folded.guarded(pairs))


def _candidates(pairs: Pairs, settings: Settings) -> Iterator[FrozenChoice]:
    others = OTHERS if settings.normalize == "iso" else []
    for name, rule in [*((settings.normalize, rule) for rule in RULES), *others]:
        if not (name in UNEVEN and rule.startswith("canonical")):
            yield FrozenChoice(name, len(pairs), None, rule)
