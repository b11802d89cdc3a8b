"""The picture that the demo leaves behind."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from relatent._atomic import whole_file
from relatent.evaluate import Verdict

__all__ = ["draw"]

ARMS = {"stay": "old model,\nas today", "translate": "translated", "re-embed": "re-embedded\n(ceiling)"}
COLOURS = {"stay": "#9aa5b1", "translate": "#d9480f", "re-embed": "#1c7ed6"}
SHOWN = 40


def draw(path: Path, verdicts: dict[str, Verdict], translated: np.ndarray, new: np.ndarray, title: str) -> bool:
    """Draw the three searches as bars, and where translated vectors land; False when matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    figure = Figure(figsize=(10, 4.6), dpi=120, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    figure.suptitle(title, fontsize=12)
    _bars(left, verdicts)
    _places(right, translated, new)
    with whole_file(path) as beside:
        figure.savefig(beside, format="png")
    return True


def _bars(axes: Any, verdicts: dict[str, Verdict]) -> None:
    for i, arm in enumerate(ARMS):
        estimates = [verdict[arm][verdict.scores.measures[0]] for verdict in verdicts.values()]
        at = np.arange(len(estimates)) + (i - 1) * 0.27
        values = [e.value for e in estimates]
        ends = [[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]]
        axes.bar(at, values, 0.25, color=COLOURS[arm], label=ARMS[arm].replace("\n", " "), yerr=ends, capsize=3)
        for x, e in zip(at, estimates, strict=True):
            axes.text(x, 0.03, f"{e.value:.2f}", ha="center", color="white", fontsize=10, fontweight="bold")
    axes.set_xticks(range(len(verdicts)), [fill(name, 22) for name in verdicts])
    axes.set_ylim(0, 1.22)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.set_ylabel("recall@10, with 95 % intervals")
    axes.legend(loc="upper center", ncols=3, frameon=False, fontsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)


def _places(axes: Any, translated: np.ndarray, new: np.ndarray) -> None:
    """Show both in the plane in which the new vectors vary most; a line joins each item's two places."""
    unit_new, unit_translated = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (new, translated))
    centre = unit_new.mean(axis=0)
    plane = np.linalg.svd(unit_new - centre, full_matrices=False)[2][:2].T
    there, here = (unit_new - centre) @ plane, (unit_translated - centre) @ plane
    axes.scatter(*there.T, s=3, color="#dee2e6", zorder=1)
    rows = np.linspace(0, len(there) - 1, SHOWN).astype(int)
    for row in rows:
        axes.plot(*np.stack([here[row], there[row]]).T, color="#adb5bd", linewidth=0.8, zorder=2)
    axes.scatter(*there[rows].T, s=26, facecolor="white", edgecolor=COLOURS["re-embed"], zorder=3, label="re-embedded")
    axes.scatter(*here[rows].T, s=16, color=COLOURS["translate"], zorder=4, label="translated")
    axes.set_title(f"{SHOWN} held-out items in the new space (first two axes)", fontsize=9.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.legend(loc="best", frameon=False, fontsize=8.5)
