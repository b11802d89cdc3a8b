"""Commands of experiments and benchmarks that a text of the repository names can be run."""

import re
from pathlib import Path

import pytest
from experiments.items import ITEMS

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"python -m ((?:experiments|benchmarks)(?:\.\w+)*(?: [a-z][\w-]*)*)")
TEXTS = (
    "*.md",
    "docs/**/*.md",
    "docs/**/*.py",
    "docs/**/*.ipynb",
    "src/**/*.py",
    "experiments/**/*.py",
    "benchmarks/*.py",
)


def commands():
    texts = (path.read_text(encoding="utf8") for place in TEXTS for path in ROOT.glob(place))
    return sorted({found for text in texts for found in COMMAND.findall(text)})


@pytest.mark.parametrize("command", commands())
def test_a_command_that_a_text_names_exists(command):
    module, *items = command.split()
    path = ROOT / module.replace(".", "/")
    if path.is_dir():
        assert (path / "__main__.py").is_file()
    else:
        assert 'if __name__ == "__main__"' in path.with_suffix(".py").read_text(encoding="utf8")
    known = ITEMS if module == "experiments" else {one.stem for one in (ROOT / "benchmarks").glob("*.py")}
    assert set(items) <= set(known)
