"""Pages run from top to bottom, as a reader would run them: Python, commands, and the output that is shown."""

import doctest
import json
import re
import shlex
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.embedder import Embedder, embedded, serving
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import NO_GO, NO_VERDICT, OK, app

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = ("exports", "networks", "running", "scale", "security", "serve", "start", "structure", "texts")
PAGES = sorted([*(DOCS / f"{name}.md" for name in GUIDES), *DOCS.glob("tutorials/*.md")])
BLOCK = re.compile(r"^```(python|console|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WORDS = [
    "river",
    "bridge",
    "teapot",
    "violin",
    "glacier",
    "lantern",
    "orchard",
    "compass",
    "harbor",
    "old",
    "small",
    "red",
]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

pytestmark = pytest.mark.docs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {}, ""
    with ExitStack() as background:
        if page.name == "texts.md":
            background.enter_context(notes(monkeypatch))
        for kind, text in BLOCK.findall(with_free_ports(page.read_text(encoding="utf8"))):
            if kind == "python":
                run_python(text, names, page.name)
            elif kind == "console":
                printed = run_commands(text, background)
            else:
                assert without_figures(text) in without_figures(printed)


@contextmanager
def notes(monkeypatch):
    """Write notes with vectors of an old model, a log of queries and clicks, and serve both models."""
    texts = [f"{' '.join(np.random.default_rng(i).choice(WORDS, 6))} {i}. {WORDS[i % 7]} note." for i in range(900)]
    space = rl.Space(embedded(texts, 64, "old"), [f"n{i}" for i in range(900)], "notes", others={"body": texts})
    rl.write_space(space, "notes.parquet")
    lines = [json.dumps({"id": f"q{i}", "text": text.split(".")[0]}) for i, text in enumerate(texts)]
    Path("log.jsonl").write_text("\n".join(lines))
    Path("clicks.tsv").write_text("query\titem\n" + "".join(f"q{i}\tn{i}\n" for i in range(900)))
    with serving(Embedder()) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        yield


def run_python(text, names, title):
    """Run a block with prompts as a doctest, and a block without as a script."""
    if not text.startswith(">>>"):
        exec(compile(text, title, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(text, names, title, title, 0)
    shown = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=shown.append, clear_globs=False)
    names |= test.globs
    assert not shown, "".join(shown)


def run_commands(text, background):
    """Run the commands of relatent in a block and return what the last one printed."""
    printed = ""
    for line in re.findall(r"^\$ relatent (.*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        if words[-1] == "&":
            background.enter_context(running(words[:-1]))
            continue
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (OK, NO_GO, NO_VERDICT), result.output
        printed = result.stdout
    return printed


@contextmanager
def running(words):
    """Run a command in the background, as & does, until the end of the page; wait until it listens on its port."""
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
    """Replace the ports that a page names by free ones: those may be in use on this machine."""
    for port in sorted(set(re.findall(r"\bport\W+(\d+)", text))):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            text = text.replace(port, str(free.getsockname()[1]))
    return text


def without_figures(text):
    """Blank the figures and their alignment: training ends a little differently on other machines."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*", "#", text)).strip()
