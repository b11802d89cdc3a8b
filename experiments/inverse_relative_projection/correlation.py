"""Does a better reconstruction make a better stitch? Similarity against accuracy over data sets (Maiorca et al., 2024).

Every point is one pair of encoders at one ω and one δ: the cosine of decoded to true vectors, and the accuracy of the
target's head on them, both on test rows. The paper gives one correlation and not over what it is taken: over ω and δ,
as in its study of TREC, or over pairs of encoders as well. Here are both.

    python -m experiments irp-correlation
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from experiments.data.source import BySource
from experiments.data.tasks import STAND_INS, TASKS, load_task
from experiments.figures import COLORS, panels
from experiments.inverse_relative_projection.decoding import choose, fit_heads, neighbors, score_grid
from experiments.published import published
from experiments.results import Finding, Result, Setting, Table, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = BySource(
    packages=("cifar10", "fashion", "groceries", "emoji", "trec", "newsgroups"),
    hub=("mnist", "fashion", "cifar10", "cifar100 coarse", "cifar100 fine", "trec", "newsgroups"),
)
DELTAS, OMEGAS, ANCHORS = (0.7, 0.8, 0.9, 0.95), (1, 4, 16), 400


def run(setting: Setting) -> Result:
    """Score the grid of some pairs of every data set, over seeds."""
    seeds, max_rows = setting.pick(quick=(5, 1_000), full=(5, None))
    points = {name: points_of(name, seeds, max_rows) for name in NAMES}
    least = published("irp-correlation", "correlation")
    columns = ("data", "over ω and δ of one pair", "over all points", "published")
    within = {name: [pearson(pair) for pair in np.vstack(found)] for name, found in points.items()}
    joined = {name: [pearson(np.concatenate(seed, axis=1)) for seed in found] for name, found in points.items()}
    rows = [[TASKS[name].title, spread(within[name]), spread(joined[name]), f"> {least}"] for name in NAMES]
    return Result(
        [Table("Pearson correlation of similarity and accuracy, mean ± std over pairs and seeds", columns, rows)],
        findings(within, joined, least),
        seeds=seeds,
        data=[f"{ANCHORS} anchors, δ of {DELTAS[0]} to {DELTAS[-1]}, ω of {OMEGAS[0]} to {OMEGAS[-1]}"],
        stand_ins={TASKS[name].title: STAND_INS[name] for name in NAMES},
        series={TASKS[name].title: np.concatenate(found[0], axis=1) for name, found in points.items()},
    )


def points_of(name: str, seeds: int, max_rows: int | None) -> np.ndarray:
    """Return the points of one data set: seeds × pairs × (similarity, accuracy) × settings of ω and δ."""
    head, found = choose(load_task(name, max_rows=max_rows), anchors=ANCHORS).head, []
    for seed in range(seeds):
        task = load_task(name, seed, max_rows)
        heads, pairs = fit_heads(task, head), neighbors(list(task.spaces))
        grids = (
            score_grid(task, pair, heads[pair[1]], task.test, DELTAS, OMEGAS, anchors=ANCHORS, seed=seed)
            for pair in pairs
        )
        found.append([grid[:2].reshape(2, -1) for grid in grids])
    return np.asarray(found)


def pearson(points: np.ndarray) -> float:
    """Return the correlation of two rows."""
    return float(np.corrcoef(points)[0, 1])


def findings(within: dict[str, list[float]], joined: dict[str, list[float]], least: float) -> list[Finding]:
    """Judge the correlation over settings, and over everything."""
    claim = f"reconstruction similarity predicts stitching accuracy, r > {least}"
    every = [r for found in within.values() for r in found]
    return [
        Finding(
            f"{claim}, over ω and δ",
            min(float(np.mean(found)) for found in within.values()) > least,
            f"Mean {np.mean(every):.2f}, above {least} for {np.mean(np.asarray(every) > least):.0%} of pairs and "
            f"seeds; {by_name(within)}",
            headline=True,
        ),
        Finding(
            f"{claim}, over pairs of encoders as well",
            min(float(np.mean(found)) for found in joined.values()) > least,
            by_name(joined),
            headline=True,
        ),
    ]


def by_name(found: dict[str, list[float]]) -> str:
    """Return the means of all data sets in a sentence."""
    return ", ".join(f"{TASKS[name].title} {np.mean(values):.2f}" for name, values in found.items()) + "."


def draw(result: Result) -> Figure:
    """Draw accuracy against similarity, one color per data set."""
    figure, axes = panels(size=(5.6, 3.8))
    for (name, points), color, marker in zip(result.series.items(), COLORS, "osD^vP", strict=False):
        axes[0, 0].scatter(*np.asarray(points), s=16, color=color, marker=marker, label=name, alpha=0.8, linewidth=0)
    axes[0, 0].set_xlabel("cosine of decoded to true vectors")
    axes[0, 0].set_ylabel("accuracy of the target's head")
    axes[0, 0].set_title("Similarity and accuracy over pairs, ω and δ")
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure
