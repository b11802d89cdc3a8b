"""What a translation is for: one module per goal, each with ``choose(pairs, settings)`` and ``solve(pairs, choice)``.

What "auto" means for a goal is found in its module and nowhere else. Nothing there sees more than the anchors; what is
held out is out of everything, the normalization included. To add a goal, write its module and name it in ``find_goal``.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from relatent._array import suggest
from relatent.spaces.normalize import NORMALIZATIONS
from relatent.translate.goals import frozen_target, named_map, retrieval, stitching, vectors
from relatent.translate.goals.choice import Choice, Judge, Selection, Settings, Solution
from relatent.translate.maps import find_map
from relatent.translate.pairs import Pairs

__all__ = ["GOALS", "Choice", "Goal", "Judge", "Selection", "Settings", "Solution", "check_settings", "find_goal"]

GOALS = ("vectors", "retrieval", "stitching")
COSTS = (None, "affine")


class Goal(Protocol):
    """What each goal's module offers."""

    def needs(self, settings: Settings) -> tuple[bool, bool]:
        """Return whether the full scatter of the source and of the target is needed."""

    def choose(self, pairs: Pairs, settings: Settings) -> Any:
        """Choose on the pairs alone; returns the goal's own kind of :class:`Choice`."""

    def solve(self, pairs: Pairs, choice: Any) -> Solution:
        """Solve for pairs as chosen."""


def find_goal(goal: str, map: str = "auto", frozen: bool = False) -> Goal:
    """Find what chooses and solves."""
    if map != "auto":
        return named_map
    if goal == "retrieval":
        return frozen_target if frozen else retrieval
    return stitching if goal == "stitching" else vectors


def check_settings(goal: str, settings: Settings, frozen: bool) -> None:
    """Refuse names that do not exist and combinations that mean nothing."""
    for what, name, known in (("goal", goal, GOALS), ("normalization", settings.normalize, NORMALIZATIONS)):
        if name not in known:
            raise ValueError(f"There is no {what} {name!r}.{suggest(name, known)}")
    if frozen and goal != "retrieval":
        raise ValueError(f'frozen_target is for goal="retrieval", and the goal is {goal!r}.')
    if settings.max_cost not in COSTS:
        raise ValueError(f"max_cost is {settings.max_cost!r}: expected None or 'affine'.")
    _check_penalty(settings.penalty)
    _check_bank_size(settings.bank.size)
    if settings.map == "auto":
        options: tuple[str, ...] = () if frozen else ("penalty",)
        what = "a frozen target" if frozen else f"goal {goal!r}"
    else:
        options, what = find_map(settings.map).options, f"map {settings.map!r}"
        if not (goal == "vectors" or frozen):
            raise ValueError(
                f"map {settings.map!r} was named for goal {goal!r}, which has its own: leave out the map, or leave out "
                "the goal to use the map as it is"
                + (" (with frozen_target=True, it translates queries)." if goal == "retrieval" else ".")
            )
    for name in ("penalty", "rank"):
        if getattr(settings, name) is not None and name not in options:
            raise ValueError(f"{name} was given, and {what} takes none: leave it out.")


def _check_penalty(penalty: float | None) -> None:
    if penalty is not None and not (math.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"penalty is {penalty}: expected a finite number of 0 or more.")


def _check_bank_size(size: int) -> None:
    if size < 0 or size % 1 != 0:
        raise ValueError(f"bank_size is {size}: expected a whole number, 0 for no bank.")
