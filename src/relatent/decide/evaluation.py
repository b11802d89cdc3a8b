"""The verdict on a translator, from keys that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np

from relatent._array import suggest
from relatent._terminal import Result, render, stages
from relatent.decide.options import CANDIDATES, Search, score_options
from relatent.decide.relevance import Relevance
from relatent.decide.rule import Cost, Rule
from relatent.decide.storage import Storage, storage_costs
from relatent.decide.task import Rows, SearchTask, search_task
from relatent.decide.verdict import Verdict, verdict_of
from relatent.evaluate.neighbors import check_fewer
from relatent.evaluate.retrieval import maxsim, reciprocal_ranks
from relatent.spaces.keys import key_hashes
from relatent.spaces.multi_vectors import MultiSpace, MultiVectors, vector_keys
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.files import check_translator, warn_two_sided

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
    queries: tuple[Space, Space] | None = None,
    slices: str | None = None,
    k: int = 10,
    candidates: int = CANDIDATES,
    index_rows: int | None = None,
    migrated: np.ndarray | None = None,
    max_rows: int = MAX_ROWS,
    rule: Rule | None = None,
    cost: Cost | None = None,
    stored: Sequence[Storage] = (),
    accept: bool = False,
    force: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Verdict:
    """Return the verdict on a translator: stay, translate, rerank or re-embed (:func:`relatent.decide.verdict_of`).

    ``role="documents"``: the source is the old model; its translated vectors are the index, and the target's vectors
    ask. ``role="queries"``: the source is the new model; its translated vectors ask in the target's index, which is
    not changed. By default the role follows from the goal of the translator: retrieval translates queries.

    Only items that the translator was not fitted on are searched among, and no near-copies of these. Where the queries
    of ``relevant`` are never items, as in TREC qrels, they are not searched among either. ``queries``, the same queries
    through the model of the source and that of the target, have keys of their own, as in BEIR: there the queries of
    ``relevant`` are looked up, and none of them is an item. ``slices`` names a column of the spaces of the queries.

    The source as a whole, with rows that the target lacks, is what will be migrated, unless ``migrated`` has a sample
    of these vectors. The scores that decide are those expected in an index of all rows of the source, or of
    ``index_rows``. There is no GO where much of it resembles neither the items fitted on nor those judged, nor where
    the translator does not know what it was fitted on; ``force`` lets both pass.
    ``stored`` asks what smaller storage of the index would cost. ``accept`` lets spaces pass whose fingerprints are
    others'.
    """
    role = role_of(translator, role)
    warn_two_sided(translator, "source")
    _check_spaces(translator, source, target, queries, accept)
    with stages(progress) as stage:
        stage("joining keys")
        task, held_out = search_task(translator, Rows.of(source, target), queries, relevant, migrated, max_rows, seed)
        check_fewer(k, len(task.items) - task.are_items)
        labels = None if slices is None else task.queries.labels(slices)
        stage(f"translating {len(task.items):,} items and {len(task.queries):,} queries")
        searches = _searches(translator, task, role)
        stage("searching every way")
        space = source if role == "documents" else target
        index_rows = index_rows or len(task.item_rows(space))
        if relevant is None:  # the overlap is measured here, so that candidates have to be as rare as in the index
            candidates = max(k, candidates * len(task.items) // max(index_rows, len(task.items)))
        judged: dict[str, Any] = {"own": task.own, "relevant": task.relevant, "k": k}
        scores = score_options(**searches, **judged, candidates=candidates, index=task.served(space, index_rows))
        storage = None
        if stored:
            stage("storing the index smaller")
            truth = searches["reembed"]
            kept = {"translate": searches["translate"], "re-embed": truth}
            storage = storage_costs(kept, stored, truth=truth, **judged, seed=seed)
        stage("drawing intervals")
        return verdict_of(
            scores,
            relevance=f"the {k} nearest under the new model" if relevant is None else relevant.name,
            slices=labels,
            rule=rule,
            cost=cost,
            storage=storage,
            keys=task.queries.keys,
            held_out=replace(held_out, forced=force, made=relevant is not None and relevant.made),
            seed=seed,
        )


def _check_spaces(
    translator: Translator, source: Space, target: Space, queries: tuple[Space, Space] | None, accept: bool
) -> None:
    if accept:
        translator.accept(source).accept(target)
    translator.endpoints_.check(source, "source")
    translator.endpoints_.check(target, "target")
    # Only their dimension: queries of a model are other texts, perhaps with a prefix, and look like another space.
    for asked, space, which in zip(queries or (), (source, target), ("source", "target"), strict=False):
        check_width(asked, space, which)


def check_width(queries: Space, items: Space, which: str) -> None:
    """Refuse queries of another dimension than the items of their model."""
    if queries.dim != items.dim:
        raise ValueError(
            f"The queries of the {which} have {queries.dim} coordinates and its items {items.dim}: expected vectors of "
            "the same model. Give the queries in the order source, target."
        )


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


def _searches(t: Translator, task: SearchTask, role: Role) -> dict[str, Any]:
    """Return the three searches, and new queries in the old index where the dimensions allow it."""
    x, y, own = task.items.in_source(), task.items.in_target(), task.own
    ask_x, ask_y = (task.queries.in_source(), task.queries.in_target()) if own is None else (x[own], y[own])
    if role == "documents":
        old, new = Search(ask_x, x), Search(ask_y, y)
        translated = Search(t.transform_target(ask_y), t.transform(x), t.metric_)
    else:
        old, new = Search(ask_y, y), Search(ask_x, x)
        translated = Search(t.transform(ask_x), t.transform_target(y), t.metric_)
    mixed = Search(new.queries, old.gallery) if x.shape[1] == y.shape[1] else None
    return {"stay": old, "translate": translated, "reembed": new, "untranslated": mixed}


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
