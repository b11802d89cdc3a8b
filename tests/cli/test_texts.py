"""From texts and two model names: a table whose texts a new model embeds, behind an address."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest
from tests.cli.steps import answer, refused, run
from tests.embedder import Embedder, embedded, serving
from tests.stores.postgres import server

import relatent as rl
from relatent.cli import NO_VERDICT, USAGE
from relatent.encode import remote

N, OLD, NEW = 700, 12, 16
SERVER = Embedder()
SUBJECTS = ["river", "bridge", "teapot", "violin", "glacier", "lantern", "orchard", "compass", "sailboat", "harbor"]
WORDS = ["old", "small", "bright", "quiet", "broken", "famous", "wooden", "northern", "hidden", "gentle", "heavy"]


def note(i):
    rng = np.random.default_rng([7, i])
    words = [*rng.choice(SUBJECTS, 3), *rng.choice(WORDS, 3)]
    return f"{' '.join(words[:4])} {i}. {' '.join(words[4:])} {rng.integers(99)}."


@pytest.fixture(scope="module")
def address():
    with serving(SERVER) as url:
        yield url


@pytest.fixture
def embed(address, monkeypatch, tmp_path):
    SERVER.reset()
    monkeypatch.setattr(remote, "PAUSE", 0.001)
    monkeypatch.setenv("RELATENT_EMBED_KEY", "sk-of-this-test")
    monkeypatch.chdir(tmp_path)
    return "--embed", f"{address}?model=new", "--text", "body"


@pytest.fixture
def table(tmp_path):
    """A table of notes with the old model's vectors; one has no text."""
    texts, name = [note(i) for i in range(N)], f"notes_{tmp_path.name}"
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
        connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, body text, embedding vector({OLD}))")
        rows = [
            (i, None if i == 5 else t, str(v.tolist())) for i, (t, v) in enumerate(zip(texts, old(texts), strict=True))
        ]
        connection.cursor().executemany(f"INSERT INTO {name} VALUES (%s, %s, %s)", rows)
    return server().url(name)


def old(texts):
    return embedded(texts, OLD, "old")


def served(table):
    space = rl.read_space(table)
    return dict(zip(space.keys.tolist(), space.vectors, strict=True))


def test_a_translator_is_fitted_and_judged_without_embedding_twice(table, embed):
    made = answer("fit", table, *embed, "--pairs", "500", "--token-price", "0.1", "-o", "t.safetensors")
    took = made["embedded"]
    tokens = sum(len(text) for asked in SERVER.requests for text in asked["input"])
    assert (took["texts"], took["embedded"], took["tokens"]) == (499, 499, tokens)  # one item has no text
    assert took["price"] == pytest.approx(tokens * 0.1 / 1e6)
    assert made["pairs"] + made["held_out"] == 499
    assert rl.load("t.safetensors").endpoints_.target.model == "new"
    asked = len(SERVER.requests)
    verdict = answer("evaluate", "t.safetensors", table, *embed, "--pairs", "500", code=NO_VERDICT)
    assert (verdict["embedded"]["embedded"], len(SERVER.requests)) == (0, asked)
    assert verdict["cost"]["hours"] > 0  # of re-embedding the table, as fast as the 500 were
    plan = run("migrate", "plan", "t.safetensors", table, *embed, "--pairs", "500", "--token-price", "0.1", code=3)
    assert f"To re-embed, {N} rows take" in plan.stdout
    assert len(SERVER.requests) == asked
    assert set(SERVER.keys) == {"Bearer sk-of-this-test"}
    written = b"".join(path.read_bytes() for path in Path().rglob("*") if path.is_file())
    assert b"sk-of-this-test" not in written + plan.output.encode()


def test_what_it_will_take_is_said_before_and_not_with_quiet(table, embed):
    said = run("fit", table, *embed, "--pairs", "500", "-o", "t.safetensors")
    assert said.stderr.startswith("499 texts of column 'body' to embed with new: about ")
    assert "because they have no text: 1." in said.stderr
    quiet = run("fit", table, *embed, "--pairs", "500", "-o", "u.safetensors", "--quiet")
    assert quiet.output == ""


