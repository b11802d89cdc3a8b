"""Make the pictures of README and docs that the repository holds: ``python docs/make_pictures.py``.

The idea is the second picture of the gallery's first script; the demo's picture is what ``relatent demo`` writes. If
chromium is installed, a screenshot of the report of the demo's two files is taken.
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


def main() -> None:
    """Write every picture."""
    mpl.use("Agg")
    idea(PICTURES / "idea.png")
    demo(PICTURES / "demo.png")
    chromium = shutil.which("chromium")
    if chromium:
        report(chromium, PICTURES / "report.png")


def idea(path: Path) -> None:
    """Run the script and keep its second figure."""
    import matplotlib.pyplot as plt

    runpy.run_path(str(HERE / "style.py"))["apply"]()
    runpy.run_path(str(HERE / "gallery" / "plot_01_idea.py"))
    plt.figure(2).savefig(path, dpi=80, pil_kwargs={"optimize": True})


def demo(path: Path) -> None:
    """Run the demo and keep its picture."""
    from relatent.demo import run_demo

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(run_demo(folder).files["picture"], path)


def report(chromium: str, path: Path) -> None:
    """Run the demo, write its report, and take a screenshot of it."""
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
        screenshot(chromium, page, path)


def screenshot(chromium: str, page: Path, path: Path) -> None:
    """Take the top of a page at twice its size, in 64 colors."""
    from PIL import Image

    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
    size = ["--window-size=940,960", "--force-device-scale-factor=2"]
    subprocess.run([chromium, *options, *size, f"--screenshot={path}", page.as_uri()], check=True, capture_output=True)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    main()
