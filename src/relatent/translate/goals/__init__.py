"""What a translation is for: one module per goal, each with ``choose(pairs, settings)`` and ``solve(pairs, choice)``.

What "auto" means for a goal is found in its module and nowhere else. Nothing there sees more than the anchors; what is
held out is out of everything, the normalization included. To add a goal, write its module and name it in ``find_goal``.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, Protocol, cast, get_args

import numpy as np

from relatent._array import suggest
from relatent.spaces.normalize import NORMALIZATIONS
from relatent.translate.goals.choice import (
    Choice,
    GoalName,
    Judge,
    MaxCost,
    Metric,
    Selection,
    Settings,
    Solution,
)
from relatent.translate.maps import find_map
from relatent.translate.pairs import Pairs

__all__ = [
    "GOALS",
    "Choice",
    "GoalName",
    "Judge",
    "MaxCost",
    "Metric",
    "Selection",
    "Settings",
    "Solution",
    "Solver",
    "check_pairs",
    "check_settings",
    "find_goal",
    "refuse",
    "refuse_labels",
]

GOALS: tuple[str, ...] = get_args(GoalName)
COSTS = (None, *get_args(MaxCost))


class Solver(Protocol):
    """What each goal's module offers."""

    def needs(self, settings: Settings) -> tuple[bool, bool]:
        """Return whether the full scatter of the source and of the target is needed."""

    def choose(self, pairs: Pairs, settings: Settings) -> Any:
        """Choose on the pairs alone; returns the goal's own kind of :class:`Choice`."""

    def solve(self, pairs: Pairs, choice: Any) -> Solution:
        """Solve for pairs as chosen."""


def find_goal(goal: str, map: str = "auto", frozen: bool = False) -> Solver:
    """Find what chooses and solves."""
    name = ("frozen_target" if frozen else goal) if map == "auto" else "named_map"
    return cast(Solver, import_module(f"relatent.translate.goals.{name}"))


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


def check_pairs(pairs: Pairs) -> None:
    """Refuse pairs that show nothing: fewer than two, or of one source vector."""
    if len(pairs) < 2:
        raise ValueError(
            f"n_samples={len(pairs)}: too few pairs of anchors to show how two spaces relate. Give at least 2, and "
            "for a good translation about as many as the spaces have coordinates."
        )
    x = pairs.sample.all_x
    # Two different rows are enough; only rows that begin alike are compared to the end.
    if not (np.any(x[:2] != x[0]) or np.any(x != x[0])):
        raise ValueError(f"All {len(pairs)} source anchors are the same vector: give at least two different ones.")


def refuse_labels(Y: Any) -> Any:
    """Return the target unless it is class labels, which a scikit-learn pipeline would pass on to be fitted on."""
    if Y is None:
        raise ValueError("A Translator requires y to be passed, but the target y is None: give the target's vectors.")
    y = Y if hasattr(Y, "ndim") and hasattr(Y, "dtype") else np.asarray(Y)
    if y.ndim == 1 or "int" in str(y.dtype) or "bool" in str(y.dtype):
        raise ValueError(
            f"Y has shape {tuple(y.shape)} and dtype {y.dtype}, like class labels: expected the target's vectors, one "
            "float row per row of X. In a scikit-learn pipeline, fit the translator first and pass it in a "
            "sklearn.frozen.FrozenEstimator. For quantized vectors, convert them with Y.astype('float32')."
        )
    return Y


def refuse(where: str, **given: Any) -> None:
    """Refuse arguments that mean nothing there."""
    names = [name for name, value in given.items() if value is not None]
    if names:
        raise ValueError(f"{names[0]} was given {where}: leave it out.")
