"""`relatent report`, and `--report` on the commands that measure something."""

import json

import numpy as np
import pytest
from tests.migrate.conftest import make_task
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import ERROR, NO_VERDICT, OK, app


@pytest.fixture
def here(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)) * np.linspace(2, 1, 5)
    keys, others = [f"k{i}" for i in range(300)], {"title": [f"title {i}" for i in range(300)]}
    for name, vectors in (("old", x), ("new", x @ np.linalg.qr(rng.normal(size=(5, 5)))[0]), ("more", x + 1)):
        rl.write_space(rl.Space(vectors.astype(np.float32), keys, others=others), tmp_path / f"{name}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, code=OK):
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result


REPORT = ("--report", "c.html")
PAIR = ("old.parquet", "new.parquet")


def test_report(here):
    said = run("report", *PAIR, "more.parquet", "-o", "r.html", "-o", "r.md", "-o", "r.json", "--max-rows", 50).stdout
    assert "No verdict." in said
    assert "Wrote r.html and r.md and r.json." in said
    told = json.loads((here / "r.json").read_text())
    assert told["similarity"]["names"] == ["old", "new", "more"]
    assert "title 1" not in (here / "r.html").read_text()
    again = run("report", *PAIR, "-o", "r.html", code=ERROR)
    assert "r.html exists" in again.stderr
    run("report", *PAIR, "-o", "r.html", "--overwrite", "--text", "title", "--max-rows", 50)
    assert "title " in (here / "r.html").read_text()


def test_the_files_of_the_demo_have_a_verdict(tmp_path, monkeypatch):
    """A report that fits by itself holds out what is judged."""
    monkeypatch.chdir(tmp_path)
    run("demo", "--quiet")
    files = ("out/old.parquet", "out/new.parquet", "--relevant", "out/relevant.tsv")
    assert "GO: translate." in run("report", *files, "-o", "r.json").stdout
    told = json.loads((tmp_path / "r.json").read_text())
    assert (told["fit"]["pairs"], told["verdict"]["queries"]) == (300, 110)


@pytest.mark.parametrize(
    ("words", "says"),
    [(("-o", "r.pdf"), "is not the name of a report"), (("-o", "old.parquet"), "is not the name of a report")],
)
def test_report_refuses_what_it_cannot_write(here, words, says):
    assert says in run("report", *PAIR, *words, code=ERROR).stderr


def test_pages_beside_other_answers(here):
    assert (
        "Wrote fit.html and fit.md."
        in run("fit", *PAIR, "-o", "t.safetensors", "--report", "fit.html", "--report", "fit.md").stdout
    )
    run("evaluate", "t.safetensors", *PAIR, "--report", "verdict.html", "--slices", "title", code=NO_VERDICT)
    run("compare", *PAIR, "--max-rows", 100, "--permutations", 2, "--report", "compare.html")
    words = {"fit.html": "Fitted", "verdict.html": "No verdict", "compare.html": "CKA 1.000"}
    for name, word in words.items():
        page = (here / name).read_text("utf8")
        assert f'<p class="word">{word}</p>' in page
        assert "<script" not in page
    assert "Would more pairs help?" in (here / "fit.md").read_text("utf8")
    assert "http" not in (here / "fit.md").read_text("utf8")


def test_answers_are_the_same_with_and_without_a_page(here):
    words = ("compare", *PAIR, "--max-rows", 50, "--permutations", 2, "--json")
    alone, beside, replaced = (json.loads(run(*words, *page).stdout) for page in ((), REPORT, (*REPORT, "--overwrite")))
    assert alone == beside == replaced


@pytest.mark.parametrize("name", ["old.parquet", "x.htm"])
def test_a_report_never_replaces_a_file_of_another_kind(here, name):
    said = run("compare", *PAIR, "--report", name, "--overwrite", code=ERROR).stderr
    assert "expected a name that ends in .html, .md, .json" in said


def test_a_report_is_replaced_only_when_asked_and_refused_before_any_work(here):
    words = ("fit", *PAIR, "-o", "t.safetensors", "--report", "r.md")
    (here / "r.md").write_text("mine")
    assert "r.md exists" in run(*words, code=ERROR).stderr
    assert not (here / "t.safetensors").exists()
    assert (here / "r.md").read_text() == "mine"
    run(*words, "--overwrite")
    assert "Fitted" in (here / "r.md").read_text("utf8")


def test_migrations(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = make_task("faiss", tmp_path)
    run("migrate", "plan", task.translator, task.url, "--report", "plan.html", code=NO_VERDICT)
    assert "What it would take" in (tmp_path / "plan.html").read_text("utf8")
    run("migrate", "apply", task.translator, task.url, "--quiet")
    run("migrate", "verify", task.url, "--report", "verify.html", "--report", "verify.md")
    assert "> **Verified**" in (tmp_path / "verify.md").read_text("utf8")
    assert '<p class="word">Verified</p>' in (tmp_path / "verify.html").read_text("utf8")
