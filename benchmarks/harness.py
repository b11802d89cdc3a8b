"""Run named contenders side by side: interleaved repeats, medians, ratios, peak memory, a table and a JSON file.

A suite is a module of this package with one ``SUITE``. It names its contenders, functions of the same inputs; the one
that is the bare operation; the peer to beat; and its targets, as ratios of throughput. Contenders are timed in turn,
round after round, so that a slow spell of the machine hits them all. A target is met if the medians meet it and the
best times agree; when they contradict each other the machine was busy and the verdict is "unclear". Memory is measured
per contender in a fresh process: the peak of resident memory while it runs, beyond what was resident once the inputs
were made. It includes the result.
"""

from __future__ import annotations

import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
Inputs = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A target: this contender has at least ``times`` the throughput of another."""

    contender: str
    over: str
    at_least: float


@dataclass(frozen=True)
class Suite:
    """What is compared: ``setup(**size)`` makes the inputs, each contender is called with them."""

    title: str
    setup: Callable[..., Inputs]
    size: dict[str, int]
    quick: dict[str, int]
    contenders: dict[str, Callable[..., Any]]
    bare: str
    peer: str
    targets: list[Target] = field(default_factory=list)
    notes: Callable[..., list[str]] | None = None
    repeats: int = 5


@dataclass(frozen=True)
class Row:
    """One contender's figures."""

    contender: str
    seconds: float
    best: float
    spread: float
    of_bare: float
    of_peer: float
    peak_mb: float


@dataclass(frozen=True)
class Verdict:
    """What became of a target: met, MISSED or unclear."""

    target: str
    verdict: str
    medians: float
    bests: float


def run(name: str, quick: bool, console: Console) -> bool:
    """Measure one suite, print its table and notes, write its JSON; tell whether all targets were met."""
    suite = load(name)
    size = suite.quick if quick else suite.size
    peaks = {contender: peak_in_fresh_process(name, contender, quick) for contender in suite.contenders}
    inputs = suite.setup(**size)
    times = interleaved(suite, inputs)
    rows = summarise(suite, times, peaks)
    notes = suite.notes(**inputs) if suite.notes else []
    verdicts = [judge(target, rows) for target in suite.targets]
    show(suite, size, rows, console)
    for line in notes:
        console.print(f"  {line}")
    for v in verdicts:
        console.print(f"  target {v.target}: {v.verdict} (medians {v.medians:.2f}, best times {v.bests:.2f})")
    write(name, quick, suite, size, rows, notes, verdicts)
    return all(v.verdict == "met" for v in verdicts)


def load(name: str) -> Suite:
    """Find the suite of a module of this package."""
    return import_module(f"benchmarks.{name}").SUITE


def interleaved(suite: Suite, inputs: Inputs) -> dict[str, list[float]]:
    """Time every contender once per round, the order turning from round to round."""
    names = list(suite.contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(suite.repeats):
        for i in range(len(names)):
            name = names[(i + repeat) % len(names)]
            start = time.perf_counter()
            suite.contenders[name](**inputs)
            times[name].append(time.perf_counter() - start)
    return times


def summarise(suite: Suite, times: dict[str, list[float]], peaks: dict[str, float]) -> list[Row]:
    """Turn times into medians and ratios of throughput."""
    median = {name: statistics.median(t) for name, t in times.items()}
    return [
        Row(
            name,
            median[name],
            min(t),
            (max(t) - min(t)) / median[name],
            median[suite.bare] / median[name],
            median[suite.peer] / median[name],
            peaks[name],
        )
        for name, t in times.items()
    ]


def judge(target: Target, rows: list[Row]) -> Verdict:
    """Compare a target with what was measured, by medians and by best times."""
    by_name = {row.contender: row for row in rows}
    ours, theirs = by_name[target.contender], by_name[target.over]
    medians, bests = theirs.seconds / ours.seconds, theirs.best / ours.best
    reached = {medians >= target.at_least, bests >= target.at_least}
    verdict = "unclear" if len(reached) == 2 else "met" if reached == {True} else "MISSED"
    return Verdict(f"{target.contender} ≥ {target.at_least} × {target.over}", verdict, medians, bests)


def peak_in_fresh_process(name: str, contender: str, quick: bool) -> float:
    """Start this module again to run one contender once."""
    command = [sys.executable, "-m", "benchmarks.harness", name, contender, *(["--quick"] if quick else [])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak_beyond_inputs(suite: Suite, contender: str, quick: bool) -> float:
    """Give the megabytes that one run adds at its highest to what the inputs take."""
    inputs = suite.setup(**(suite.quick if quick else suite.size))
    square = np.ones((512, 512), dtype=np.float32)
    _ = square @ square  # the buffers of the matrix product are made once and belong to no contender
    _forget_peak()
    before = _resident("VmRSS")
    suite.contenders[contender](**inputs)
    return _resident("VmHWM") - before


def _forget_peak() -> None:
    """Reset the peak: making the inputs may have used more memory than keeping them."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def _resident(field: str) -> float:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, and never reset
    return peak / (2**20 if platform.system() == "Darwin" else 1024)


def show(suite: Suite, size: dict[str, int], rows: list[Row], console: Console) -> None:
    """Print the table."""
    table = Table(title=f"{suite.title}: {', '.join(f'{k}={v:,}' for k, v in size.items())}")
    ratios = (f"throughput of {suite.bare}", f"of {suite.peer}")
    for column in ("contender", "median s", "best s", "spread", *ratios, "peak beyond inputs"):
        table.add_column(column, justify="left" if column == "contender" else "right")
    for row in rows:
        times = (f"{row.seconds:.3f}", f"{row.best:.3f}", f"{row.spread:.0%}")
        table.add_row(row.contender, *times, f"{row.of_bare:.2f}", f"{row.of_peer:.2f}", f"{row.peak_mb:,.0f} MB")
    console.print(table)


def write(
    name: str,
    quick: bool,
    suite: Suite,
    size: dict[str, int],
    rows: list[Row],
    notes: list[str],
    verdicts: list[Verdict],
) -> None:
    """Keep the figures as JSON, with what one needs to know to compare them with others."""
    RESULTS.mkdir(exist_ok=True)
    content = {
        "suite": name,
        "title": suite.title,
        "size": size,
        "repeats": suite.repeats,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {platform.system()}",
        "rows": [asdict(row) for row in rows],
        "notes": notes,
        "targets": [asdict(verdict) for verdict in verdicts],
    }
    path = RESULTS / f"{name}{'-quick' if quick else ''}.json"
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    print(peak_beyond_inputs(load(sys.argv[1]), sys.argv[2], "--quick" in sys.argv))
