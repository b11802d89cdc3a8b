import numpy as np

from relatent.evaluate import thresholds


def test_thresholds_are_those_of_the_library(run, pair):
    found = run("thresholds", "old.parquet", "new.parquet", "-c", 0.5, "-c", 0.8, "--json")
    expected = thresholds(*pair, [0.5, 0.8])
    assert [line["passing"] for line in found["cutoffs"]] == [line.passing for line in expected]
    assert np.allclose([c["new"] for c in found["cutoffs"]], [line.new.value for line in expected], atol=2e-3)


def test_thresholds_at_equal_precision(run, pair, tmp_path):
    same = [f"doc {i},doc {j}" for i in range(600) for j in range(i) if i // 3 == j // 3]
    (tmp_path / "same.csv").write_text("\n".join(["a,b", *same]))
    found = run("thresholds", "old.parquet", "new.parquet", "-c", 0.6, "--same", "same.csv", "--json")
    assert found["at"] == "precision"
    assert 0 < found["cutoffs"][0]["precision"] <= 1
    (tmp_path / "same.csv").write_text("a,b\nx,y\n")
    assert "check the keys" in run("thresholds", "old.parquet", "new.parquet", "--same", "same.csv", code=1)
