"""Run a sweep here: a grid in the YAML format of Weights & Biases, one point after the other.

    python -m experiments.sweep experiments/sweeps/rr-table10.yaml --out out/rr-table10 [--count 20]

Each point is the command that an agent of Weights & Biases would run, with ``--out FOLDER/POINT.json`` added. Points
that have their file are left out, so that a sweep that was stopped resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import yaml

Point = dict[str, Any]
COMMAND = ["${env}", "${interpreter}", "${program}", "${args}"]


def read_sweep(path: Path) -> dict[str, Any]:
    """Return a sweep, or stop with what is wrong with it."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf8"))
    except (OSError, yaml.YAMLError) as error:
        raise SystemExit(f"{path} cannot be read as a sweep: {error}") from None
    parameters = found.get("parameters") if isinstance(found, dict) else None
    if not isinstance(parameters, dict) or not parameters:
        raise SystemExit(f"{path} has no parameters: expected a sweep in the format of Weights & Biases.")
    if found.get("method") != "grid":
        raise SystemExit(f"{path} has the method {found.get('method')!r}: only grids run here.")
    for name, values in parameters.items():
        if not isinstance(values, dict) or not {"value", "values"} & set(values):
            raise SystemExit(f"{path}: the parameter {name} has {values!r}: expected value or values.")
    return found


def points(sweep: dict[str, Any]) -> Iterator[Point]:
    """Yield every point of a grid, the last parameter changing first.

    >>> [p["a"] * p["b"] for p in points({"parameters": {"a": {"values": [1, 2]}, "b": {"value": 3}}})]
    [3, 6]
    """
    parameters = sweep["parameters"]
    every = (values["values"] if "values" in values else [values["value"]] for values in parameters.values())
    yield from (dict(zip(parameters, one, strict=True)) for one in product(*every))


def command_of(sweep: dict[str, Any], point: Point, out: Path) -> list[str]:
    """Return the command of a point, as an agent would run it, with the file to write."""
    args = [f"--{name}={value}" for name, value in point.items()]
    known = {"${env}": [], "${interpreter}": [sys.executable], "${program}": [str(sweep.get("program"))]}
    parts = (known.get(part, args if part == "${args}" else [part]) for part in sweep.get("command", COMMAND))
    return [word for part in parts for word in part] + [f"--out={out}"]


def path_of(folder: Path, point: Point) -> Path:
    """Return where a point is kept: its name is a digest of its settings."""
    return folder / f"{hashlib.sha256(json.dumps(point, sort_keys=True).encode()).hexdigest()[:16]}.json"


def run(sweep: dict[str, Any], folder: Path, count: int | None = None) -> tuple[int, list[str]]:
    """Run points that are not kept yet, at most ``count``; return how many are kept then, and what failed."""
    every = list(points(sweep))
    waiting = [one for one in every if not path_of(folder, one).is_file()]
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for one in islice(waiting, count):
        ended = subprocess.run(
            command_of(sweep, one, path_of(folder, one)), capture_output=True, text=True, check=False
        )
        if ended.returncode or not path_of(folder, one).is_file():
            failed.append(f"{one}: {ended.stderr.strip()[-500:] or 'wrote nothing'}")
    return sum(path_of(folder, one).is_file() for one in every), failed


def main() -> None:
    """Run a sweep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder with one file per point")
    parser.add_argument("--count", type=int, help="run at most so many points (default: all)")
    given = parser.parse_args()
    sweep = read_sweep(given.sweep)
    kept, failed = run(sweep, given.out, given.count)
    print(f"{kept} of {len(list(points(sweep)))} points are kept in {given.out}.")
    if failed:
        sys.exit("\n".join(["Failed:", *failed]))


if __name__ == "__main__":
    main()
