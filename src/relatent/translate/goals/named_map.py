"""A map that the user names (:data:`relatent.translate.maps.MAPS`): the papers' settings, and baselines."""

from __future__ import annotations

from dataclasses import dataclass, replace

from relatent.translate.goals import Choice, Settings, Solution, per_pair
from relatent.translate.maps import MapRule, find_map, fold
from relatent.translate.pairs import NormalizedPairs, Pairs
from relatent.translate.ridge import RidgePath, best_penalty


@dataclass(frozen=True)
class MapChoice(Choice):
    """A map by name, with its options."""

    map: str
    penalty: float | None
    rank: int | None

    def stricter(self, factor: float) -> MapChoice:
        """Multiply the penalty."""
        return self if self.penalty is None else replace(self, penalty=factor * self.penalty)

    @property
    def words(self) -> tuple[str, ...]:
        """The map and its penalty."""
        return (self.normalize, *([] if self.penalty is None else [f"λ={self.penalty:.3g}"]))


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    found, whitens = find_map(settings.map), settings.normalize == "whiten"
    return found.full_x or whitens, found.full_y or whitens


def choose(pairs: Pairs, settings: Settings) -> MapChoice:
    """Choose the penalty where the map takes one and none is given."""
    penalty, found = settings.penalty, find_map(settings.map)
    normalize = found.normalize or settings.normalize
    if penalty is None and found.shrinks:
        p = _normalized(pairs, normalize, found)
        penalty = best_penalty(RidgePath.of(p.summary, p.spectrum_x), p)
    return MapChoice(normalize, len(pairs), None, settings.map, penalty, settings.rank)


def solve(pairs: Pairs, choice: MapChoice) -> Solution:
    """Return what the rule makes of the pairs."""
    found = find_map(choice.map)
    p = _normalized(pairs, choice.normalize, found)
    penalty = None if choice.penalty is None else per_pair(choice.penalty, choice, pairs)
    given = {"penalty": penalty, "rank": choice.rank}
    options = {name: value for name, value in given.items() if value is not None}
    solved = found.rule(p.summary, **options)
    return Solution(fold(solved, p.source, p.target, dtype=pairs.dtype).guarded(*pairs.target_spread))


def _normalized(pairs: Pairs, name: str, found: MapRule) -> NormalizedPairs:
    return pairs.normalized(name, span=not found.keeps_coordinates)
