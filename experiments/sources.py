"""What a record depends on: the commit, and a digest of every module that was loaded to make it."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from experiments.results import Record

import relatent
from experiments import published

ROOTS = {"experiments": Path(__file__).parent, "relatent": Path(relatent.__file__).parent}
# What runs, writes and shows, and cannot change a figure.
PLUMBING = (
    *(f"experiments.{name}" for name in ("__main__", "items", "results", "sources", "show", "page", "figures")),
    *("experiments.published", "experiments.models.logs"),
    *(f"relatent.{name}" for name in ("_errors", "_files", "_http", "_lazy", "_saved", "_schemes", "_terminal")),
    *(f"relatent.{name}" for name in ("cli", "demo", "explore", "exports", "migrate", "report", "serve", "stores")),
    "relatent.spaces.io",
)
UNKNOWN = "unknown"


def code(text: str) -> str:
    r"""Return a module's text without comments, docstrings, error messages, imports for type checkers and white space.

    >>> code('def f(x):\n    "Double."\n    # why\n    return 2 * x\n')
    'deff(x):return2*x'
    """
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        for line in _idle(node):
            lines[line - 1] = ""
    return "".join("".join(line.split()) for line in lines if not line.lstrip().startswith("#"))


def _idle(node: ast.AST) -> range:
    """Return the lines of a node that cannot change a figure."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return range(node.lineno, (node.body[-1].end_lineno or node.lineno) + 1)
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def remember() -> None:
    """Take the digests of all modules now: a run is of the sources that it started with."""
    for top, root in ROOTS.items():
        for path in root.rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            _digest(".".join((top, *parts)).removesuffix(".__init__"))


def used() -> dict[str, str]:
    """Return the digests of the modules that are loaded, but for plumbing, and of published figures that were read."""
    modules = (name for name in sorted(sys.modules) if name.partition(".")[0] in ROOTS and not _is_plumbing(name))
    sections = (f"published/{name}" for name in sorted(published.READ))
    return digests([*modules, *sections])


def digests(names: Iterable[str]) -> dict[str, str]:
    """Return the digests of those sources that are there."""
    return {name: digest for name in names if (digest := _digest(name)) is not None}


def _is_plumbing(name: str) -> bool:
    return any(f"{name}.".startswith(f"{one}.") for one in PLUMBING)


def changed(kept: Mapping[str, str]) -> list[str]:
    """Return which sources are no longer what they were; a record that names none is of unknown sources."""
    return [name for name, digest in kept.items() if _digest(name) != digest] if kept else [UNKNOWN]


def confirmed(kept: Record, before: Record, now: Record) -> Record:
    """Return a larger record with the sources of today, if a quick run of these gives the same digits as before.

    ``before`` is the quick record that was made by the sources of ``kept``, ``now`` the one of today. What only the
    larger run depends on stays as it was. Where anything differs, ``kept`` is returned as it is.
    """
    shared = before.sources.keys() & kept.sources.keys()
    same_sources = bool(shared) and all(before.sources[name] == kept.sources[name] for name in shared)
    if not same_sources or before.result.tables != now.result.tables:
        return kept
    return replace(kept, sources={**kept.sources, **now.sources}, confirmed=now.commit)


def commit() -> str:
    """Return the commit that is checked out, with "-dirty" where sources are not committed."""
    root = ROOTS["experiments"].parent
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return UNKNOWN
    return head + ("-dirty" if _git(root, "status", "--porcelain", "--", "src", "experiments/**.py") else "")


def _git(folder: Path, *command: str) -> str:
    try:
        return subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""


@cache
def _digest(name: str) -> str | None:
    if name.startswith("published/"):
        text = json.dumps(published.section(name.partition("/")[2]), sort_keys=True)
    else:
        top, *parts = name.split(".")
        path = ROOTS[top].joinpath(*parts)
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not path.is_file():
            return None
        text = code(path.read_text(encoding="utf8"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
