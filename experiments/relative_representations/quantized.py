"""Quantized similarity, unchanged by bounded distortion: figure 7 of Moschella et al., ICLR 2023.

The neighbors of four words, in two spaces. Vectors nearer to each other than a threshold become one before they are
compared with the anchors, so that any distortion which keeps the clusters changes nothing. The score is the mean
cosine distance between the two descriptions of a word, smaller being more alike; the authors kept mean distances, two
of them by the number of clusters. What the paper leaves to future work stands beside it: how many words can still be
told apart. The paper draws the four words at random; ours are chosen, so that the clusters have a meaning.

    python -m experiments rr-figure7
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.groups import load_group
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.published import published
from experiments.relative_representations.points import draw_plane, pack, planes
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPACES = BySource(packages=("spacy-300", "glove-100"), hub=("fastText", "word2vec"))
PIVOTS, NEAR = ("doctor", "tomato", "guitar", "software"), 200
ANCHORS, THRESHOLDS, COUNTS = 300, (0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0), (10, 100)
OURS, UNRELATED = ", centered (ours)", "relative, unrelated words"
SCATTERED = ("relative", "quantized, t = 0.8", "quantized, t = 1.2", "quantized, t = 2.0")
MEASURES = ("distance", "cosine distance", "mrr", "different rows")
KNOWN, HALF = ("absolute", "relative"), 0.5
Pair = tuple[np.ndarray, np.ndarray]
Scores = Mapping[str, np.ndarray]


def run(setting: Setting) -> Result:
    """Describe the words in both spaces by every similarity, over seeds of the anchors."""
    group = load_group("words")
    seeds = setting.pick(quick=5, full=10)
    assert group.keys is not None
    x, y = (group.spaces[name] for name in SPACES)
    pivots = rl.anchors.by_keys(group.keys, PIVOTS)
    found = rl.evaluate.nearest(x[pivots], x, NEAR).indices
    rows, first = np.unique(found, return_index=True)
    clusters = first // NEAR  # a word that is near two pivots counts to the first
    thresholds: dict[str, Any] = {"relative": "cosine"} | {
        f"quantized, t = {t}": partial(rl.project.similarity.quantized, threshold=t) for t in THRESHOLDS
    }
    counted = {f"quantized, {n} clusters": partial(of_clusters, count=n) for n in COUNTS}
    pairs = {"absolute": (x[rows], y[rows])} | {
        f"absolute, {n} clusters": (merged(x[rows], n), merged(y[rows], n)) for n in COUNTS
    }
    scores = {name: np.asarray([score(*padded(*pair))]) for name, pair in pairs.items()}
    for normalize, suffix in (("none", ""), ("center", OURS)):
        for name, similarity in (thresholds | counted).items():
            drawn = [described(x, y, rows, similarity, normalize, seed) for seed in range(seeds)]
            scores[name + suffix] = np.asarray([score(*pair) for pair in drawn])
            if name == "relative":
                unrelated = [score(a, np.roll(b, len(b) // 2, axis=0)) for a, b in drawn]
                scores[UNRELATED + suffix] = np.asarray(unrelated)
    return Result(
        [table(scores)],
        list(findings(scores)),
        seeds=seeds,
        data=[f"{len(rows)} words near {', '.join(PIVOTS)}; {ANCHORS} anchors among all words"],
        stand_ins={
            "fastText, 300-d": "spaCy's English vectors, 300-d",
            "word2vec, 300-d": "GloVe, 100-d, which agrees with spaCy's best in rr-table1",
            "four random words": ", ".join(PIVOTS),
        },
        notes=[
            "The authors kept mean distances by number of clusters without saying of which vectors: they stand beside "
            "clusters of absolute vectors. Distances grow with the lengths of the vectors and the number of anchors; "
            "cosine distances do not depend on the lengths."
        ],
        series={
            "curves": {
                suffix: {
                    measure: [float(scores[name + suffix][:, i].mean()) for name in thresholds]
                    for i, measure in enumerate(MEASURES)
                }
                for suffix in ("", OURS)
            },
            "clusters": clusters.tolist(),
            "planes": pictured(x, y, rows, thresholds, scores),
        },
    )


def pictured(
    x: np.ndarray, y: np.ndarray, rows: np.ndarray, similarities: Mapping[str, Any], scores: Scores
) -> dict[str, Any]:
    """Return the figure's points: the words in both spaces, on the principal axes of the first, and their score."""
    pairs = {"absolute": padded(x[rows], y[rows])} | {
        name: described(x, y, rows, similarities[name], "none", 0) for name in SCATTERED
    }
    return {
        name: {"distance": float(scores[name][:, 1].mean()), "points": [pack(one) for one in planes(*pair, "PCA")]}
        for name, pair in pairs.items()
    }


def padded(x: np.ndarray, y: np.ndarray) -> Pair:
    """Fill the narrower space up with zeros, so that absolute vectors can be compared."""
    width = max(x.shape[1], y.shape[1])
    return np.pad(x, ((0, 0), (0, width - x.shape[1]))), np.pad(y, ((0, 0), (0, width - y.shape[1])))


