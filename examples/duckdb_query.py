"""DuckDB: any query is a stream of Arrow batches, larger than memory."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import relatent as rl


def translate(query: duckdb.DuckDBPyRelation, target: str, translator: rl.Translator) -> None:
    """Translate what a query returns, batch by batch, into a Parquet file."""
    udf = translator.batch_udf("embedding", into="embedding_new")
    reader = query.to_arrow_reader(100_000)
    schema = udf(pa.Table.from_batches([], reader.schema)).schema
    with pq.ParquetWriter(target, schema) as out:
        for batch in reader:
            out.write_batch(udf(batch))


def fit(query: duckdb.DuckDBPyRelation) -> rl.Translator:
    """Fit on what a query returns: SQL joins, filters and samples the pairs."""
    batches = query.to_arrow_reader(100_000)
    pairs = rl.Pairs.total(rl.Pairs.of_batch(batch, source="embedding") for batch in batches)
    return rl.Translator().fit(pairs)
