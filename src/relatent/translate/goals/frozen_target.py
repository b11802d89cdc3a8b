"""Search an index that cannot be touched, by cosine: the map whose translated queries rank held-out pairs best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from relatent._linalg import unit_norm
from relatent.evaluate.retrieval import mean_reciprocal_rank
from relatent.summary import Summary
from relatent.translate.folded import FoldedMap, fold
from relatent.translate.goals.choice import Choice, Selection, Settings, Solution
from relatent.translate.maps import Affine, orthogonal, ridge, whitened
from relatent.translate.pairs import NormalizedPairs, Pairs

__all__ = ["FrozenChoice", "choose", "needs", "solve"]


@dataclass(frozen=True)
class Rule:
    """A map, with the target's mean or without: queries may rank better by what sets them apart."""

    map: Callable[[Summary], Affine]
    with_mean: bool = True

    def folded(self, p: NormalizedPairs, dtype: np.dtype) -> FoldedMap:
        """Solve for pairs."""
        target = p.target
        if not self.with_mean:
            origin = np.zeros_like(target.normalizer.mean)
            target = replace(target, normalizer=replace(target.normalizer, mean=origin))
        return fold(self.map(p.summary), p.source, target, dtype=dtype)


RULES = {
    "orthogonal": Rule(orthogonal),
    "ridge": Rule(ridge),
    "whitened": Rule(whitened),
    "orthogonal without mean": Rule(orthogonal, with_mean=False),
    "ridge without mean": Rule(ridge, with_mean=False),
}


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
    """Choose the rule that ranks held-out pairs best."""
    wide = np.dtype(np.float64)
    trials: dict[str, list[float]] = {name: [] for name in RULES}
    for rest, rows in pairs.trials(settings.seed):
        held, p = pairs.sample.part(rows), rest.normalized(settings.normalize)
        gallery = unit_norm(held.y.astype(wide))
        for name, rule in RULES.items():
            queries = unit_norm(rule.folded(p, wide)(held.x.astype(wide)))
            trials[name].append(mean_reciprocal_rank(queries, gallery))
    scores = {name: float(np.mean(ranks)) for name, ranks in trials.items()}
    selection = Selection.best("out-of-fold reciprocal rank", scores)
    return FrozenChoice(settings.normalize, len(pairs), selection, selection.chosen)


def solve(pairs: Pairs, choice: FrozenChoice) -> Solution:
    """Return the map that the rule makes."""
    folded = RULES[choice.rule].folded(pairs.normalized(choice.normalize), pairs.dtype)
    return Solution(folded.guarded(pairs))
