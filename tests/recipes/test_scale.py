"""The recipes of docs/scale.md: each engine gives the translation and the fit that relatent gives.

They need packages that are not among those of the other tests, and are skipped without them.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import relatent as rl

# What the engines have to say about their own parts is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")

ROWS, DIM = 400, 8
MISSING = [5, 77]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Rows with an id and two vectors; two rows lack the first of them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, DIM)).astype(np.float32)
    y = np.tanh(x @ rng.normal(size=(DIM, DIM))).astype(np.float32)
    old = pa.array([None if i in MISSING else row for i, row in enumerate(x)], pa.list_(pa.float32(), DIM))
    return pa.table({"id": np.arange(ROWS), "embedding": old, "new": pa.array(list(y), pa.list_(pa.float32(), DIM))})


@pytest.fixture(scope="module")
def translator(table) -> rl.Translator:
    return rl.Translator().fit(rl.Pairs.of_batch(table, source="embedding"))


@pytest.fixture
def check(table, translator):
    """Compare a table of new vectors, and a translator, with ours."""

    def compare(found: pa.Table, fitted: rl.Translator) -> None:
        found, ours = found.sort_by("id"), translator.batch_udf()(table)
        if found.num_rows < ROWS:
            ours = without_nulls(ours)
        assert found["id"].to_pylist() == ours["id"].to_pylist()
        assert found["embedding_new"].is_null().to_pylist() == ours["embedding_new"].is_null().to_pylist()
        theirs, expected = (without_nulls(t)["embedding_new"].to_pylist() for t in (found, ours))
        np.testing.assert_allclose(theirs, expected, rtol=1e-3, atol=1e-4)
        assert fitted.n_pairs_ == ROWS - len(MISSING)
        x = np.asarray(without_nulls(table)["embedding"].to_pylist())
        one, other = fitted.transform(x), translator.transform(x)
        assert np.linalg.norm(one - other) <= 1e-9 * np.linalg.norm(other)

    return compare


def without_nulls(rows: pa.Table) -> pa.Table:
    """Arrow before version 26 cannot read a null in a fixed-size list from Parquet (its issue 35692)."""
    return rows.filter(rows["embedding"].is_valid())


def test_lance(table, translator, check, tmp_path):
    lance = pytest.importorskip("lance")
    from examples import lance_columns

    uri = str(tmp_path / "items.lance")
    lance.write_dataset(table, uri, max_rows_per_file=150)
    files = {file: file.read_bytes() for file in (tmp_path / "items.lance" / "data").iterdir()}
    lance_columns.translate(uri, translator, str(tmp_path / "checkpoint.sqlite"))
    data = lance.dataset(uri)
    check(data.to_table(), lance_columns.fit(uri))
    assert all(file.read_bytes() == before for file, before in files.items())
    assert data.checkout_version("before-translation").schema.names == table.schema.names


def test_a_lance_column_that_failed_is_resumed(table, translator, check, tmp_path):
    """The first attempt dies after some batches; the second calls the function for the others only."""
    lance = pytest.importorskip("lance")
    uri, udf, calls = str(tmp_path / "items.lance"), translator.batch_udf(), []
    lance.write_dataset(table, uri, max_rows_per_file=50, max_rows_per_group=50)

    def attempt(fails: bool) -> None:
        @lance.batch_udf(checkpoint_file=str(tmp_path / "checkpoint.sqlite"), output_schema=_new_field(udf))
        def new_column(batch):
            calls.append(batch.num_rows)
            if fails and len(calls) > 3:
                raise OSError("killed")
            return udf(batch).select(["embedding_new"])

        lance.dataset(uri).add_columns(new_column, read_columns=["embedding"])

    with pytest.raises(OSError, match="killed"):
        attempt(fails=True)
    assert lance.dataset(uri).schema.names == table.schema.names
    before = len(calls)
    attempt(fails=False)
    assert len(calls) - before < ROWS // 50
    check(lance.dataset(uri).to_table(), translator)


def _new_field(udf) -> pa.Schema:
    return pa.schema([pa.field("embedding_new", pa.list_(pa.float32(), udf.dims[1]))])


def test_ray_data(table, translator, check, tmp_path):
    ray = pytest.importorskip("ray")
    from examples import ray_data

    pq.write_table(without_nulls(table), tmp_path / "old.parquet")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        ray_data.translate(str(tmp_path / "old.parquet"), str(tmp_path / "new"), translator)
        fitted = ray_data.fit(str(tmp_path / "old.parquet"))
    finally:
        ray.shutdown()
    check(pq.read_table(tmp_path / "new"), fitted)


def test_spark(table, translator, check, tmp_path, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    from examples import spark

    pq.write_table(table, tmp_path / "old.parquet")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.read.parquet(str(tmp_path / "old.parquet")).repartition(3)
        spark.translate(frame, translator).write.parquet(str(tmp_path / "new"))
        fitted = spark.fit(frame)
    finally:
        session.stop()
    check(pq.read_table(tmp_path / "new"), fitted)


def test_daft(table, translator, check):
    daft = pytest.importorskip("daft")
    from examples import daft_frames

    frame = daft.from_arrow(table)
    check(daft_frames.translate(frame, translator).to_arrow(), daft_frames.fit(frame))


def test_duckdb(table, translator, check, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    from examples import duckdb_query

    pq.write_table(without_nulls(table), tmp_path / "old.parquet")
    query = duckdb.connect().sql(f"SELECT * FROM '{tmp_path / 'old.parquet'}' ORDER BY id")
    duckdb_query.translate(query, str(tmp_path / "new.parquet"), translator)
    check(pq.read_table(tmp_path / "new.parquet"), duckdb_query.fit(query))


def test_polars(table, translator, check):
    pl = pytest.importorskip("polars")
    from examples import polars_frames

    frame = pl.DataFrame(table)
    check(polars_frames.translate(frame, translator).to_arrow(), polars_frames.fit(frame.lazy()))
