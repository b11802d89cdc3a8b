"""The verdict on a translator, from keys that it was not fitted on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent._terminal import Result, render, stages
from relatent.decide.options import CANDIDATES, Search, score_options
from relatent.decide.relevance import Relevance
from relatent.decide.rule import Cost, Rule
from relatent.decide.storage import Storage, storage_costs
from relatent.decide.verdict import Verdict, verdict_of
from relatent.evaluate.neighbors import check_fewer
from relatent.evaluate.retrieval import maxsim, reciprocal_ranks
from relatent.spaces.join import Matched, match_keys
from relatent.spaces.keys import key_hashes
from relatent.spaces.multi_vectors import MultiSpace, MultiVectors, vector_keys
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.files import check_translator, warn_two_sided
from relatent.translate.joined import unseen_rows

Role = Literal["documents", "queries"]
ROLES = get_args(Role)
# An exact search of this many rows among each other takes seconds.
MAX_ROWS = 10_000


def evaluate_spaces(
    translator: Translator,
    source: Space,
    target: Space,
    *,
    role: str | None = None,
    relevant: Relevance | None = None,
    slices: str | None = None,
    k: int = 10,
    candidates: int = CANDIDATES,
    max_rows: int = MAX_ROWS,
    rule: Rule | None = None,
    cost: Cost | None = None,
    stored: Sequence[Storage] = (),
    accept: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Verdict:
    """Return the verdict on a translator: stay, translate, rerank or re-embed (:func:`relatent.decide.verdict_of`).

    ``role="documents"``: the source is the old model; its translated vectors are the index, and the target's vectors
    ask. ``role="queries"``: the source is the new model; its translated vectors ask in the target's index, which is
    not changed. By default the role follows from the goal of the translator: retrieval translates queries.

    Only items that the translator was not fitted on are searched among. Where the queries of ``relevant`` are never
    items, as in TREC qrels, they are not searched among either. ``slices`` names a column of either space. ``stored``
    asks what smaller storage of the index would cost. ``accept`` lets spaces pass whose fingerprints are others'.
    """
    role = role_of(translator, role)
    warn_two_sided(translator, "source")
    if accept:
        translator.accept(source).accept(target)
    translator.endpoints_.check(source, "source")
    translator.endpoints_.check(target, "target")
    with stages(progress) as stage:
        stage("joining keys")
        task = _search_task(translator, match_keys(source, target), relevant, max_rows)
        check_fewer(k, len(task.items) - task.are_items)
        labels = None if slices is None else slice_labels(slices, source, target, task.matched, task.queries)
        stage(f"translating {len(task.items):,} items and {len(task.queries):,} queries")
        searches = _searches(translator, source, target, task, role)
        stage("searching every way")
        own = task.own if task.are_items else None
        scores = score_options(**searches, own=own, relevant=task.relevant, k=k, candidates=candidates)
        storage = None
        if stored:
            stage("storing the index smaller")
            truth = searches["reembed"]
            kept = {"translate": searches["translate"], "re-embed": truth}
            storage = storage_costs(kept, stored, truth=truth, own=own, relevant=task.relevant, k=k, seed=seed)
        stage("drawing intervals")
        name = f"the {k} nearest under the new model" if relevant is None else relevant.name
        keys = task.matched.keys[task.queries]
        return verdict_of(
            scores, relevance=name, slices=labels, rule=rule, cost=cost, storage=storage, keys=keys, seed=seed
        )


@dataclass(frozen=True, eq=False)
class _SearchTask:
    """Which matched rows are searched among and which ask, as rows of source and target.

    ``own`` is the place of each query among the items, where queries ``are_items``. ``relevant`` gives for each query
    the places among the items that should be found, with grades.
    """

    items: np.ndarray
    queries: np.ndarray
    are_items: bool
    relevant: list[dict[int, float]] | None
    matched: Matched

    @property
    def own(self) -> np.ndarray:
        return np.searchsorted(self.items, self.queries)

    def vectors(self, source: Space, target: Space, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Read the vectors of matched rows in both spaces."""
        return source.take(self.matched.x_rows[rows]), target.take(self.matched.y_rows[rows])


def _search_task(translator: Translator, matched: Matched, relevant: Relevance | None, max_rows: int) -> _SearchTask:
    if not len(translator.seen_keys_):
        warnings.warn(
            "The translator does not know the keys it was fitted on: some may be searched here.", stacklevel=3
        )
    named = () if relevant is None else [*relevant.queries, *relevant.items]
    rows = unseen_rows(translator, matched, max_rows, named)
    if relevant is None:
        return _SearchTask(rows, rows, True, None, matched)
    hashes = key_hashes(matched.keys[rows])
    judged = _judged(relevant, hashes)
    asks = np.asarray(list(judged), dtype=np.intp)
    are_items = bool(np.isin(key_hashes(relevant.queries), key_hashes(relevant.items)).any())
    items = np.arange(len(rows)) if are_items else np.flatnonzero(~np.isin(hashes, key_hashes(relevant.queries)))
    place = {int(row): i for i, row in enumerate(items)}
    wanted = [{place[row]: grade for row, grade in found.items()} for found in judged.values()]
    return _SearchTask(rows[items], rows[asks], are_items, wanted, matched)


