"""Whether a translation may replace re-embedding: three searches of the same queries, and a rule that decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import Array
from relatent._terminal import render
from relatent.evaluate.checks import check_fewer
from relatent.evaluate.interval import Estimate, Measured, Report, report
from relatent.evaluate.neighbors import nearest
from relatent.evaluate.retrieval import wanted_rows

__all__ = ["Rule", "Search", "Verdict", "migration"]

ARMS = {
    "old": "old model, as today",
    "untranslated": "untranslated (new queries, old index)",
    "translated": "translated",
    "new": "re-embedded (ceiling)",
}
IMPOSSIBLE = ("–", "dimensions differ")
NEIGHBOURS = "the {k} nearest under the new model"
STRICT = (
    "That asks for the same results, which is far stricter than good ones. Judge by your own pairs if you have any."
)


@dataclass(frozen=True, eq=False)
class Search:
    """Queries that are looked up in a gallery, both in one space."""

    queries: Array
    gallery: Array
    metric: str = "cosine"


@dataclass(frozen=True)
class Rule:
    """When to go: enough of the ceiling, no group clearly worse off than today, and enough queries to tell."""

    arr: float = 0.95
    slice_queries: int = 50
    queries: int = 100

    def words(self, k: int) -> str:
        """Say the rule."""
        return (
            f"GO when the lower bound of ARR@{k} is at least {self.arr}, no slice of {self.slice_queries} queries or "
            f"more is clearly below the old model, and there are at least {self.queries} queries."
        )


@dataclass(frozen=True)
class Verdict:
    """Three searches side by side, what translation keeps of re-embedding, and the decision with its reasons.

    ``report`` holds, over all queries and per slice: ``old``, ``untranslated`` (where dimensions allow), ``translated``
    and ``new``, each the recall@k of that search; ``arr``, translated over new; ``gain``, the share of the step from
    old to new that translation recovers; ``above_old``, translated minus old; ``itself``, the share of queries whose
    own row comes first.
    """

    go: bool
    reasons: tuple[str, ...]
    rule: str
    relevance: str
    k: int
    queries: int
    gallery: int
    report: Report

    def __str__(self) -> str:
        """Lay it out for a person: the table, the slices, the decision and the rule."""
        r, k = self.report, self.k
        present = {line.measure for line in r}
        cells = [(words, *(_figures(r[arm]) if arm in present else IMPOSSIBLE)) for arm, words in ARMS.items()]
        parts = [
            render(("search", f"recall@{k}", "95 % interval"), cells, numbers=(1, 2)),
            f"ARR@{k}, recall relative to re-embedding: {_words(r['arr'])}",
            f"gain recovered, of the step from old to new: {self._gain()}",
        ]
        if "itself" in present:
            parts.append(f"translated search that finds the very item first: {_words(r['itself'])}")
        parts += [*self._slices(), f"{self.queries:,} queries, {self.gallery:,} items; relevant: {self.relevance}."]
        if self.relevance == NEIGHBOURS.format(k=k):
            parts.append(STRICT)
        decision = f"{'GO' if self.go else 'NO-GO'}: {' '.join(self.reasons)}"
        return "\n".join([*parts, "", decision, f"Rule: {self.rule}"])

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, for JSON; what is not defined is None."""
        plain = {name: getattr(self, name) for name in ("rule", "relevance", "k", "queries", "gallery")}
        lines = [{name: _finite(v) for name, v in line.items()} for line in self.report.to_dict()]
        return {"verdict": "GO" if self.go else "NO-GO", "reasons": list(self.reasons), **plain, "measures": lines}

    def _gain(self) -> str:
        old, new = self.report["old"], self.report["new"]
        if new.low <= old.high and old.low <= new.high:
            return f"not defined, old ({old.value:.3f}) and new ({new.value:.3f}) do not clearly differ"
        return _words(self.report["gain"])

    def _slices(self) -> list[str]:
        names = list(dict.fromkeys(line.slice for line in self.report if line.slice != "all"))
        if not names:
            return []
        r, rows = self.report, {line.slice: line.rows for line in self.report}
        cells = [
            (
                name,
                *(f"{r[name, m].value:.3f}" for m in ("old", "translated", "new")),
                _words(r[name, "arr"]),
                rows[name],
            )
            for name in names
        ]
        return [render(("slice", "old", "translated", "new", f"ARR@{self.k}", "queries"), cells, numbers=(1, 2, 3, 5))]


