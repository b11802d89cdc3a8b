"""The reference: every public name has one entry, and nothing else has."""

import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import relatent

ROOT = Path(__file__).parents[1]
MAKE = runpy.run_path(str(ROOT / "docs" / "make_api.py"))
PUBLIC = {path: value for room in MAKE["ROOMS"] for path, value in MAKE["public_names"](room)}


def test_every_public_name_is_on_a_page():
    pages = "\n".join(MAKE["pages"]().values())
    tables = re.findall(r"py:data:: (\w+)\n   :module: (\S+)", pages)
    entries = re.findall(r"auto(?:class|function):: (\S+)", pages) + [f"{home}.{name}" for name, home in tables]
    assert len(entries) == len(set(entries))
    assert set(entries) == set(PUBLIC)
    front = {n for n in relatent.__all__ if not inspect.ismodule(getattr(relatent, n)) and n != "__version__"}
    assert {f"relatent.{name}" for name in front} <= set(PUBLIC)


def test_files_that_contributors_are_sent_to_exist():
    """A path in backticks is one from the root of the repository or of the package."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
    named = set(re.findall(r"`([\w./]+(?:\.py|\.md|\.txt|/))`", text))
    assert named
    assert [path for path in named if not any((ROOT / base / path).exists() for base in (".", "src/relatent"))] == []


@pytest.mark.slow
def test_pages_hold_public_names_and_need_no_network(tmp_path):
    pytest.importorskip("sphinx", reason="pip install 'relatent[docs]'")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(ROOT / "docs"), str(tmp_path)]
    subprocess.run(command, check=True)
    pages = [path.read_text(encoding="utf8") for path in tmp_path.rglob("*.html")]
    assert not [url for page in pages for url in re.findall(r'<(?:script|link)[^>]*(?:src|href)="(https?:[^"]*)', page)]
    assert (tmp_path / "_static" / "mathjax" / "tex-chtml.js").exists()
    entries = [name for page in pages for name in re.findall(r'<dt class="sig[^>]*id="(relatent\.[^"]*)"', page)]
    assert set(entries) >= set(PUBLIC)
    for entry in entries:
        owner = entry if entry in PUBLIC else entry.rpartition(".")[0]
        member = entry.removeprefix(owner).removeprefix(".")
        known = {*dir(PUBLIC[owner]), *getattr(PUBLIC[owner], "__annotations__", {})}
        # What is learned in fit ends in an underscore and is no attribute of the class.
        assert not member or member in known or re.fullmatch(r"[a-z]\w*_", member), entry
