"""Words in two spaces, absolute and relative: table 1 and figure 10 of Moschella et al., ICLR 2023.

Each word is looked up, as the source describes it, among all words as the target describes them, with 300 anchors
that the seed draws. "own" is how far the two spaces agree by themselves: the Jaccard similarity of the neighbors of a
word in the two absolute spaces, each asked alone. The pair of spaces that agrees best is looked up among more words,
too. The paper draws the four words of figure 10 at random; ours are chosen, so that the clusters have a meaning.

    python -m experiments rr-table1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.groups import load_group
from experiments.data.source import BySource
from experiments.published import mean, published
from experiments.relative_representations.lookup import (
    KINDS,
    MEASURES,
    TRANSLATED,
    K,
    compared,
    described,
    mean_of,
    own_neighbors_shared,
    sample,
)
from experiments.relative_representations.points import draw_planes, pack, planes
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS, LARGEST = 300, 3
BEST = BySource(packages=("spacy-300", "glove-100"), hub=("fastText", "word2vec"))
# The pair of the paper, or what stands for it.
PAPERS = BySource(packages=("spacy-300", "word2vec-300"), hub=("fastText", "word2vec"))
LARGER = BySource(packages=("many words",), hub=())
PIVOTS, NEAR = ("doctor", "tomato", "guitar", "software"), 200
HOWS, SEEN = ("PCA", "t-SNE", "first two"), ("absolute", "relative", "relative, whitened (ours)")
PUBLISHED, MOSTLY = ("absolute", "relative"), 0.5  # descriptions; an MRR
Pair = tuple[str, str]
Spaces = Mapping[str, np.ndarray]
Scores = Mapping[tuple[str, Pair], np.ndarray]


def run(setting: Setting) -> Result:
    """Look words up in the other space, over seeds."""
    group, larger = load_group("words"), {name: load_group(name, BEST).spaces for name in LARGER}
    spaces, seeds = group.spaces, setting.pick(quick=5, full=10)
    n_queries = setting.pick(quick=1_000, full=20_000)
    assert group.keys is not None
    scores = look_up(spaces, [*permutations(spaces, 2), *((name, name) for name in PAPERS)], seeds, n_queries)
    many = {name: look_up(found, [tuple(BEST), tuple(BEST[::-1])], seeds, n_queries) for name, found in larger.items()}
    levels = level_table(spaces, n_queries)
    return Result(
        [
            main_table(spaces, scores, n_queries),
            *(main_table(larger[name], found, n_queries) for name, found in many.items()),
            levels,
            space_table(spaces),
            meaning_table(spaces, group.keys),
        ],
        list(findings(scores)),
        seeds=seeds,
        data=[f"{len(group.keys):,} words that all three spaces know, up to {n_queries:,} of them looked up"],
        stand_ins={
            "fastText, 300-d": "spaCy's English vectors, 300-d",
            "word2vec (Google News), 300-d": "word2vec-wordlist, 300-d, and GloVe, 100-d",
            "20,000 words of the shared vocabulary": f"{len(group.keys):,} words",
            "four random words (figure 10)": ", ".join(PIVOTS),
        },
        notes=[note(levels)],
        series=pictured(spaces, group.keys),
        smaller=f"{len(group.keys):,} of 20,000 words" if len(group.keys) < 20_000 else "",
    )


def look_up(spaces: Spaces, pairs: Sequence[Pair], seeds: int, n_queries: int) -> Scores:
    """Return the three measures of every description, a row per seed; a space with itself only as the paper has it."""
    queries = sample(len(next(iter(spaces.values()))), n_queries)
    return {
        (kind, pair): np.asarray([score(kind, spaces, pair, seed, queries) for seed in range(seeds)])
        for kind in KINDS
        for pair in pairs
        if pair[0] != pair[1] or kind in PUBLISHED
    }


def score(kind: str, spaces: Spaces, pair: Pair, seed: int, queries: np.ndarray) -> list[float]:
    """Return the three measures of one direction with the anchors of one seed."""
    x, y = (spaces[name] for name in pair)
    return compared(kind, x, y, rl.anchors.uniform(x, ANCHORS, seed=seed), queries)


def main_table(spaces: Spaces, scores: Scores, n_queries: int) -> Table:
    """Lay table 1 out, the paper's figures beside the pair that stands for the paper's."""
    n = len(next(iter(spaces.values())))
    pairs = {pair: [spaces[name] for name in pair] for _, pair in scores}
    own = {pair: own_neighbors_shared(x, y, sample(n, n_queries)) for pair, (x, y) in pairs.items()}
    rows = [
        [kind, " → ".join(pair), *map(spread, found.T), own[pair], paper(kind, pair)]
        for (kind, pair), found in scores.items()
    ]
    columns = ("description", "spaces", *MEASURES, "own", "published (fastText, word2vec)")
    return Table(f"{n:,} words: {K} neighbors, {ANCHORS} anchors", columns, rows)


def paper(kind: str, pair: Pair) -> str:
    """Return the paper's three figures beside the pair that stands for its own."""
    short = dict(zip(PAPERS, ("FT", "W2V"), strict=True))
    if kind not in PUBLISHED or not set(pair) <= set(short):
        return ""
    key = f"{kind}, {short[pair[0]]} → {short[pair[1]]}"
    return " / ".join(str(published("rr-table1", key, measure)) for measure in MEASURES)


