"""Mutation score of a room: the share of small changes to its code that its tests notice.

The changes are those of cosmic-ray: an operator, a comparison, a number, a condition, a loop that is not entered, a
decorator that is gone. At each place one change is drawn, and of all places a sample, both by a seed. Left out, as
nothing can notice them, are annotations, which are never evaluated, and the values of arguments that only guard or
save time (``GUARDS``); strings, and so messages and docstrings, cosmic-ray does not change. Each mutant runs in a copy
of ``src``, in a process that was forked with the libraries loaded: the doctests of its module, the tests that
``[tool.relatent.mutation]`` in pyproject.toml maps it to, and then those of its room::

    python -m tests.mutation decide --sample 200
    python -m tests.mutation migrate/state.py
"""

from __future__ import annotations

import argparse
import ast
import difflib
import doctest
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "relatent"
LIBRARIES = ("numpy", "scipy.linalg", "sklearn.linear_model", "pyarrow", "torch", "pandas", "pytest")
# Operators that take arguments of their own, or change nothing.
NOT_USED = ("VariableReplacer", "VariableInserter", "NoOp")
TIMEOUT = 600.0
# Also the tests that `make test-stores` runs, on the store that is quickest to make.
CHOSEN = ["-m", "not slow and not docs and not browser", "-k", "not (pgvector or qdrant or lance or chroma)"]


@dataclass(frozen=True)
class Mutant:
    """A change of a module: of what cosmic-ray's operator finds, the nth."""

    path: Path
    operator: str = ""
    """None for the module as it is."""
    occurrence: int = 0
    line: int = 0

    @property
    def code(self) -> str:
        if not self.operator:
            return self.path.read_text("utf8")
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        return str(mutate_code(self.path.read_text("utf8"), get_operator(self.operator)(), self.occurrence))

    def __str__(self) -> str:
        before, after = self.path.read_text("utf8").splitlines(), self.code.splitlines()
        changed = [line for line in difflib.unified_diff(before, after, lineterm="", n=0) if line[0] in "+-"][2:]
        return f"{self.path.relative_to(PACKAGE)}:{self.line}\n  " + "\n  ".join(changed)


def mutants_of(path: Path, rng: random.Random) -> list[Mutant]:
    """Return one mutant for each place of a module that can be changed."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    tree, skipped, places = get_ast(path.read_text("utf8")), left_out(path), {}
    for name in sorted(operator_names()):
        if name.rpartition("/")[2] in NOT_USED:
            continue
        operator = get_operator(name)()
        found = (position for node in ast_nodes(tree) for position in operator.mutation_positions(node))
        for occurrence, (start, *_) in enumerate(found):
            if not any(first <= start < last for first, last in skipped):
                places.setdefault(start, []).append(Mutant(path, name, occurrence, start[0]))
    return [rng.choice(places[place]) for place in sorted(places)]


def left_out(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where annotations and the values of guards begin and end."""
    every = list(ast.walk(ast.parse(path.read_text("utf8"))))
    nodes = [getattr(node, name, None) for node in every for name in NOTED]
    nodes += [node.value for node in every if isinstance(node, ast.keyword) and node.arg in GUARDS]
    return [((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0)) for n in nodes if n is not None]


NOTED = ("annotation", "returns")
# Arguments that guard against mistakes of callers, or only save time: right code behaves alike without them.
GUARDS = ("frozen", "eq", "strict", "check_finite", "overwrite_a", "overwrite_b", "copy")


def tests_of(path: Path) -> list[str]:
    """Return the tests to run, in this order: those of the module, and those of its room."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["tool"]["relatent"]["mutation"]
    room, name = path.relative_to(PACKAGE).parts[0], path.relative_to(PACKAGE).as_posix()
    own = config.get(name, [f"tests/{room}/test_{path.stem}.py"])
    return [test for test in own if (ROOT / test).exists()] + config.get(room, [f"tests/{room}"])


def is_noticed(mutant: Mutant, source: Path) -> bool:
    """Run a mutant in a forked process; return whether a test failed, or took too long."""
    copy = source / mutant.path.relative_to(PACKAGE.parent)
    copy.write_text(mutant.code, "utf8")
    try:
        child = os.fork()
        if child == 0:
            os._exit(_failed(mutant, source))
        return _waited(child) != 0
    finally:
        shutil.copy(mutant.path, copy)


def _waited(child: int) -> int:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _failed(mutant: Mutant, source: Path) -> int:
    """Return 1 if a test of the mutant fails: in the forked process."""
    import pytest

    os.setsid()
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = f"{source}{os.pathsep}{ROOT}"
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.path.insert(0, str(source))
    try:
        name = ".".join(mutant.path.relative_to(PACKAGE.parent).with_suffix("").parts)
        if doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)[
            0
        ]:
            return 1
        quiet = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        return int(pytest.main([*quiet, *CHOSEN, *tests_of(mutant.path)]) != 0)
    except BaseException:  # noqa: BLE001 (whatever happens, it is noticed)
        return 1


def score(room: str, sample: int, seed: int, jobs: int) -> Iterator[tuple[Mutant, bool]]:
    """Yield mutants of a room or module, and whether each was noticed."""
    rng, path = random.Random(seed), PACKAGE / room
    modules = [path] if path.is_file() else sorted(path.rglob("*.py"))
    every = [mutant for module in modules for mutant in mutants_of(module, rng)]
    chosen = rng.sample(every, min(sample, len(every)))
    print(f"{room}: {len(every):,} places, {len(chosen):,} mutants", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for job in range(jobs):
            copies.put(Path(shutil.copytree(PACKAGE.parent, Path(folder, str(job)))))

        def noticed(mutant: Mutant) -> bool:
            source = copies.get()
            try:
                return is_noticed(mutant, source)
            finally:
                copies.put(source)

        if noticed(Mutant(chosen[0].path)):
            sys.exit(f"The tests of {chosen[0].path} fail although nothing was changed: fix them first.")
        with ThreadPoolExecutor(jobs) as pool:
            yield from zip(chosen, pool.map(noticed, chosen), strict=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=["translate", "decide", "migrate"], help="rooms or modules")
    parser.add_argument("--sample", type=int, default=200, help="mutants of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    given: Any = parser.parse_args()
    for name in LIBRARIES:
        importlib.import_module(name)
    for room in given.rooms:
        counts = [0, 0]
        for mutant, noticed in score(room, given.sample, given.seed, given.jobs):
            counts[noticed] += 1
            if not noticed:
                print(f"survived: {mutant}", flush=True)  # noqa: T201
        print(f"{room}: {counts[1]:,} of {sum(counts):,} mutants noticed, {counts[1] / sum(counts):.0%}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
