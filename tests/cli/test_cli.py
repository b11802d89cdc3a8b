"""The commands on real files: what they write, what they say, and how they fail."""

import inspect
import json
import os
import resource
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import ERROR, NO_GO, NO_VERDICT, OK, USAGE, app

COMMANDS = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_cli.py"))["leaves"](
    typer.main.get_command(app)
)
N, OLD_DIM, NEW_DIM = 900, 20, 24


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two files of nearly the same items: the new model sees what the old one sees, turned into more coordinates."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    old = rng.normal(size=(N, OLD_DIM)) * np.linspace(2, 0.5, OLD_DIM) + np.linspace(-1, 1, OLD_DIM)
    turn = np.linalg.qr(rng.normal(size=(NEW_DIM, NEW_DIM)))[0][:OLD_DIM]
    new = old @ turn + 0.001 * rng.normal(size=(N, NEW_DIM))
    keys = [f"doc {i}" for i in range(N)]
    label = np.where(old[:, 0] > 0, "warm", "cold")
    order = rng.permutation(N)[: N - 20]
    known = rl.Fingerprint(dim=OLD_DIM, model="old-model"), rl.Fingerprint(dim=NEW_DIM, model="new-model")
    spaces = {
        "old": rl.Space(old.astype(np.float32), keys, "old", known[0], others={"label": label, "year": range(N)}),
        "new": rl.Space(new.astype(np.float32)[order], [keys[i] for i in order], "new", known[1]),
        "other": rl.Space(rng.normal(size=(N, NEW_DIM)).astype(np.float32), keys),
    }
    for name, space in spaces.items():
        rl.write_space(space, folder / f"{name}.parquet")
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A folder with links to the files, and the place where commands run."""
    for file in made.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def translator(here):
    run("fit", "old.parquet", "new.parquet", "-o", "t.safetensors")
    return here / "t.safetensors"


def run(*words, code=OK):
    result = CliRunner().invoke(app, [str(word) for word in words])
    said = f"{result.output}\n{result.exception!r}"
    assert result.exit_code == code, said
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


# The main job.


def test_from_two_files_to_translated_vectors(here):
    fitted = answer("fit", "old.parquet", "new.parquet", "-o", "t.safetensors")
    assert fitted["pairs"] + fitted["held_out"] == N - 20
    assert 0.15 < fitted["held_out"] / N < 0.25
    assert "20 only in x" in fitted["joined"]
    verdict = answer("evaluate", "t.safetensors", "old.parquet", "new.parquet", "--relevant", clicks())
    assert (verdict["verdict"], verdict["recommended"]) == ("GO", "translate")
    assert verdict["items"] == fitted["held_out"]
    assert "above -0.01" in verdict["rule"]
    told = run("translate", "t.safetensors", "old.parquet", "-o", "out.parquet").stdout
    assert f"Wrote {N} × {NEW_DIM} translated vectors" in told
    out, new = rl.read_space("out.parquet"), rl.read_space("new.parquet")
    x, y = rl.parallel(out, new)
    assert rl.evaluate.mean_cosine(x, y) > 0.999
    assert out.others.column_names == rl.read_space("old.parquet").others.column_names
    assert (out.fingerprint.model, out.fingerprint.revision) == ("new-model", "translated from old-model")


def test_the_verdict_shows_every_option_and_its_rule(here, translator):
    said = run("evaluate", translator, "old.parquet", "new.parquet", "--slices", "label", "--relevant", clicks()).stdout
    for words in ("stay (old model", "untranslated", "dimensions differ", "translate", "rerank (top", "re-embed"):
        assert words in said
    for words in ("recall@10", "MRR@10", "nDCG@10", "break-even: ARR × (new/old) = ", "warm", "cold", "GO: translate."):
        assert words in said
    assert max(map(len, said.splitlines())) <= 120


@pytest.mark.parametrize(
    ("target", "options", "code", "verdict"),
    [
        ("new", ("--relevant",), OK, "GO"),
        ("other", ("--relevant",), NO_GO, "NO-GO"),
        ("new", (), NO_VERDICT, "no verdict"),
        ("new", ("--min-overlap", "0.9"), OK, "GO"),
        ("other", ("--min-overlap", "0.9", "--candidates", "20"), NO_GO, "NO-GO"),
        ("new", ("--reembed-rows", "1000", "--price", "1", "--relevant"), OK, "GO"),
    ],
)
def test_each_verdict_has_its_exit_code(here, target, options, code, verdict):
    run("fit", "old.parquet", f"{target}.parquet", "-o", "t.safetensors", "--force")
    options = [*options, clicks()] if options[-1:] == ("--relevant",) else options
    words = ("evaluate", "t.safetensors", "old.parquet", f"{target}.parquet", *options)
    assert answer(*words, code=code)["verdict"] == verdict
    assert f"\n{verdict}" in run(*words, code=code).stdout


def test_exit_codes_reach_the_shell(here, translator):
    result = process("evaluate", translator, "old.parquet", "new.parquet")
    assert (result.returncode, "\nno verdict.\n" in result.stdout) == (NO_VERDICT, True)


def test_options_of_evaluate_that_cannot_be_meant(here, translator):
    words = ("evaluate", translator, "old.parquet", "new.parquet")
    refused(*words, "-k", "0", says="0 neighbors were asked for: expected a whole number of at least 1")
    refused(*words, "--slices", "lable", says="Did you mean 'label'")
    refused(*words, "--min-overlap", "0.5", "--relevant", clicks(), says="expected one of them")
    refused(*words, "--margin", "2", says="The margin is 2.0")
    refused(*words, "--reembed-rows", "1000", says="a speed or a price")
    result = run(*words, "-k", "500", code=ERROR)
    most = result.stderr.split("ask for at most ")[1].split(",")[0]
    run(*words, "-k", most, code=NO_VERDICT)


def test_defaults_of_commands_are_those_of_the_library():
    """The command line cannot import them, since help must start at once."""
    from relatent import decide, evaluate

    def defaults(function):
        return {name: p.default for name, p in inspect.signature(function).parameters.items()}

    ours = {p.name: p.default for p in COMMANDS["evaluate"].params}
    rule, cost = defaults(decide.Rule), defaults(decide.Cost)
    library = defaults(decide.evaluate_spaces) | {"margin": rule["margin"], "min_overlap": rule["min_overlap"]}
    library |= {name: cost[name] for name in ("rows_per_second", "price", "max_hours", "budget")}
    for name in ("k", "candidates", "max_rows", "seed", "slices", *set(library) & set(cost), "margin"):
        assert ours[name] == library[name], name
    assert ours["side"] == library["role"]
    comparing = {p.name: p.default for p in COMMANDS["compare"].params}
    for name in ("k", "max_rows", "permutations", "seed"):
        assert comparing[name] == defaults(evaluate.compare)[name], name


def test_rows_are_paired_by_order_only_when_asked(here):
    old = rl.read_space("old.parquet")
    rl.write_space(old.subset(np.random.default_rng(0).permutation(len(old))), "shuffled.parquet")
    fit = ("fit", "old.parquet", "shuffled.parquet", "-o", "t.safetensors", "--force")
    assert answer(*fit)["joined"].startswith(f"{N:,} keys in common by column")
    assert answer(*fit, "--by-row")["joined"] == f"{N:,} rows paired by row order"
    compare = ("compare", "old.parquet", "shuffled.parquet")
    assert answer(*compare) != answer(*compare, "--by-row")


def test_evaluate_leaves_out_what_was_fitted_on(here):
    rl.write_space(rl.read_space("new.parquet").subset(range(300)), "few.parquet")
    fitted = answer("fit", "old.parquet", "new.parquet", "--anchors", "few.parquet", "-o", "t.safetensors")
    assert (fitted["pairs"], fitted["held_out"]) == (300, N - 320)
    words = ("evaluate", "t.safetensors", "old.parquet", "new.parquet")
    assert answer(*words, code=NO_VERDICT)["queries"] == N - 320
    refused("evaluate", "t.safetensors", "old.parquet", "few.parquet", says="was fitted on all 300 keys in common")
    run("fit", "old.parquet", "new.parquet", "--pairs", "50", "-o", "t.safetensors", "--force")
    assert answer(*words, "--rows", "200", code=NO_VERDICT)["queries"] == 200


def test_judged_pairs_of_ones_own(here, translator):
    verdict = answer("evaluate", translator, "old.parquet", "new.parquet", "--relevant", clicks())
    assert verdict["relevance"] == "the pairs in clicks.tsv"
    Path("wrong.tsv").write_text("query\titem\nnobody\tnothing\n")
    arguments = ("evaluate", translator, "old.parquet", "new.parquet", "--relevant", "wrong.tsv")
    refused(*arguments, says="None of the pairs in wrong.tsv")


def test_queries_can_be_moved_instead(here):
    run("fit", "new.parquet", "old.parquet", "-o", "vectors.safetensors")
    words = ("new.parquet", "old.parquet", "--relevant", clicks())
    assert answer("evaluate", "vectors.safetensors", *words, "--side", "queries")["verdict"] == "GO"
    # What ranks the very item best need not rank its neighbors as the cosine does.
    for name, extra, code in (("frozen", ["--frozen-target"], OK), ("both", [], NO_GO)):
        run("fit", "new.parquet", "old.parquet", "--goal", "retrieval", *extra, "-o", f"{name}.safetensors")
        result = run("evaluate", f"{name}.safetensors", *words, "--json", code=code)
        assert json.loads(result.stdout)["itself"]["value"] > 0.99
        assert ("note: This translator maps queries and documents" in result.stderr) is (name == "both")
    sided = ("evaluate", "both.safetensors", "new.parquet", "old.parquet", "--side", "documents")
    refused(*sided, says="evaluate it with role 'queries'")
    assert (
        "--side source"
        in run("translate", "both.safetensors", "old.parquet", "--side", "target", "-o", "index.parquet").stderr
    )


@pytest.mark.parametrize("out", ["out.npy", "out.arrow", "folder"])
def test_translate_writes_every_format(here, translator, out):
    run("translate", translator, "old.parquet", "-o", out)
    np.testing.assert_allclose(
        rl.read_space(out).vectors, rl.load(translator).transform(rl.read_space("old.parquet").vectors), rtol=1e-5
    )


def test_remote_paths(here, translator):
    pytest.importorskip("fsspec")
    run("translate", translator, "old.parquet", "-o", "memory://bucket/out.parquet")
    assert answer("info", "memory://bucket/out.parquet")["rows"] == N


# The other commands.


@pytest.mark.parametrize("to", rl.exports.FORMATS)
def test_export_writes_every_format(here, translator, to):
    needed = ["--space", "old.parquet", "--target", "new.parquet"] if to == "atlas" else []
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
    options = ("--kind", "static", "-m", "words.txt", "--name", "toy", "-o", "docs.parquet")
    assert answer("encode", "docs.jsonl", *options)["rows"] == 2
    space = rl.read_space("docs.parquet")
    assert space.vectors.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert space.keys.tolist() == ["x", "y"]
    assert space.fingerprint.model == "toy"
    refused("encode", "docs.jsonl", *options, says="docs.parquet exists")
    refused(
        "encode", "none.txt", "--kind", "static", "-m", "words.txt", "-o", "x.npy", says="There is no file none.txt"
    )
    refused("encode", "docs.jsonl", "--kind", "statik", "-m", "m", "-o", "x.npy", says="Did you mean 'static'")
    wrong = ("encode", "docs.jsonl", "--column", "txt", "--kind", "static", "-m", "words.txt", "-o", "x.npy")
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
    run("anchors", "new.parquet", "-k", "50", "--strategy", "farthest_point", "-o", "anchors.parquet")
    assert len(rl.read_space("anchors.parquet")) == 50
    for name in ("old", "new"):
        told = answer("project", f"{name}.parquet", "-a", "anchors.parquet", "-o", f"{name}-relative.parquet")
        assert told["dim"] == 50
    x, y = rl.parallel(rl.read_space("old-relative.parquet"), rl.read_space("new-relative.parquet"))
    np.testing.assert_allclose(x, y, atol=0.02)
    wanted = ("anchors", "old.parquet", "-k", "10", "--strategy", "stratified", "--column", "label", "-o", "s.npy")
    assert answer(*wanted)["anchors"] == 10
    refused("anchors", "old.parquet", "-k", "9999", "-o", "x.npy", says="only 900 rows")
    rl.write_space(rl.Space(np.ones((1, 2)), keys=["stranger"]), "stranger.parquet")
    refused("project", "old.parquet", "-a", "stranger.parquet", "-o", "x.npy", says="first 'stranger'")


def test_compare(here):
    found = answer("compare", "old.parquet", "new.parquet", "--rows", "300")
    scores = {score["name"]: score["value"] for score in found["scores"]}
    assert scores["cka"] > 0.99
    said = run("compare", "old.parquet", "new.parquet", "--rows", "300", "--permutations", "9").stdout
    assert "unchanged by" in said
    assert "≤0.100" in said
    result = process("compare", "old.parquet", "new.parquet", "--rows", "50", "--permutations", "2", "--verbose")
    assert "linear measures of 50 rows" in result.stderr
    assert process("compare", "old.parquet", "new.parquet", "--rows", "50", "--permutations", "2").stderr == ""


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
    options = ("-o", "said.parquet", "--truth", "label", "--new", "labelled.parquet")
    done = answer("stitch", translator, "old.parquet", "head.npz", *options)
    accuracy, seen = done["accuracy"], len(rl.load(translator).seen_keys_)
    assert (done["left_out"], done["scored"]) == (seen, len(old) - seen)
    assert list(accuracy) == ["translated", "own encoder (ceiling)"]
    assert accuracy["translated"]["value"] > 0.9
    said = rl.read_space("said.parquet")
    assert said.dim == 2
    assert set(said.others.column("prediction").to_pylist()) == {"cold", "warm"}
    said = run("stitch", translator, "old.parquet", "head.npz", *options, "--force").stdout
    assert f"{seen:,} rows that the translator was fitted on are left out of the accuracy" in said
    foreign = rl.Space(old.vectors, old.keys, "foreign", rl.Fingerprint(dim=OLD_DIM, model="a-third-model"))
    rl.write_space(foreign, "foreign.parquet")
    refused("stitch", translator, "foreign.parquet", "head.npz", "-o", "f.npy", says="--accept")
    assert run("stitch", translator, "foreign.parquet", "head.npz", "-o", "f.npy", "--accept").exit_code == OK
    np.savez("small.npz", weight=np.ones((2, 3)))
    refused("stitch", translator, "old.parquet", "small.npz", "-o", "x.npy", says="the decoder reads 3")
    refused(
        "stitch", translator, "old.parquet", "head.npz", "-o", "x.npy", "--truth", "lable", says="Did you mean 'label'"
    )


def test_demo_leaves_its_files(tmp_path):
    done = answer("demo", "--out", tmp_path / "out")
    assert done["verdict"]["verdict"] == "GO"
    for name, file in done["files"].items():
        assert Path(file).stat().st_size > 0, name
    assert "The same by hand" in run("demo", "--out", tmp_path / "out").stdout


# What goes wrong.


def test_missing_files(here, translator):
    refused("info", "none.parquet", says="There is no file none.parquet")
    refused("fit", "none.parquet", "new.parquet", "-o", "x.safetensors", says="There is no file none.parquet")
    refused("translate", "none.safetensors", "old.parquet", "-o", "x.parquet", says="There is no file none.safetensors")
    refused("evaluate", translator, "old.parquet", "none.parquet", says="There is no file none.parquet")


def test_another_space_is_refused_until_accepted(here, translator):
    rl.write_space(rl.Space(np.ones((9, OLD_DIM)), fingerprint=rl.Fingerprint(OLD_DIM, "third")), "third.parquet")
    says = ("'third' is not the source 'old'", "the model is 'old-model' in one and 'third' in the other", "--accept")
    refused("translate", translator, "third.parquet", "-o", "x.parquet", says=says)
    refused("translate", translator, "new.parquet", "-o", "x.parquet", says="the dim is 20 in one and 24")
    refused("evaluate", translator, "new.parquet", "old.parquet", says="is not the source")
    run("translate", translator, "third.parquet", "-o", "x.parquet", "--accept")


def test_nulls_ragged_rows_and_nan(here, translator):
    good = [1.0] * OLD_DIM
    for name, rows, says in (
        ("null", [good, None], "1 null vectors, first in row 1"),
        ("ragged", [good, good[:-1]], "in row 1"),
        ("nan", [good, [np.nan] * OLD_DIM], "Row 1 (key 'b') of nan.parquet holds NaN or infinity"),
    ):
        pq.write_table(pa.table({"id": ["a", "b"], "v": pa.array(rows, pa.list_(pa.float32()))}), f"{name}.parquet")
        refused("translate", translator, f"{name}.parquet", "-o", "x.parquet", "--accept", says=says)


def test_a_file_cut_in_half(here, translator):
    Path("half.parquet").write_bytes(Path("old.parquet").read_bytes()[:5000])
    refused("info", "half.parquet", says=("half.parquet", "new copy"))
    Path("half.safetensors").write_bytes(translator.read_bytes()[:500])
    refused("evaluate", "half.safetensors", "old.parquet", "new.parquet", says="half.safetensors")


def test_a_folder_with_a_foreign_file(here, translator):
    Path("mixed").mkdir()
    rl.write_space(rl.read_space("old.parquet"), "mixed/a.parquet")
    Path("mixed/notes.md").write_text("hello")
    refused("translate", translator, "mixed", "-o", "x.parquet", says=("notes.md", "files of one format"))


def test_nothing_is_replaced_unless_forced_and_never_in_place(here, translator):
    run("translate", translator, "old.parquet", "-o", "x.parquet")
    before = Path("x.parquet").read_bytes()
    refused("translate", translator, "old.parquet", "-o", "x.parquet", says=("x.parquet exists", "--force"))
    refused("fit", "old.parquet", "new.parquet", "-o", "t.safetensors", says="t.safetensors exists")
    run("translate", translator, "old.parquet", "-o", "x.parquet", "--force")
    assert Path("x.parquet").read_bytes() == before
    refused("translate", translator, "old.parquet", "-o", "old.parquet", "--force", says="nothing is written in place")
    Path("folder").mkdir()
    rl.write_space(rl.read_space("old.parquet"), "folder/a.parquet")
    for source, out in (("folder", "folder/b.parquet"), ("folder/*.parquet", "folder/c.parquet"), ("folder", "folder")):
        refused("translate", translator, source, "-o", out, "--force", says="nothing is written in place")
    for words in (
        ("translate", translator, "old.parquet", "-o", translator),
        ("project", "old.parquet", "-a", "x.parquet", "-o", "x.parquet"),
    ):
        kept = Path(words[-1]).read_bytes()
        refused(*words, "--force", says="nothing is written in place")
        assert Path(words[-1]).read_bytes() == kept
    result = run("fit", "old.parquet", "new.parquet", "-o", "e.txt", code=USAGE)
    assert "e.txt does not end in .safetensors" in result.stderr


def test_damaged_vectors_are_refused_unless_asked_for(here, translator):
    rl.write_space(rl.read_space("old.parquet"), "old.npy")
    raw = bytearray(Path("old.npy").read_bytes())
    raw[1000] ^= 1
    Path("old.npy").write_bytes(raw)
    refused("translate", translator, "old.npy", "-o", "x.npy", says=("old.npy is damaged", "--no-verify"))
    run("translate", translator, "old.npy", "-o", "x.npy", "--no-verify")
    refused("info", "x.npy", "--max-memory", "10", says=("x.npy states", "--max-memory"))


def test_no_folder(here, translator):
    refused("translate", translator, "old.parquet", "-o", "nowhere/x.parquet", says="there is no folder nowhere")
    refused("fit", "old.parquet", "new.parquet", "-o", "nowhere/t.safetensors", says="there is no folder nowhere")


def test_no_permission(here, translator):
    Path("shut").mkdir(mode=0o500)
    run("translate", translator, "old.parquet", "-o", "open.parquet")  # imports what it needs while this user may
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        for words in (
            ("translate", translator, "old.parquet", "-o", "shut/x.parquet"),
            ("fit", "old.parquet", "new.parquet", "-o", "shut/t.safetensors"),
        ):
            result = CliRunner().invoke(app, [str(word) for word in words])
            assert result.exit_code == ERROR
            assert "no permission" in result.stderr.lower() or "Permission denied" in result.stderr
    finally:
        os.seteuid(user)
    assert list(Path("shut").iterdir()) == []


def test_a_full_disk(here, translator):
    """No file may grow beyond 4 KiB here, which fails as a full disk does: in the middle of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**12, hard))
    try:
        for out in ("x.parquet", "x.npy", "folder"):
            refused("translate", translator, "old.parquet", "-o", out, says=("The disk was full", "nothing was left"))
        refused(
            "fit", "old.parquet", "new.parquet", "-o", "x.safetensors", says=("The disk was full", "nothing was left")
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_commands_run_on_an_engine(here, translator):
    engine = ("--engine", "processes", "--workers", "2")
    run("fit", "old.parquet", "new.parquet", "-o", "again.safetensors", *engine)
    one, other = (rl.load(path).matrix_ for path in (translator, "again.safetensors"))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)  # saved in float32
    run("translate", translator, "old.parquet", "-o", "serial")
    run("translate", translator, "old.parquet", "-o", "parallel", *engine)
    names = sorted(file.name for file in Path("serial").iterdir())
    assert names == sorted(file.name for file in Path("parallel").iterdir())
    assert all((Path("serial") / name).read_bytes() == (Path("parallel") / name).read_bytes() for name in names)
    refused(
        "translate", translator, "old.parquet", "-o", "x.npy", *engine, says=("x.npy is one file", "without a suffix")
    )
    refused("translate", translator, "old.parquet", "-o", "x", "--engine", "daks", says="Did you mean 'dask'")
    refused("fit", "old.parquet", "new.parquet", "-o", "x.safetensors", "--workers", "0", says="expected at least 1")


