"""Will my search still find it? Every way to change the embedding model, on collections that people judged.

Documents are drawn as anchors and left out of the gallery; the rest is searched by queries of the new model, each way:
stay, translate the documents, translate the queries, map both sides, rerank candidates, re-embed. Then the maps that
documents can be moved by, rivals among them; and the verdict: it is made from half of the queries, and held against
what the other half says.

    python -m experiments judged --collection FOLDER --collection NAME

A collection is a folder in BEIR's layout, a name that ir_datasets knows, or "paraphrases", the default.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import permutations
from typing import Any

import numpy as np
from experiments.data.collections import PARAPHRASES, Collection, load_collection, split
from experiments.results import Finding, Result, Setting, Table
from rich.progress import track

import relatent as rl
from relatent.decide import OptionScores, Rule, Search, score_options, verdict_of
from relatent.evaluate.interval import bootstrap, difference
from relatent.evaluate.retrieval import query_scores

ENCODERS = ("minilm", "e5-small", "potion-base", "use", "paraphrase")
# A verdict on fewer queries than the default asks for: half of a small collection.
RULE = Rule(queries=20)
CANDIDATES, MARGIN = 50, 0.01
DEFAULT, ASKED = "index", "index, past queries"
OURS: dict[str, Callable[[], rl.Translator]] = {
    DEFAULT: lambda: rl.Translator("index"),
    ASKED: lambda: rl.Translator("index"),
    "index, affine": lambda: rl.Translator("index", max_cost="affine"),
    "vectors": rl.Translator,
    "affine ridge": lambda: rl.Translator(max_cost="affine"),
    "orthogonal": lambda: rl.Translator(map="orthogonal"),
}
# Rivals by module, class, and the method that translates.
RIVALS = {
    "isotrieve": ("isotrieve.mapping", "RidgeMapping", "transform"),
    "rebasis": ("rebasis.core", "LinearAdapter", "apply"),
}
SINGLE = ("vectors", "affine ridge", "orthogonal", *RIVALS)
OPTIONS = ("stay", "documents", "queries", "both sides", "rerank-old", "rerank", "re-embed")
Scores = dict[str, np.ndarray]


@dataclass(frozen=True)
class Cell:
    """One collection, pair of encoders, number of anchors and draw: scores by query, and what the verdict was worth."""

    collection: str
    pair: str
    anchors: int
    asked: Sequence[int]
    maps: Scores
    """nDCG@10 of documents moved by each map."""
    options: Scores
    """nDCG@10, and under "NAME, recall" recall@100, of each option."""
    recommended: str
    regret: float
    right: bool


def run(setting: Setting) -> Result:
    """Measure every cell, and sum up."""
    collections = [load_collection(name) for name in setting.collections or (PARAPHRASES,)]
    draws, encoders = setting.pick(quick=2, full=5, smoke=1), setting.encoders or ENCODERS
    todo = [
        (collection, old, new, anchors, seed)
        for collection in collections
        for old, new in permutations(encoders, 2)
        for anchors in _anchors(len(collection.documents))
        for seed in range(draws)
    ]
    cells = [measured(*one) for one in track(todo, "cells", transient=True, disable=not sys.stdout.isatty())]
    return Result(
        [_map_table(cells), _option_table(cells), _verdict_table(cells)],
        list(_findings(cells)),
        seeds=draws,
        data=[f"{c.name}: {len(c.documents):,} documents, {len(c.queries)} queries" for c in collections],
        notes=[
            "Means over numbers of anchors (about a tenth, a quarter and a half of the documents, 1,000 at most) and "
            "draws. Past queries are half of the queries, without judgments; they are scored with the others."
        ],
    )


def _anchors(documents: int) -> list[int]:
    return sorted({min(1_000, int(share * documents)) for share in (0.1, 0.25, 0.5)})


def measured(collection: Collection, old: str, new: str, anchors: int, seed: int) -> Cell:
    """Score maps and options on one draw, and the verdict that half of the queries give."""
    (x, asked_x), (y, asked_y) = collection.vectors(old), collection.vectors(new)
    rows, gallery, asked, relevant = split(collection, anchors, seed)
    half = np.random.default_rng(seed).permutation(len(asked)) < len(asked) // 2
    asked_x, asked_y = asked_x[asked], asked_y[asked]

    def ndcg(queries: Any, documents: Any, metric: str = "cosine") -> np.ndarray:
        return query_scores(queries, documents, 10, metric, relevant, "ndcg")

    moved = _moved(x[rows], y[rows], x[gallery], asked_y[half])
    searches = Search(asked_x, x[gallery]), Search(asked_y, moved[DEFAULT]), Search(asked_y, y[gallery])
    by_depth = {k: score_options(*searches, relevant=relevant, k=k, candidates=max(k, CANDIDATES)) for k in (10, 100)}
    options = _named(by_depth[10], "ndcg") | {f"{o}, recall": s for o, s in _named(by_depth[100], "recall").items()}
    for name, search in _queries_moved(x[rows], y[rows], asked_y, x[gallery]):
        options[name] = ndcg(search.queries, search.gallery, search.metric)
        options[f"{name}, recall"] = query_scores(
            search.queries, search.gallery, 100, search.metric, relevant, "recall"
        )
    return Cell(
        collection.name,
        f"{old} → {new}",
        anchors,
        asked,
        {name: ndcg(asked_y, documents) for name, documents in moved.items()},
        options,
        *_judged(by_depth[10], half),
    )


def _moved(x: np.ndarray, y: np.ndarray, documents: np.ndarray, asked: np.ndarray) -> Scores:
    found = {}
    for name, make in OURS.items():
        t = make().fit(x, y, queries=asked) if name == ASKED else make().fit(x, y)
        found[name] = np.asarray(t.transform(documents))
    for name, (module, kind, method) in RIVALS.items():
        rival = _rival(module, kind)
        if rival is not None:
            found[name] = np.asarray(getattr(_fitted(rival, x, y), method)(documents), dtype=np.float32)
    return found


def _rival(module: str, kind: str) -> Any:
    try:
        return getattr(import_module(module), kind)
    except (ImportError, SyntaxError):  # not installed, or written for a newer Python
        return None


def _fitted(rival: Any, x: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # isotrieve asks for more anchors than there are
        return rival.fit(x, y) if "src" in rival.fit.__code__.co_varnames else rival().fit(x, y)


def _queries_moved(x: np.ndarray, y: np.ndarray, asked: np.ndarray, documents: np.ndarray) -> Iterator[Any]:
    frozen = rl.Translator("retrieval", frozen_target=True).fit(y, x)
    yield "queries", Search(frozen.transform(asked), documents)
    both = rl.Translator("retrieval").fit(y, x)
    yield "both sides", Search(both.transform(asked), both.transform_target(documents), both.metric_)


def _named(scored: OptionScores, measure: str) -> Scores:
    place = scored.measures.index(measure)
    return {"documents" if o == "translate" else o: s[:, place] for o, s in scored.by_option.items()}


def _judged(scored: OptionScores, half: np.ndarray) -> tuple[str, float, bool]:
    """Return what half of the queries recommend, what that loses on the others, and whether nothing is clearly better.

    Re-embedding is no choice here: its cost is not known.
    """
    known = replace(scored, by_option={o: s[half] for o, s in scored.by_option.items()})
    recommended = str(verdict_of(known, rule=RULE).decision.recommended)
    rest = {o: s[~half, scored.measures.index("ndcg")] for o, s in scored.by_option.items()}
    choices = [o for o in rest if o not in ("re-embed", "untranslated")]
    best = max(choices, key=lambda o: float(np.mean(rest[o])))
    lost = np.stack([rest[best], rest[recommended]], axis=1)  # type: ignore[index]
    regret = float(np.mean(lost[:, 0] - lost[:, 1]))
    return recommended, regret, regret <= MARGIN or bootstrap(lost, difference(0, 1)).low <= 0


def _grouped(cells: list[Cell]) -> dict[tuple[str, str], list[Cell]]:
    groups = defaultdict(list)
    for cell in cells:
        groups[cell.collection, cell.pair].append(cell)
    return groups


def _mean(cells: list[Cell], side: str, name: str) -> float:
    return float(np.mean([np.mean(getattr(cell, side)[name]) for cell in cells]))


def _map_table(cells: list[Cell]) -> Table:
    names = list(cells[0].maps)
    rows: list[list[Any]] = [
        [*key, *(_mean(some, "maps", name) for name in names)] for key, some in _grouped(cells).items()
    ]
    rows.append(["all", "", *(_mean(cells, "maps", name) for name in names)])
    return Table("Documents moved, raw queries of the new model: nDCG@10", ("collection", "pair", *names), rows)


def _option_table(cells: list[Cell]) -> Table:
    rows: list[list[Any]] = []
    for key, some in _grouped(cells).items():
        means = ((_mean(some, "options", o), _mean(some, "options", f"{o}, recall")) for o in OPTIONS)
        rows.append([*key, *(f"{ndcg:.3f} {recall:.3f}" for ndcg, recall in means), _against_staying(some)])
    return Table(
        "Every option: nDCG@10 and recall@100; and documents moved against staying, nDCG@10 with its 95 % interval",
        ("collection", "pair", *OPTIONS, "documents − stay"),
        rows,
    )


def _against_staying(cells: list[Cell]) -> str:
    """Return the paired difference, each query averaged over the draws that it was asked in."""
    by_query = defaultdict(list)
    for cell in cells:
        for query, moved, stay in zip(cell.asked, cell.options["documents"], cell.options["stay"], strict=True):
            by_query[query].append((moved, stay))
    e = bootstrap(np.asarray([np.mean(pairs, axis=0) for pairs in by_query.values()]), difference(0, 1))
    return f"{e.value:+.3f} ({e.low:+.3f} – {e.high:+.3f})"


def _verdict_table(cells: list[Cell]) -> Table:
    rows: list[list[Any]] = []
    for name in [*dict.fromkeys(cell.collection for cell in cells), "all"]:
        some = [cell for cell in cells if name in (cell.collection, "all")]
        counts = Counter(cell.recommended for cell in some)
        regrets = [cell.regret for cell in some]
        right = float(np.mean([cell.right for cell in some]))
        said = ", ".join(f"{option} {count}" for option, count in counts.most_common())
        rows.append([name, len(some), right, float(np.mean(regrets)), float(np.max(regrets)), said])
    columns = ("collection", "cells", "right", "mean regret", "worst", "recommended")
    return Table("The verdict from half of the queries, held against the others", columns, rows)


def _findings(cells: list[Cell]) -> Iterator[Finding]:
    single = [name for name in SINGLE if name in cells[0].maps]
    for name in (DEFAULT, ASKED):
        ahead = [
            _mean(some, "maps", name) - max(_mean(some, "maps", one) for one in single)
            for some in _grouped(cells).values()
        ]
        yield Finding(
            f"{name}: at most 0.005 below the best single map of a pair on average, and never 0.02",
            float(np.mean(ahead)) >= -0.005 and min(ahead) >= -0.02,
            f"mean {np.mean(ahead):+.4f}, worst pair {min(ahead):+.4f}, of {', '.join(single)}",
        )
    right, regret = (float(np.mean([getattr(cell, what) for cell in cells])) for what in ("right", "regret"))
    yield Finding(
        "the verdict from half of the queries is right on the rest in 90 % of cells, at a regret of 0.01",
        right >= 0.9 and regret <= 0.01,
        f"right {right:.1%}, regret {regret:.4f}",
    )
