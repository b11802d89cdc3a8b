"""One style for every picture: colors that color-blind readers can distinguish, readable labels, no boxes.

Sphinx-Gallery applies it before each script, so that a script can use ``"C0"`` and imports only relatent.
"""

from __future__ import annotations

from typing import Any

# After Okabe and Ito, and Tol. The order keeps neighbors far apart in hue and in lightness.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#7f7f7f", "#000000", "#999933")
SETTINGS = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 11,
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.size": 11,
    "image.cmap": "cividis",
    "legend.frameon": False,
    "lines.linewidth": 2,
    "savefig.facecolor": "white",
}


def apply(gallery: Any = None, name: str = "") -> None:
    """Set the style; Sphinx-Gallery passes the arguments."""
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update(SETTINGS | {"axes.prop_cycle": cycler(color=COLORS)})
