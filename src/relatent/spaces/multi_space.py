"""Spaces of several vectors per item, in Parquet files whose vector column holds lists of vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relatent._files import FileError, atomic_write
from relatent.spaces.chunks import ArrayRows, Layout, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.checksums import readable
from relatent.spaces.io.columns import (
    VECTOR_NAMES,
    ReadOptions,
    choose,
    is_vector_type,
    meta,
    stored_fingerprint,
    with_key,
)
from relatent.spaces.keys import as_column, held_out, key_hashes, key_texts, repeated_keys
from relatent.spaces.multi_vectors import MultiVectors, token_pairs
from relatent.spaces.space import Space

# Items that are read at a time.
BATCH_ITEMS = 1_024


class MultiSpace(Space):
    """Several vectors per item, as models of late interaction (ColBERT, ColPali) give, left on disk until needed.

    As a space it has one row per vector, whose key is that of its item and its place in the item. A fit holds out whole
    items, :func:`relatent.translate_space` writes items again, and :func:`relatent.decide.evaluate_items` scores items.
    """

    def __init__(self, path: str, layout: Layout, name: str, fingerprint: Fingerprint | None = None) -> None:
        self.path, self.name, self._columns, self._recorded = path, name, layout, fingerprint
        self._layout, self._reopen = Layout(), None

    def __reduce__(self) -> Any:
        """Open the file again in another process."""
        return MultiSpace, (self.path, self._columns, self.name, self._recorded)

    @cached_property
    def items(self) -> MultiVectors:
        """The vectors of all items."""
        with readable(self.path):
            return MultiVectors.from_arrow(pq.read_table(self.path, columns=[self._columns.vector]).column(0))

    @cached_property
    def item_keys(self) -> pa.Array:
        """The keys of the items, by their texts; row numbers where there are none."""
        if self._columns.key is None:
            return key_texts(np.arange(self.n_items))
        return key_texts(pq.read_table(self.path, columns=[self._columns.key]).column(0))

    @property
    def n_items(self) -> int:
        """The number of items, without reading them."""
        return int(pq.read_metadata(self.path).num_rows)

    @cached_property
    def _rows(self) -> Rows:  # type: ignore[override]
        keys = pa.table({"key": vector_keys(self.item_keys, self.items)})
        return ArrayRows(self.items.vectors, keys, self._layout)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What was recorded, and a probe of the first items."""
        first = next(self._read(), None)
        if first is None:
            raise FileError(f"{self.path} has no rows: expected at least one item.")
        known = Fingerprint.of(MultiVectors.from_arrow(first.column(self._columns.vector)).vectors)
        return known if self._recorded is None else replace(self._recorded, probe=known.probe)

    def without_keys(self) -> MultiSpace:
        """Return the same items, known by their number only."""
        return MultiSpace(str(self.path), replace(self._columns, key=None), self.name, self._recorded)

    def matched(self, other: MultiSpace) -> tuple[pa.Array, MultiVectors, MultiVectors]:
        """Return the keys that both have, in the order of this one, and the vectors of their items."""
        for keys in (self.item_keys, other.item_keys):
            twice = repeated_keys(keys)
            if len(twice):
                raise ValueError(f"{twice[0].as_py()!r} is the key of several items of one file: expected each once.")
        places = pc.index_in(self.item_keys, value_set=other.item_keys)
        rows = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        if not len(rows):
            raise ValueError("The two files have no key in common: expected the same items in both.")
        others = places.drop_null().to_numpy()
        first, second = ([s.items[int(i)] for i in at] for s, at in ((self, rows), (other, others)))
        return self.item_keys.take(pa.array(rows)), MultiVectors.of(first), MultiVectors.of(second)

    def fit_on(self, other: MultiSpace, share: float) -> tuple[Space, Space, int]:
        """Return parallel spaces of the vectors of all items but the share held out, and how many are left out."""
        keys, x, y = self.matched(other)
        token_pairs(x, y)
        kept = np.repeat(~held_out(key_hashes(keys), share), np.diff(x.offsets))
        rows, names = np.flatnonzero(kept), vector_keys(keys, x).filter(pa.array(kept))
        parts = [Space(v.vectors[rows], names, s.name, s._recorded) for v, s in ((x, self), (y, other))]
        return parts[0], parts[1], len(kept) - len(rows)

    def map(
        self, function: Callable[[np.ndarray], Any], path: Any, fingerprint: Fingerprint, *, overwrite: bool = False
    ) -> None:
        """Write a Parquet file with the vectors mapped and all other columns kept, a batch of items at a time."""
        if Path(path).suffix != ".parquet":
            raise FileError(f"{path} cannot hold several vectors per item: expected a path that ends in .parquet.")
        batches = (self._mapped(batch, function).replace_schema_metadata(meta(fingerprint)) for batch in self._read())
        first = next(batches, None)
        if first is None:
            raise FileError(f"{self.path} has no rows: there is nothing to translate.")
        with atomic_write(Path(path), overwrite=overwrite) as tmp, pq.ParquetWriter(tmp, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)

    def _mapped(self, batch: pa.RecordBatch, function: Callable[[np.ndarray], Any]) -> pa.RecordBatch:
        place = batch.schema.get_field_index(self._columns.vector)
        vectors = MultiVectors.from_arrow(batch.column(place)).map(function).to_arrow()
        return batch.set_column(place, self._columns.vector, vectors)

    def _read(self) -> Iterator[pa.RecordBatch]:
        with readable(self.path):
            yield from pq.ParquetFile(self.path).iter_batches(BATCH_ITEMS)


def vector_keys(keys: pa.Array, items: MultiVectors) -> pa.Array:
    """Return a key for each vector: that of its item, and its place in the item.

    >>> vector_keys(pa.array(["a", "b"]), MultiVectors.of([np.eye(2), np.eye(2)[:1]])).to_pylist()
    ['a#0', 'a#1', 'b#0']
    """
    sizes = np.diff(items.offsets).tolist()
    return as_column([f"{key}#{i}" for key, size in zip(keys.to_pylist(), sizes, strict=True) for i in range(size)])


def open_items(path: Path, options: ReadOptions, name: str, fingerprint: Fingerprint | None) -> MultiSpace | None:
    """Return the space of a Parquet file whose vectors are lists of vectors; None for any other file."""
    schema = pa.schema([])
    if path.is_file():  # a pipe would block
        with suppress(pa.ArrowException, OSError):
            schema = pq.read_schema(path)
    nested = [field.name for field in schema if _is_nested(field.type)]
    if not nested or options.vector not in (None, *nested):
        return None
    layout = Layout(str(choose(path, "vector", options.vector, schema.names, nested, VECTOR_NAMES)), None)
    layout = with_key(path, layout, schema, options)
    return MultiSpace(str(path), layout, name, fingerprint or stored_fingerprint(schema.metadata, path))


def _is_nested(kind: pa.DataType) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_list(kind) for is_list in lists) and is_vector_type(kind.value_type)
