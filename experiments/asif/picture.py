"""The picture of ASIF: accuracy and retrieval against the number of coupled examples."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

COLOURS = {"ASIF": "#d9480f", "translator": "#1c7ed6"}
NAMES = {"ASIF": "ASIF: nothing fitted", "translator": 'Translator("retrieval"): closed-form map'}
DASHES = {"accuracy, category names": "-", "accuracy, class means": "--", "MRR →": "-", "MRR ←": "--"}
STYLES = {
    "-": "prompts are the class names · first finds second",
    "--": "prompts are mean texts of a class · second finds first",
}
BOUNDS = {"chance": (":", "top"), "most frequent class": ("-.", "bottom"), "head trained on the pool": ("-", "bottom")}
GREY = "#868e96"


def draw(path: Path, results: dict[str, Any]) -> None:
    """Draw one column per set: accuracy above, retrieval below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 + 3.4 * len(results), 7), dpi=130, layout="constrained")
    axes = figure.subplots(2, len(results), squeeze=False, sharex=True, sharey="row")
    figure.suptitle("Two encoders that never met, joined by coupled examples", fontsize=14, fontweight="bold")
    for (name, result), (above, below) in zip(results.items(), axes.T, strict=True):
        above.set_title(name.replace(": ", "\n"), fontsize=11)
        _lines(below, result["cells"], "MRR")
        below.set_xlabel("coupled examples (log scale)")
        if result["bounds"]:
            _lines(above, result["cells"], "accuracy")
            _bounds(above, result["bounds"])
        else:
            above.set_axis_off()
            above.text(0.5, 0.5, "(no classes)", ha="center", color=GREY, transform=above.transAxes)
    for row, label in zip(axes, ("zero-shot accuracy", "retrieval, MRR@10"), strict=True):
        row[0].set_ylabel(label, fontsize=11)
    _legend(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _lines(axes: Any, cells: list[dict[str, Any]], measure: str) -> None:
    """Draw the mean over seeds of each method's curves, and a band of one standard deviation."""
    groups: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        for name in cell:
            if name.startswith(measure):
                groups[cell["method"], name][cell["pairs"]].append(cell[name])
    for (method, name), by_pairs in groups.items():
        pairs = sorted(by_pairs)
        mean, std = (np.asarray([f(by_pairs[k]) for k in pairs]) for f in (np.mean, np.std))
        axes.plot(pairs, mean, DASHES[name], color=COLOURS[method], marker="o", markersize=4)
        axes.fill_between(pairs, mean - std, mean + std, color=COLOURS[method], alpha=0.13, linewidth=0)
    pairs = sorted({cell["pairs"] for cell in cells})
    axes.set_xscale("log")
    axes.set_xticks(pairs, [f"{k:,}" for k in pairs])
    axes.minorticks_off()
    axes.set_ylim(0, 1)
    axes.grid(axis="y", color="#e9ecef")
    axes.spines[["top", "right"]].set_visible(False)


def _bounds(axes: Any, bounds: dict[str, float]) -> None:
    for name, value in bounds.items():
        dash, side = BOUNDS[name]
        axes.axhline(value, color=GREY, linestyle=dash, linewidth=0.9, zorder=0)
        shift = (0, -2 if side == "top" else 1)
        where = {
            "xy": (1, value),
            "xycoords": ("axes fraction", "data"),
            "xytext": shift,
            "textcoords": "offset points",
        }
        axes.annotate(f"{name} {value:.2f}", **where, ha="right", va=side, fontsize=8, color=GREY)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    methods = [Line2D([], [], color=COLOURS[m], marker="o", markersize=4, label=NAMES[m]) for m in COLOURS]
    styles = [Line2D([], [], color="#495057", linestyle=dash, label=words) for dash, words in STYLES.items()]
    figure.legend(handles=methods + styles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
