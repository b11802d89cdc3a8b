"""One look for all pictures: colors that the color-blind tell apart, plain axes, no ink without meaning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, the dark ones first.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
SEQUENTIAL = "cividis"
COLOR_COUNTS, LARGEST = (64, 32, 16), 190_000  # bytes
STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 120,
}


def panels(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (3.2, 2.8), **options: Any
) -> tuple[Figure, Any]:
    """Return a figure and its array of axes, (rows, columns), in our style; ``size`` is one panel's, in inches."""
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE | {"axes.prop_cycle": cycler(color=COLORS)}):
        figure = Figure(figsize=(size[0] * columns, size[1] * rows))
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def heat_map(axes: Any, values: Any, rows: list[str], columns: list[str], *, digits: int = 2, **options: Any) -> Any:
    """Draw a matrix with its figures written into the cells, and return the image."""
    import numpy as np

    values = np.asarray(values, dtype=float)
    image = axes.imshow(values, cmap=SEQUENTIAL, aspect="auto", **options)
    axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    middle = sum(image.get_clim()) / 2
    for i, j in np.ndindex(*values.shape):
        if np.isfinite(values[i, j]):
            color = "black" if values[i, j] > middle else "white"
            axes.text(j, i, f"{values[i, j]:.{digits}f}", ha="center", va="center", color=color, fontsize=7)
    return image


def packed_grid(rows: dict[str, Any]) -> dict[str, Any]:
    """Return rows of images in [0, 1], (n, colors, side, side) each, as one small picture that fits into a record."""
    import base64
    import io

    import numpy as np
    from PIL import Image

    images = np.pad(np.stack(list(rows.values())), ((0, 0), (0, 0), (0, 0), (0, 1), (0, 1)), constant_values=1)
    height, count, colors, step, _ = images.shape
    grid = images.transpose(0, 3, 1, 4, 2).reshape(height * step, count * step, colors)
    pixels = np.round(np.clip(np.broadcast_to(grid, (*grid.shape[:2], 3)), 0, 1) * 255).astype(np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "WEBP", quality=50)
    return {"rows": list(rows), "webp": base64.b64encode(content.getvalue()).decode("ascii")}


def draw_grid(axes: Any, kept: dict[str, Any], title: str) -> None:
    """Draw what :func:`packed_grid` packed, with the name of each row beside it."""
    import base64
    import io

    import numpy as np
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(kept["webp"]))))
    step = len(pixels) / len(kept["rows"])
    axes.imshow(pixels, interpolation="nearest")  # sharp pixels, which also keep the file small
    places = step * (np.arange(len(kept["rows"])) + 0.5)
    axes.set(xticks=[], yticks=places, yticklabels=kept["rows"], title=title)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _fit_titles(figure: Figure, smallest: float = 0.7) -> None:
    """Make the titles of all panels as much smaller as the widest needs to stay within its panel."""
    figure.draw_without_rendering()
    titles = [(axes.title, axes.bbox.width) for axes in figure.axes if axes.get_title()]
    fits = min((width / title.get_window_extent().width for title, width in titles), default=1.0)
    for title, _ in titles:
        title.set_fontsize(title.get_fontsize() * min(1.0, max(fits, smallest)))


def save(figure: Figure, path: Path, *, photos: bool = False) -> None:
    """Write a picture, with as many colors as keep it small; one that shows photos in its true colors."""
    import io

    from PIL import Image

    drawn, content = io.BytesIO(), io.BytesIO()
    _fit_titles(figure)
    figure.savefig(drawn, format="png", facecolor="white", dpi=STYLE["savefig.dpi"])
    for colors in (None,) if photos else COLOR_COUNTS:
        content = io.BytesIO()
        picture = Image.open(drawn).convert("RGB")
        shown = picture.quantize(colors, Image.Quantize.MAXCOVERAGE) if colors else picture
        shown.save(content, "png", optimize=True)
        if content.tell() < LARGEST:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())
