"""What the quality experiment found: cells in a file, tables of them, and whether each promise is kept."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

Means = dict[tuple[str, int], dict[str, float]]
# What is kept, what was found, and whether that is what was promised.
Promise = tuple[str, str, bool]


class Key(NamedTuple):
    """What names a cell."""

    block: str
    pair: str
    anchors: int
    seed: int
    part: str


@dataclass(frozen=True)
class Cell:
    """One part measured for one pair of spaces, anchor count and seed."""

    key: Key
    values: dict[str, float]
    seconds: float


def read_cells(path: Path) -> list[Cell]:
    """Return the cells of an earlier run, if there was one."""
    if not path.is_file():
        return []
    return [Cell(Key(*c["key"]), c["values"], c["seconds"]) for c in json.loads(path.read_text())]


def write_cells(path: Path, cells: list[Cell]) -> None:
    """Replace the file by one that holds these cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps([asdict(c) for c in cells]))
    beside.replace(path)


def report(block: str, cells: list[Cell], console: Console) -> None:
    """Print, part by part, means over pairs by anchor count, then every promise as met or missed."""
    parts = {part: [c for c in cells if c.key.part == part and c.values] for part in PROMISES}
    parts = {part: found for part, found in parts.items() if found}
    for part, found in parts.items():
        console.print(_table(f"{block}: {part}", found))
    for part, found in parts.items():
        for promise, value, met in PROMISES[part](found):
            console.print(f"  {block}, {part}: {promise}: {value} — {'met' if met else 'MISSED'}", highlight=False)


def _table(title: str, cells: list[Cell]) -> Table:
    means = _seed_means(cells)
    counts = sorted({k for _, k in means})
    table = Table(title=title)
    for column in ("mean over pairs", *(f"{k:,} anchors" for k in counts)):
        table.add_column(column, justify="left" if column == "mean over pairs" else "right")
    for name in next(iter(means.values())):
        by_count = [[m[name] for (_, k), m in means.items() if k == count] for count in counts]
        table.add_row(name, *(f"{np.mean(values):.3f}" for values in by_count))
    table.add_row("pairs", *(str(sum(k == count for _, k in means)) for count in counts))
    return table


def _seed_means(cells: list[Cell]) -> Means:
    """Average each pair and anchor count over its seeds."""
    groups: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    for cell in cells:
        groups[cell.key.pair, cell.key.anchors].append(cell.values)
    return {
        key: {name: float(np.mean([v[name] for v in values])) for name in values[0]} for key, values in groups.items()
    }


def _vectors(cells: list[Cell]) -> Iterator[Promise]:
    means = _seed_means(cells)
    for promise, other, factor in (("≤ kernel ridge × 1.01", "kernel ridge", 1.01), ("≤ best6", "best6", 1.0)):
        ratios = {key: m["ours"] / m[other] for key, m in means.items()}
        yield _everywhere(f"{promise} in every cell", {key: factor - r for key, r in ratios.items()})


def _retrieval(cells: list[Cell]) -> Iterator[Promise]:
    means = _seed_means(cells)
    for ours in ("ours", "ours+rows", "ours+both", "ours+queries"):
        yield from _ranked(ours, means)


def _ranked(ours: str, means: Means) -> Iterator[Promise]:
    lowest = []
    for other, slack in (("best6", 0.0), ("best6+csls", 0.0), ("cca+csls", 0.005)):
        above = {key: m[ours] - m[other] for key, m in means.items()}
        lowest.append(min(above.values()))
        share = float(np.mean([a >= -slack for a in above.values()]))
        promise = f"{ours} ≥ {other}{' − .005' if slack else ''} in 98 % of cells"
        promise, value, _ = _everywhere(promise, {key: a + slack for key, a in above.items()})
        yield promise, value, share >= 0.98
    yield f"{ours}: no cell more than .02 below any of them", f"lowest {min(lowest):+.3f}", min(lowest) >= -0.02
    gain = float(np.mean([m[ours] - m["best6+csls"] for m in means.values()]))
    yield f"{ours}: mean gain over best6 + CSLS ≥ +.05", f"{gain:+.3f}", gain >= 0.05


def _frozen(cells: list[Cell]) -> Iterator[Promise]:
    means = _seed_means(cells)
    for ours, other, slack in (
        ("ours", "best6", 0.0),
        ("ours+csls", "best6+csls", 0.01),
        ("ours", "best6+csls", 0.01),
        ("ours+index", "best6+csls", 0.01),
    ):
        promise = f"{ours} ≥ {other}{' − .01' if slack else ''} in every cell"
        yield _everywhere(promise, {key: m[ours] - m[other] + slack for key, m in means.items()})


def _stitching(cells: list[Cell]) -> Iterator[Promise]:
    means = _seed_means(cells)
    heads = sorted({name.split()[1] for m in means.values() for name in m})
    gains = {(f"{pair}, {h}", k): m[f"ours {h}"] - m[f"best6 {h}"] for (pair, k), m in means.items() for h in heads}
    mean = float(np.mean(list(gains.values())))
    yield "mean accuracy ≥ best6 + .015", f"{mean:+.3f}", mean >= 0.015
    yield _everywhere("no cell below best6 − .02", {key: gain + 0.02 for key, gain in gains.items()})


def _expected(cells: list[Cell]) -> Iterator[Promise]:
    """Errors are those of means over pairs and seeds: single ones hold the luck of so few queries."""
    for k in sorted({c.key.anchors for c in cells}):
        here = [c.values for c in cells if c.key.anchors == k]
        means = {name: float(np.mean([v[name] for v in here])) for name in here[0]}
        errors = {name: abs(mean) for name, mean in means.items() if name.endswith("error")}
        most, worst = 0.03 if k < 100 else 0.02, max(errors, key=errors.__getitem__)
        yield f"mean error ≤ {most} at {k:,} anchors", f"{worst} {means[worst]:+.3f}", errors[worst] <= most
        held = {name: mean for name, mean in means.items() if name.endswith("held")}
        least, overall = min(held, key=held.__getitem__), float(np.mean(list(held.values())))
        yield f"coverage ≥ .93 at {k:,} anchors", f"{overall:.3f}, lowest {least} {held[least]:.3f}", overall >= 0.93


def _few(cells: list[Cell]) -> Iterator[Promise]:
    strong = [c.values for c in cells if c.values["1,000"] >= 0.9]
    reached = sum(v["grown"] >= 0.7 for v in strong)
    yield (
        "20 pairs reach .7 in half of the tries where 1,000 reach .9",
        f"{reached} of {len(strong)}",
        (2 * reached >= len(strong)),
    )
    lies = [c.key.pair for c in cells if c.values["said"] and c.values["grown"] < c.values["alone"]]
    yield "the gate never says yes to a failure", f"{len(lies)} of {len(cells)}", not lies


PROMISES = {
    "vectors": _vectors,
    "retrieval": _retrieval,
    "frozen": _frozen,
    "stitching": _stitching,
    "expected": _expected,
    "few": _few,
}


def _everywhere(promise: str, margins: dict[tuple[str, int], float]) -> Promise:
    """Count the cells whose margin is not negative, and name the worst that fall short."""
    worse = sorted((margin, key) for key, margin in margins.items() if margin < 0)
    names = "; ".join(f"{pair} at {k:,} by {-margin:.3f}" for margin, (pair, k) in worse[:4])
    found = f"{len(margins) - len(worse)} of {len(margins)}"
    return promise, f"{found} (not {names}{' …' if len(worse) > 4 else ''})" if worse else found, not worse
