"""How anchors are chosen, on words: table 7 of Moschella et al., ICLR 2023.

300 anchors are drawn uniformly, as farthest points, nearest to the centers of k-means, or uniformly among the most
frequent words; the lookup is that of table 1. The choice is made in the source and the same words anchor the target.

    python -m experiments rr-table7
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from experiments.data.groups import load_group
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.published import published
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
KINDS = ("relative", "relative, centered (ours)")
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
    for choice, choose in CHOICES.items():
        for way, pair in PAIRS.items():
            x, y = (spaces[name] for name in pair)
            drawn = [choose(x, seed) for seed in range(seeds)]
            for kind in KINDS:
                scores[choice, way, kind] = np.asarray([compared(kind, x, y, rows, queries) for rows in drawn])
    return Result(
        [table(scores)],
        list(findings(scores)),
        seeds=seeds,
        data=[f"{n:,} words, {len(queries):,} of them looked up"],
        stand_ins={"fastText, 300-d": "spaCy's English vectors, 300-d", "word2vec, 300-d": "GloVe, 100-d"},
        notes=[
            "The level is that of rr-table1, which says why it is below the paper's; here the choices are compared. "
            "The 400 most frequent words are left out, as in the paper."
        ],
        series={
            kind: {
                choice: [mean_of(scores, measure, [(choice, way, kind) for way in PAIRS]) for measure in MEASURES]
                for choice in CHOICES
            }
            for kind in KINDS
        },
    )


def table(scores: Scores) -> Table:
    """Lay table 7 out, the paper's figures beside raw cosines."""
    rows = [
        [choice, " → ".join(PAIRS[way]), kind, *map(spread, found.T), paper(choice, way) if kind == "relative" else ""]
        for (choice, way, kind), found in scores.items()
    ]
    columns = ("anchors", "spaces", "description", *MEASURES, "published (fastText, word2vec)")
    return Table(f"Words: {K} neighbors, {ANCHORS} anchors", columns, rows)


def paper(choice: str, way: str) -> str:
    """Return the paper's three figures in one cell."""
    return " / ".join(str(published("rr-table7", f"{choice}, {way}", measure)) for measure in MEASURES)


def findings(scores: Scores) -> Iterator[Finding]:
    """Judge what the paper says of its table."""
    mean = {
        (choice, measure): float(np.mean(mean_of(scores, measure, [(choice, way, KINDS[0]) for way in PAIRS])))
        for choice in CHOICES
        for measure in MEASURES
    }
    for measures, choice in ((MEASURES[:2], "fps"), (MEASURES[2:], "kmeans")):
        best = [max(CHOICES, key=lambda one, m=measure: mean[one, m]) for measure in measures]  # type: ignore[misc]
        yield Finding(
            f"{choice} has the best {' and '.join(measures)}",
            set(best) == {choice},
            "; ".join(
                f"{measure}: " + ", ".join(f"{one} {mean[one, measure]:.3f}" for one in CHOICES) for measure in measures
            ),
        )
    mrrs = [mean[choice, "mrr"] for choice in CHOICES]
    yield Finding(
        "the choices are comparable",
        max(mrrs) - min(mrrs) < 0.15,
        f"MRR between {min(mrrs):.2f} and {max(mrrs):.2f} (paper .84 to .98)",
    )


def draw(result: Result) -> Figure:
    """Draw the three measures of every choice, raw and centered side by side."""
    figure, axes = panels(1, len(MEASURES), size=(2.9, 2.6))
    for i, (panel, measure) in enumerate(zip(axes[0], MEASURES, strict=True)):
        for j, (kind, choices) in enumerate(result.series.items()):
            values = [np.mean(found[i]) for found in choices.values()]
            panel.bar(np.arange(len(choices)) + 0.4 * j, values, 0.38, color=COLORS[j], label=kind)
        panel.set_xticks(np.arange(len(CHOICES)) + 0.2, list(CHOICES), rotation=35, ha="right", rotation_mode="anchor")
        panel.set_title(TITLES[measure])
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
