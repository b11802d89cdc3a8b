import numpy as np

import relatent as rl
from relatent.decide import thresholds


def test_thresholds_are_those_of_the_library(run, pair):
    found = run("thresholds", "old.parquet", "new.parquet", "--threshold", 0.5, "--threshold", 0.8, "--json")
    expected = thresholds(*pair, [0.5, 0.8])
    assert [line["passing"] for line in found["thresholds"]] == [line.passing for line in expected]
    assert np.allclose([c["new"] for c in found["thresholds"]], [line.new.value for line in expected], atol=2e-3)


def test_thresholds_at_equal_precision(run, pair, tmp_path):
    same = [f"doc {i},doc {j}" for i in range(600) for j in range(i) if i // 3 == j // 3]
    (tmp_path / "same.csv").write_text("\n".join(["a,b", *same]))
    found = run("thresholds", "old.parquet", "new.parquet", "--threshold", 0.6, "--relevant", "same.csv", "--json")
    assert found["at"] == "precision"
    assert 0 < found["thresholds"][0]["precision"] <= 1
    (tmp_path / "same.csv").write_text("a,b\nx,y\n")
    assert "check the keys" in run("thresholds", "old.parquet", "new.parquet", "--relevant", "same.csv", code=1)


def test_what_a_smaller_index_costs(run, pair):
    run("fit", "old.parquet", "new.parquet", "-o", "t.safetensors")
    options = ("--quantize", "int8,binary", "--truncate", "8", "--min-overlap", 0.1, "--json")
    found = run("evaluate", "t.safetensors", "old.parquet", "new.parquet", *options)["storage"]
    names = {line["storage"] for line in found if line["option"] == "translate"}
    assert names == {"float32", "int8", "binary", "float32, first 8", "int8, first 8", "binary, first 8"}
    assert "256x" in run("evaluate", "t.safetensors", "old.parquet", "new.parquet", "--truncate", "256x", code=2)


def test_codes_are_written_and_read(run, pair, tmp_path):
    run("fit", "old.parquet", "new.parquet", "-o", "t.safetensors")
    run("translate", "t.safetensors", "old.parquet", "-o", "floats.parquet")
    run("translate", "t.safetensors", "old.parquet", "-o", "codes.parquet", "--quantize", "int8")
    floats, codes = (rl.read_space(tmp_path / f"{name}.parquet").vectors for name in ("floats", "codes"))
    assert rl.evaluate.mutual_knn(floats, codes, k=10) > 0.9
    assert "Parquet or Arrow" in run(
        "translate", "t.safetensors", "old.parquet", "-o", "codes.npy", "--quantize", "int8", code=1
    )


def test_packed_bits_are_fitted_on_and_translated(run, pair, tmp_path):
    bits = np.packbits(np.tile(pair[0] > 0, 2), axis=1)
    np.save(tmp_path / "bits.npy", bits)
    np.save(tmp_path / "new.npy", pair[1])
    run("fit", "bits.npy", "new.npy", "--packed", "-o", "t.safetensors")
    run("translate", "t.safetensors", "bits.npy", "--packed", "-o", "out.npy")
    assert rl.evaluate.r2(np.load(tmp_path / "out.npy"), pair[1]) > 0.5


def test_canaries(run, pair, tmp_path):
    run("monitor", "make-canary", "old.parquet", "-n", 20, "-o", "canary.parquet")
    assert run("monitor", "check-canary", "canary.parquet", "old.parquet", "--json")["outcome"] == "same"
    assert run("monitor", "check-canary", "canary.parquet", "new.parquet", "--json", code=3)["outcome"] == "changed"


def test_drift(run, pair, tmp_path):
    run("fit", "old.parquet", "new.parquet", "-o", "t.safetensors")
    found = run("monitor", "drift", "t.safetensors", "old.parquet", "new.parquet", "--log", "log.jsonl", "--json")
    assert found["outcome"] == "stable"
    moved = rl.Space((pair[0] + 3 * pair[0].std()).astype(np.float32) * np.linspace(0.2, 2, 12, dtype=np.float32))
    rl.write_space(moved, tmp_path / "moved.parquet")
    assert run("monitor", "drift", "t.safetensors", "moved.parquet", "--json", code=3)["outcome"] == "refit"


def test_what_to_embed_next(run, pair, tmp_path):
    rl.write_space(rl.read_space(tmp_path / "new.parquet")[:150], tmp_path / "some.parquet")
    options = ("--rows-per-second", 10, "--price-per-million", 1_000, "-o", "next.parquet", "--json")
    found = run("anchors", "old.parquet", "some.parquet", "-n", 60, *options)
    assert (found["known"], found["next"], found["cost"]) == (150, 60, 0.06)
    assert found["gain"]["low"] <= found["gain"]["value"] <= found["gain"]["high"]
    known = set(rl.read_space(tmp_path / "some.parquet").keys)
    assert not known & set(rl.read_space(tmp_path / "next.parquet").keys)
    rl.write_space(rl.read_space(tmp_path / "old.parquet")[:150], tmp_path / "some old.parquet")
    refused = run("anchors", "old.parquet", "some old.parquet", "-n", 60, "-o", "n.parquet", code=1)
    assert "expected what the new model gave" in refused


def test_a_fit_with_confidence_tells_it_of_each_row(run, pair, tmp_path):
    run("fit", "old.parquet", "new.parquet", "-o", "t.safetensors", "--confidence")
    found = rl.load(tmp_path / "t.safetensors").confidence(rl.read_space(tmp_path / "old.parquet"), items=1_000)
    assert found.shape == (600,)
    assert np.all((found > 0) & (found <= 1))


def test_the_order_of_a_backfill(run, pair, tmp_path):
    rl.write_space(rl.read_space(tmp_path / "new.parquet")[:200], tmp_path / "some.parquet")
    run("fit", "old.parquet", "some.parquet", "-o", "t.safetensors")
    found = run("backfill", "t.safetensors", "old.parquet", "some.parquet", "-o", "order.parquet", "--json")
    order = rl.read_space(tmp_path / "order.parquet")
    assert found["items"] == len(order) == 400
    assert np.all(np.diff(order.others.column("confidence").to_numpy()) >= 0)
    again = ("--count", "clicks", "--overwrite")
    assert "clicks" in run(
        "backfill", "t.safetensors", "old.parquet", "some.parquet", "-o", "o.parquet", *again, code=1
    )