def _judged(relevant: Relevance, hashes: np.ndarray) -> dict[int, dict[int, float]]:
    """Return the rows to be found with their grades, for each query that is there, by the query's row."""
    judged: dict[int, dict[int, float]] = {}
    for query, item, grade in relevant.rows(hashes):
        if query != item:
            judged.setdefault(query, {})[item] = grade
    if not judged:
        raise ValueError(
            f"None of {relevant.name} has both keys among the {len(hashes)} that are held out: check the keys, and "
            "hold more out."
        )
    return judged


def role_of(translator: Translator, role: str | None = None) -> Role:
    """Return what the translator translates, documents or queries; by default that of its goal."""
    check_translator(translator)
    if role is None:
        role = "queries" if translator.goal == "retrieval" else "documents"
    if role not in ROLES:
        raise ValueError(f"There is no role {role!r}.{suggest(role, ROLES)}")
    if role == "documents" and translator.metric_ == "inner":
        raise ValueError(
            "This translator ranks the target's items for queries of the source: evaluate it with role 'queries', or "
            "fit one with goal 'vectors' to translate documents."
        )
    return cast(Role, role)


def _searches(t: Translator, source: Space, target: Space, task: _SearchTask, role: Role) -> dict[str, Any]:
    """Return the three searches, and new queries in the old index where the dimensions allow it."""
    x, y = task.vectors(source, target, task.items)
    ask_x, ask_y = (x[task.own], y[task.own]) if task.are_items else task.vectors(source, target, task.queries)
    if role == "documents":
        old, new = Search(ask_x, x), Search(ask_y, y)
        translated = Search(t.transform_target(ask_y), t.transform(x), t.metric_)
    else:
        old, new = Search(ask_y, y), Search(ask_x, x)
        translated = Search(t.transform(ask_x), t.transform_target(y), t.metric_)
    mixed = Search(new.queries, old.gallery) if x.shape[1] == y.shape[1] else None
    return {"stay": old, "translate": translated, "reembed": new, "untranslated": mixed}


def slice_labels(name: str, source: Space, target: Space, matched: Matched, rows: np.ndarray) -> np.ndarray:
    """Return the value of a column of either space for each of some matched rows."""
    for space, places in ((source, matched.x_rows), (target, matched.y_rows)):
        if name in space.others.column_names:
            values = space.others.column(name).take(pa.array(places[rows]))
            return np.asarray([str(value) for value in values.to_pylist()])
    every = dict.fromkeys([*source.others.column_names, *target.others.column_names])
    raise ValueError(f"There is no column {name!r} to slice by.{suggest(name, every)}")


@dataclass(frozen=True)
class ItemScores(Result):
    """How well items of several vectors find themselves by MaxSim among the target's, before and after translation."""

    items: int
    untranslated: float | None
    """Mean reciprocal rank; None where the two models have different dimensions."""
    translated: float
    ceiling: float
    """That of the target's own vectors."""

    def __str__(self) -> str:
        before = "–" if self.untranslated is None else f"{self.untranslated:.3f}"
        rows = [("untranslated", before), ("translated", f"{self.translated:.3f}"), ("ceiling", f"{self.ceiling:.3f}")]
        return f"{render(('queries', 'MRR'), rows)}\nMaxSim over {self.items:,} items that both files have."


def evaluate_items(
    translator: Translator, source: MultiSpace, target: MultiSpace, *, accept: bool = False
) -> ItemScores:
    """Search each source item, as it is and translated, by MaxSim among the target's items that were not fitted on."""
    check_translator(translator)
    if accept:
        translator.accept(source).accept(target)
    translator.endpoints_.check(source, "source")
    translator.endpoints_.check(target, "target")
    keys, queries, documents = source.matched(target)
    seen = np.isin(key_hashes(vector_keys(keys, queries)), translator.seen_keys_)
    unseen = np.flatnonzero(~np.logical_or.reduceat(seen, queries.offsets[:-1]))
    if not len(unseen):
        raise ValueError(
            f"The translator was fitted on all {len(keys)} items in common: expected others to evaluate it by."
        )
    queries, documents = (MultiVectors.of([side[int(i)] for i in unseen]) for side in (queries, documents))
    same = queries.vectors.shape[1] == documents.vectors.shape[1]
    return ItemScores(
        len(queries),
        _mrr(queries, documents) if same else None,
        _mrr(queries.map(translator.transform), documents),
        _mrr(documents, documents),
    )


def _mrr(queries: MultiVectors, documents: MultiVectors) -> float:
    return float(np.mean(reciprocal_ranks(maxsim(queries, documents), np.arange(len(queries)))))