def migration(
    old: Search,
    translated: Search,
    new: Search,
    *,
    untranslated: Search | None = None,
    own: np.ndarray | None = None,
    relevant: Sequence[Any] | None = None,
    relevance: str = "as given",
    slices: Any = None,
    k: int = 10,
    rule: Rule | None = None,
    seed: int = 0,
) -> Verdict:
    r"""Judge a translation by three searches of the same queries among the same items.

    .. math:: \text{ARR@k} = \frac{\text{recall@k of translated}}{\text{recall@k of new}}
              \qquad \text{gain} = \frac{\text{translated} - \text{old}}{\text{new} - \text{old}}

    ``relevant`` gives for each query the gallery rows that should be found. Without it they are the k that the new
    model finds: then the ceiling is 1, and the figure says how alike the results are, which is far stricter than
    whether they are good. ``own`` gives the gallery row that each query itself is, which is not counted as found.

    References: Drift-Adapter, EMNLP 2025 (ARR).

    >>> y = np.random.default_rng(0).normal(size=(200, 8))
    >>> same = Search(y, y)
    >>> migration(same, same, same, own=np.arange(200)).go
    True
    """
    rule = rule or Rule()
    searches = {"old": old, "untranslated": untranslated, "translated": translated, "new": new}
    n, m = len(new.queries), len(new.gallery)
    check_fewer(k + (own is not None), m)
    found = {name: _found(s, own, k) for name, s in searches.items() if s is not None}
    words = relevance if relevant is not None else NEIGHBOURS.format(k=k)
    wanted = wanted_rows(found["new"][0] if relevant is None else relevant, n, m)
    columns = {name: _recall(rows, wanted) for name, (rows, _) in found.items()}
    if own is not None:
        columns["itself"] = found["translated"][1]
    measured = report(np.stack(list(columns.values()), axis=1), _measures(list(columns)), slices, seed=seed)
    reasons = _reasons(measured, rule, n, k)
    kept = (
        f"the lower bound of ARR@{k} is {measured['arr'].low:.3f}; against the old model recall@{k} changes by "
        f"{_words(measured['above_old'])}."
    )
    return Verdict(not reasons, tuple(reasons) or (kept,), rule.words(k), words, k, n, m, measured)


def _found(search: Search, own: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Give the k nearest rows without the query's own, and whether the own row came first."""
    rows = nearest(search.queries, search.gallery, k + (own is not None), search.metric).indices
    if own is None:
        return rows, np.zeros(len(rows), dtype=bool)
    others = rows != own[:, None]
    others[others.all(axis=1), -1] = False  # the own row was not found: the last of k + 1 goes instead
    return rows[others].reshape(len(rows), k), rows[:, 0] == own


def _recall(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    hits = np.zeros(len(found))
    for column in wanted.T:
        hits += (found == column[:, None]).any(axis=1) & (column >= 0)
    return np.asarray(hits / np.sum(wanted >= 0, axis=1))


def _measures(names: list[str]) -> dict[str, Any]:
    at = {name: i for i, name in enumerate(names)}
    measures: dict[str, Any] = {name: (lambda means, i=i: means[:, i]) for name, i in at.items()}
    old, translated, new = at["old"], at["translated"], at["new"]

    def gain(means: np.ndarray) -> np.ndarray:
        step = means[:, new] - means[:, old]
        return np.asarray((means[:, translated] - means[:, old]) / np.where(step == 0, np.nan, step))

    measures["arr"] = lambda means: means[:, translated] / np.where(means[:, new] == 0, np.nan, means[:, new])
    measures["gain"] = gain
    measures["above_old"] = lambda means: means[:, translated] - means[:, old]
    return measures


def _reasons(measured: Report, rule: Rule, n: int, k: int) -> list[str]:
    reasons = []
    if n < rule.queries:
        reasons.append(f"there are only {n} queries, too few to tell.")
    low = measured["arr"].low
    if not low >= rule.arr:
        reasons.append(f"the lower bound of ARR@{k} is {low:.3f}, below {rule.arr}.")
    worse = [line for line in measured if _clearly_below(line, rule)]
    reasons += [f"slice {line.slice!r} is below the old model by {-line.estimate.value:.3f}." for line in worse]
    return reasons


def _clearly_below(line: Measured, rule: Rule) -> bool:
    """Tell whether a large slice, not the whole, has an interval that lies below the old model's recall."""
    large = line.slice != "all" and line.rows >= rule.slice_queries
    return line.measure == "above_old" and large and line.estimate.high < 0


def _figures(e: Estimate) -> tuple[str, str]:
    return f"{e.value:.3f}", f"{e.low:.3f} – {e.high:.3f}"


def _words(e: Estimate) -> str:
    return f"{e.value:.3f} ({e.low:.3f} – {e.high:.3f})"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
