"""What a goal is asked, what it chooses, and what solving gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from relatent.translate.bank import BankRows
from relatent.translate.folded import FoldedMap
from relatent.translate.goals.judging import Judge
from relatent.translate.pairs import Pairs

__all__ = ["Choice", "Selection", "Settings", "Solution", "cautious_means", "per_pair", "smoothed"]

# Standard errors of its gain that a candidate must exceed the expected winner by: few pairs make many candidates lucky.
CAUTION = 0.5

K = TypeVar("K")


@dataclass(frozen=True)
class Settings:
    """What the user settled beforehand; None and "auto" leave it to the goal."""

    map: str = "auto"
    normalize: str = "iso"
    penalty: float | None = None
    rank: int | None = None
    seed: int = 0
    max_cost: str | None = None
    bank: BankRows = field(default_factory=BankRows)
    judge: Judge | None = None


@dataclass(frozen=True)
class Selection:
    """What was chosen, by which criterion, and what came second: for people to read."""

    criterion: str
    chosen: str
    score: float
    runner_up: str | None
    runner_up_score: float | None

    @staticmethod
    def best(criterion: str, scores: Mapping[str, float], smallest: bool = False) -> Selection:
        """Order candidates by their score; smaller is better only for errors."""
        order = sorted(scores, key=scores.__getitem__, reverse=not smallest)
        second = order[1] if len(order) > 1 else None
        return Selection(criterion, order[0], scores[order[0]], second, None if second is None else scores[second])


@dataclass(frozen=True)
class Choice:
    """Everything that solving needs beside the pairs. Each goal has its own kind."""

    normalize: str
    pairs: int
    """How many pairs it was chosen on: fewer keep the same absolute penalty."""
    selection: Selection | None

    def stricter(self, factor: float) -> Choice:
        """Return the same choice with its penalties multiplied, where it has any: what fewer pairs may need."""
        return self

    @property
    def shrinks(self) -> bool:
        """Whether there is a penalty to multiply."""
        return False

    @property
    def words(self) -> tuple[str, ...]:
        """What was chosen, for people: the normalization and what else there is."""
        return (self.normalize,)


@dataclass(frozen=True)
class Solution:
    """The fitted maps: of the source, and of the target where both sides move."""

    source: FoldedMap
    target: FoldedMap | None = None

    @property
    def metric(self) -> str:
        """What translated queries and targets are compared by."""
        return "cosine" if self.target is None else "inner"


def per_pair(penalty: float, choice: Choice, pairs: Pairs) -> float:
    """Return the penalty, in units of these pairs' mean eigenvalue, that is the chosen one in absolute terms."""
    return penalty * choice.pairs / len(pairs)


def cautious_means(scores: Mapping[K, np.ndarray], expected: np.ndarray, queries: int) -> dict[K, float]:
    """Return the mean score of each candidate, less half a standard error of its gain over the expected winner.

    ``scores`` and ``expected`` are those of the same held-out queries, of which ``queries`` are different: repeated
    trials ask the same ones again.
    """
    root = min(queries, len(expected)) ** 0.5
    return {name: float(np.mean(s) - CAUTION * np.std(s - expected) / root) for name, s in scores.items()}


def smoothed(scores: np.ndarray) -> np.ndarray:
    """Average each score with its neighbors along the first axis: of a broad summit the middle, and no lucky spike."""
    padded = np.concatenate([scores[:1], scores, scores[-1:]])
    return np.asarray(padded[:-2] + padded[1:-1] + padded[2:]) / 3
