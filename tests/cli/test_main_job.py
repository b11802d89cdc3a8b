"""Fit, evaluate and translate on real files."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.steps import COMMANDS, NEW_DIM, N, answer, clicks, process, refused, run

import relatent as rl
from relatent.cli import ERROR, NO_GO, NO_VERDICT, OK


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
        ("other", ("--min-overlap", "0.9", "--rerank", "20"), NO_GO, "NO-GO"),
        ("new", ("--reembed-rows", "1000", "--price-per-million", "1", "--relevant"), OK, "GO"),
    ],
)
def test_each_verdict_has_its_exit_code(here, target, options, code, verdict):
    run("fit", "old.parquet", f"{target}.parquet", "-o", "t.safetensors", "--force", "--overwrite")
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
    library |= {name: cost[name] for name in ("rows_per_second", "price_per_million", "max_hours", "budget")}
    for name in ("k", "max_rows", "seed", "slices", *set(library) & set(cost), "margin"):
        assert ours[name] == library[name], name
    assert (ours["rerank"], ours["role"]) == (library["candidates"], library["role"])
    comparing = {p.name: p.default for p in COMMANDS["compare"].params}
    for name in ("k", "max_rows", "permutations", "seed"):
        assert comparing[name] == defaults(evaluate.compare)[name], name


def test_rows_are_paired_by_order_only_when_asked(here):
    old = rl.read_space("old.parquet")
    rl.write_space(old.subset(np.random.default_rng(0).permutation(len(old))), "shuffled.parquet")
    fit = ("fit", "old.parquet", "shuffled.parquet", "-o", "t.safetensors", "--force", "--overwrite")
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
    run("fit", "old.parquet", "new.parquet", "--max-pairs", "50", "-o", "t.safetensors", "--overwrite")
    assert answer(*words, "--max-rows", "200", code=NO_VERDICT)["queries"] == 200


def test_judged_pairs_of_ones_own(here, translator):
    verdict = answer("evaluate", translator, "old.parquet", "new.parquet", "--relevant", clicks())
    assert verdict["relevance"] == "the pairs in clicks.tsv"
    Path("wrong.tsv").write_text("query\titem\nnobody\tnothing\n")
    arguments = ("evaluate", translator, "old.parquet", "new.parquet", "--relevant", "wrong.tsv")
    refused(*arguments, says="None of the pairs in wrong.tsv")


@pytest.fixture
def beir(here):
    """A folder of judgments by ids that count queries and documents apart, and two files of queries."""
    old, new = rl.read_space("old.parquet"), rl.read_space("new.parquet")
    keys = [f"doc {i}" for i in range(150)]
    for name, space in (("old", old), ("new", new)):
        part = space.by_keys([key for key in keys if key in set(new.keys)])
        rl.write_space(rl.Space(part.vectors, [key[4:] for key in part.keys], name), f"{name}-queries.parquet")
    for name, space in (("old", old), ("new", new)):
        numbers = [key[4:] for key in space.keys]
        rl.write_space(rl.Space(space.vectors, numbers, name, space.fingerprint), f"{name}-documents.parquet")
    lines = Path(clicks()).read_text().replace("doc ", "").splitlines()[1:]
    Path("judged/qrels").mkdir(parents=True)
    Path("judged/qrels/test.tsv").write_text("".join(f"{line}\t1\n" for line in lines))
    return ("old-documents.parquet", "new-documents.parquet"), (
        "--queries",
        "old-queries.parquet",
        "new-queries.parquet",
    )


def test_beir_folders_and_queries_apart(beir):
    documents, queries = beir
    run("fit", *documents, "-o", "t.safetensors")
    for judged in ("judged", "judged/qrels/test.tsv"):
        words = ("evaluate", "t.safetensors", *documents, "--relevant", judged, *queries)
        found = answer(*words, "--index-rows", "5000")
        assert (found["verdict"], found["expected"]["rows"]) == ("GO", 5_000)
        assert 100 <= found["queries"] <= 150
        assert found["itself"] is None
    run("report", *documents, "--relevant", "judged", *queries, "-o", "r.json")
    report = json.loads(Path("r.json").read_text())
    assert report["verdict"]["verdict"] == "GO"
    assert report["closeness"]["queries"]["value"] > 0.9  # these queries are embedded as documents are
    swapped = ("--queries", "new-queries.parquet", "old-queries.parquet")
    refused("evaluate", "t.safetensors", *documents, "--relevant", "judged", *swapped, says="order source, target")


def test_fit_takes_past_queries_and_what_they_should_find(beir):
    documents, queries = beir
    assert "No queries were given" in run("fit", *documents, "-o", "t.safetensors").stdout
    said = run("fit", *documents, *queries, "--relevant", "judged", "-o", "asked.safetensors").stdout
    assert "No queries were given" not in said
    assert "past queries" in said
    refused("fit", *documents, "--relevant", "judged", "-o", "x.safetensors", says="what queries should find")
    refused("fit", *documents, *queries, "--goal", "stitching", "-o", "x.safetensors", says="no use for them")


def test_no_go_without_known_keys_unless_forced(here):
    old, new = rl.parallel(rl.read_space("old.parquet"), rl.read_space("new.parquet"))
    rl.Translator().fit(old, new).save("t.safetensors")
    words = ("evaluate", "t.safetensors", "old.parquet", "new.parquet", "--relevant", clicks())
    assert "does not know the keys" in answer(*words, code=NO_VERDICT)["reasons"][0]
    assert answer(*words, "--force")["verdict"] == "GO"


def test_queries_can_be_moved_instead(here):
    run("fit", "new.parquet", "old.parquet", "-o", "vectors.safetensors")
    words = ("new.parquet", "old.parquet", "--relevant", clicks())
    assert answer("evaluate", "vectors.safetensors", *words, "--role", "queries")["verdict"] == "GO"
    # What is best at self-retrieval need not rank its neighbors as the cosine does.
    for name, extra, code in (("frozen", ["--frozen-target"], OK), ("both", [], NO_GO)):
        run("fit", "new.parquet", "old.parquet", "--goal", "retrieval", *extra, "-o", f"{name}.safetensors")
        result = run("evaluate", f"{name}.safetensors", *words, "--json", code=code)
        assert json.loads(result.stdout)["itself"]["value"] > 0.99
        assert ("note: This translator maps queries and documents" in result.stderr) is (name == "both")
    sided = ("evaluate", "both.safetensors", "new.parquet", "old.parquet", "--role", "documents")
    refused(*sided, says="evaluate it with role 'queries'")
    index = run("translate", "both.safetensors", "old.parquet", "--side", "target", "-o", "index.parquet")
    assert "--side source" in index.stderr


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
