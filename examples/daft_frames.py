"""Daft: lazy frames over files and tables, on one machine or on Ray."""

import daft
from daft import DataType

import relatent as rl


def translate(frame: daft.DataFrame, translator: rl.Translator) -> daft.DataFrame:
    """Return the frame with one more column of vectors."""
    udf = translator.batch_udf("embedding", into="embedding_new")

    @daft.func.batch(return_dtype=DataType.embedding(DataType.float32(), udf.dims[1]))
    def new_column(vectors: daft.Series) -> daft.Series:
        import pyarrow as pa

        batch = pa.record_batch({"embedding": vectors.cast(DataType.list(DataType.float32())).to_arrow()})
        return daft.Series.from_arrow(udf(batch).column("embedding_new"))

    return frame.with_column("embedding_new", new_column(frame["embedding"]))


def fit(frame: daft.DataFrame) -> rl.Translator:
    """Sum up the frame batch by batch, in this process."""
    batches = frame.select("id", "embedding", "new").to_arrow_iter()
    pairs = rl.Pairs.total(rl.Pairs.of_batch(batch, source="embedding") for batch in batches)
    return rl.Translator().fit(pairs)
