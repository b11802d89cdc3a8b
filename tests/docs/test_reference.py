"""References resolve: every public name has one entry, and every file and command that a text names exists."""

import inspect
import re
import runpy
from pathlib import Path

import pytest
from experiments.items import ITEMS

import relatent

ROOT = Path(__file__).parents[2]
MAKE = runpy.run_path(str(ROOT / "docs" / "make_api.py"))
PUBLIC = {path: value for package in MAKE["PACKAGES"] for path, value in MAKE["public_names"](package)}
TEXTS = (
    "*.md",
    "docs/**/*.md",
    "docs/**/*.py",
    "docs/**/*.ipynb",
    "src/**/*.py",
    "experiments/**/*.py",
    "benchmarks/*.py",
)
# A module of this repository, and the items that follow it.
COMMAND = re.compile(r"python -m ((?:experiments|benchmarks)(?:\.\w+)*(?: [a-z][\w-]*(?![\w/-]))*)")


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


def commands():
    texts = (path.read_text(encoding="utf8") for place in TEXTS for path in ROOT.glob(place))
    return sorted({found for text in texts for found in COMMAND.findall(text)})


@pytest.mark.parametrize("command", commands())
def test_every_command_that_a_text_names_exists(command):
    module, *items = command.split()
    path = ROOT / module.replace(".", "/")
    if path.is_dir():
        assert (path / "__main__.py").is_file()
    else:
        assert 'if __name__ == "__main__"' in path.with_suffix(".py").read_text(encoding="utf8")
    known = ITEMS if module == "experiments" else {one.stem for one in (ROOT / "benchmarks").glob("*.py")}
    assert set(items) <= set(known)


def test_files_that_contributors_are_sent_to_exist():
    """A path in backticks is one from the root of the repository or of the package."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
    named = set(re.findall(r"`([\w./]+(?:\.py|\.md|\.txt|/))`", text))
    assert named
    assert [path for path in named if not any((ROOT / base / path).exists() for base in (".", "src/relatent"))] == []
