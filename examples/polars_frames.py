"""Polars: frames in memory, or lazy ones batch by batch."""

import polars as pl

import relatent as rl


def translate(frame: pl.DataFrame, translator: rl.Translator) -> pl.DataFrame:
    """Return the frame with one more column of vectors."""
    udf = translator.batch_udf("embedding", into="embedding_new")
    return pl.DataFrame(udf(frame.to_arrow()))


def fit(frame: pl.LazyFrame) -> rl.Translator:
    """Sum up a lazy frame batch by batch."""
    batches = frame.select("id", "embedding", "new").collect_batches(chunk_size=100_000)
    pairs = rl.Pairs.total(rl.Pairs.of_batch(batch.to_arrow(), source="embedding") for batch in batches)
    return rl.Translator().fit(pairs)
