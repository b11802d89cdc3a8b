"""What someone can do who changes the embedding model, each scored on the same queries among the same items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from relatent._array import Array, row_chunks, to_numpy
from relatent._linalg import unit_norm
from relatent.decide.gallery import DEPTH, ServedIndex, expected_ndcg
from relatent.evaluate.neighbors import check_fewer, nearest
from relatent.evaluate.retrieval import JUDGED, Judgments, Relevant

# Items that reranking takes from the translated search, or from that of the old model.
CANDIDATES = 200
Option = Literal["stay", "untranslated", "translate", "rerank-old", "rerank", "re-embed"]


@dataclass(frozen=True)
class Meaning:
    """What an option means: its ``label`` in a table, the ``advice`` to take it, and what it ``needs``.

    ``go`` tells whether recommending it is a GO: the translated vectors are used.
    """

    label: str
    advice: str
    needs: str
    go: bool = False


OPTIONS: dict[Option, Meaning] = {
    "stay": Meaning("stay (old model, old index)", "Stay with the old model and its index.", "nothing"),
    "untranslated": Meaning(
        "untranslated (new queries, old index)",
        "Search the old index with queries of the new model as they are.",
        "models of equal dimension",
    ),
    "translate": Meaning(
        "translate", "Translate the old vectors. Nothing has to be embedded again.", "a translator", go=True
    ),
    "rerank-old": Meaning(
        "rerank-old (old top {candidates}, ranked by new model)",
        "Keep the old model and its index for candidates, and rank them by the new model.",
        "the old model and its index, and the texts of the candidates of each query or their new vectors",
    ),
    "rerank": Meaning(
        "rerank (top {candidates}, ranked by new model)",
        "Search the translated index for candidates, and rank them by the new model.",
        "a translator, and the texts of the candidates of each query or their new vectors",
        go=True,
    ),
    "re-embed": Meaning("re-embed (ceiling)", "Embed everything with the new model.", "the texts of all items"),
}
# Where the options that rerank take their candidates from.
SOURCES: dict[Option, Option] = {"rerank-old": "stay", "rerank": "translate"}
# Queries whose candidates are ranked at a time: their vectors have to fit in memory.
BLOCK_QUERIES = 128


@dataclass(frozen=True, eq=False)
class Search:
    """Queries that are looked up in a gallery, both in one space."""

    queries: Array
    gallery: Array
    metric: str = "cosine"


@dataclass(frozen=True, eq=False)
class OptionScores:
    """The scores of every query under each option, (queries, measures); "stay" is among them if the old model is.

    ``measures`` are "recall", "mrr" and "ndcg" where it is known what should be found. Otherwise "overlap", the share
    of the k items found that re-embedding would find. ``itself`` tells whether a query's own item came first in the
    translated search (self-retrieval@1), None where queries are no items. ``expected`` are the nDCG of each option in
    the index of ``index_rows`` that is served (``relatent.decide.gallery``), where it is larger.
    """

    by_option: dict[Option, np.ndarray]
    measures: tuple[str, ...]
    k: int
    items: int
    candidates: int
    itself: np.ndarray | None = None
    expected: dict[Option, np.ndarray] | None = None
    index_rows: int | None = None


def score_options(
    stay: Search,
    translate: Search,
    reembed: Search,
    *,
    untranslated: Search | None = None,
    own: np.ndarray | None = None,
    relevant: Relevant | None = None,
    k: int = 10,
    candidates: int = CANDIDATES,
    index: ServedIndex | None = None,
) -> OptionScores:
    """Return the scores of each option from three searches of the same queries among the same items.

    ``stay`` searches with the old model, ``translate`` with translated vectors on one side, ``reembed`` with the new
    model throughout. Reranking takes its ``candidates`` from the translated search, or from that of the old model, and
    ranks them by the vectors of the new model. ``relevant`` gives for each query the rows to be found, or a mapping
    from rows to grades. ``own`` gives the row that each query itself is, which is not counted as found. ``index`` is
    what will be served, where it is larger than the gallery.

    >>> y = np.random.default_rng(0).normal(size=(300, 8))
    >>> same = Search(y, y)
    >>> scored = score_options(same, same, same, own=np.arange(300))
    >>> scored.measures, float(scored.by_option["rerank"].min())
    (('overlap',), 1.0)
    """
    if candidates < 1:
        raise ValueError(f"{candidates} candidates of reranking were asked for: expected at least 1.")
    n, items = reembed.queries.shape[0], reembed.gallery.shape[0]
    others = items - (own is not None)
    k = check_fewer(k, others)
    ranked = min(max(candidates, k), others)
    depth = ranked if index is None else min(max(ranked, DEPTH * k), others)
    wide, itself = _found(translate, own, depth)
    found: dict[Option, np.ndarray] = {
        "stay": _found(stay, own, depth)[0],
        "translate": wide,
        "re-embed": _found(reembed, own, k if index is None else depth)[0],
    }
    orders = {option: _order_by(reembed, found[source][:, :ranked]) for option, source in SOURCES.items()}
    found |= {option: np.take_along_axis(found[SOURCES[option]], order, axis=1) for option, order in orders.items()}
    if untranslated is not None:
        found["untranslated"] = _found(untranslated, own, k)[0]
    wanted: Relevant = found["re-embed"][:, :k] if relevant is None else relevant
    judged = Judgments.of(wanted, n, items)
    scores = [JUDGED["recall"]] if relevant is None else list(JUDGED.values())
    by_option = {
        o: np.stack([score(judged, found[o][:, :k]) for score in scores], axis=1) for o in OPTIONS if o in found
    }
    measures = ("overlap",) if relevant is None else tuple(JUDGED)
    scored = OptionScores(by_option, measures, k, items, ranked, itself)
    if index is None or relevant is None:
        return scored
    for option, order in orders.items():
        kept = index.is_candidate(found[SOURCES[option]][:, :ranked], judged, max(candidates, k))
        found[option] = np.where(np.take_along_axis(kept, order, axis=1), found[option], -1)
    expected: dict[Option, np.ndarray] = {
        o: expected_ndcg(found[o], judged, k, index) for o in by_option if o != "untranslated"
    }
    return replace(scored, expected=expected, index_rows=index.rows)


def score_without_old(
    translate: Search,
    reembed: Search,
    *,
    untranslated: Search | None = None,
    relevant: Relevant | None = None,
    k: int = 10,
    index: ServedIndex | None = None,
) -> OptionScores:
    """Return the scores of the options that need no query of the old model, of queries that are no items.

    They are those of :func:`score_options` for the same searches.
    """
    n, items = reembed.queries.shape[0], reembed.gallery.shape[0]
    k = check_fewer(k, items)
    depth = k if index is None else min(DEPTH * k, items)
    searches: dict[Option, Search | None] = {"untranslated": untranslated, "translate": translate, "re-embed": reembed}
    found = {option: _found(search, None, depth)[0] for option, search in searches.items() if search is not None}
    judged = Judgments.of(found["re-embed"][:, :k] if relevant is None else relevant, n, items)
    measures = {"overlap": JUDGED["recall"]} if relevant is None else JUDGED
    by_option = {
        o: np.stack([score(judged, f[:, :k]) for score in measures.values()], axis=1) for o, f in found.items()
    }
    scored = OptionScores(by_option, tuple(measures), k, items, 0)
    if index is None or relevant is None:
        return scored
    expected = {o: expected_ndcg(f, judged, k, index) for o, f in found.items()}
    return replace(scored, expected=expected, index_rows=index.rows)


def score_search(
    search: Search, truth: Search, own: np.ndarray | None, relevant: Relevant | None, k: int
) -> np.ndarray:
    """Return the score of every query: its nDCG@k, or its overlap@k with another search where nothing was judged."""
    found, items = _found(search, own, k)[0], search.gallery.shape[0]
    wanted: Relevant = _found(truth, own, k)[0] if relevant is None else relevant
    judged = Judgments.of(wanted, len(found), items)
    return judged.recall(found) if relevant is None else judged.ndcg(found)


def _found(search: Search, own: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the k nearest rows without the query's own, and whether the own row came first."""
    rows = nearest(search.queries, search.gallery, k + (own is not None), search.metric).indices
    if own is None:
        return rows, None
    others = rows != own[:, None]
    others[others.all(axis=1), -1] = False  # the own row was not found: the last of k + 1 goes instead
    return rows[others].reshape(len(rows), k), rows[:, 0] == own


def _order_by(search: Search, candidates: np.ndarray) -> np.ndarray:
    """Return the order of the candidates of each query by their similarity in another search, the best first."""
    queries, gallery = to_numpy(search.queries), to_numpy(search.gallery)
    if search.metric == "cosine":
        queries, gallery = unit_norm(queries), unit_norm(gallery)
    order = np.empty_like(candidates)
    for rows in row_chunks(len(queries), BLOCK_QUERIES):
        scores = np.einsum("qd,qcd->qc", queries[rows], gallery[candidates[rows]], optimize=True)
        order[rows] = np.lexsort((candidates[rows], -scores), axis=1)
    return order
