"""Spark: for vectors in a lakehouse. The executors need relatent installed."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

import relatent as rl


def translate(frame: DataFrame, translator: rl.Translator) -> DataFrame:
    """Return the frame with one more column of vectors."""
    udf = translator.batch_udf("embedding", into="embedding_new")

    def translated(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            new = udf(batch).column("embedding_new").cast(pa.list_(pa.float32()))  # Spark knows no fixed-size lists
            yield batch.append_column("embedding_new", new)

    columns = ", ".join(f"`{name}` {kind}" for name, kind in frame.dtypes)
    return frame.mapInArrow(translated, f"{columns}, embedding_new array<float>")


def fit(frame: DataFrame) -> rl.Translator:
    """Sum up each partition where it is; only sums and samples travel."""

    def summed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [rl.Pairs.of_batch(batch, source="embedding") for batch in batches]
        if parts:
            yield pa.record_batch({"pairs": [rl.Pairs.total(parts).to_bytes()]})

    rows = frame.mapInArrow(summed, "pairs binary").collect()
    return rl.Translator().fit(rl.Pairs.total(rl.Pairs.from_bytes(bytes(row.pairs)) for row in rows))
