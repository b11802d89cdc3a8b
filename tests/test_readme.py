"""The commands of the README, run as they stand there."""

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from relatent.cli import NO_GO, OK, app

README = Path(__file__).parents[1] / "README.md"
COMMANDS = [
    shlex.split(line)
    for block in re.findall(
        r"```console\n(.*?)```", README.read_text(encoding="utf8").split("\n## From two files")[1], re.DOTALL
    )
    for line in re.findall(r"^\$ relatent (.*)$", block, re.MULTILINE)
]


FIGURE = r"[-+]?\d[\d.,]*"


def test_from_two_files_to_a_verdict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [words[0] for words in COMMANDS] == ["demo", "fit", "evaluate", "translate"]
    said = {}
    for words in COMMANDS:
        result = CliRunner().invoke(app, words)
        assert result.exit_code in ((OK, NO_GO) if words[0] == "evaluate" else (OK,)), result.output
        said[words[0]] = result.stdout
    shown = re.search(r"```text\n(.*?)```", README.read_text(encoding="utf8"), re.DOTALL)[1]
    # Training a network ends a little differently on other machines: words must agree, figures nearly.
    assert without_figures(shown) == without_figures(said["evaluate"])
    assert (tmp_path / "translated.parquet").exists()


def without_figures(text):
    """Blank the figures, and the space that aligns them."""
    return re.sub(r"\s+", " ", re.sub(FIGURE, "#", text)).strip()