@pytest.fixture
def fitted(table, embed):
    run("fit", table, *embed, "--pairs", "600", "--max-cost", "affine", "-o", "t.safetensors", "--quiet")
    return ("evaluate", "t.safetensors", table, *embed, "--pairs", "600")


def test_without_the_old_model_only_what_the_new_one_finds_is_told(fitted):
    found = answer(*fitted, "--queries-from", "body", code=NO_VERDICT)
    assert set(found["measures"]) == {"translate", "re-embed"}
    assert found["held_out"]["made"]
    assert "no judgment" in found["relevance"]
    assert 0 < found["kept"]["value"] <= 1.1
    assert "staying is not among the options" in run(*fitted, "--queries-from", "body", code=NO_VERDICT).stdout


def test_queries_that_were_made_give_no_verdict_unless_forced(fitted, address):
    made = (*fitted, "--queries-from", "body", "--embed-old", f"{address}?model=old@{OLD}")
    found = answer(*made, code=NO_VERDICT)
    assert found["recommended"] is None
    assert "made of the items' own texts" in found["reasons"][0]
    forced = run(*made, "--json", "--force", code=None)
    assert json.loads(forced.stdout)["recommended"] is not None


def test_another_model_than_the_stored_one_is_not_taken_for_the_old_one(fitted, address):
    made = (*fitted, "--queries-from", "body", "--quiet", "--embed-old")
    for model, says in ((f"other@{OLD}", "is not the model of"), ("old", f"makes {NEW} coordinates")):
        result = run(*made, f"{address}?model={model}", code=1)
        assert says in result.stderr


def test_another_model_than_the_translators_is_refused_before_anything_is_embedded(table, fitted, address):
    asked = len(SERVER.requests)
    other = ("--embed", f"{address}?model=other", "--text", "body")
    for words in (("evaluate", "t.safetensors", table), ("migrate", "plan", "t.safetensors", table)):
        refused(*words, *other, says="'other' in one and 'new' in the other")
    assert len(SERVER.requests) == asked


def test_a_log_of_queries_is_embedded_by_both_models_and_judged(fitted, address):
    items = rl.read_space(fitted[2])
    texts = dict(zip(items.keys.tolist(), items.others.column("body").to_pylist(), strict=True))
    asked = {f"q{i}": (text.split(".")[0], i) for i, text in texts.items() if text}
    Path("log.jsonl").write_text("".join(json.dumps({"id": q, "text": t}) + "\n" for q, (t, _) in asked.items()))
    Path("clicks.tsv").write_text("query\titem\n" + "".join(f"{q}\t{i}\n" for q, (_, i) in asked.items()))
    log = (*fitted, "--query-texts", "log.jsonl")
    both = (*log, "--embed-old", f"{address}?model=old@{OLD}")
    judged = json.loads(run(*both, "--relevant", "clicks.tsv", "--json", code=None).stdout)
    assert judged["verdict"] in ("GO", "NO-GO")
    assert judged["relevance"] == "the pairs in clicks.tsv"
    unjudged = answer(*both, code=NO_VERDICT)  # the overlap of real queries, not of items
    assert unjudged["queries"] == N - 1
    alone = answer(*log, "--relevant", "clicks.tsv", code=NO_VERDICT)
    judged_scores = {m["option"]: m["value"] for m in judged["measures"] if m["measure"] == "ndcg"}
    for option, measures in alone["measures"].items():  # the same scores, where the old model is not needed
        assert measures["ndcg"]["value"] == pytest.approx(judged_scores[option])


