"""Make the pictures that README and docs show and the repository holds: ``python docs/make_pictures.py``.

The idea is the second picture of the gallery's first script; the demo's picture is what ``relatent demo`` leaves.
"""

from __future__ import annotations

import runpy
import shutil
import tempfile
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"


def main() -> None:
    """Write every picture."""
    mpl.use("Agg")
    idea(PICTURES / "idea.png")
    demo(PICTURES / "demo.png")


def idea(path: Path) -> None:
    """Run the script, and keep its last figure."""
    import matplotlib.pyplot as plt

    runpy.run_path(str(HERE / "style.py"))["apply"]()
    runpy.run_path(str(HERE / "gallery" / "plot_01_idea.py"))
    plt.savefig(path, dpi=80, pil_kwargs={"optimize": True})


def demo(path: Path) -> None:
    """Run the demo, and keep its picture."""
    from relatent.demo import run_demo

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(run_demo(folder).files["picture"], path)


if __name__ == "__main__":
    main()