LEVELS: dict[str, dict[str, Any]] = {
    "raw cosine": {},
    "1,000 anchors": {"anchors": 1_000},
    "centered": {"kind": "relative, centered (ours)"},
    "whitened": {"kind": "relative, whitened (ours)"},
    "translated": {"kind": TRANSLATED},
    "translated, 1,000 anchors": {"kind": TRANSLATED, "anchors": 1_000},
    "the more frequent half of the words": {"share": 2, "frequent": True},
    "a quarter of the words": {"share": 4},
}


def level_table(spaces: Spaces, n_queries: int) -> Table:
    """Vary one thing at a time on the pair that agrees best, to see what decides the level."""
    x, y = (spaces[name] for name in BEST)
    rows = [[name, *level(x, y, n_queries, **case)] for name, case in LEVELS.items()]
    title = f"What decides the level: {' → '.join(BEST)}, {ANCHORS} anchors, one seed"
    return Table(title, ("one change", *MEASURES, "own"), rows)


def level(
    x: np.ndarray,
    y: np.ndarray,
    n_queries: int,
    kind: str = "relative",
    anchors: int = ANCHORS,
    share: int = 1,
    frequent: bool = False,
) -> list[float]:
    """Return the three measures among some rows, and the overlap of the spaces' own neighbors there."""
    count = len(x) // share
    rows = np.arange(count) if frequent else sample(len(x), count)  # rows come by falling frequency
    x, y, queries = x[rows], y[rows], sample(count, n_queries)
    found = compared(kind, x, y, rl.anchors.uniform(x, anchors, seed=0), queries)
    return [*found, own_neighbors_shared(x, y, queries)]


def space_table(spaces: Spaces) -> Table:
    """Return how far each space is off center, and along how many axes it varies."""
    columns = ("space", "width", "mean cosine of two words", "axes that vary (participation ratio)")
    return Table("The spaces", columns, [[name, x.shape[1], *shape(x)] for name, x in spaces.items()])


def shape(x: np.ndarray) -> tuple[float, float]:
    """Return the mean cosine of all pairs of rows, and the participation ratio of the variances.

    >>> shape(np.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    (0.0, 2.0)
    """
    center = (x / np.linalg.norm(x, axis=1, keepdims=True)).mean(axis=0)
    variances = np.linalg.eigvalsh(np.cov(x.T))
    return float(center @ center), float(variances.sum() ** 2 / np.sum(variances**2))


