"""Export, info, encode, anchors, project, compare, stitch and demo on real files."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.steps import NEW_DIM, OLD_DIM, N, answer, refused, run

import relatent as rl
from relatent.cli import OK


@pytest.mark.parametrize("to", rl.exports.FORMATS)
def test_export_writes_every_format(here, to):
    translator = "affine.safetensors"
    run("fit", "old.parquet", "new.parquet", "--max-cost", "affine", "-o", translator)
    needed = ["old.parquet", "new.parquet"] if to == "atlas" else []
    done = answer("export", translator, "--to", to, *needed, "-o", "exported")
    assert done == {"out": "exported", "format": to, "dims": [OLD_DIM, NEW_DIM]}
    assert Path("exported").exists()
    refused("export", translator, "--to", to, "-o", "exported", says="exported exists")


def test_export_takes_the_target_side_and_scores(here, translator):
    run("fit", "old.parquet", "new.parquet", "--goal", "retrieval", "-o", "both.safetensors")
    done = answer("export", "both.safetensors", "--to", "onnx", "--side", "target", "-o", "target.onnx")
    assert done["dims"][0] == NEW_DIM
    refused("export", translator, "--to", "onnx", "--side", "target", "-o", "x.onnx", says="no map to export")
    refused("export", translator, "--to", "onyx", "-o", "x.onnx", says="Did you mean 'onnx'")
    Path("verdict.json").write_text('{"verdict": "GO"}')
    run("export", translator, "--to", "huggingface", "--scores", "verdict.json", "-o", "card")
    assert '"verdict": "GO"' in Path("card/README.md").read_text()


def test_info(here, translator):
    found = answer("info", "old.parquet")
    assert (found["rows"], found["dim"], found["dtype"], found["key"]) == (N, OLD_DIM, "float32", "key")
    assert found["fingerprint"]["model"] == "old-model"
    said = run("info", "old.parquet").stdout
    assert "old-model" in said
    assert "label (string), year (int64)" in said
    assert "old-model → new-model" in run("info", translator).stdout
    assert answer("info", translator)["kind"] == "translator"


def test_info_counts_what_gives_trouble(here):
    bad = np.ones((5, 2), dtype=np.float32)
    bad[3, 1], bad[1] = np.nan, 0
    rl.write_space(rl.Space(bad, keys=["a", "b", "a", "c", "d"]), "bad.parquet")
    found = answer("info", "bad.parquet")
    assert (found["duplicate_keys"], found["not_finite"], found["first_not_finite"], found["zero"]) == (1, 1, 3, 1)


def test_encode_with_word_vectors(here):
    Path("words.txt").write_text("red 1 0\ncar 0 1\n")
    Path("docs.jsonl").write_text('{"id": "x", "text": "red car"}\n{"id": "y", "text": "red"}\n')
    options = ("--kind", "static", "--model", "words.txt", "--name", "toy", "-o", "docs.parquet")
    assert answer("encode", "docs.jsonl", *options)["rows"] == 2
    space = rl.read_space("docs.parquet")
    assert space.vectors.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert space.keys.tolist() == ["x", "y"]
    assert space.fingerprint.model == "toy"
    refused("encode", "docs.jsonl", *options, says="docs.parquet exists")
    refused(
        "encode",
        "none.txt",
        "--kind",
        "static",
        "--model",
        "words.txt",
        "-o",
        "x.npy",
        says="There is no file none.txt",
    )
    refused("encode", "docs.jsonl", "--kind", "statik", "--model", "m", "-o", "x.npy", says="Did you mean 'static'")
    wrong = ("encode", "docs.jsonl", "--text", "txt", "--kind", "static", "--model", "words.txt", "-o", "x.npy")
    refused(*wrong, says="no column 'txt'")


@pytest.mark.parametrize("name", ["t.txt", "t.csv", "t.tsv", "t.parquet"])
def test_items_come_from_what_people_have(tmp_path, name):
    texts = ["a, b", 'say "c"', "d"]
    if name == "t.txt":
        (tmp_path / name).write_text("\n".join(texts))
    elif name == "t.parquet":
        pq.write_table(pa.table({"id": ["0", "1", "2"], "text": texts}), tmp_path / name)
    elif name == "t.csv":
        (tmp_path / name).write_text('id,text\n0,"a, b"\n1,"say ""c"""\n2,d\n')
    else:
        (tmp_path / name).write_text("id\ttext\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(texts)))
    found = rl.encode.read_items(tmp_path / name)
    assert found.items == texts
    assert [str(key) for key in found.keys] == ["0", "1", "2"]


def test_anchors_and_projections_of_two_spaces(here):
    run("anchors", "new.parquet", "-n", "50", "--strategy", "farthest_point", "-o", "anchors.parquet")
    assert len(rl.read_space("anchors.parquet")) == 50
    for name in ("old", "new"):
        told = answer("project", f"{name}.parquet", "--anchors", "anchors.parquet", "-o", f"{name}-relative.parquet")
        assert told["dim"] == 50
    x, y = rl.parallel(rl.read_space("old-relative.parquet"), rl.read_space("new-relative.parquet"))
    np.testing.assert_allclose(x, y, atol=0.02)
    wanted = ("anchors", "old.parquet", "-n", "10", "--strategy", "stratified", "--label", "label", "-o", "s.npy")
    assert answer(*wanted)["anchors"] == 10
    refused("anchors", "old.parquet", "-n", "9999", "-o", "x.npy", says="only 900 rows")
    rl.write_space(rl.Space(np.ones((1, 2)), keys=["stranger"]), "stranger.parquet")
    refused("project", "old.parquet", "--anchors", "stranger.parquet", "-o", "x.npy", says="first 'stranger'")


def test_compare(here):
    found = answer("compare", "old.parquet", "new.parquet", "--max-rows", "300")
    scores = {score["name"]: score["value"] for score in found["scores"]}
    assert scores["cka"] > 0.99
    said = run("compare", "old.parquet", "new.parquet", "--max-rows", "300", "--permutations", "9").stdout
    assert "unchanged by" in said
    assert "≤0.100" in said
    words = ["compare", "old.parquet", "new.parquet", "--max-rows", "50", "--permutations", "2"]
    assert "linear measures of 50 rows" in run(*words, "--verbose").stderr
    assert run(*words).stderr == ""


def test_stitch(here, translator):
    new = rl.read_space("new.parquet")
    old = rl.read_space("old.parquet")
    label = dict(zip(old.keys, old.others.column("label").to_pylist(), strict=True))
    true = [label[key] for key in new.keys]
    rl.write_space(rl.Space(new.vectors, new.keys, "new", others={"label": true}), "labelled.parquet")
    sign = np.where(np.asarray(true) == "warm", 1.0, -1.0)
    with_one = np.column_stack([new.vectors, np.ones(len(sign))])
    weight = np.linalg.lstsq(with_one, sign, rcond=None)[0]
    np.savez("head.npz", weight=weight[None, :-1], bias=weight[-1:], classes=np.asarray(["cold", "warm"]))
    options = ("-o", "said.parquet", "--label", "label")
    done = answer("stitch", translator, "head.npz", "old.parquet", "labelled.parquet", *options)
    accuracy, seen = done["accuracy"], len(rl.load(translator).seen_keys_)
    assert (done["left_out"], done["scored"]) == (seen, len(old) - seen)
    assert list(accuracy) == ["translated", "own encoder (ceiling)"]
    assert accuracy["translated"]["value"] > 0.9
    said = rl.read_space("said.parquet")
    assert said.dim == 2
    assert set(said.others.column("prediction").to_pylist()) == {"cold", "warm"}
    said = run("stitch", translator, "head.npz", "old.parquet", "labelled.parquet", *options, "--overwrite").stdout
    assert f"{seen:,} rows that the translator was fitted on are left out of the accuracy" in said
    foreign = rl.Space(old.vectors, old.keys, "foreign", rl.Fingerprint(dim=OLD_DIM, model="a-third-model"))
    rl.write_space(foreign, "foreign.parquet")
    refused("stitch", translator, "head.npz", "foreign.parquet", "-o", "f.npy", says="--accept")
    assert run("stitch", translator, "head.npz", "foreign.parquet", "-o", "f.npy", "--accept").exit_code == OK
    np.savez("small.npz", weight=np.ones((2, 3)))
    refused("stitch", translator, "small.npz", "old.parquet", "-o", "x.npy", says="the decoder reads 3")
    refused(
        "stitch", translator, "head.npz", "old.parquet", "-o", "x.npy", "--label", "lable", says="Did you mean 'label'"
    )


def test_demo_leaves_its_files(tmp_path):
    done = answer("demo", "--out", tmp_path / "out")
    assert done["verdict"]["verdict"] == "GO"
    for name, file in done["files"].items():
        assert Path(file).stat().st_size > 0, name
    assert "The same by hand" in run("demo", "--out", tmp_path / "out").stdout


def test_more_than_two_spaces_are_compared(here):
    words = ("compare", "old.parquet", "new.parquet", "other.parquet", "--permutations", "2", "--max-rows", "100")
    found = answer(*words, "--report", "compare.html")
    assert found["spaces"] == ["old", "new", "other"]
    assert {(one["x"], one["y"]) for one in found["scores"]} == {("old", "new"), ("old", "other"), ("new", "other")}
    page = (here / "compare.html").read_text("utf8")
    assert "Similarity measures of every pair" in page
    assert "How similar the spaces are" in page


@pytest.mark.parametrize(("switches", "wanted"), [((), True), (("--json",), True), (("--quiet",), False)])
def test_a_command_reports_what_it_does_by_its_full_name_unless_it_is_quiet(here, monkeypatch, switches, wanted):
    asked = []

    @contextmanager
    def working(name, wanted=True):
        asked.append((name, wanted))
        yield

    monkeypatch.setattr("relatent.cli.frame.working", working)
    words = ("monitor", "make-canary", "old.parquet", "-o", "canary.parquet", *switches)
    run(*words)
    assert asked == [("relatent monitor make-canary", wanted)]
