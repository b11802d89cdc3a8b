"""Ray Data: for a cluster that runs Ray already, next to the GPUs that encode."""

import pyarrow as pa
import ray

import relatent as rl


def translate(source: str, target: str, translator: rl.Translator) -> None:
    """Read Parquet, translate each batch where it is, write Parquet."""
    udf = translator.batch_udf("embedding", into="embedding_new")
    ray.data.read_parquet(source).map_batches(udf.__call__, batch_format="pyarrow").write_parquet(target)


def fit(source: str) -> rl.Translator:
    """Sum up each batch where it is; only sums and samples travel."""

    def summed(table: pa.Table) -> pa.Table:
        return pa.table({"pairs": [rl.Pairs.of_batch(table, source="embedding").to_bytes()]})

    rows = ray.data.read_parquet(source).map_batches(summed, batch_format="pyarrow", batch_size=100_000).take_all()
    return rl.Translator().fit(rl.Pairs.total(rl.Pairs.from_bytes(row["pairs"]) for row in rows))
