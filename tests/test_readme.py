"""The commands of the README, run as they stand there."""

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from relatent.cli import OK, app

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf8")
COMMANDS = [shlex.split(line) for line in re.findall(r"^\$ relatent (.*)$", README, re.MULTILINE)]
VERDICT = re.search(r"```text\n(.*?)```", README, re.DOTALL)[1].splitlines()


def test_the_three_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [words[0] for words in COMMANDS] == ["demo", "fit", "evaluate", "translate"]
    printed = {}
    for words in COMMANDS:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == OK, result.output
        printed[words[0]] = result.stdout
    # Training ends a little differently on other machines: the words must agree, and the order of the lines.
    lines = iter(without_figures(line) for line in printed["evaluate"].splitlines())
    assert all(without_figures(shown) in lines for shown in VERDICT)
    assert (tmp_path / "translated.parquet").exists()


def test_the_links_lead_to_files():
    links = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", README)]
    assert links
    assert [link for link in links if not (Path(__file__).parents[1] / link).exists()] == []


def without_figures(text):
    """Blank the figures, and the space that aligns them."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*", "#", text)).strip()
