"""Does a better reconstruction make a better stitch? Similarity against accuracy over data sets (Maiorca et al., 2024).

Every point is one pair of encoders at one ω and one δ: the cosine of decoded to true vectors, and the accuracy of the
target's head on them, both on test rows.

    python -m experiments irp-correlation
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from experiments.data.tasks import STAND_INS, TASKS, load_task
from experiments.figures import COLORS, panels
from experiments.inverse_relative_projection.decoding import fit_heads, neighbors, score_grid
from experiments.published import published
from experiments.results import Finding, Result, Setting, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("cifar10", "fashion", "groceries", "emoji", "trec", "newsgroups")
DELTAS, OMEGAS, ANCHORS = (0.7, 0.8, 0.9, 0.95), (1, 4, 16), 400


def run(setting: Setting) -> Result:
    """Score the grid of some pairs of every data set."""
    most = setting.pick(quick=1_000, full=None)
    points: dict[str, list[np.ndarray]] = {}
    for name in NAMES:
        task = load_task(name, seed=0, most=most)
        heads, pairs = fit_heads(task), neighbors(list(task.spaces))
        grids = (score_grid(task, p, heads[p[1]], task.test, DELTAS, OMEGAS, anchors=ANCHORS)[:2] for p in pairs)
        points[name] = [grid.reshape(2, -1) for grid in grids]
    found = {name: [float(np.corrcoef(p)[0, 1]) for p in pairs] for name, pairs in points.items()}
    joined = {name: float(np.corrcoef(np.concatenate(pairs, axis=1))[0, 1]) for name, pairs in points.items()}
    least = published("irp-correlation", "correlation")
    columns = ("data", "pairs", "Pearson over all points", "over ω and δ of one pair, mean", "lowest", "published")
    rows = [[TASKS[n].title, str(len(r)), joined[n], float(np.mean(r)), min(r), f"> {least}"] for n, r in found.items()]
    every = [r for pairs in found.values() for r in pairs]
    return Result(
        [Table("Similarity and accuracy", columns, rows)],
        [
            Finding(
                "reconstruction similarity predicts stitching accuracy, r > .7",
                min(float(np.mean(r)) for r in found.values()) > least,
                f"Over ω and δ of one pair r is {np.mean(every):.2f} on average, above {least} for "
                f"{sum(r > least for r in every)} of {len(every)} pairs. It does not predict which pair stitches best: "
                f"with the points of all pairs together r falls to {min(joined.values()):.2f}.",
                headline=True,
            )
        ],
        data=[f"{ANCHORS} anchors, δ of {DELTAS[0]} to {DELTAS[-1]}, ω of {OMEGAS[0]} to {OMEGAS[-1]}"],
        stand_ins={TASKS[name].title: STAND_INS[name] for name in NAMES},
        series={TASKS[name].title: np.concatenate(pairs, axis=1) for name, pairs in points.items()},
    )


def draw(result: Result) -> Figure:
    """Draw accuracy against similarity, one color per data set."""
    figure, axes = panels(size=(5.6, 3.8))
    for (name, points), color, marker in zip(result.series.items(), COLORS, "osD^vP", strict=False):
        axes[0, 0].scatter(*np.asarray(points), s=16, color=color, marker=marker, label=name, alpha=0.8, linewidth=0)
    axes[0, 0].set_xlabel("cosine of decoded to true vectors")
    axes[0, 0].set_ylabel("accuracy of the target's head")
    axes[0, 0].set_title("Better reconstructions stitch better")
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure
