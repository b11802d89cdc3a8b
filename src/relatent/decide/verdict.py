"""Whether a translation pays: the options side by side with intervals, and the one that the rule recommends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from relatent._terminal import Tabular, render, wrap
from relatent.decide.held_out import HeldOut
from relatent.decide.options import OPTIONS, Option, OptionScores
from relatent.decide.rule import GO, Cost, Decision, Evidence, Rule, decide, decide_by_overlap, in_words, withheld
from relatent.decide.storage import StorageReport
from relatent.evaluate.interval import Estimate, Report, bootstrap, column, difference, ratio, report, share_of_gain

LABELS = {"recall": "recall@{k}", "mrr": "MRR@{k}", "ndcg": "nDCG@{k}", "overlap": "overlap@{k}"}
# The measure that decides: it sees grades, places and what is missing.
DECIDING = "ndcg"
# Candidates beyond this share of the items make reranking look better than it will be in a larger index.
LARGE_SHARE = 0.1


@dataclass(frozen=True)
class Expected:
    """The deciding measure of each option in an index of ``rows`` items, and how it differs from staying there."""

    rows: int
    scores: Mapping[Option, Estimate]
    changes: Mapping[Option, Estimate]

    @classmethod
    def of(cls, scores: OptionScores, seed: int) -> Expected | None:
        """Return what is expected in the index that is served; None where it is no larger than the gallery."""
        if scores.expected is None or scores.index_rows is None:
            return None
        stay = scores.expected["stay"]
        levels = {option: bootstrap(column, seed=seed) for option, column in scores.expected.items()}
        changes: dict[Option, Estimate] = {
            option: bootstrap(column - stay, seed=seed)
            for option, column in scores.expected.items()
            if option != "stay"
        }
        return cls(scores.index_rows, levels, changes)

    def cells(self) -> list[tuple[str, str, str]]:
        """Return the lines of a table: option, score, change."""
        shown = {option: in_words(change, "+") for option, change in self.changes.items()}
        return [(option, in_words(score), shown.get(option, "")) for option, score in self.scores.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        changes = {option: change.to_dict() for option, change in self.changes.items()}
        return {"rows": self.rows, "scores": {o: s.to_dict() for o, s in self.scores.items()}, "changes": changes}


@dataclass(frozen=True)
class Verdict(Tabular):
    """The options side by side, how each differs from staying, and the one that is recommended, with the reasons.

    ``options`` holds a report per option, over all queries and per slice; ``changes`` the paired differences against
    staying. ``arr`` is translate over re-embed (:func:`relatent.evaluate.arr`), ``gain`` the share of the step from
    staying to re-embedding that translating recovers, ``break_even`` translate over stay, all of the deciding measure:
    translating beats staying when ARR × (new/old) > 1. ``itself`` is the self-retrieval@1 of the translated search, the
    share of queries whose own item comes first. ``go`` tells whether translate or rerank is recommended. ``storage``
    tells what a smaller index costs, if asked. ``keys`` are those of the queries, where they are known. ``expected``
    is the deciding measure in the index that is served, where it is larger; then it decides. ``held_out`` tells what
    the items judged are.
    """

    decision: Decision
    rule: str
    relevance: str
    scores: OptionScores
    options: Mapping[Option, Report]
    changes: Mapping[Option, Report]
    arr: Estimate
    gain: Estimate
    break_even: Estimate
    itself: Estimate | None
    cost: Cost | None
    storage: StorageReport | None = None
    keys: np.ndarray | None = None
    expected: Expected | None = None
    held_out: HeldOut | None = None

    @property
    def go(self) -> bool:
        """Whether translate or rerank is recommended."""
        return self.decision.verdict == GO

    @property
    def deciding(self) -> str:
        """The measure that decides: nDCG, or the overlap where nothing was judged."""
        return _deciding(self.scores)

    @property
    def queries(self) -> int:
        """How many queries were asked."""
        return len(self.scores.by_option["stay"])

    def __getitem__(self, option: Option) -> Report:
        """Return the measures of an option by its name."""
        if option not in self.options:
            raise KeyError(f"{option!r} is no option here. There are: {', '.join(self.options)}.")
        return self.options[option]

    def query_scores(self, option: Option) -> np.ndarray:
        """Return the deciding measure of every query under an option."""
        return _columns(self.scores, self.deciding, option)[:, 0]

    def records(self) -> list[dict[str, Any]]:
        """Return one record per option, slice and measure: the estimate, and its change against staying."""
        return [
            {"option": option, **record, **_change(self.changes.get(option), record)}
            for option, measured in self.options.items()
            for record in measured.records()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what is not defined is None."""
        estimates = {name: getattr(self, name) for name in ("arr", "gain", "break_even", "itself")}
        return {
            "verdict": self.decision.verdict,
            "recommended": self.decision.recommended,
            "reasons": list(self.decision.reasons),
            "rule": self.rule,
            "relevance": self.relevance,
            "k": self.scores.k,
            "queries": self.queries,
            "items": self.scores.items,
            "candidates": self.scores.candidates,
            **{name: None if e is None else _finite(e.to_dict()) for name, e in estimates.items()},
            "cost": None if self.cost is None else {"hours": self.cost.hours, "total": self.cost.total},
            "measures": [_finite(record) for record in self.records()],
            "storage": None if self.storage is None else self.storage.records(),
            "expected": None if self.expected is None else self.expected.to_dict(),
            "held_out": None if self.held_out is None else asdict(self.held_out),
        }

    def __str__(self) -> str:
        recommended = self.decision.recommended
        head = f"{self.decision.verdict}: {recommended}." if recommended else f"{self.decision.verdict}."
        said = [*(f"- {reason}" for reason in self.decision.reasons), f"Rule: {self.rule}"]
        stored = [] if self.storage is None else ["", str(self.storage)]
        return "\n".join([*self._tables(), *self._figures(), *self._about(), *stored, "", head, *map(wrap, said)])

    def label(self, measure: str) -> str:
        """Return a measure as it is shown, such as nDCG@10."""
        return LABELS[measure].format(k=self.scores.k)

    def _tables(self) -> list[str]:
        labels = [self.label(measure) for measure in self.scores.measures]
        numbers = range(1, len(labels) + 1)
        rows = [
            (meaning.label.format(candidates=self.scores.candidates), *self._cells(self.options.get(option)))
            for option, meaning in OPTIONS.items()
        ]
        changes = [(option, *self._cells(change, "+")) for option, change in self.changes.items()]
        against = render(("against staying", *labels), changes, numbers)
        return [render(("option", *labels), rows, numbers), "", against, *self._in_index(), *self._slices()]

    def _in_index(self) -> list[str]:
        if self.expected is None:
            return []
        header = (f"expected in {self.expected.rows:,} items", self.label(self.deciding), "against staying")
        return ["", render(header, self.expected.cells(), (1, 2))]

    def _cells(self, measured: Report | None, sign: str = "") -> list[str]:
        if measured is None:
            return ["dimensions differ"] * len(self.scores.measures)
        return [in_words(measured[measure], sign) for measure in self.scores.measures]

    def _slices(self) -> list[str]:
        deciding = self.deciding
        lines = [line for line in self.changes["translate"] if line.measure == deciding and line.slice != "all"]
        if not lines:
            return []
        shown = [option for option in OPTIONS if option in self.options and option != "untranslated"]
        scores = [[f"{self[option][line.slice, deciding].value:.3f}" for option in shown] for line in lines]
        cells = [
            (line.slice, *values, in_words(line.estimate, "+"), line.rows)
            for line, values in zip(lines, scores, strict=True)
        ]
        header = (f"{self.label(deciding)} of slice", *shown, "translate against stay", "queries")
        return ["", render(header, cells, range(1, len(header)))]

    def _figures(self) -> list[str]:
        figures = []
        if DECIDING in self.scores.measures:
            stay, new = (self.options[option][DECIDING].value for option in ("stay", "re-embed"))
            step = f"{self.arr.value:.3f} × {new / stay if stay else float('nan'):.3f}"
            figures.append(
                f"break-even: ARR × (new/old) = {step} = {in_words(self.break_even)} of {self.label(DECIDING)}; "
                "above 1, translating gains"
            )
            if self.changes["re-embed"][DECIDING].low > 0:
                figures.append(f"gain recovered, of the step from old to new: {in_words(self.gain)}")
        if self.itself is not None:
            figures.append(f"self-retrieval@1 of the translated search: {in_words(self.itself)}")
        return ["", *figures] if figures else []

    def _about(self) -> list[str]:
        t = self.scores
        about = [f"{self.queries:,} queries, {t.items:,} items; relevant: {self.relevance}."]
        if self.held_out is not None:
            about.append(wrap(str(self.held_out)))
        if t.candidates > LARGE_SHARE * t.items and self.expected is None:
            about.append(
                f"Reranking's {t.candidates:,} candidates are {t.candidates / t.items:.0%} of the items: "
                "in a larger index it finds less."
            )
        return about


