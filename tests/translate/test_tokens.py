"""Several vectors per item, from file to file and by the commands."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import ERROR, NO_VERDICT, OK, app
from relatent.decide import evaluate_items
from relatent.evaluate import maxsim
from relatent.spaces import MultiVectors

TURN = np.linalg.qr(np.random.default_rng(1).normal(size=(16, 16)))[0].astype(np.float32)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Ragged items of one model, and rotated, in another order, of another: some to fit on and some held out."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    spread = np.linspace(2, 0.5, 16)
    items = [(rng.normal(size=(n, 16)) * spread + 1).astype(np.float32) for n in rng.integers(2, 9, size=90)]
    for name, rows in (("fit", range(60)), ("held-out", range(60, 90))):
        for side, turn, order in (("old", np.eye(16, dtype=np.float32), rows), ("new", TURN, reversed(rows))):
            keys = list(order)
            vectors = MultiVectors.of([items[i] @ turn for i in keys]).to_arrow()
            table = pa.table({"id": keys, "title": [f"t{i}" for i in keys], "tokens": vectors})
            pq.write_table(table, f"{side}-{name}.parquet", row_group_size=7)
    return items


def run(*words, code=OK):
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def test_from_tokens_to_a_score(files):
    run("fit", "old-fit.parquet", "new-fit.parquet", "-o", "t.safetensors")
    held_out = ("evaluate", "t.safetensors", "old-held-out.parquet", "new-held-out.parquet")
    scores = json.loads(run(*held_out, "--json", code=NO_VERDICT).stdout)
    assert scores["items"] == 30
    assert scores["translated"] == scores["ceiling"] == 1.0
    assert scores["untranslated"] < 0.7
    assert "MaxSim over 30 items" in run(*held_out, code=NO_VERDICT).stdout

    run("translate", "t.safetensors", "old-held-out.parquet", "-o", "out.parquet")
    before, after = pq.read_table("old-held-out.parquet"), pq.read_table("out.parquet")
    assert after.select(["id", "title"]) == before.select(["id", "title"])
    translated, target = MultiVectors.from_arrow(after["tokens"]), [files[i] @ TURN for i in before["id"].to_pylist()]
    for found, expected in zip(translated, target, strict=True):
        np.testing.assert_allclose(found, expected, atol=0.05)
    again = ("translate", "t.safetensors", "old-held-out.parquet", "-o", "out.parquet")
    assert "out.parquet exists" in run(*again, code=ERROR).stderr
    run(*again, "--overwrite")


def test_the_score_is_that_of_a_loop(files):
    """The reciprocal rank by sorting the sums of maxima, item by item."""
    t = rl.Translator(map="orthogonal").fit(np.concatenate(files[:3]), np.concatenate(files[:3]))
    old, new = rl.read_space("old-held-out.parquet"), rl.read_space("new-held-out.parquet")
    found = evaluate_items(t, old, new, accept=True)
    unit = [item / np.linalg.norm(item, axis=1, keepdims=True) for item in files[60:]]
    turned = [item @ TURN for item in unit]
    scores = np.asarray([[sum((q @ d.T).max(axis=1)) for d in turned] for q in unit])
    ranks = [1 + list(np.argsort(-row)).index(i) for i, row in enumerate(scores)]
    assert found.untranslated == pytest.approx(np.mean(1 / np.asarray(ranks)))
    np.testing.assert_allclose(maxsim(MultiVectors.of(files[60:]), MultiVectors.of(turned)), scores, rtol=1e-4)


def test_files_without_tokens_or_common_items_are_refused(files):
    pq.write_table(pa.table({"id": [1], "x": [1.0]}), "plain.parquet")
    out = ("-o", "t.safetensors")
    refused = run("fit", "plain.parquet", "plain.parquet", *out, code=ERROR)
    assert "no column of vectors" in refused.stderr
    refused = run("fit", "old-fit.parquet", "new-held-out.parquet", *out, code=ERROR)
    assert "no key in common" in refused.stderr


def test_a_key_of_several_items_is_refused(files):
    """Each of them would be paired with the first that has the key."""
    table = pq.read_table("old-fit.parquet")
    pq.write_table(pa.concat_tables([table, table.slice(3, 1)]), "twice.parquet")
    result = run("fit", "twice.parquet", "new-fit.parquet", "-o", "t.safetensors", code=ERROR)
    assert "'3' is the key of several items" in result.stderr


def test_keys_are_joined_by_their_texts(files):
    table = pq.read_table("new-fit.parquet")
    texts = pa.array([str(key) for key in table["id"].to_pylist()])
    pq.write_table(table.set_column(0, "id", texts), "texts.parquet")
    run("fit", "old-fit.parquet", "texts.parquet", "-o", "t.safetensors")
    result = run("evaluate", "t.safetensors", "old-held-out.parquet", "new-held-out.parquet", "--json", code=NO_VERDICT)
    assert json.loads(result.stdout)["translated"] == 1.0


def test_files_that_cannot_be_read_are_named(files, tmp_path):
    (tmp_path / "damaged.parquet").write_text("hello")
    run("fit", "old-fit.parquet", "new-fit.parquet", "-o", "t.safetensors")
    for path, words in (("nothing.parquet", "There is no file nothing.parquet"), ("damaged.parquet", "cannot be read")):
        assert words in run("fit", path, "new-fit.parquet", "-o", "u.safetensors", code=ERROR).stderr
        assert words in run("translate", "t.safetensors", path, "-o", "u.parquet", code=ERROR).stderr


def test_whole_items_are_held_out_and_those_fitted_on_are_left_out(files):
    told = json.loads(run("fit", "old-fit.parquet", "new-fit.parquet", "-o", "t.safetensors", "--json").stdout)
    assert told["pairs"] + told["held_out"] == sum(map(len, files[:60]))
    words = ("evaluate", "t.safetensors", "old-fit.parquet", "new-fit.parquet")
    held_out = rl.spaces.held_out(rl.spaces.key_hashes(range(60)), 0.2)
    assert json.loads(run(*words, "--json", code=NO_VERDICT).stdout)["items"] == np.sum(held_out)
    assert sum(len(files[i]) for i in np.flatnonzero(held_out)) == told["held_out"]
    run("fit", "old-fit.parquet", "new-fit.parquet", "-o", "all.safetensors", "--held-out", "0")
    assert "fitted on all 60 items" in run("evaluate", "all.safetensors", *words[2:], code=ERROR).stderr
    assert "leave out --report" in run(*words, "--report", "r.md", code=ERROR).stderr


def test_as_a_space_there_is_one_row_per_vector(files):
    space, again = rl.read_space("old-fit.parquet"), pickle.loads(pickle.dumps(rl.read_space("old-fit.parquet")))
    np.testing.assert_array_equal(space.vectors, np.concatenate(files[:60]))
    assert (space.keys[:2].tolist(), len(again), again.n_items) == (["0#0", "0#1"], len(space), 60)
    x, y = rl.parallel(space, rl.read_space("new-fit.parquet"))
    np.testing.assert_allclose(x @ TURN, y, atol=1e-5)


def test_what_cannot_hold_several_vectors_per_item_is_refused(files):
    run("fit", "old-fit.parquet", "new-fit.parquet", "-o", "t.safetensors")
    for words in (("-o", "out.npy"), ("-o", "folder"), ("-o", "out.parquet", "--quantize", "int8")):
        assert (
            "several vectors per item"
            in run("translate", "t.safetensors", "old-fit.parquet", *words, code=ERROR).stderr
        )
