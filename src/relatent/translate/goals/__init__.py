"""What a translation is for: one module per goal, each with ``choose(pairs, settings)`` and ``solve(pairs, choice)``.

What "auto" means for a goal is found in its module and nowhere else. Nothing there sees more than the anchors; what is
held out is out of everything, the normalization included. To add a goal, write its module and name it in ``GoalName``.

This module holds what a goal is given, chooses and returns, and what the goals have in common in choosing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar, cast, get_args

import numpy as np

from relatent._array import as_labels, as_matrix, suggest, to_numpy
from relatent.evaluate.neighbors import nearest
from relatent.evaluate.retrieval import Judgments, graded_rows, reciprocal_ranks
from relatent.spaces.normalize import NORMALIZATIONS
from relatent.spaces.sample import Sample
from relatent.steps import Map
from relatent.translate.likelihood import BankRows
from relatent.translate.maps import find_map
from relatent.translate.pairs import Pairs

Reader = Callable[[np.ndarray], np.ndarray]
GoalName = Literal["vectors", "index", "retrieval", "stitching"]
MaxCost = Literal["affine"]
Metric = Literal["cosine", "inner"]
GOALS: tuple[str, ...] = get_args(GoalName)
COSTS = (None, *get_args(MaxCost))
# The default, which a map that takes another understands as nothing asked for.
NORMALIZATION = "iso"


@dataclass(frozen=True)
class Judge:
    """What the user knows of the head that will read: the head itself, labels of the pairs by their number, or both."""

    head: Any = None
    labels: np.ndarray | None = None

    @staticmethod
    def of(head: Any, labels: Any, pairs: Sized, *, blends: bool) -> Judge | None:
        """Check a head and labels of pairs, for a translator that blends by them or has no use for them."""
        given = [name for name, value in (("head", head), ("labels", labels)) if value is not None]
        if given and not blends:
            raise ValueError(
                f"{' and '.join(given)} were given, and this translator does not blend by them: use "
                'goal="stitching" without a named map, or leave them out.'
            )
        if head is not None and not (hasattr(head, "predict") or callable(head)):
            raise TypeError(
                f"head is a {type(head).__name__}: expected something that predicts, or a function of NumPy rows."
            )
        if labels is None:
            return Judge(head) if given else None
        labels = as_labels(labels)
        if len(labels) != len(pairs):
            raise ValueError(f"There are {len(labels)} labels for {len(pairs)} pairs: expected one per pair.")
        return Judge(head, labels)

    def scores(self, candidates: list[np.ndarray], held: Sample, known: Sample) -> list[float]:
        """Return the share of held-out rows that the head reads right, for each way of translating them.

        Right is what their labels say, or without labels what the head says of the target's own vectors. Without a
        head, one is fitted to the labels of the other pairs.
        """
        if self.head is not None:
            read = _reader(self.head)
        else:
            assert self.labels is not None
            read = _fitted(known.y, self.labels[known.ids.astype(np.intp)])
        right = read(held.y) if self.labels is None else self.labels[held.ids.astype(np.intp)]
        return [_agreement(read(moved), right) for moved in candidates]


def _reader(head: Any) -> Reader:
    """Return what a head says of rows: classes, also where it gives a score for each."""
    call = head.predict if hasattr(head, "predict") else head

    def read(rows: np.ndarray) -> np.ndarray:
        said = to_numpy(call(rows))
        return np.asarray(np.argmax(said, axis=1) if said.ndim == 2 and said.shape[1] > 1 else np.ravel(said))

    return read


def _fitted(rows: np.ndarray, labels: np.ndarray) -> Reader:
    """Fit a head; labels that are all the same need none."""
    if len(np.unique(labels)) == 1:
        return lambda new: np.repeat(labels[:1], len(new))
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    head = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1_000))
    return _reader(head.fit(rows, labels))


def _agreement(said: np.ndarray, right: np.ndarray) -> float:
    """Return the share of equal answers; of numbers on a scale, the share of their variance that is explained."""
    if said.dtype.kind != "f" or right.dtype.kind != "f":
        return float(np.mean(said == right))
    return 1 - float(np.mean((said - right) ** 2) / (np.var(right) or 1.0))


@dataclass(frozen=True, eq=False)
class Queries:
    """Past queries: their target vectors, their source vectors where these are known too, and what each should find.

    ``relevant`` gives for each query the ids of pairs that should be found, with their grades.
    """

    y: np.ndarray
    x: np.ndarray | None = None
    relevant: list[dict[int, float]] | None = None

    @staticmethod
    def of(queries: Any, relevant: Any, dims: tuple[int, int], *, used: bool) -> Queries | None:
        """Check past queries, target vectors or (source vectors, target vectors), and what each should find."""
        given = [name for name, value in (("queries", queries), ("relevant", relevant)) if value is not None]
        if not given:
            return None
        if not used or queries is None:
            why = "this translator has no use for them" if not used else "relevant tells what queries should find"
            raise ValueError(
                f'{" and ".join(given)} were given, and {why}: expected queries for goal "index", or pairs of queries '
                "for a frozen target."
            )
        sides = queries if isinstance(queries, tuple) else (None, queries)
        x, y = (None if one is None else to_numpy(as_matrix(one, "queries")) for one in sides)
        assert y is not None
        for side, dim in ((x, dims[0]), (y, dims[1])):
            if side is not None and (side.shape[1] != dim or len(side) != len(y)):
                raise ValueError(
                    f"queries have shape {side.shape} where {len(y)} rows of {dim} columns are expected: vectors of "
                    "the target, or a pair (source vectors, target vectors) of the same queries."
                )
        if relevant is not None and len(relevant) != len(y):
            raise ValueError(f"relevant has {len(relevant)} entries for {len(y)} queries: expected one per query.")
        graded = None if relevant is None else [graded_rows(entry) for entry in relevant]
        return Queries(y, x, graded)

    def scores(self, held: Sample, moved: np.ndarray) -> np.ndarray:
        """Return nDCG@10 of the queries that should find some of the held-out documents, among all of these."""
        assert self.relevant is not None
        place = {int(one): i for i, one in enumerate(held.ids)}
        wanted = [{place[i]: grade for i, grade in one.items() if i in place} for one in self.relevant]
        asked = [i for i, one in enumerate(wanted) if one]
        if not asked:
            return np.zeros(0)
        found = nearest(self.y[asked].astype(moved.dtype), moved, min(10, len(moved))).indices
        return Judgments.of([wanted[i] for i in asked], len(asked), len(moved)).ndcg(found)


# Standard errors of its gain that a candidate must exceed the expected winner by: few pairs make many candidates lucky.
CAUTION = 0.5

# What held-out rows are ranked in; what is solved is in double precision.
SINGLE = np.float32
# A candidate is given up before all trials if, in trials of at least this many queries, it is this many standard errors
# of the difference worse than the best one.
MIN_SEEN, HOPELESS = 100, 2.0

K = TypeVar("K")


@dataclass(frozen=True)
class Settings:
    """What the user decided beforehand; None and "auto" leave it to the goal."""

    map: str = "auto"
    normalize: str = NORMALIZATION
    penalty: float | None = None
    rank: int | None = None
    seed: int = 0
    max_cost: MaxCost | None = None
    bank: BankRows = field(default_factory=BankRows)
    judge: Judge | None = None
    queries: Queries | None = None


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
    def knows_queries(self) -> bool:
        """Whether it was told of past queries."""
        return False

    @property
    def words(self) -> tuple[str, ...]:
        """What was chosen, for people: the normalization and what else there is."""
        return (self.normalize,)


@dataclass(frozen=True)
class Solution:
    """The fitted maps: of the source, and of the target where both are mapped into a shared space."""

    source: Map
    target: Map | None = None

    @property
    def metric(self) -> Metric:
        """What translated queries and targets are compared by."""
        return "cosine" if self.target is None else "inner"


def per_pair(penalty: float, choice: Choice, pairs: Pairs) -> float:
    """Return the penalty, in units of these pairs' mean eigenvalue, that is the chosen one in absolute terms."""
    return penalty * choice.pairs / len(pairs)


