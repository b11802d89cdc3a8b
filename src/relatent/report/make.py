"""`relatent report`: from two spaces, or from what another command found, to findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._terminal import stages
from relatent.decide.evaluation import evaluate_spaces, side_of, slice_labels
from relatent.decide.relevance import Relevance
from relatent.decide.rule import Cost, Rule
from relatent.decide.threshold import GROUPS, Thresholds, thresholds
from relatent.decide.verdict import Verdict
from relatent.evaluate.comparison import Comparison
from relatent.migrate import MigrationPlan, Verification
from relatent.report.data import Findings, Provenance
from relatent.report.measure import (
    drawn,
    measure_anchors,
    measure_closeness,
    measure_curve,
    measure_geometry,
    measure_similarity,
    with_texts,
    worst_queries,
)
from relatent.spaces.join import Matched, match_keys
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.goals import GoalName
from relatent.translate.joined import FitReport

# Pairs to fit on and held-out rows to look at: enough for narrow intervals, and seconds of work.
MAX_PAIRS, MAX_ROWS = 20_000, 2_000


def report_spaces(
    source: Space,
    target: Space,
    others: Sequence[Space] = (),
    *,
    translator: Translator | None = None,
    goal: GoalName = "vectors",
    side: str | None = None,
    relevant: Relevance | None = None,
    slices: str | None = None,
    texts: str | None = None,
    k: int = 10,
    rule: Rule | None = None,
    cost: Cost | None = None,
    max_pairs: int = MAX_PAIRS,
    max_rows: int = MAX_ROWS,
    accept: bool = False,
    seed: int = 0,
    command: str | None = None,
    progress: bool | None = False,
) -> Findings:
    """Return everything there is to know about moving from one space to another, to be written as a report.

    Without a ``translator`` one is fitted for the ``goal``, on at most ``max_pairs`` pairs, and part of the keys is
    held out (:meth:`relatent.Translator.fit`). At most ``max_rows`` keys that it was not fitted on are looked at,
    so that the work does not grow with the files. ``others`` are further spaces of the same items; they appear in the
    similarity matrix only. ``slices`` names a column to give figures by, ``texts`` one to show beside the items that
    fare worst; without it the findings hold keys, and no text or vector. The other arguments are those of
    :func:`relatent.decide.evaluate_spaces`.
    """
    fit = None
    if translator is None:
        translator = Translator(goal, seed=seed)
        fit = translator.fit(source, target, held_out=0.2, max_pairs=max_pairs, progress=progress).fit_report_
    verdict = evaluate_spaces(
        translator,
        source,
        target,
        side=side,
        relevant=relevant,
        slices=slices,
        k=k,
        max_rows=max_rows,
        rule=rule,
        cost=cost,
        accept=accept,
        seed=seed,
        progress=progress,
    )
    found = report_translator(
        translator,
        source,
        target,
        fit=fit,
        verdict=verdict,
        side=side,
        slices=slices,
        texts=texts,
        max_rows=max_rows,
        seed=seed,
        command=command,
        progress=progress,
    )
    spaces = _labeled([source, target, *others])
    with stages(progress) as stage:
        stage("comparing the spaces")
        similar = measure_similarity(spaces, max_rows, seed)
    return replace(found, similarity=similar, provenance=Provenance.of(_roles(source, target, others), command, seed))


def report_translator(
    translator: Translator,
    source: Space,
    target: Space,
    *,
    fit: FitReport | None = None,
    verdict: Verdict | None = None,
    side: str | None = None,
    slices: str | None = None,
    texts: str | None = None,
    max_rows: int = MAX_ROWS,
    seed: int = 0,
    command: str | None = None,
    progress: bool | None = False,
) -> Findings:
    """Return what can be told of a translator on keys that it was not fitted on, and of its fit and its verdict.

    The learning curve needs the pairs of a translator that was fitted just now; a loaded one has none.
    """
    with stages(progress) as stage:
        stage("reading held-out rows")
        trial = _Trial.of(translator, source, target, max_rows, seed)
        stage("looking at cosines, anchors and norms")
        x, translated = trial.x, trial.translated
        labels = None if slices is None else slice_labels(slices, source, target, trial.matched, trial.rows)
        close = None
        if translated is not None:
            close = measure_closeness(translated, x, trial.y, trial.keys, labels, seed)
            close = replace(close, worst=with_texts(close.worst, (source, target), texts))
        anchors = measure_anchors(source, trial.anchor_rows, x, seed)
        geometry = measure_geometry(trial.spaces()) if len(x) > 1 else None
        stage("matching thresholds")
        thresholds = trial.thresholds(side_of(translator, side) == "queries", seed)
        stage("drawing the learning curve")
        curve = measure_curve(translator, x, trial.y, seed)
    return Findings(
        title=f"{_name(source, 'old')} → {_name(target, 'new')}",
        provenance=Provenance.of(_roles(source, target), command, seed),
        translator=translator.summary(),
        fit=fit,
        verdict=verdict,
        curve=curve,
        closeness=close,
        worst_queries=() if verdict is None else with_texts(worst_queries(verdict), (source, target), texts),
        thresholds=thresholds,
        anchors=anchors,
        geometry=geometry,
    )


def report_comparison(
    comparison: Comparison, x: Space, y: Space, *, max_rows: int = MAX_ROWS, command: str | None = None
) -> Findings:
    """Return what a comparison found, and the norms and singular values of both spaces."""
    matched, seed = match_keys(x, y), comparison.seed
    rows = drawn(np.arange(len(matched)), max_rows, seed)
    vectors = x.take(matched.x_rows[rows]), y.take(matched.y_rows[rows])
    return Findings(
        title=f"{_name(x, 'old')} and {_name(y, 'new')}",
        provenance=Provenance.of(_roles(x, y), command, seed),
        comparison=comparison,
        geometry=measure_geometry(dict(zip(_labeled([x, y]), vectors, strict=True))),
    )


def report_plan(
    plan: MigrationPlan, sample: tuple[Space, Space] | None = None, *, command: str | None = None
) -> Findings:
    """Return what a plan of a migration says, and its verdict on the sample, if there was one."""
    return Findings(
        title=f"Migration of {plan.store}",
        provenance=Provenance.of({} if sample is None else _roles(*sample), command),
        verdict=plan.verdict,
        worst_queries=() if plan.verdict is None else worst_queries(plan.verdict),
        plan=plan,
    )


def report_verification(verification: Verification, *, command: str | None = None) -> Findings:
    """Return what the verification of a migrated store found."""
    about = Provenance.of({}, command)
    return Findings(title=f"Verification of {verification.store}", provenance=about, verification=verification)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A translator on rows that it was not fitted on; ``translated`` is None where it leads to no space of vectors."""

    labels: tuple[str, str]
    matched: Matched
    rows: np.ndarray
    anchor_rows: np.ndarray
    """Rows of the source that it was fitted on."""
    x: np.ndarray
    y: np.ndarray
    translated: np.ndarray | None

    @staticmethod
    def of(translator: Translator, source: Space, target: Space, most: int, seed: int) -> _Trial:
        matched = match_keys(source, target)
        seen = np.isin(key_hashes(matched.keys), translator.seen_keys_)
        rows = drawn(np.flatnonzero(~seen), most, seed)
        x, y = source.take(matched.x_rows[rows]), target.take(matched.y_rows[rows])
        moved = np.asarray(translator.transform(x)) if len(x) > 1 and translator.target_map_ is None else None
        old, new = _labeled([source, target])
        return _Trial((old, new), matched, rows, matched.x_rows[seen], x, y, moved)

    @property
    def keys(self) -> np.ndarray:
        return np.asarray(self.matched.keys[self.rows])

    def spaces(self) -> dict[str, np.ndarray]:
        named = dict(zip(self.labels, (self.x, self.y), strict=True))
        return named if self.translated is None else {**named, "translated": self.translated}

    def thresholds(self, queries: bool, seed: int) -> dict[str, Thresholds] | None:
        """Return new thresholds for those of the old model, which is the target where queries are translated."""
        if len(self.rows) < GROUPS:
            return None
        old, new = (self.y, self.x) if queries else (self.x, self.y)
        found = {"new model": thresholds(old, new, seed=seed)}
        if not queries and self.translated is not None:
            found["translated"] = thresholds(old, self.translated, seed=seed)
        return found


def _name(space: Space, otherwise: str) -> str:
    return space.name or otherwise


def _roles(source: Space, target: Space, others: Sequence[Space] = ()) -> Mapping[str, Space]:
    return {"source": source, "target": target, **{f"other {i}": space for i, space in enumerate(others, start=1)}}


def _labeled(spaces: Sequence[Space]) -> dict[str, Any]:
    """Return spaces by names that differ, whatever they are called."""
    found: dict[str, Any] = {}
    for i, space in enumerate(spaces, start=1):
        name = _name(space, f"space {i}")
        found[f"{name} ({i})" if name in found else name] = space
    return found
