"""References resolve: every public name has one entry, and every file and command that the docs name exists."""

import inspect
import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest
from experiments.items import ITEMS

import relatent

ROOT = Path(__file__).parents[2]
MAKE = runpy.run_path(str(ROOT / "docs" / "make_api.py"))
PUBLIC = {path: value for package in MAKE["PACKAGES"] for path, value in MAKE["public_names"](package)}
TEXTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs").glob("tutorials/*.md"),
]
# A module, and its first argument where that is a name.
MODULE = re.compile(r"python -m ([\w.]+)(?:\s+([a-z]\w*(?:-\w+)*))?")


def test_every_public_name_is_on_a_page():
    pages = "\n".join(MAKE["pages"]().values())
    tables = re.findall(r"py:data:: (\w+)\n   :module: (\S+)", pages)
    entries = re.findall(r"auto(?:class|function):: (\S+)", pages) + [f"{home}.{name}" for name, home in tables]
    assert len(entries) == len(set(entries))
    assert set(entries) == set(PUBLIC)
    front = {n for n in relatent.__all__ if not inspect.ismodule(getattr(relatent, n)) and n != "__version__"}
    assert {f"relatent.{name}" for name in front} <= set(PUBLIC)


def test_every_public_package_has_a_page():
    packages = {name for name in relatent.__all__ if inspect.ismodule(getattr(relatent, name))}
    assert set(MAKE["PACKAGES"]) == packages


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_that_a_page_runs_exists(path):
    for module, first in MODULE.findall(path.read_text(encoding="utf8")):
        assert module.split(".")[0] in ("benchmarks", "experiments", "pip", "venv"), module
        assert find_spec(module), module
        if module == "experiments" and first:
            assert first in ITEMS
        if module == "benchmarks" and first:
            assert find_spec(f"benchmarks.{first}"), first


def test_files_that_contributors_are_sent_to_exist():
    """A path in backticks is one from the root of the repository or of the package."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
    named = set(re.findall(r"`([\w./]+(?:\.py|\.md|\.txt|/))`", text))
    assert named
    assert [path for path in named if not any((ROOT / base / path).exists() for base in (".", "src/relatent"))] == []
