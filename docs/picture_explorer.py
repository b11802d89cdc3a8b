"""Take the pictures of docs/explore.md: ``python docs/picture_explorer.py``, after ``make explore``.

It needs the extras browser, explore and dev (Pillow). Two small networks that differ by their seed encode the digits 0
to 6 of scikit-learn: one color each.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_digits

from relatent.demo import Network
from relatent.spaces import Space, write_space

PICTURES = Path(__file__).parent / "pictures"
WINDOW = {"width": 1280, "height": 840}
GL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
MAX_BYTES = 200_000
COLORS = 128


def write_spaces(folder: Path) -> list[str]:
    """Train both networks on half of the images, and write their vectors of all."""
    images, labels = load_digits(n_class=7, return_X_y=True)
    keys = [f"image {i}" for i in range(len(images))]
    paths = []
    for name, seed in (("old", 1), ("new", 2)):
        network = Network.train(images[::2] / 16, labels[::2], seed)
        vectors = network.encode(images / 16).astype(np.float32)
        paths.append(str(folder / f"{name}.parquet"))
        write_space(Space(vectors, keys, name, others={"digit": labels}), paths[-1])
    return paths


def take(page: Page, name: str) -> None:
    """Save the window in few colors, which is all that it has."""
    page.wait_for_timeout(1500)  # points have come to rest
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    path = PICTURES / name
    shot.save(path, optimize=True)
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes: expected {MAX_BYTES} at most. Use fewer colors.")
    sys.stdout.write(f"{path}: {path.stat().st_size // 1000} kB\n")


def pictures(address: str) -> None:
    """Show the spaces as they are, and one item after the translation."""
    with sync_playwright() as running:
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=[*GL, *root])
        page = browser.new_page(viewport=WINDOW, color_scheme="light", reduced_motion="reduce")  # type: ignore[arg-type]
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        page.uncheck("#show-anchors")
        take(page, "explorer.png")
        page.focus("#slider")
        page.keyboard.press("End")
        page.check("#show-anchors")
        page.fill("#search", "image 1000")
        page.press("#search", "Enter")
        take(page, "explorer-translated.png")
        browser.close()


def main() -> None:
    """Serve the page as the command does, and take the pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command: list[Any] = [sys.executable, "-c", "from relatent.cli import app; app()", "explore"]
        command += [*write_spaces(Path(folder)), "--label", "digit"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                pictures(server.stdout.readline().split()[1])  # type: ignore[union-attr]
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