def cautious_means(
    scores: Mapping[K, np.ndarray], expected: np.ndarray, queries: int, caution: float = CAUTION
) -> dict[K, float]:
    """Return the mean score of each candidate, less some standard errors of its gain over the expected winner.

    ``scores`` and ``expected`` are those of the same held-out queries, of which ``queries`` are different: repeated
    trials ask the same ones again.
    """
    root = min(queries, len(expected)) ** 0.5
    return {name: float(np.mean(s) - caution * np.std(s - expected) / root) for name, s in scores.items()}


def clearly_worse(ranks: np.ndarray, best: np.ndarray) -> bool:
    """Return whether the ranks of some queries are clearly worse than those of the best candidate so far."""
    behind = best - ranks
    return bool(np.mean(behind) > HOPELESS * np.std(behind) / len(best) ** 0.5)


def held_out_ranks(scores: np.ndarray) -> np.ndarray:
    """Return the reciprocal ranks of held-out targets, the first columns, for as many queries.

    Where further columns are of an index, it is the mean of those among held-out targets, which tell weak candidates
    apart, and those among all, which tell strong ones apart.
    """
    n, own = len(scores), np.arange(len(scores))
    among_held = reciprocal_ranks(scores[:, :n], own)
    return among_held if scores.shape[1] == n else (among_held + reciprocal_ranks(scores, own)) / 2


