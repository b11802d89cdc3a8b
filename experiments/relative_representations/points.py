"""Points of two spaces in the plane: figures 7, 10 and 11 of Moschella et al., ICLR 2023."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.figures import COLORS, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def planes(x: np.ndarray, y: np.ndarray, how: str) -> list[np.ndarray]:
    """Return two coordinates per row for each of two spaces of one width.

    "PCA" fits its axes on x and applies them to both, "t-SNE" sees each space alone, "first two" are as they are.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if how == "first two":
        return [x[:, :2], y[:, :2]]
    if how == "PCA":
        axes = PCA(2, random_state=0).fit(x)
        return [axes.transform(x), axes.transform(y)]
    options = {
        "init": "pca",
        "metric": "cosine",
        "max_iter": 500,
        "random_state": 0,
        "perplexity": min(30, len(x) // 4),
    }
    return [TSNE(2, **options).fit_transform(space) for space in (x, y)]


def pack(points: np.ndarray) -> str:
    """Return points as one short text: each coordinate in 256 steps, which is finer than a dot.

    >>> unpack(pack(np.asarray([[0.0, 5.0], [1.0, 5.0], [0.5, 7.0]]))).round(1).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]]
    """
    low, high = points.min(axis=0), points.max(axis=0)
    steps = np.rint(255 * (points - low) / np.maximum(high - low, 1e-12)).astype(np.uint8)
    return base64.b64encode(steps.tobytes()).decode()


def unpack(text: str) -> np.ndarray:
    """Return the points of a text between 0 and 1."""
    return np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(-1, 2) / 255


def draw_planes(
    rows: Mapping[str, Sequence[tuple[str, str, Sequence[int]]]],
    names: Sequence[str],
    size: tuple[float, float] = (1.9, 2.0),
) -> Figure:
    """Draw rows of panels, each a title, packed points and their clusters, by color; ``names`` are the clusters'."""
    figure, axes = panels(len(rows), max(map(len, rows.values())), size=size)
    for line, (label, cells) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(label, fontsize=11)
        for panel, (title, points, clusters) in zip(line, cells, strict=True):
            draw_plane(panel, points, clusters, title)
    figure.legend(handles=[_dot(i, name) for i, name in enumerate(names)], loc="outside lower center", ncols=len(names))
    return figure


def draw_plane(panel: Any, points: str, clusters: Sequence[int], title: str) -> None:
    """Draw packed points, colored by cluster."""
    colors = np.asarray(COLORS)[np.asarray(clusters)]
    panel.scatter(*unpack(points).T, c=colors, s=5, linewidths=0, alpha=0.7)
    panel.set(title=title, xticks=[], yticks=[])


def draw_digits(panel: Any, points: str, labels: np.ndarray) -> None:
    """Draw packed points of images of digits, and each digit where most of its images are."""
    x = unpack(points)
    for digit in np.unique(labels):
        some, color = x[labels == digit], COLORS[int(digit) % 7]
        panel.scatter(*some.T, s=3, color=color, alpha=0.5, linewidths=0)
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5}
        panel.text(*np.median(some, axis=0), str(digit), color=color, weight="bold", fontsize=9, bbox=box)
    panel.set(xticks=[], yticks=[])


def _dot(i: int, name: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], marker="o", linestyle="", color=COLORS[i], markersize=5, label=name)
