"""The commands: what they say, in words and in JSON, and their exit codes."""

import json

import numpy as np
import pyarrow as pa
import pytest
from tests.migrate.conftest import make_task
from tests.migrate.steps import DIM, NEW_DIM, ROWS, assert_translated, items_of, space_of
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import ERROR, NO_GO, NO_VERDICT, OK, USAGE, app
from relatent.stores import open_store


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Run in a folder of its own, so that the work folder is the one that goes by the name of the store."""
    monkeypatch.chdir(tmp_path)
    return make_task("faiss", tmp_path)


def run(*words, code=OK):
    result = CliRunner().invoke(app, ["migrate", *map(str, words)])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def answer(*words, code=OK):
    return json.loads(run(*words, "--json", code=code).stdout)


def test_a_migration_by_its_commands(here, tmp_path):
    url, translator = here.url, here.translator
    held_out = items_of([f"held out {i}" for i in range(300)], seed=7)
    for name, new in (("old", False), ("new", True)):
        rl.write_space(space_of(held_out, new=new), tmp_path / f"{name}.parquet")
    sample = ("old.parquet", "new.parquet", "--min-overlap", 0.9)
    plan = answer("plan", translator, url, *sample)
    assert (plan["verdict"], plan["recommended"]) == ("GO", "translate")
    assert (plan["served"]["dim"], plan["new"]["dim"], plan["rows"]) == (DIM, NEW_DIM, ROWS)
    assert "GO: translate." in run("plan", translator, url, *sample).stdout

    done = answer("apply", translator, url, "--shard-rows", 100, "--quiet")
    assert (done["rows"], done["shards"], done["converged"]) == (ROWS, 3, True)
    (work,) = (tmp_path / ".relatent").iterdir()
    assert done["work"] == str(work.relative_to(tmp_path))
    assert answer("status", url)["stage"] == "applied"
    assert f"{ROWS} of {ROWS} rows" in run("status", url).stdout

    assert "Verified. Next: relatent migrate cutover" in run("verify", url, "--queries", "new.parquet").stdout
    assert "serves" in run("cutover", url).stdout
    assert_translated(url, here.items, "served")
    assert answer("status", url)["stage"] == "cut over"
    assert "again" in run("rollback", url).stdout
    assert "was removed" in run("rollback", url, "--drop").stdout


def test_a_plan_by_judged_queries_apart_from_the_items(here, tmp_path):
    """Queries and items have the same ids, as in BEIR; each query is an item seen again."""
    held_out = items_of([f"h{i}" for i in range(300)], seed=7)
    for name, new in (("old", False), ("new", True)):
        space = space_of(held_out, new=new)
        rl.write_space(space, tmp_path / f"{name}.parquet")
        turned = [f"h{299 - i}" for i in range(300)]
        rl.write_space(rl.Space(space.vectors, turned, name), tmp_path / f"{name}-queries.parquet")
    (tmp_path / "judged" / "qrels").mkdir(parents=True)
    lines = "".join(f"h{299 - i}\th{i}\t1\n" for i in range(300))
    (tmp_path / "judged" / "qrels" / "test.tsv").write_text(lines)
    sample = ("old.parquet", "new.parquet", "--relevant", "judged")
    queries = ("--queries", "old-queries.parquet", "new-queries.parquet")
    found = answer("plan", here.translator, here.url, *sample, *queries)
    assert (found["verdict"], found["evaluation"]["queries"]) == ("GO", 300)
    assert found["evaluation"]["itself"] is None
    assert found["evaluation"]["held_out"]["unlike"] < 0.1


def test_finishing_asks_first(here):
    url = here.url
    for words in (("apply", here.translator, url), ("verify", url), ("cutover", url)):
        run(*words)
    asked = CliRunner().invoke(app, ["migrate", "finish", url], input="n\n")
    assert (asked.exit_code, "is kept" in asked.stdout) == (ERROR, True)
    said = " ".join(asked.stderr.split())
    assert f"holds {ROWS} vectors of {DIM} coordinates" in said
    assert "no rollback" in said
    assert "add --yes" in run("finish", url, code=ERROR).stderr  # the standard input is at its end
    run("rollback", url)
    assert "nothing to finish" in run("finish", url, "--yes", code=ERROR).stderr
    run("cutover", url)
    done = CliRunner().invoke(app, ["migrate", "finish", url], input="y\n")
    assert (done.exit_code, "can be migrated again" in done.stdout) == (OK, True)
    assert "nothing to roll back" in run("rollback", url, code=ERROR).stderr


def test_exit_codes_tell_go_from_no_go(here):
    given = (here.translator, here.url, "--read-only")
    assert answer("plan", *given, code=NO_VERDICT)["verdict"] == "no verdict"
    assert answer("plan", *given, "--rows-per-second", 100, code=NO_GO)["recommended"] == "re-embed"
    assert answer("plan", *given, "--price-per-million", 10**9, code=NO_VERDICT)["reembed"]["cost"] == ROWS * 1e3
    assert answer("plan", *given, "--rows-per-second", 100, "--no-texts", code=NO_VERDICT)["reembed"] is None


def test_what_was_not_verified_fails_and_is_not_cut_over(here):
    run("apply", here.translator, here.url)
    with open_store(here.url) as store:
        store.write(store.new, pa.array([5]), np.ones((1, NEW_DIM), np.float32))
    assert not answer("verify", here.url, code=NO_GO)["passed"]
    refused = run("cutover", here.url, code=ERROR)
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1
    assert "add --force" in refused.stderr
    run("cutover", here.url, "--force")


def test_a_damaged_manifest_is_a_note(here, tmp_path):
    run("apply", here.translator, here.url)
    next((tmp_path / ".relatent").glob("*/shards/*.json")).write_text("damaged")
    assert "note: " in run("apply", here.translator, here.url).stderr


def test_the_remedies_are_options(here):
    here.case.spoil(here.url, here.items.keys[3])
    run("apply", here.translator, here.url, code=ERROR)
    assert "1 rows could not be read" in run("apply", here.translator, here.url, "--skip-unreadable").stdout
    assert "--drop" in run("rollback", here.url, code=ERROR).stderr


def test_progress_is_shown_where_it_is_asked_for(here):
    said = run("apply", here.translator, here.url, "--verbose").stderr
    assert "shards" in said
    assert "1/1" in said


def test_a_sample_is_of_both_spaces(here):
    assert "SOURCE was given without TARGET" in run("plan", here.translator, here.url, "old.parquet", code=USAGE).stderr


def test_a_translator_is_required(here):
    run("apply", here.url, code=USAGE)


def test_the_effort_of_a_search_is_an_option(here):
    run("apply", here.translator, here.url)
    found = answer("verify", here.url, "--effort", 200)
    assert found["passed"]
    assert any("effort 200" in check["found"] for check in found["checks"])
