"""Run commands on the files of `here`, and read what they say."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import typer
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import ERROR, OK, app

COMMANDS = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_cli.py"))["leaves"](
    typer.main.get_command(app)
)
N, OLD_DIM, NEW_DIM = 900, 20, 24


def run(*words, code=OK):
    result = CliRunner().invoke(app, [str(word) for word in words])
    said = f"{result.output}\n{result.exception!r}"
    assert code is None or result.exit_code == code, said
    assert result.exception is None or isinstance(result.exception, SystemExit), said
    return result


def answer(*words, code=OK):
    """Run with --json and read the answer."""
    return json.loads(run(*words, "--json", code=code).stdout)


def refused(*words, says):
    """Run a command that must fail with one line."""
    before = left()
    result = run(*words, code=ERROR)
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    for part in [says] if isinstance(says, str) else says:
        assert part in lines[0]
    assert left() == before


def left():
    return sorted(str(path) for path in Path().rglob("*"))


def clicks(name="clicks.tsv", space="old.parquet"):
    """Write pairs of a key and one of its five nearest in a space."""
    vectors = rl.read_space(space).vectors
    pairs = rl.evaluate.nearest(vectors, vectors, 5, exclude_self=True).indices
    keys = rl.read_space(space).keys
    lines = [f"{keys[i]}\t{keys[j]}" for i, row in enumerate(pairs) for j in row]
    Path(name).write_text("query\titem\n" + "\n".join(lines) + "\n")
    return name


def process(*words, **options):
    command = [sys.executable, "-c", "from relatent.cli import app; app(prog_name='relatent')", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)
