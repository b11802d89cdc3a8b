"""The picture of a stitching matrix: one square per method, its colours shared by all."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._atomic import atomic_write
from relatent._extras import needs

if TYPE_CHECKING:
    from relatent.stitching.result import StitchingMatrix

__all__ = ["draw"]

SHADES = ("#f8f9fa", "#d0ebff", "#74c0fc", "#1c7ed6", "#0b3a66")
OWN, MISSING, GREY = "#d9480f", "#e9ecef", "#868e96"
ACROSS = 4
# Largest over smallest error from which on a linear scale would show the large ones only.
WIDE = 20.0


def draw(matrix: StitchingMatrix, path: Path, title: str | None = None) -> Path:
    """Draw encoders × decoders for every method; the decoders on their own encoders are framed."""
    figure_class = needs("matplotlib.figure", "demo", "draw a heatmap").Figure
    tables = {method: matrix.values(method) for method in matrix.methods}
    across = min(ACROSS, len(tables))
    down = -(-len(tables) // across)
    height, width = 0.52 * len(matrix.encoders) + 1.1, 0.68 * len(matrix.decoders) + 0.5
    figure = figure_class(figsize=(across * width + 2.2, down * height + 1.0), dpi=130, layout="constrained")
    figure.suptitle(title or f"Decoders under other encoders: {matrix.metric}", fontsize=12.5)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    colours = _colours(np.concatenate([table.ravel() for table in tables.values()]), matrix.larger_is_better)
    for i, (ax, (method, values)) in enumerate(zip(axes, tables.items(), strict=False)):
        _square(ax, matrix, method, values, colours)
        ax.set_yticks(range(len(matrix.encoders)), _wrapped(matrix.encoders) if i % across == 0 else [])
        bottom = i + across >= len(tables)
        ax.set_xticks(range(len(matrix.decoders)), _wrapped(matrix.decoders) if bottom else [], rotation=35, ha="right")
        ax.set_ylabel("encoder" if i % across == 0 else "", color=GREY)
        ax.set_xlabel("decoder trained on" if bottom else "", color=GREY)
    for ax in axes[len(tables) :]:
        ax.set_visible(False)
    bar = figure.colorbar(colours, ax=axes.tolist(), shrink=0.75, pad=0.015, aspect=26)
    bar.outline.set_visible(False)
    figure.supxlabel(_legend(matrix), x=0.99, ha="right", fontsize=8, color=GREY)  # constrained layout keeps it free
    with atomic_write(path) as beside:
        figure.savefig(beside, format="png")
    return path


def _square(ax: Any, matrix: StitchingMatrix, method: str, values: np.ndarray, colours: Any) -> None:
    from matplotlib.patches import Rectangle

    rgba = np.where(np.isnan(values)[..., None], _rgba(MISSING), colours.to_rgba(values))
    ax.imshow(rgba, aspect="auto")
    mean = matrix.mean(method)
    words = method.replace("_", " ")
    ax.set_title(words if np.isnan(mean) else f"{words}, mean {_short(mean)}", fontsize=10)
    for (i, j), value in np.ndenumerate(values):
        dark = rgba[i, j, :3] @ (0.299, 0.587, 0.114) < 0.62
        words = "n/a" if np.isnan(value) else _short(value)
        colour = GREY if np.isnan(value) else "white" if dark else "#212529"
        ax.text(j, i, words, ha="center", va="center", fontsize=8.5, color=colour)
        if matrix.encoders[i] == matrix.decoders[j]:
            ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=OWN, linewidth=1.8))
    ax.set_xticks(np.arange(values.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(values.shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=2)
    ax.tick_params(which="both", length=0, labelsize=9)
    ax.spines[:].set_visible(False)


def _colours(values: np.ndarray, larger_is_better: bool) -> Any:
    """One scale for all squares, dark where it is good; from zero for shares, in powers for errors far apart."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    found = values[np.isfinite(values)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
    shades = SHADES if larger_is_better else SHADES[::-1]
    if not larger_is_better and low > 0 and high > WIDE * low:
        norm: Any = LogNorm(low, high)
    else:
        share = low >= 0 and high <= 1 and larger_is_better
        norm = Normalize(0.0, 1.0) if share else Normalize(low, high if high > low else low + 1)
    return ScalarMappable(norm, LinearSegmentedColormap.from_list("stitching", shades))


def _rgba(colour: str) -> np.ndarray:
    from matplotlib.colors import to_rgba

    return np.asarray(to_rgba(colour))


def _wrapped(names: tuple[str, ...]) -> list[str]:
    return [fill(name, 16) for name in names]


def _short(value: float) -> str:
    """Two digits that matter, without the zero that they all begin with."""
    if not 0 < value < 1:
        return f"{value:.3g}"
    digits = f"{value:.2f}" if value >= 0.1 else f"{value:#.2g}"
    return digits.removeprefix("0")


def _legend(matrix: StitchingMatrix) -> str:
    return f"framed: on its own encoder, the ceiling. {matrix.n_anchors} anchors, {matrix.n_test:,} test rows."
