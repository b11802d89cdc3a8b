"""The rule that recommends one of the options, from paired differences: each step to a dearer one has to pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import numpy as np

from relatent.decide.options import OPTIONS, SOURCES, Option
from relatent.evaluate.interval import Estimate, Measured, bootstrap, difference, report

Outcome = Literal["GO", "NO-GO", "no verdict"]
GO: Outcome = "GO"
NO_GO: Outcome = "NO-GO"
NO_VERDICT: Outcome = "no verdict"
SECONDS_PER_HOUR = 3_600
# Standard errors in the width of a 95 % interval.
ERRORS_IN_INTERVAL = 3.92


@dataclass(frozen=True)
class Rule:
    """What a decision asks for.

    ``margin`` is how much worse than staying a translation may be, and how much a dearer option has to gain. A slice
    of ``slice_queries`` or more can stop an option; with fewer than ``queries`` in all there is no verdict.
    ``min_overlap`` makes a gate of the overlap with re-embedding, where it is not known what should be found. Without
    ``texts`` nothing can be reranked or re-embedded.
    """

    margin: float = 0.01
    slice_queries: int = 50
    queries: int = 100
    min_overlap: float | None = None
    texts: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise ValueError(f"The margin is {self.margin}: expected from 0 to less than 1, such as 0.01.")
        if self.min_overlap is not None and not 0 < self.min_overlap <= 1:
            raise ValueError(f"min_overlap is {self.min_overlap}: expected above 0 and at most 1, such as 0.6.")

    def words(self, measure: str) -> str:
        """Return the rule in words, for a measure of what was judged relevant."""
        return (
            f"{measure} decides, by 95 % intervals of paired differences (bootstrap over queries). Translate where the "
            f"whole interval against staying lies above -{self.margin:g}; otherwise stay. Re-embed if its cost is "
            f"known and allowed, or else rerank, where that gains {self.margin:g} or more over the choice so far, "
            f"and more than a standard error. No option is recommended that makes a slice of "
            f"{self.slice_queries} queries or more clearly worse than staying. GO is translate or rerank; fewer than "
            f"{self.queries} queries give no verdict."
        )

    def words_of_overlap(self, measure: str) -> str:
        """Return the rule in words where nothing was judged."""
        if self.min_overlap is None:
            return "There is no verdict without judged pairs or a smallest overlap to accept."
        return (
            f"GO when the lower bound of {measure}, of translate or else of rerank, is at least {self.min_overlap:g}."
        )


@dataclass(frozen=True)
class Cost:
    """What re-embedding takes, and what it may take.

    ``price_per_million`` rows is in the currency of ``budget``. Give a price, a speed, or both.

    >>> print(Cost(3_600_000, rows_per_second=100))
    3,600,000 rows take 10 hours
    >>> Cost(3_600_000, rows_per_second=100, max_hours=8).allowed
    False
    """

    rows: int
    rows_per_second: float | None = None
    price_per_million: float | None = None
    max_hours: float = 24.0
    budget: float = 100.0

    def __post_init__(self) -> None:
        if self.rows < 1 or (self.rows_per_second is None and self.price_per_million is None):
            raise ValueError(
                f"{self.rows} rows to re-embed were given, at {self.rows_per_second} rows per second and a price of "
                f"{self.price_per_million}: expected at least one row, and a speed or a price per million rows."
            )
        if (self.rows_per_second or 1) <= 0 or (self.price_per_million or 0) < 0:
            raise ValueError("A speed must be above 0 and a price at least 0.")

    @property
    def hours(self) -> float | None:
        """Hours that re-embedding takes."""
        return None if self.rows_per_second is None else self.rows / self.rows_per_second / SECONDS_PER_HOUR

    @property
    def total(self) -> float | None:
        """What re-embedding costs."""
        return None if self.price_per_million is None else self.rows * self.price_per_million / 1e6

    @property
    def allowed(self) -> bool:
        """Whether it stays within the hours and the budget."""
        return (self.hours or 0) <= self.max_hours and (self.total or 0) <= self.budget

    def __str__(self) -> str:
        """Return the cost in words."""
        parts = [] if self.hours is None else [f"take {self.hours:,.3g} hours"]
        parts += [] if self.total is None else [f"cost {self.total:,.2f}"]
        return f"{self.rows:,} rows {' and '.join(parts)}"


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the rule uses: the deciding measure of every query under each option, and how the measure is shown.

    ``slices`` gives each query a label.
    """

    scores: Mapping[Option, np.ndarray]
    label: str
    slices: Any = None
    seed: int = 0

    @property
    def queries(self) -> int:
        """How many queries were asked."""
        return len(self.scores["stay"])

    def above(self, option: Option, other: Option) -> Estimate:
        """Return how much better an option is than another, over all queries."""
        return bootstrap(self._pair(option, other), difference(0, 1), seed=self.seed)

    def by_slice(self, option: Option, least: int) -> list[Measured]:
        """Return how much better an option is than staying, for each slice of at least ``least`` queries."""
        if self.slices is None:
            return []
        lines = report(self._pair(option, "stay"), {"": difference(0, 1)}, self.slices, seed=self.seed)
        return [line for line in lines if line.slice != "all" and line.rows >= least]

    def _pair(self, option: Option, other: Option) -> np.ndarray:
        return np.stack([self.scores[option], self.scores[other]], axis=1)


