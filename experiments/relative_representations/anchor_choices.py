"""How anchors are chosen, on words: table 7 of Moschella et al., ICLR 2023.

300 anchors are drawn uniformly, as farthest points, nearest to the centers of k-means, or uniformly among the most
frequent words; the lookup is that of table 1. The choice is made in the source and the same words anchor the target.
Why the level is below the paper's is the question of rr-table1; here the choices are compared.

    python -m experiments rr-table7
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from experiments.data.groups import load_group
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.published import mean, published
from experiments.relative_representations.lookup import MEASURES, K, compared, mean_of, sample
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS = 300
TITLES = {"jaccard": "neighbors shared (Jaccard)", "mrr": "the word itself found (MRR)", "cosine": "cosine"}
DATA = BySource(packages="many words", hub="words")
PAIRS = BySource(
    packages={"FT → W2V": ("spacy-300", "glove-100"), "W2V → FT": ("glove-100", "spacy-300")},
    hub={"FT → W2V": ("fastText", "word2vec"), "W2V → FT": ("word2vec", "fastText")},
)
ABSOLUTE, KINDS = "absolute", ("relative", "relative, centered (ours)")
FEWER, AT_FEWER = 5, ("kmeans", "top1000")  # neighbors, and the choices for which the authors kept figures of so many
COMPARABLE = 1.25
Choice = Callable[[np.ndarray, int], np.ndarray]
Scores = Mapping[tuple[str, str, str], np.ndarray]


def among_most_frequent(count: int) -> Choice:
    """Return the choice of anchors among the most frequent words, which come first in their group."""
    return lambda x, seed: rl.anchors.uniform(x[:count], ANCHORS, seed=seed)


CHOICES: dict[str, Choice] = {
    "uniform": lambda x, seed: rl.anchors.uniform(x, ANCHORS, seed=seed),
    "fps": lambda x, seed: rl.anchors.farthest_point(x, ANCHORS, seed=seed),
    "kmeans": lambda x, seed: rl.anchors.kmeans(x, ANCHORS, seed=seed),
    "top1000": among_most_frequent(1_000),
    "top5000": among_most_frequent(5_000),
    "top10000": among_most_frequent(10_000),
}


def run(setting: Setting) -> Result:
    """Look words up with anchors of every choice, over seeds."""
    spaces, seeds = load_group(str(DATA)).spaces, setting.pick(quick=5, full=10)
    n = len(next(iter(spaces.values())))
    queries = sample(n, setting.pick(quick=1_000, full=20_000))
    scores: dict[tuple[str, str, str], np.ndarray] = {}
    fewer: dict[tuple[str, str, str], np.ndarray] = {}
    for choice, choose in CHOICES.items():
        for way, pair in PAIRS.items():
            x, y = (spaces[name] for name in pair)
            drawn = [choose(x, seed) for seed in range(seeds)]
            for kind in (ABSOLUTE, *KINDS) if choice == "uniform" else KINDS:
                scores[choice, way, kind] = np.asarray([compared(kind, x, y, rows, queries) for rows in drawn])
            if choice in AT_FEWER:
                found = [compared("relative", x, y, rows, queries, FEWER) for rows in drawn]
                fewer[choice, way, "relative"] = np.asarray(found)
    return Result(
        [table(scores, K), table(fewer, FEWER)],
        list(findings(scores)),
        seeds=seeds,
        data=[f"{n:,} words, {len(queries):,} of them looked up; the 400 most frequent are left out, as in the paper"],
        stand_ins={"fastText, 300-d": "spaCy's English vectors, 300-d", "word2vec, 300-d": "GloVe, 100-d"},
        series={
            kind: {
                choice: [mean_of(scores, measure, [(choice, way, kind) for way in PAIRS]) for measure in MEASURES]
                for choice in CHOICES
            }
            for kind in KINDS
        },
        smaller=f"{n:,} of 20,000 words" if n < 20_000 else "",
    )


def table(scores: Scores, k: int) -> Table:
    """Lay table 7 out, the paper's figures beside raw cosines; absolute vectors need no anchors."""
    rows = [
        ["" if kind == ABSOLUTE else choice, " → ".join(PAIRS[way]), kind, *map(spread, found.T), paper(*case, k)]
        for case, found in scores.items()
        for choice, way, kind in [case]
    ]
    columns = ("anchors", "spaces", "description", *MEASURES, "published (fastText, word2vec)")
    return Table(f"Words: {k} neighbors, {ANCHORS} anchors", columns, rows)