def described(x: np.ndarray, y: np.ndarray, rows: np.ndarray, similarity: Any, normalize: str, seed: int) -> Pair:
    """Return the words relative to the anchors of a seed, in both spaces."""
    anchors = rl.anchors.uniform(x, ANCHORS, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # raw cosines of an off-center space: that is what is measured
        projections = [rl.RelativeProjection(similarity, normalize=normalize).fit(a[anchors]) for a in (x, y)]
    a, b = (p.transform(space[rows]) for p, space in zip(projections, (x, y), strict=True))
    return np.asarray(a), np.asarray(b)


def score(a: np.ndarray, b: np.ndarray) -> list[float]:
    """Return the mean distance and cosine distance of the two rows of a word, MRR, and the share of different rows."""
    distance = float(np.mean(np.linalg.norm(a - b, axis=1)))
    different = len(np.unique(a.round(6), axis=0)) / len(a)
    mrr = float(np.mean(rl.evaluate.reciprocal_ranks(_unit(a) @ _unit(b).T, np.arange(len(a)))))
    return [distance, 1 - float(rl.evaluate.mean_cosine(a, b)), mrr, different]


def merged(x: np.ndarray, count: int) -> np.ndarray:
    """Replace each vector by the mean of its cluster (agglomerative, Ward).

    >>> merged(np.asarray([[0.0], [2.0], [9.0]]), 2).ravel().tolist()
    [1.0, 1.0, 9.0]
    """
    from sklearn.cluster import AgglomerativeClustering

    labels = AgglomerativeClustering(count).fit_predict(x)
    means = np.stack([x[labels == label].mean(axis=0) for label in range(count)])
    return np.asarray(means[labels])


def of_clusters(x: np.ndarray, anchors: np.ndarray, count: int) -> np.ndarray:
    """Return the quantized similarity by the number of clusters in place of a threshold."""
    points = merged(_unit(np.concatenate([anchors, x])), count)
    return np.asarray(points[len(anchors) :] @ points[: len(anchors)].T)


def table(scores: Scores) -> Table:
    """Lay the similarities out."""
    rows = [[name, *map(spread, found.T), paper(name)] for name, found in scores.items()]
    return Table("Two descriptions of a word", ("similarity", *MEASURES, "published distance"), rows)


def paper(name: str) -> Any:
    """Return the distance that the authors kept."""
    key = name.replace("absolute,", "quantized,")
    return "" if OURS in name or (key == name and name not in KNOWN) else published("rr-figure7", key, "distance")


def findings(scores: Scores) -> Iterator[Finding]:
    """Judge what the paper says of its figure."""
    mean = {name: found.mean(axis=0) for name, found in scores.items()}
    absolute, relative = (mean[name] for name in KNOWN)
    yield Finding(
        "relative descriptions of a word are nearer to each other than absolute ones",
        bool(relative[1] < min(absolute[1], mean[UNRELATED][1])),
        f"cosine distance {relative[1]:.3f} and {absolute[1]:.3f}, of unrelated words {mean[UNRELATED][1]:.3f}; "
        f"distance {relative[0]:.2f} and {absolute[0]:.2f} (paper {paper('relative')} and {paper('absolute')})",
    )
    kept = [t for t in THRESHOLDS if mean[f"quantized, t = {t}"][3] >= HALF] or [min(THRESHOLDS)]
    useful, last = (f"quantized, t = {t}" for t in (max(kept), max(THRESHOLDS)))
    yield Finding(
        "quantizing makes the two spaces even more similar, while most words are told apart",
        bool(mean[useful][1] < relative[1]),
        f"cosine distance {relative[1]:.3f} as they are, {mean[useful][1]:.3f} {useful}, where {mean[useful][3]:.0%} "
        f"of the rows differ, {mean[last][1]:.3f} {last}, where {mean[last][3]:.0%} do; centered (ours) "
        f"{mean['relative' + OURS][1]:.3f}, {mean[useful + OURS][1]:.3f} and {mean[last + OURS][1]:.3f}",
    )
    best = max((f"quantized, t = {t}" for t in THRESHOLDS), key=lambda name: mean[name][2])
    yield Finding(
        "quantizing finds more words than it confuses (our question)",
        bool(mean[best][2] > relative[2]),
        f"MRR {relative[2]:.3f} as they are, at best {mean[best][2]:.3f}, {best}",
    )


def draw(result: Result) -> Figure:
    """Draw the words in both spaces by every similarity, and below distance and MRR by threshold."""
    shown, clusters = result.series["planes"], result.series["clusters"]
    figure, axes = panels(3, len(shown), size=(2.5, 2.3))
    for column, (name, found) in enumerate(shown.items()):
        for row, (space, points) in enumerate(zip(SPACES, found["points"], strict=True)):
            short = name.replace("quantized, ", "")
            title = f"{short}: {found['distance']:.2f}" if row == 0 else ""
            draw_plane(axes[row, column], points, clusters, title)
            axes[row, 0].set_ylabel(space)
    for panel in axes[2, 3:]:
        panel.set_axis_off()
    titles = ("cosine distance", "rows that differ", "MRR: words found")
    for panel, measure, title in zip(axes[2], ("cosine distance", "different rows", "mrr"), titles, strict=False):
        for color, (suffix, found) in zip(COLORS, result.series["curves"].items(), strict=False):
            first, *others = found[measure]
            panel.axhline(first, color=color, linestyle=":", linewidth=1)
            panel.plot(THRESHOLDS, others, "o-", color=color, markersize=4, label="quantized" + suffix)
        panel.set(title=title, xlabel="threshold t", ylim=(0, None))
    figure.legend(*axes[2][0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.suptitle(
        "Words near four words (colors) in two spaces, with the cosine distance between the descriptions of a word, "
        "as they are and quantized.\nDotted: the cosine, unquantized",
        fontsize=9,
    )
    return figure


def _unit(a: np.ndarray) -> np.ndarray:
    return a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-12)
