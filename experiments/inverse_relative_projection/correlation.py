"""Does a better reconstruction make a better stitch? Similarity against accuracy over data sets (Maiorca et al., 2024).

Every point is one pair of encoders at one ω and one δ: the cosine of decoded to true vectors, and the accuracy of the
target's head on them, both on test rows. The paper gives one correlation and not over what it is taken: over ω and δ,
as in its study of TREC, or over pairs of encoders as well. Here are both. A target whose vectors share a large mean has
high cosines whatever was decoded, so both are given about that mean, too.

    python -m experiments irp-correlation
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from experiments.data.source import BySource
from experiments.data.tasks import STAND_INS, TASKS, load_task
from experiments.figures import COLORS, panels
from experiments.inverse_relative_projection.decoding import MEASURES, choose, fit_heads, neighbors, score_grid
from experiments.published import published
from experiments.results import Finding, Result, Setting, Table, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = BySource(
    packages=("mnist", "cifar10", "fashion", "groceries", "emoji", "trec", "newsgroups"),
    hub=("mnist", "fashion", "cifar10", "cifar100 coarse", "cifar100 fine", "trec", "newsgroups"),
)
DELTAS, OMEGAS, ANCHORS = (0.7, 0.8, 0.9, 0.95), (1, 4, 16), 400
COSINES = "cosine", "cosine about the target's mean"
# By cosine and data set: a correlation per seed, or per pair and seed.
Correlations = dict[str, dict[str, list[float]]]


def run(setting: Setting) -> Result:
    """Score the grid of some pairs of every data set, over seeds."""
    seeds, max_rows = setting.pick(quick=(5, 1_000), full=(5, None))
    points = {name: points_of(name, seeds, max_rows) for name in NAMES}
    least = published("irp-correlation", "correlation")
    within = {one: {name: by_pair(p[:, :, [i, 2]]) for name, p in points.items()} for i, one in enumerate(COSINES)}
    joined = {one: {name: by_seed(p[:, :, [i, 2]]) for name, p in points.items()} for i, one in enumerate(COSINES)}
    cells = {name: [spread(of[one][name]) for one in COSINES for of in (within, joined)] for name in NAMES}
    columns = (f"{one}, {over}" for one in COSINES for over in ("over ω and δ of one pair", "over all points"))
    return Result(
        [
            Table(
                "Pearson correlation of similarity and accuracy, mean ± std over pairs and seeds",
                ("data", *columns, "published"),
                [[TASKS[name].title, *cells[name], f"> {least}"] for name in NAMES],
            )
        ],
        findings(within, joined, least),
        seeds=seeds,
        data=[f"{ANCHORS} anchors, δ of {DELTAS[0]} to {DELTAS[-1]}, ω of {OMEGAS[0]} to {OMEGAS[-1]}"],
        stand_ins={TASKS[name].title: STAND_INS[name] for name in NAMES},
        series={TASKS[name].title: np.concatenate(found[0], axis=1) for name, found in points.items()},
    )


def points_of(name: str, seeds: int, max_rows: int | None) -> np.ndarray:
    """Return the points of one data set: seeds × pairs × (both cosines, accuracy) × settings of ω and δ."""
    head, found = choose(load_task(name, max_rows=max_rows), anchors=ANCHORS).head, []
    measures = [MEASURES.index(one) for one in ("similarity", "centered similarity", "accuracy")]
    for seed in range(seeds):
        task = load_task(name, seed, max_rows)
        heads, pairs = fit_heads(task, head), neighbors(list(task.spaces))
        grids = (
            score_grid(task, pair, heads[pair[1]], task.test, DELTAS, OMEGAS, anchors=ANCHORS, seed=seed)
            for pair in pairs
        )
        found.append([grid[measures].reshape(3, -1) for grid in grids])
    return np.asarray(found)


def by_pair(points: np.ndarray) -> list[float]:
    """Return the correlation over settings, of every pair and seed."""
    return [pearson(pair) for pair in np.vstack(points)]


def by_seed(points: np.ndarray) -> list[float]:
    """Return the correlation over settings and pairs, of every seed."""
    return [pearson(np.concatenate(seed, axis=1)) for seed in points]


def pearson(points: np.ndarray) -> float:
    """Return the correlation of two rows."""
    return float(np.corrcoef(points)[0, 1])


def findings(within: Correlations, joined: Correlations, least: float) -> list[Finding]:
    """Judge the correlation over settings, and over everything, then what the target's mean does to it."""
    claim = f"reconstruction similarity predicts stitching accuracy, r > {least}"
    plain, centered = COSINES
    every = [r for found in within[plain].values() for r in found]
    return [
        Finding(
            f"{claim}, over ω and δ",
            lowest(within[plain]) > least,
            f"Mean {np.mean(every):.2f}, above {least} for {np.mean(np.asarray(every) > least):.0%} of pairs and "
            f"seeds; {by_name(within[plain])}",
            headline=True,
        ),
        Finding(
            f"{claim}, over pairs of encoders as well",
            lowest(joined[plain]) > least,
            by_name(joined[plain]),
            headline=True,
        ),
        Finding(
            f"the {centered} does so over pairs of encoders as well (our question)",
            lowest(joined[centered]) > least,
            by_name(joined[centered]),
        ),
    ]


def lowest(found: dict[str, list[float]]) -> float:
    """Return the lowest mean of a data set."""
    return min(float(np.mean(values)) for values in found.values())


def by_name(found: dict[str, list[float]]) -> str:
    """Return the means of all data sets in a sentence."""
    return ", ".join(f"{TASKS[name].title} {np.mean(values):.2f}" for name, values in found.items()) + "."


def draw(result: Result) -> Figure:
    """Draw accuracy against similarity, one color per data set."""
    figure, axes = panels(1, 2, size=(3.8, 3.8), sharey=True)
    for (name, points), color, marker in zip(result.series.items(), COLORS, "osD^vPX", strict=False):
        *cosines, accuracy = np.asarray(points)
        for panel, cosine in zip(axes[0], cosines, strict=True):
            panel.scatter(cosine, accuracy, s=16, color=color, marker=marker, label=name, alpha=0.8, linewidth=0)
    for panel, cosine in zip(axes[0], COSINES, strict=True):
        panel.set_xlabel(cosine)
    axes[0, 0].set_ylabel("accuracy of the target's head")
    figure.suptitle("Similarity of decoded to true vectors, and accuracy, over pairs, ω and δ", fontsize=10)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize=8, frameon=False)
    return figure