@dataclass(frozen=True)
class Decision:
    """A verdict, the option that is recommended (None without a verdict), and why."""

    verdict: Outcome
    recommended: Option | None
    reasons: tuple[str, ...]

    @classmethod
    def to(cls, option: Option, reasons: list[str]) -> Decision:
        """Recommend an option."""
        return cls(outcome_of(option), option, tuple(reasons))


def outcome_of(option: Option | None) -> Outcome:
    """Return GO where the option uses translated vectors, NO-GO for another, and no verdict for none."""
    if option is None:
        return NO_VERDICT
    return GO if OPTIONS[option].go else NO_GO


def decide(evidence: Evidence, rule: Rule, cost: Cost | None = None) -> Decision:
    """Recommend staying or translating, or a dearer option where it pays: re-embedding if allowed, or else reranking.

    Reranking comes last, since it costs something with every query. Of the two ways to rerank, which cost about the
    same, the one with the better score is considered.
    """
    if evidence.queries < rule.queries:
        return _too_few(evidence.queries, rule)
    rerank = max((o for o in SOURCES if o in evidence.scores), key=lambda o: float(np.mean(evidence.scores[o])))
    steps: tuple[Option, ...] = ("translate", "re-embed", rerank) if rule.texts else ("translate",)
    chosen: Option = "stay"
    reasons: list[str] = []
    for option in steps:
        objections = _objections(evidence, option, chosen, rule, cost)
        if objections:
            reasons += [f"not {option}: {objection}." for objection in objections]
        else:
            reasons.append(f"{option}: {_changes_by(evidence, option, chosen)}.")
            chosen = option
    return Decision.to(chosen, [*reasons, f"{chosen} needs {OPTIONS[chosen].needs}."])


def withheld(decision: Decision, doubts: Sequence[str], *, judged: bool = True) -> Decision:
    """Return no verdict in place of a GO that there are doubts about, or of any decision where nothing was judged."""
    if not doubts or decision.verdict == NO_VERDICT or (judged and decision.verdict != GO):
        return decision
    return Decision(NO_VERDICT, None, (*doubts, *decision.reasons))


def decide_by_overlap(overlap: Mapping[Option, Estimate], rule: Rule, label: str, queries: int) -> Decision:
    """Decide where it is not known what should be found: by the gate that was asked for, or not at all."""
    if rule.min_overlap is None:
        reason = (
            f"{label} tells how alike the results are, not how good. Give pairs of a query and what it should find "
            "(a table, or TREC qrels), or the smallest overlap to accept."
        )
        return Decision(NO_VERDICT, None, (reason,))
    if queries < rule.queries:
        return _too_few(queries, rule)
    reasons: list[str] = []
    options: tuple[Option, ...] = ("translate", "rerank") if rule.texts else ("translate",)
    for option in options:
        low = overlap[option].low
        if low >= rule.min_overlap:
            reasons.append(f"{option}: the lower bound of its {label} is {low:.3f}.")
            return Decision.to(option, reasons)
        reasons.append(f"not {option}: the lower bound of its {label} is {low:.3f}, below {rule.min_overlap:g}.")
    return Decision.to("stay", reasons)