def smoothed(scores: np.ndarray) -> np.ndarray:
    """Average each score with its neighbors along the first axis: of a broad summit the middle, and no lucky spike."""
    padded = np.concatenate([scores[:1], scores, scores[-1:]])
    return np.asarray(padded[:-2] + padded[1:-1] + padded[2:]) / 3


class Solver(Protocol):
    """What each goal's module offers; and ``MIN_PAIRS``, where that is more than 2."""

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
    _check_numbers(settings.penalty, settings.bank.size)
    if settings.map == "auto":
        options: tuple[str, ...] = () if frozen else ("penalty",)
        what = "a frozen target" if frozen else f"goal {goal!r}"
    else:
        rule, what = find_map(settings.map), f"map {settings.map!r}"
        options = rule.options
        if rule.normalize is not None and settings.normalize not in (rule.normalize, NORMALIZATION):
            raise ValueError(
                f"normalize is {settings.normalize!r}, and {what} is always of normalize={rule.normalize!r}: leave it "
                "out."
            )
        if not (goal == "vectors" or frozen):
            raise ValueError(
                f"map {settings.map!r} was named for goal {goal!r}, which has its own: leave out the map, or leave out "
                "the goal to use the map as it is"
                + (" (with frozen_target=True, it translates queries)." if goal == "retrieval" else ".")
            )
    for name in ("penalty", "rank"):
        if getattr(settings, name) is not None and name not in options:
            raise ValueError(f"{name} was given, and {what} takes none: leave it out.")


def _check_numbers(penalty: float | None, bank_size: int) -> None:
    if penalty is not None and not (math.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"penalty is {penalty}: expected a finite number of 0 or more.")
    if bank_size < 0 or bank_size % 1 != 0:
        raise ValueError(f"bank_size is {bank_size}: expected a whole number, 0 for no bank.")


def check_pairs(pairs: Pairs, least: int = 2) -> None:
    """Refuse pairs that show nothing: fewer than ``least``, or of one source vector."""
    if len(pairs) < least:
        why = ", and to hold some of them out, by which a ranking is chosen" if least > 2 else ""
        raise ValueError(
            f"n_samples={len(pairs)}: too few pairs of anchors to show how two spaces relate{why}. Give at least "
            f"{least}, and for a good translation about as many as the spaces have coordinates."
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
