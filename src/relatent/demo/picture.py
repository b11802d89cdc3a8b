"""The picture of the demo: an old network's vectors in the space of a new one, before and after translation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from relatent._atomic import atomic_write
from relatent.demo.digits import Upgrade
from relatent.translate import Translator

__all__ = ["draw"]

# Ten colors that color-blind readers can tell apart (after Okabe and Ito, and Tol); each digit is its own marker too.
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000", "#7f7f7f", "#882255", "#999933")
TRANSLATED, REFERENCE = "#d55e00", "#495057"
SHOWN = 30
COUNTS = (5, 10, 20, 50, 100, 200, 300)
DRAWS = 5


def draw(path: Path, upgrade: Upgrade) -> bool:
    """Draw three views of one plane, and accuracy by the number of anchors; False when matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    figure = Figure(figsize=(14, 4.2), dpi=130, layout="constrained")
    grid = figure.add_gridspec(1, 4, width_ratios=(1, 1, 1, 1.2))
    figure.suptitle("A new network reads the vectors of an old one that it never met", fontsize=14, fontweight="bold")
    old, new = upgrade.old.encode(upgrade.images), upgrade.new.encode(upgrade.images)
    views = {
        "old vectors, as they are": old,
        "old vectors, translated": _translator(upgrade, np.arange(len(upgrade.anchors))).transform(old),
        "new vectors (ceiling)": new,
    }
    for i, (title, vectors) in enumerate(views.items()):
        _plane(figure.add_subplot(grid[i]), upgrade, vectors, title)
    _curve(figure.add_subplot(grid[3]), upgrade)
    with atomic_write(path) as beside:
        figure.savefig(beside, format="png")
    return True


def _translator(upgrade: Upgrade, rows: np.ndarray) -> Translator:
    anchors = upgrade.anchors[rows]
    return Translator().fit(upgrade.old.encode(anchors), upgrade.new.encode(anchors))


def _plane(axes: Any, upgrade: Upgrade, vectors: Any, title: str) -> None:
    """Show images as digits in the plane in which the new network's class means vary most, the same in every view."""
    new = upgrade.new.encode(upgrade.images)
    means = np.stack([new[upgrade.labels == digit].mean(axis=0) for digit in range(10)])
    center = means.mean(axis=0)
    axis = np.linalg.svd(means - center, full_matrices=False)[2][:2].T
    places, limits = (vectors - center) @ axis, (new - center) @ axis
    for digit, color in enumerate(COLORS):
        some = places[upgrade.labels == digit][:SHOWN]
        axes.scatter(*some.T, marker=f"${digit}$", s=46, color=color, linewidths=0.2)
    for set_limits, ends in zip((axes.set_xlim, axes.set_ylim), limits.T, strict=True):
        set_limits(ends.min() * 1.08, ends.max() * 1.08)
    axes.set(xticks=[], yticks=[], title=title)
    axes.set_xlabel(f"classified right: {upgrade.new.accuracy(vectors, upgrade.labels):.0%}", fontsize=13)


def _curve(axes: Any, upgrade: Upgrade) -> None:
    """Show how few anchors it takes: the mean and range over several draws."""
    old, rng = upgrade.old.encode(upgrade.images), np.random.default_rng(0)
    found = np.asarray([[_score(upgrade, old, rng, k) for _ in range(DRAWS)] for k in COUNTS])
    axes.fill_between(COUNTS, found.min(axis=1), found.max(axis=1), color=TRANSLATED, alpha=0.2, linewidth=0)
    axes.plot(COUNTS, found.mean(axis=1), color=TRANSLATED, marker="o", label="old vectors, translated")
    lines = {
        "new network": (upgrade.new.accuracy(upgrade.new.encode(upgrade.images), upgrade.labels), "-", "bottom"),
        "old network": (upgrade.old.accuracy(old, upgrade.labels), "--", "top"),
        "new head on old vectors": (upgrade.new.accuracy(old, upgrade.labels), ":", "bottom"),
    }
    for name, (value, dash, side) in lines.items():
        axes.axhline(value, color=REFERENCE, linestyle=dash, linewidth=1.2, zorder=0)
        axes.annotate(f"{name} {value:.0%}", (COUNTS[-1], value), ha="right", va=side, color=REFERENCE, fontsize=10)
    axes.set_xscale("log")
    axes.set_xticks(COUNTS, [str(k) for k in COUNTS])
    axes.minorticks_off()
    axes.set(ylim=(0, 1.08), xlabel="anchors: images that both have encoded", title="classified right")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(loc="center right", frameon=False, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _score(upgrade: Upgrade, old: np.ndarray, rng: np.random.Generator, k: int) -> float:
    rows = rng.choice(len(upgrade.anchors), k, replace=False)
    return upgrade.new.accuracy(_translator(upgrade, rows).transform(old), upgrade.labels)