def test_wrong_options(here):
    assert "Missing option" in process("fit", "old.parquet", "new.parquet").stderr
    run("fit", "old.parquet", code=USAGE)
    run("nonsense", code=USAGE)
    refused("fit", "old.parquet", "new.parquet", "-o", "x.safetensors", "--map", "orthogonl", says="'orthogonal'")
    refused("fit", "old.parquet", "new.parquet", "-o", "x.safetensors", "--held-out", "1.5", says="share to hold out")
    refused("fit", "old.parquet", "new.parquet", "-o", "x.safetensors", "--key", "labl", says="no column 'labl'")


def test_a_translator_is_saved_as_safetensors(here):
    said = run("fit", "old.parquet", "new.parquet", "-o", "e.txt", code=USAGE).stderr
    assert "e.txt does not end in .safetensors" in said
    assert not Path("e.txt").exists()


def test_a_remedy_is_an_option_and_no_argument_of_python(here, tmp_path):
    pytest.importorskip("onnxruntime")
    wrong = ("encode", "docs.txt", "--kind", "onnx", "-m", onnx_without_tokenizer(tmp_path), "-o", "x.npy")
    Path("docs.txt").write_text("a text")
    refused(*wrong, says="Put it beside the model.")
    with pytest.raises(FileNotFoundError, match="tokenizer="):
        rl.encode.onnx_text(tmp_path / "model.onnx")