def verdict_of(
    scores: OptionScores,
    *,
    relevance: str = "as given",
    slices: Any = None,
    rule: Rule | None = None,
    cost: Cost | None = None,
    storage: StorageReport | None = None,
    keys: np.ndarray | None = None,
    held_out: HeldOut | None = None,
    seed: int = 0,
) -> Verdict:
    r"""Return the verdict on a translation: one option is recommended, by paired differences between them.

    .. math:: \text{ARR} = \frac{\text{translate}}{\text{re-embed}}, \qquad
              \text{ARR} \cdot \frac{\text{new}}{\text{old}} > 1 \iff \text{translate} > \text{stay}

    With relevant items, nDCG@k decides; the rule is printed with the verdict (:class:`Rule`). Without them, the
    overlap with re-embedding is shown beside that of staying, and there is no verdict unless the rule has a
    ``min_overlap``. ``slices`` gives each query a label, ``keys`` what it is known by. Where the index served is larger
    than the gallery, the scores expected in it decide. ``held_out`` tells what the items are; doubts withhold a GO.

    What breaks it: queries that are not those that users ask.

    References: Drift-Adapter, EMNLP 2025 (ARR); Efron & Tibshirani, 1993 (paired bootstrap).

    >>> from relatent.decide import Search, score_options
    >>> y = np.random.default_rng(0).normal(size=(300, 8))
    >>> same = Search(y, y)
    >>> scored = score_options(same, same, same, own=np.arange(300), relevant=[[(i + 1) % 300] for i in range(300)])
    >>> verdict_of(scored).decision.recommended
    'translate'
    """
    rule = rule or Rule()
    if rule.min_overlap is not None and DECIDING in scores.measures:
        raise ValueError(
            "min_overlap was given, and relevant items too: expected one of them. With relevant items the margin "
            "against staying decides; leave min_overlap out."
        )
    options = {option: _measured(scores, option, slices, seed) for option in scores.by_option}
    changes: dict[Option, Report] = {
        option: _changes(scores, option, slices, seed) for option in scores.by_option if option != "stay"
    }
    three = _columns(scores, _deciding(scores), "translate", "stay", "re-embed")
    decision, words = _decision(scores, options, slices, rule, cost, seed)
    if held_out is not None:
        decision = withheld(decision, held_out.doubts(), judged=not held_out.made)
    return Verdict(
        decision,
        words,
        relevance,
        scores,
        options,
        changes,
        arr=bootstrap(three, ratio(0, 2), seed=seed),
        gain=bootstrap(three, share_of_gain(0, 1, 2), seed=seed),
        break_even=bootstrap(three, ratio(0, 1), seed=seed),
        itself=None if scores.itself is None else bootstrap(scores.itself, seed=seed),
        cost=cost,
        storage=storage,
        keys=keys,
        expected=Expected.of(scores, seed),
        held_out=held_out,
    )