def meaning_table(spaces: Spaces, keys: np.ndarray) -> Table:
    """Return the anchors that describe a few words most, by their largest coordinates in both spaces."""
    pair = [spaces[name] for name in BEST]
    anchors, words = rl.anchors.uniform(pair[0], ANCHORS, seed=0), rl.anchors.by_keys(keys, PIVOTS)
    rows = []
    for kind in list(KINDS)[1:3]:
        largest = [np.argsort(-a[words], axis=1)[:, :LARGEST] for a in described(kind, *pair, anchors)]
        named = [[", ".join(keys[anchors[row]]) for row in one] for one in largest]
        rows += [[word, kind, *both] for word, both in zip(PIVOTS, zip(*named, strict=True), strict=True)]
    return Table(f"The {LARGEST} anchors that describe a word most", ("word", "description", *BEST), rows)


def note(levels: Table) -> str:
    """Say what raises the level, by the tables."""
    mrr = {str(row[0]): float(row[1 + MEASURES.index("mrr")]) for row in levels.rows}  # type: ignore[arg-type]
    raw, *others = LEVELS
    return (
        f"What changes the MRR of raw cosines, {mrr[raw]:.2f}, one change at a time: "
        + ", ".join(f"{name} × {mrr[name] / mrr[raw]:.1f}" for name in others)
        + ". Centering removes the offset that the mean cosine of two words shows, whitening lets all axes vary alike."
    )


def findings(scores: Scores) -> Iterator[Finding]:
    """Judge what the paper says of its table, on the pair that agrees best."""
    mrr = {
        (kind, pair): [mean_of(scores, "mrr", [(kind, way)])[0] for way in (tuple(pair), tuple(pair[::-1]))]
        for kind in KINDS
        for pair in (BEST.value, PAPERS.value)
    }
    told = {case: " and ".join(f"{one:.2f}" for one in both) for case, both in mrr.items()}
    ways = [mean("rr-table1", f"relative, {way}", "mrr") for way in ("FT → W2V", "W2V → FT")]
    absolute = max(mean_of(scores, "mrr", [case for case in scores if case[0] == "absolute" and len(set(case[1])) > 1]))
    yield Finding(
        "relative to anchors, the nearest word of the other space is mostly the word itself",
        min(mrr["relative", BEST.value]) > MOSTLY,
        f"MRR {told['relative', BEST.value]} for {' and '.join(BEST)} (paper {ways[0]} and {ways[1]})"
        + (f", {told['relative', PAPERS.value]} for {' and '.join(PAPERS)}" if PAPERS.value != BEST.value else "")
        + f"; absolute {absolute:.4f} at most",
        headline=True,
    )
    ours = {kind: mrr[kind, BEST.value] for kind in list(KINDS)[2:]}
    yield Finding(
        "centering, whitening and translating each find more words than raw cosines (ours)",
        all(min(found) > max(mrr["relative", BEST.value]) for found in ours.values()),
        f"MRR of {' and '.join(BEST)}, both ways: "
        + "; ".join(f"{kind} {told[kind, BEST.value]}" for kind in ("relative", *ours)),
    )


def pictured(spaces: Mapping[str, np.ndarray], keys: np.ndarray) -> dict[str, Any]:
    """Return figure 10's points: the neighbors of four words, in two spaces, three ways to see them."""
    x, y = (spaces[name] for name in BEST)
    pivots = rl.anchors.by_keys(keys, PIVOTS)
    rows = rl.evaluate.nearest(x[pivots], x, NEAR).indices.ravel()
    anchors = rl.anchors.uniform(x, ANCHORS, seed=0)
    both = {kind: [a[rows] for a in described(kind, x, y, anchors)] for kind in SEEN}
    return {kind: {how: list(map(pack, planes(*two, how))) for how in HOWS} for kind, two in both.items()}


def draw(result: Result) -> Figure:
    """Draw both spaces side by side, absolute above relative."""
    short = [name.split("-")[0] for name in BEST]
    clusters = np.repeat(np.arange(len(PIVOTS)), NEAR).tolist()
    rows = {
        kind: [(f"{how}, {name}", text, clusters) for how in HOWS for name, text in zip(short, hows[how], strict=True)]
        for kind, hows in result.series.items()
    }
    return draw_planes(rows, [f"words near “{word}”" for word in PIVOTS])
