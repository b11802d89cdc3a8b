"""The commands of the README, run as they stand there."""

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from relatent.cli import OK, app

README = Path(__file__).parents[1] / "README.md"
COMMANDS = [
    shlex.split(line)
    for block in re.findall(
        r"```console\n(.*?)```", README.read_text(encoding="utf8").split("\n## From two files")[1], re.DOTALL
    )
    for line in re.findall(r"^\$ relatent (.*)$", block, re.MULTILINE)
]


def test_from_two_files_to_a_verdict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [words[0] for words in COMMANDS] == ["demo", "fit", "evaluate", "translate"]
    said = {}
    for words in COMMANDS:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == OK, result.output
        said[words[0]] = result.stdout
    shown = re.search(r"```text\n(.*?)```", README.read_text(encoding="utf8"), re.DOTALL)[1]
    # Training a network ends a little differently on other machines: words must agree, figures nearly.
    assert re.sub(r"[\d.]+", "#", shown.split("\nGO")[0]) == re.sub(r"[\d.]+", "#", said["evaluate"].split("\nGO")[0])
    assert "\nGO: " in said["evaluate"]
    assert shown.splitlines()[-1] == said["evaluate"].strip().splitlines()[-1]
    assert (tmp_path / "translated.parquet").exists()
