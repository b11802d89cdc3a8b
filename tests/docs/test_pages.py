"""Pages that teach, run from top to bottom as a reader would: Python, commands, and what is shown of their output."""

import doctest
import re
import shlex
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relatent.cli import NO_GO, NO_VERDICT, OK, app

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = ("exports", "networks", "running", "scale", "security", "serve", "start", "structure")
PAGES = sorted([*(DOCS / f"{name}.md" for name in GUIDES), *DOCS.glob("tutorials/*.md")])
BLOCK = re.compile(r"^```(python|console|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

pytestmark = pytest.mark.docs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_what_a_page_shows_happens(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, said = {}, ""
    with ExitStack() as background:
        for kind, text in BLOCK.findall(with_free_ports(page.read_text(encoding="utf8"))):
            if kind == "python":
                run_python(text, names, page.name)
            elif kind == "console":
                said = run_commands(text, background)
            else:
                assert without_figures(text) in without_figures(said)


def run_python(text, names, title):
    """Run a block as a doctest where it has prompts, as it is where it has none."""
    if not text.startswith(">>>"):
        exec(compile(text, title, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(text, names, title, title, 0)
    shown = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=shown.append, clear_globs=False)
    names |= test.globs
    assert not shown, "".join(shown)


def run_commands(text, background):
    """Run the commands of relatent in a block, and return what the last one printed."""
    said = ""
    for line in re.findall(r"^\$ relatent (.*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        if words[-1] == "&":
            background.enter_context(running(words[:-1]))
            continue
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (OK, NO_GO, NO_VERDICT), result.output
        said = result.stdout
    return said


@contextmanager
def running(words):
    """Run a command as a process of its own, as & does, from when it listens on its port to the end of the page."""
    port = int(words[words.index("--port") + 1])
    command = [sys.executable, "-c", "from relatent.cli import app; app(prog_name='relatent')", *words, "--quiet"]
    with subprocess.Popen(command) as process:
        try:
            while not listens(port):
                assert process.poll() is None
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


def listens(port):
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def with_free_ports(text):
    """Put free ports in the place of those that a page names: on this machine, others may have taken them."""
    for port in sorted(set(re.findall(r"\bport\W+(\d+)", text))):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            text = text.replace(port, str(free.getsockname()[1]))
    return text


def without_figures(text):
    """Blank figures and what aligns them: training ends a little differently on other machines."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*", "#", text)).strip()