def onnx_without_tokenizer(folder):
    """Write the smallest model that loads: its input, given back."""
    from onnx import TensorProto, helper, save

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    save(model, folder / "model.onnx")
    return folder / "model.onnx"


# How it speaks.


def test_quiet_and_verbose(here, translator):
    result = process("translate", translator, "old.parquet", "-o", "x.parquet", "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (OK, "", "")
    result = process("translate", translator, "old.parquet", "-o", "x.parquet", "--verbose")
    assert result.returncode == ERROR
    assert "Traceback" in result.stderr
    result = process("translate", translator, "old.parquet", "-o", "x.parquet")
    assert "Traceback" not in result.stderr


def test_progress_shows_on_a_terminal_only(here, translator):
    import pty

    words = ["translate", str(translator), "old.parquet", "--force", "-o", "x.parquet"]
    main, terminal = pty.openpty()
    command = [sys.executable, "-c", "from relatent.cli import app; app()", *words]
    result = subprocess.run(command, stderr=terminal, stdout=subprocess.PIPE, check=True)
    os.close(terminal)
    assert b"x.parquet" in os.read(main, 10_000)
    os.close(main)
    assert b"Wrote" in result.stdout
    assert process(*words).stderr == ""


def test_notes_go_to_the_error_stream(here):
    rl.Translator().fit(*rl.parallel(rl.read_space("old.parquet"), rl.read_space("new.parquet"))).save(
        "bare.safetensors"
    )
    result = run("evaluate", "bare.safetensors", "old.parquet", "new.parquet", "--json", code=NO_VERDICT)
    assert "note: The translator does not know the keys" in result.stderr
    assert json.loads(result.stdout)["verdict"] == "no verdict"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_in_its_help(name):
    said = run(*name.split(), "--help").stdout
    assert f"Examples:\n    relatent {name} " in said or f"    relatent {name} " in said.split("Examples:")[1]


def test_the_commands_of_the_issue_are_there():
    assert set(COMMANDS) == {
        *("info", "encode", "anchors", "project", "fit", "translate", "evaluate", "compare", "stitch", "demo"),
        *("export", "report", "serve", "explore", "thresholds", "backfill", "watch", "mixed"),
        *("canary make", "canary check"),
        *(f"tokens {step}" for step in ("fit", "translate", "evaluate")),
        *(f"migrate {step}" for step in ("plan", "apply", "status", "verify", "cutover", "rollback", "finish")),
    }


def test_help_loads_nothing_heavy():
    code = "import sys\nfrom relatent.cli import app\ntry: app(['--help'])\nexcept SystemExit: print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"numpy", "scipy", "sklearn", "torch", "pyarrow", "safetensors", "pandas", "matplotlib", "transformers"}
    assert heavy.isdisjoint(word.split(".")[0] for word in loaded.split())


def test_version_and_completion():
    assert run("--version").stdout.startswith(f"relatent {rl.__version__}")
    result = process(
        env={**os.environ, "_RELATENT_COMPLETE": "complete_bash", "COMP_WORDS": "relatent tra", "COMP_CWORD": "1"}
    )
    assert "translate" in result.stdout


def test_the_reference_is_made_from_the_commands():
    """A command or option that is missing from docs/cli.md fails here: run python docs/make_cli.py."""
    root = Path(__file__).parents[2]
    script = root / "docs" / "make_cli.py"
    code = f"import runpy; print(runpy.run_path({str(script)!r}, run_name='page')['page'](), end='')"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert made == (root / "docs" / "cli.md").read_text(encoding="utf8")
    for name in COMMANDS:
        assert f"## `relatent {name}" in made


PEAK = """
from pathlib import Path
from relatent.cli import app
app(standalone_mode=False)
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_translate_holds_a_few_chunks_however_long_the_file(tmp_path, suffix):
    """900 MB of vectors: half of it beyond what a few rows take."""
    dim, rng = 384, np.random.default_rng(0)
    x = rng.standard_normal((2000, dim), dtype=np.float32)
    rl.Translator(map="orthogonal").fit(x, x[:, ::-1]).save(tmp_path / "t.safetensors")

    def peak(rows):
        old = np.lib.format.open_memmap(tmp_path / "old.npy", mode="w+", dtype=np.float32, shape=(rows, dim))
        for start in range(0, rows, 50_000):
            old[start : start + 50_000] = rng.standard_normal((min(rows, 50_000), dim), dtype=np.float32)
        old.flush()
        if suffix == ".parquet":
            rl.write_space(rl.read_space(tmp_path / "old.npy"), tmp_path / "old.parquet")
        words = ("translate", "t.safetensors", f"old{suffix}", "-o", f"new{rows}{suffix}")
        command = [sys.executable, "-c", PEAK, *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
        return int(done.stdout.splitlines()[-1])

    assert peak(600_000) - peak(10) < 450