def test_a_migrated_table_is_backfilled_with_the_new_models_own_vectors(table, fitted, embed):
    before = served(table)
    run("backfill", "t.safetensors", table, *embed, "--pairs", "600", "-o", "order.parquet")
    order = rl.read_space("order.parquet").keys.tolist()
    assert len(order) == N - 599
    refused("backfill", "t.safetensors", table, *embed, "--run", "order.parquet", says=("cut over first", "cutover"))
    for step in (("apply", "t.safetensors", table), ("verify", table), ("cutover", table)):
        run("migrate", *step)
    translated = served(table)
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        connection.execute(f"DELETE FROM {Path(table.split('?')[0]).name} WHERE id = %s", (order[1],))
    done = answer("backfill", "t.safetensors", table, *embed, "--run", "order.parquet", "--limit", "40")
    empty = int(5 in order[:40])
    assert (done["listed"], done["gone"], done["empty"], done["written"]) == (40, 1, empty, 39 - empty)
    now = served(table)
    written = [key for key in order[:40] if key not in (order[1], 5)]
    np.testing.assert_allclose(
        np.stack([now[key] for key in written]), embedded([note(key) for key in written]), rtol=1e-5, atol=1e-6
    )
    for key in set(now) - set(written):
        np.testing.assert_array_equal(now[key], translated[key])
    run("migrate", "rollback", table)
    for key, vector in served(table).items():
        np.testing.assert_array_equal(vector, before[key])


def test_a_backfill_that_was_killed_resumes_and_embeds_nothing_twice(table, fitted, embed, monkeypatch):
    run("backfill", "t.safetensors", table, *embed, "--pairs", "600", "-o", "order.parquet")
    for step in (("apply", "t.safetensors", table), ("verify", table), ("cutover", table)):
        run("migrate", *step)
    before = set(SERVER.seen)
    code = (
        "import relatent.encode.sample as s, relatent.migrate.backfill as b; s.BATCH = b.BLOCK = 16;"
        "from relatent.cli import app; app(prog_name='relatent')"
    )
    words = [sys.executable, "-c", code, "backfill", "t.safetensors", table, *embed, "--run", "order.parquet", "-q"]
    SERVER.faults = [None, None, (429, {"Retry-After": "60"}, b"")]  # it waits, and is killed
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as process:
        while SERVER.faults and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert len(set(SERVER.seen) - before) == 32
    done = answer("backfill", "t.safetensors", table, *embed, "--run", "order.parquet")
    assert done["embedded"]["embedded"] == done["written"] - 32
    assert max(SERVER.seen.values()) == 1
    keys = [key for key in rl.read_space("order.parquet").keys.tolist() if key != 5]
    now = served(table)
    np.testing.assert_allclose(
        np.stack([now[key] for key in keys]), embedded([note(key) for key in keys]), rtol=1e-5, atol=1e-6
    )


def test_another_model_than_the_one_migrated_to_is_refused(table, fitted, embed, address):
    run("backfill", "t.safetensors", table, *embed, "--pairs", "600", "-o", "order.parquet")
    for step in (("apply", "t.safetensors", table), ("verify", table), ("cutover", table)):
        run("migrate", *step)
    before = served(table)
    other = ("backfill", "t.safetensors", table, "--text", "body", "--run", "order.parquet", "--quiet")
    refused(*other, "--embed", f"{address}?model=other", says="'other' in one and 'new' in the other")
    for key, vector in served(table).items():
        np.testing.assert_array_equal(vector, before[key])


def test_what_does_not_go_together_is_wrong_usage(embed):
    rl.write_space(rl.Space(old(["a", "b"]), ["1", "2"], others={"body": ["a", "b"]}), "old.parquet")
    both = ("fit", "old.parquet", "old.parquet", *embed, "-o", "t.safetensors")
    assert "Both TARGET and --embed" in run(*both, code=USAGE).stderr
    assert "Neither TARGET nor --embed" in run("fit", "old.parquet", "-o", "t.safetensors", code=USAGE).stderr
    rl.Translator(map="ridge").fit(np.eye(3), np.eye(3)).save("t.safetensors")
    for words in (["--query-texts", "a.txt"], ["--embed-old", "ollama:a"]):
        run("evaluate", "t.safetensors", "old.parquet", "old.parquet", *words, code=USAGE)
    run("backfill", "t.safetensors", "old.parquet", "old.parquet", code=USAGE)
    run("backfill", "t.safetensors", "old.parquet", "old.parquet", "--run", "old.parquet", code=USAGE)
    assert not SERVER.requests
