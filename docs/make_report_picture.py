"""Photograph a report for the docs: ``python docs/make_report_picture.py``. Needs chromium and Pillow.

The report is that of the demo's two files: an old and a new network that see the same digits.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

from relatent import load, read_space
from relatent.deliver import read_relevance, report_spaces, write_report
from relatent.demo import run_demo

PICTURE = Path(__file__).parent / "pictures" / "report.png"
WINDOW = (940, 960)
SHARPNESS = 2


def main() -> None:
    """Run the demo, write its report, and keep the top of the page in few colors."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("There is no chromium to photograph with: install it, such as by apt-get install chromium.")
    with tempfile.TemporaryDirectory() as folder:
        files = run_demo(folder).files
        pair = read_space(files["old"]), read_space(files["new"])
        found = report_spaces(*pair, translator=load(files["translator"]), relevant=read_relevance(files["relevant"]))
        page, photo = Path(folder, "report.html"), Path(folder, "report.png")
        write_report(found, page)
        size = [f"--window-size={WINDOW[0]},{WINDOW[1]}", f"--force-device-scale-factor={SHARPNESS}"]
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *size]
        subprocess.run([chromium, *options, f"--screenshot={photo}", page.as_uri()], check=True, capture_output=True)
        with Image.open(photo) as taken:
            taken.convert("RGB").quantize(64).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
