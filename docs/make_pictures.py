"""Make the pictures that README and docs show and the repository holds: ``python docs/make_pictures.py``.

The idea is the second picture of the gallery's first script; the demo's picture is what ``relatent demo`` leaves. The
front page of the documentation is photographed where ``make docs`` has built it and chromium is installed.
"""

from __future__ import annotations

import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib as mpl

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
SITE = HERE / "_build" / "html" / "index.html"
WINDOW = (1280, 1180)


def main() -> None:
    """Write every picture."""
    mpl.use("Agg")
    idea(PICTURES / "idea.png")
    demo(PICTURES / "demo.png")
    chromium = shutil.which("chromium")
    if chromium and SITE.exists():
        front_page(chromium, PICTURES / "docs.png")


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


def front_page(chromium: str, path: Path) -> None:
    """Photograph the front page, at half its size and in few colors."""
    from PIL import Image

    size = "--window-size={},{}".format(*WINDOW)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size, f"--screenshot={path}"]
    subprocess.run([chromium, *options, SITE.as_uri()], check=True, capture_output=True)
    with Image.open(path) as photo:
        small = photo.convert("RGB").resize([side // 2 for side in WINDOW], Image.Resampling.LANCZOS)
    small.quantize(128).save(path, optimize=True)


if __name__ == "__main__":
    main()
