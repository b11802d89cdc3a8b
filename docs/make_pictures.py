"""Make the pictures that README and docs show and the repository holds: ``python docs/make_pictures.py``.

The idea is the second picture of the gallery's first script; the demo's picture is what ``relatent demo`` leaves. Where
chromium is installed, the report of the demo's two files is photographed, and the front page of the documentation if
``make docs`` has built it.
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


def main() -> None:
    """Write every picture."""
    mpl.use("Agg")
    idea(PICTURES / "idea.png")
    demo(PICTURES / "demo.png")
    chromium = shutil.which("chromium")
    if chromium:
        report(chromium, PICTURES / "report.png")
    if chromium and SITE.exists():
        photograph(chromium, SITE, PICTURES / "docs.png", (1280, 1180), colors=128)


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


def report(chromium: str, path: Path) -> None:
    """Run the demo, write its report, and photograph the top of the page."""
    from relatent import load, read_space
    from relatent.decide import read_relevance
    from relatent.demo import run_demo
    from relatent.report import make_report, write_report

    with tempfile.TemporaryDirectory() as folder:
        files = run_demo(folder).files
        pair = read_space(files["old"]), read_space(files["new"])
        found = make_report(load(files["translator"]), *pair, relevant=read_relevance(files["relevant"]))
        page = Path(folder, "report.html")
        write_report(found, page)
        photograph(chromium, page, path, (940, 960), sharpness=2, colors=64)


def photograph(
    chromium: str, page: Path, path: Path, window: tuple[int, int], *, sharpness: float = 0.5, colors: int
) -> None:
    """Photograph the top of a page in few colors, ``sharpness`` times the size of the window."""
    from PIL import Image

    size = [f"--window-size={window[0]},{window[1]}", f"--force-device-scale-factor={max(sharpness, 1)}"]
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *size, f"--screenshot={path}"]
    subprocess.run([chromium, *options, page.as_uri()], check=True, capture_output=True)
    with Image.open(path) as photo:
        sides = [round(side * sharpness) for side in window]
        photo.convert("RGB").resize(sides, Image.Resampling.LANCZOS).quantize(colors).save(path, optimize=True)


if __name__ == "__main__":
    main()