def _too_few(queries: int, rule: Rule) -> Decision:
    return Decision(NO_VERDICT, None, (f"{queries} queries are too few to tell: give at least {rule.queries}.",))


def in_words(e: Estimate, sign: str = "") -> str:
    """Return an estimate with three digits; ``sign="+"`` shows the sign of a change.

    >>> in_words(Estimate(0.5, 0.4, 0.6))
    '0.500 (0.400 – 0.600)'
    """
    return f"{e.value:{sign}.3f} ({e.low:{sign}.3f} – {e.high:{sign}.3f})"


def _changes_by(evidence: Evidence, option: Option, other: Option) -> str:
    against = "staying" if other == "stay" else other
    return f"{evidence.label} changes by {in_words(evidence.above(option, other), '+')} against {against}"


def _objections(evidence: Evidence, option: Option, chosen: Option, rule: Rule, cost: Cost | None) -> list[str]:
    """Say what speaks against an option instead of the cheaper one that is chosen so far."""
    against = _against_translating if option == "translate" else _against_step
    objections = against(evidence, option, chosen, rule) + _worse_slices(evidence, option, rule)
    if option == "re-embed" and not objections:
        return _against_cost(evidence, chosen, cost)
    return objections


def _against_translating(evidence: Evidence, option: Option, chosen: Option, rule: Rule) -> list[str]:
    change, words = evidence.above(option, chosen), _changes_by(evidence, option, chosen)
    if change.low >= -rule.margin:
        return []
    if change.high < 0:
        return [f"{words}, clearly worse"]
    wide = f"{words}, which may be worse by more than {rule.margin:g}"
    return [wide + _queries_that_tell(change, evidence.queries, rule.margin)]


def _against_step(evidence: Evidence, option: Option, chosen: Option, rule: Rule) -> list[str]:
    change, words = evidence.above(option, chosen), _changes_by(evidence, option, chosen)
    if change.value < rule.margin:
        return [f"{words}, not the {rule.margin:g} that would pay for it"]
    error = (change.high - change.low) / ERRORS_IN_INTERVAL
    return [] if change.value > error else [f"{words}, no more than its standard error of {error:.3f}"]


def _against_cost(evidence: Evidence, chosen: Option, cost: Cost | None) -> list[str]:
    if cost is None:
        better = f"{_changes_by(evidence, 're-embed', chosen)}, but nothing is known about its cost"
        return [f"{better}. Where you can afford it, do it (its number of rows, with a speed or a price, weighs it)"]
    limit = f"more than {cost.max_hours:g} hours or a budget of {cost.budget:g} allow"
    return [] if cost.allowed else [f"{cost}, {limit}"]


def _worse_slices(evidence: Evidence, option: Option, rule: Rule) -> list[str]:
    """Name the slices that are clearly worse than staying, and by more than the margin.

    A slice of fifty cannot prove that it is not worse by a hundredth, so it is not asked to.
    """
    return [
        f"slice {line.slice!r} changes by {in_words(line.estimate, '+')}, clearly worse"
        for line in evidence.by_slice(option, rule.slice_queries)
        if line.estimate.high < 0 and line.estimate.value < -rule.margin
    ]


def _queries_that_tell(change: Estimate, queries: int, margin: float) -> str:
    """Say how many queries would narrow the interval to the margin, were the change as it is."""
    if change.value <= -margin:
        return ""
    needed = ceil(queries * ((change.value - change.low) / (change.value + margin)) ** 2)
    return f" (about {needed:,} queries would tell)"