def _decision(
    scores: OptionScores, options: Mapping[Option, Report], slices: Any, rule: Rule, cost: Cost | None, seed: int
) -> tuple[Decision, str]:
    """Return the decision by what was judged relevant, or by the overlap, and the rule in words."""
    measure = _deciding(scores)
    label = LABELS[measure].format(k=scores.k)
    if measure == DECIDING:
        measured = {option: _columns(scores, measure, option)[:, 0] for option in scores.by_option}
        return decide(Evidence(scores.expected or measured, label, slices, seed), rule, cost), rule.words(label)
    overlap = {option: measured[measure] for option, measured in options.items()}
    return decide_by_overlap(overlap, rule, label, len(scores.by_option["stay"])), rule.words_of_overlap(label)


def _deciding(scores: OptionScores) -> str:
    return DECIDING if DECIDING in scores.measures else scores.measures[0]


def _measured(scores: OptionScores, option: Option, slices: Any, seed: int) -> Report:
    statistics = {measure: column(i) for i, measure in enumerate(scores.measures)}
    return report(scores.by_option[option], statistics, slices, seed=seed)


def _changes(scores: OptionScores, option: Option, slices: Any, seed: int) -> Report:
    """Return the paired differences between an option and staying."""
    columns = np.concatenate([scores.by_option[option], scores.by_option["stay"]], axis=1)
    count = len(scores.measures)
    statistics = {measure: difference(i, i + count) for i, measure in enumerate(scores.measures)}
    return report(columns, statistics, slices, seed=seed)


def _columns(scores: OptionScores, measure: str, *options: Option) -> np.ndarray:
    i = scores.measures.index(measure)
    return np.stack([scores.by_option[option][:, i] for option in options], axis=1)


def _change(changes: Report | None, record: dict[str, Any]) -> dict[str, float | None]:
    if changes is None:
        return {"change": None, "change_low": None, "change_high": None}
    e = changes[record["slice"], record["measure"]]
    return {"change": e.value, "change_low": e.low, "change_high": e.high}


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in record.items()}
