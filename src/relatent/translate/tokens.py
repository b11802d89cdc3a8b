"""`relatent tokens`: several vectors per item, as late interaction has them, in Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relatent._errors import with_remedy
from relatent._files import atomic_write
from relatent._terminal import Result, render
from relatent.evaluate.retrieval import maxsim, reciprocal_ranks
from relatent.spaces.io.checksums import readable
from relatent.spaces.io.columns import KEY_NAMES
from relatent.spaces.io.files import check_new
from relatent.spaces.keys import key_texts, repeated_keys
from relatent.spaces.multi_vectors import MultiVectors, token_pairs
from relatent.translate.files import check_translator
from relatent.translate.translator import Translator

# Items that are translated at a time.
ITEMS = 1_024

Tokens = tuple[pa.Array, MultiVectors]
"""The keys of items, and their vectors."""


@dataclass(frozen=True)
class TokenScores(Result):
    """How well items find themselves by late interaction among the target's, before and after a translation."""

    items: int
    untranslated: float | None
    """Mean reciprocal rank; None where the two models have different dimensions."""
    translated: float
    ceiling: float
    """That of the target's own vectors."""

    def __str__(self) -> str:
        before = "–" if self.untranslated is None else f"{self.untranslated:.3f}"
        rows = [("untranslated", before), ("translated", f"{self.translated:.3f}"), ("ceiling", f"{self.ceiling:.3f}")]
        return f"{render(('queries', 'MRR'), rows)}\nMaxSim over {self.items:,} items that both files have."


def read_tokens(path: str | os.PathLike[str], *, column: str | None = None, key: str | None = None) -> Tokens:
    """Read a Parquet file with a column of lists of vectors, and its keys; row numbers where there are none."""
    with readable(path):
        table = pq.read_table(path)
    names = [key] if key else [name for name in KEY_NAMES if name in table.column_names]
    keys = table.column(names[0]).combine_chunks() if names else pa.array(np.arange(len(table)))
    return keys, MultiVectors.from_arrow(table.column(_column(table.schema, column)))


def fit_tokens(translator: Translator, old: Tokens, new: Tokens) -> Translator:
    """Fit on the vectors of items that both have, token by token: both models must cut an item into the same tokens."""
    return translator.fit(*token_pairs(*_joined(old, new)))


def translate_tokens(
    translator: Translator,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    column: str | None = None,
    overwrite: bool = False,
) -> int:
    """Translate a Parquet file of lists of vectors into a new one, and return its items. Other columns are kept."""
    check_translator(translator)
    check_new(out, path, overwrite=overwrite)
    with readable(path):
        source = pq.ParquetFile(path)
    batches = _translated(translator, source, _column(source.schema_arrow, column))
    first = next(batches, None)
    if first is None:
        raise ValueError(f"{path} has no rows: there is nothing to translate.")
    with atomic_write(Path(out)) as aside, pq.ParquetWriter(aside, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    return int(source.metadata.num_rows)


def evaluate_tokens(translator: Translator, old: Tokens, new: Tokens) -> TokenScores:
    """Let each old item look for its new self by MaxSim, among the new vectors of all items that both have."""
    check_translator(translator)
    queries, documents = _joined(old, new)
    same = queries.vectors.shape[1] == documents.vectors.shape[1]
    return TokenScores(
        len(queries),
        _mrr(queries, documents) if same else None,
        _mrr(queries.map(translator.transform), documents),
        _mrr(documents, documents),
    )


def _mrr(queries: MultiVectors, documents: MultiVectors) -> float:
    return float(np.mean(reciprocal_ranks(maxsim(queries, documents), np.arange(len(queries)))))


def _translated(translator: Translator, source: pq.ParquetFile, column: str) -> Iterator[pa.RecordBatch]:
    for batch in source.iter_batches(ITEMS):
        place = batch.schema.get_field_index(column)
        vectors = MultiVectors.from_arrow(batch.column(place)).map(translator.transform).to_arrow()
        yield batch.set_column(place, column, vectors)


def _column(schema: pa.Schema, named: str | None) -> str:
    """Return the column of lists of vectors: the one that is named, or the only one."""
    found = [field.name for field in schema if _is_nested(field.type)]
    if (named is None and len(found) != 1) or (named is not None and named not in found):
        words = "Expected one, such as list<list<float>>; name it with {}."
        raise with_remedy(
            ValueError(f"The columns of lists of vectors are: {', '.join(found) or 'none'}."),
            python=words.format("column="),
            command=words.format("--column"),
        )
    return named or found[0]


def _is_nested(kind: pa.DataType) -> bool:
    def lists(one: pa.DataType) -> bool:
        return bool(pa.types.is_list(one) or pa.types.is_large_list(one) or pa.types.is_fixed_size_list(one))

    return lists(kind) and lists(kind.value_type)


def _joined(old: Tokens, new: Tokens) -> tuple[MultiVectors, MultiVectors]:
    """Return the items that both have, in the order of the first."""
    keys = [key_texts(one) for one, _ in (old, new)]
    for one in keys:
        twice = repeated_keys(one)
        if len(twice):
            raise ValueError(f"{twice[0].as_py()!r} is the key of several items of one file: expected each once.")
    places = pc.index_in(keys[0], value_set=keys[1])
    rows = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
    if not len(rows):
        raise ValueError("The two files have no key in common: expected the same items in both.")
    others = places.drop_null().to_numpy()
    return MultiVectors.of([old[1][int(i)] for i in rows]), MultiVectors.of([new[1][int(j)] for j in others])
