"""How smooth `relatent explore` is: the time that a frame takes while every point moves, and what else one waits for.

``python -m benchmarks.browser.explore --points 20000`` opens the page in the system's chromium (Playwright's library,
the page built by ``make explore``) and prints JSON. Without a graphics card the browser draws in software, and shares
the cores with whatever else runs: the time that a frame takes grows with the load of the machine, what it costs the
page and the process that draws does not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from relatent import Space, write_space

CLUSTERS = 7
GL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]
FRAMES = 40
# Every point of the source moves from one frame to the next, as while the slider plays, but no frame is left out.
MOVE = """async (frames) => {
    const panel = explorer.panels[0];
    const times = [];
    for (let i = 1; i <= frames; i++) {
        const start = performance.now();
        await panel.draw(panel.positions(i / frames), true);
        times.push(performance.now() - start);
    }
    return times;
}"""
REFIT = """async () => {
    const start = performance.now();
    const k = document.getElementById("k");
    k.value = Math.round(k.max / 2);
    k.dispatchEvent(new Event("input"));
    const before = explorer.store.state.view;
    while (explorer.store.state.view === before) await new Promise((resolve) => setTimeout(resolve, 10));
    return performance.now() - start;
}"""
SELECT = """async () => {
    const start = performance.now();
    explorer.store.set({ item: 5 });
    while (!explorer.store.state.neighbors) await new Promise((resolve) => setTimeout(resolve, 5));
    return performance.now() - start;
}"""


def spaces(folder: Path, n: int, d: int) -> list[str]:
    """Write clusters in one space and, turned, in another."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLUSTERS, n)
    new = (rng.normal(size=(CLUSTERS, d))[labels] + 0.6 * rng.normal(size=(n, d))).astype(np.float32)
    old = new @ np.linalg.qr(rng.normal(size=(d, d)))[0].astype(np.float32)
    for name, vectors in (("old", old), ("new", new)):
        keys = [f"item {i}" for i in range(n)]
        write_space(Space(vectors, keys, name, others={"label": labels}), folder / f"{name}.parquet")
    return [str(folder / "old.parquet"), str(folder / "new.parquet")]


def measured(address: str) -> dict[str, Any]:
    """Open the page, play, refit and select."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=GL)
        page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        page.goto(address)
        page.wait_for_selector("html[data-ready]", timeout=120_000)
        ready = page.evaluate("performance.now()")
        before = cpu_seconds(browser)
        frames = np.asarray(page.evaluate(MOVE, FRAMES))
        cpu = {kind: seconds - before[kind] for kind, seconds in cpu_seconds(browser).items()}
        refit, select = page.evaluate(REFIT), page.evaluate(SELECT)
        browser.close()
    return {
        "ready_ms": round(ready),
        "frame_ms": {f"p{q}": round(float(np.percentile(frames, q)), 1) for q in (50, 95)},
        "page_cpu_ms_per_frame": round(1000 * cpu["renderer"] / FRAMES, 1),
        "drawing_cpu_ms_per_frame": round(1000 * cpu["GPU"] / FRAMES, 1),
        "refit_ms": round(refit),
        "neighbors_ms": round(select),
    }


def cpu_seconds(browser: Any) -> dict[str, float]:
    """Return the time that the processes of the browser have computed so far, by kind: renderer is the page."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    kinds = {process["type"] for process in found}
    return {kind: sum(process["cpuTime"] for process in found if process["type"] == kind) for kind in kinds}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--rows", type=int, help="items in the files, if more than are drawn")
    parser.add_argument("--dim", type=int, default=384)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = spaces(Path(folder), options.rows or options.points, options.dim)
        command = [sys.executable, "-c", "from relatent.cli import app; app()", "explore", *files]
        command += ["--max-rows", str(options.points)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                found = measured(server.stdout.readline().split()[1])  # type: ignore[union-attr]
            finally:
                server.terminate()
    print(json.dumps({"points": options.points, "rows": options.rows or options.points, "dim": options.dim} | found))


if __name__ == "__main__":
    main()