def paper(choice: str, way: str, kind: str, k: int = K) -> str:
    """Return the paper's three figures in one cell."""
    if kind not in (ABSOLUTE, "relative"):
        return ""
    row = f"{kind if kind == ABSOLUTE else choice}, {way}"
    where = (row,) if k == K else (f"K = {k}", row)
    return " / ".join(str(published("rr-table7", *where, measure)) for measure in MEASURES)


def findings(scores: Scores) -> Iterator[Finding]:
    """Judge what the paper says of its table, in each direction."""
    ours = {
        (way, measure): {choice: mean_of(scores, measure, [(choice, way, "relative")])[0] for choice in CHOICES}
        for way in PAIRS
        for measure in MEASURES
    }
    theirs = {
        (way, measure): {choice: mean("rr-table7", f"{choice}, {way}", measure) for choice in CHOICES}
        for way, measure in ours
    }
    for choice, measures in (("fps", MEASURES[:2]), ("kmeans", MEASURES[2:])):
        cases = [case for case in ours if case[1] in measures]
        yield Finding(
            f"{choice} has the best {' and '.join(measures)} in both directions",
            all(ours[case][choice] == max(ours[case].values()) for case in cases),
            "; ".join(
                f"{' → '.join(PAIRS[way])}, {measure}: {beside(ours[way, measure], choice)} "
                f"(paper {beside(theirs[way, measure], choice)})"
                for way, measure in cases
            ),
        )
    ratios, published_ratios = ([ratio(of[way, "mrr"]) for way in PAIRS] for of in (ours, theirs))
    yield Finding(
        "the choices are comparable: no choice finds a quarter more words than another",
        max(ratios) < COMPARABLE,
        f"the best MRR over the worst: {' and '.join(f'{one:.2f}' for one in ratios)} in the two directions "
        f"(paper {' and '.join(f'{one:.2f}' for one in published_ratios)})",
    )


def beside(found: Mapping[str, float], choice: str) -> str:
    """Return the figure of a choice, and that of the best if it is another."""
    best = max((choice, *found), key=lambda one: found[one])
    return ", ".join(f"{one} {found[one]:.2f}" for one in dict.fromkeys((choice, best)))


def ratio(found: Mapping[str, float]) -> float:
    """Return by how many times the best is above the worst."""
    return max(found.values()) / min(found.values())


def draw(result: Result) -> Figure:
    """Draw the three measures of every choice, raw and centered side by side, a row per direction."""
    figure, axes = panels(len(PAIRS), len(MEASURES), size=(2.9, 2.4), sharex=True, sharey="col")
    for row, pair in enumerate(PAIRS.values()):
        axes[row, 0].set_ylabel(" → ".join(pair))
        for i, panel in enumerate(axes[row]):
            for j, (kind, choices) in enumerate(result.series.items()):
                values = [found[i][row] for found in choices.values()]
                panel.bar(np.arange(len(choices)) + 0.4 * j, values, 0.38, color=COLORS[j], label=kind)
    for first, last, measure in zip(axes[0], axes[-1], MEASURES, strict=True):
        first.set_title(TITLES[measure])
        last.set_xticks(np.arange(len(CHOICES)) + 0.2, list(CHOICES), rotation=35, ha="right", rotation_mode="anchor")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
