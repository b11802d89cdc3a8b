"""Lance: the translation becomes a new column beside the old one. Nothing is rewritten, and a tag leads back."""

import lance
import pyarrow as pa

import relatent as rl


def translate(uri: str, translator: rl.Translator, checkpoint: str) -> None:
    """Add a column in one new version; after a crash, the checkpoint spares the batches that were done."""
    udf = translator.batch_udf("embedding", into="embedding_new")

    @lance.batch_udf(checkpoint_file=checkpoint)
    def new_column(batch: pa.RecordBatch) -> pa.RecordBatch:
        return udf(batch).select(["embedding_new"])

    data = lance.dataset(uri)
    data.tags.create("before-translation", data.version)
    data.add_columns(new_column, read_columns=["embedding"])


def fit(uri: str) -> rl.Translator:
    """Fit on the rows that have both vectors."""
    batches = lance.dataset(uri).to_batches(columns=["id", "embedding", "new"])
    pairs = rl.Pairs.total(rl.Pairs.of_batch(batch, source="embedding", target="new") for batch in batches)
    return rl.Translator().fit(pairs)
