"""Several vectors per item, as models of late interaction (ColBERT, ColPali) give: one vector per token or patch.

On disk they are Parquet files whose vector column holds lists of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relatent._array import as_matrix, to_numpy
from relatent._errors import with_remedy
from relatent._files import FileError, atomic_write, readable
from relatent.spaces.chunks import ArrayRows, Layout, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io import columns
from relatent.spaces.io.columns import ReadOptions, choose, is_vector_type
from relatent.spaces.keys import as_column, held_out, key_hashes, key_texts, repeated_keys
from relatent.spaces.space import Space

# Items that are read at a time.
BATCH_ITEMS = 1_024


@dataclass(frozen=True, eq=False)
class MultiVectors:
    """Matrices of different numbers of rows, one per item, held as one matrix of all vectors and the offsets of items.

    Whatever maps vectors maps these: ``tokens.map(translator.transform)``.

    >>> tokens = MultiVectors.of([np.eye(2), np.ones((3, 2))])
    >>> len(tokens), tokens.vectors.shape, tokens.map(lambda v: 2 * v)[0].tolist()
    (2, (5, 2), [[2.0, 0.0], [0.0, 2.0]])
    """

    vectors: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        """Refuse offsets that do not cut the vectors into items of at least one vector."""
        ends = np.asarray(self.offsets)
        if ends.ndim != 1 or not len(ends) or ends[0] != 0 or ends[-1] != len(self.vectors):
            raise ValueError(f"offsets go from {ends[:1]} to {ends[-1:]}: expected from 0 to {len(self.vectors)}.")
        empty = np.flatnonzero(np.diff(ends) < 1)
        if len(empty):
            raise ValueError(f"Item {int(empty[0])} has no vector: leave out items without vectors.")

    @staticmethod
    def of(matrices: Sequence[Any]) -> MultiVectors:
        """Gather one matrix (tokens, d) per item."""
        if not len(matrices):
            raise ValueError("No item was given: expected one matrix of vectors per item.")
        checked = [to_numpy(as_matrix(matrix, f"item {i}")) for i, matrix in enumerate(matrices)]
        widths = {matrix.shape[1] for matrix in checked}
        if len(widths) > 1:
            raise ValueError(f"Items have vectors of {sorted(widths)} coordinates: expected one number throughout.")
        return MultiVectors(np.concatenate(checked), np.cumsum([0, *map(len, checked)]))

    @staticmethod
    def from_arrow(column: pa.Array | pa.ChunkedArray) -> MultiVectors:
        """Read a column of lists of vectors, as Arrow, Parquet and Lance hold them."""
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if array.null_count:
            raise ValueError(f"{array.null_count} items are null: leave out items without vectors.")
        sizes = array.value_lengths().to_numpy(zero_copy_only=False)
        return MultiVectors(columns.as_matrix(array.flatten(), "the column", 0), np.cumsum([0, *sizes]))

    def to_arrow(self) -> pa.LargeListArray:
        """Return a column of lists of vectors."""
        return pa.LargeListArray.from_arrays(pa.array(self.offsets, pa.int64()), columns.as_lists(self.vectors))

    def map(self, function: Callable[[np.ndarray], Any]) -> MultiVectors:
        """Apply a function to all vectors at once, such as a translator's transform; items stay as they are."""
        return MultiVectors(np.asarray(function(self.vectors)), self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, item: int) -> np.ndarray:
        """Return the vectors of an item."""
        item = range(len(self))[item]
        return self.vectors[self.offsets[item] : self.offsets[item + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        """Return an iterator over the matrices of the items."""
        return (self[item] for item in range(len(self)))


def token_pairs(
    x: MultiVectors, y: MultiVectors, aligned: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return parallel vectors to fit a translator on, from items of which both models made vectors.

    Models that cut an item into the same tokens are paired token by token. For others, ``aligned`` gives for each item
    the pairs (token of x, token of y) that mean the same, as (n, 2) numbers.

    >>> x, y = MultiVectors.of([np.eye(3)]), MultiVectors.of([2 * np.eye(3)[1:]])
    >>> [side.shape for side in token_pairs(x, y, aligned=[[(1, 0), (2, 1)]])]
    [(2, 3), (2, 3)]
    """
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} items and y {len(y)}: expected the same items in both.")
    if aligned is not None:
        return _by_alignment(x, y, aligned)
    other = np.flatnonzero(np.diff(x.offsets) != np.diff(y.offsets))
    if len(other):
        i = int(other[0])
        error = ValueError(f"Item {i} has {len(x[i])} vectors in x and {len(y[i])} in y: expected as many.")
        need = "Models with different tokenizers need the pairs of tokens that mean the same:"
        raise with_remedy(
            error,
            python=f"{need} aligned=.",
            command=f"{need} in Python, relatent.spaces.token_pairs(x, y, aligned=…).",
        )
    return x.vectors, y.vectors


def _by_alignment(x: MultiVectors, y: MultiVectors, aligned: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    if len(aligned) != len(x):
        raise ValueError(f"aligned has {len(aligned)} entries and there are {len(x)} items: expected one entry each.")
    rows = []
    for i, pairs in enumerate(aligned):
        tokens = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        if len(tokens) and (tokens.min() < 0 or np.any(tokens.max(axis=0) >= (len(x[i]), len(y[i])))):
            raise ValueError(f"aligned names tokens that item {i} does not have: it has {len(x[i])} and {len(y[i])}.")
        rows.append(tokens + np.asarray([x.offsets[i], y.offsets[i]]))
    every = np.concatenate(rows)
    return x.vectors[every[:, 0]], y.vectors[every[:, 1]]


class MultiSpace(Space):
    """Several vectors per item, as models of late interaction (ColBERT, ColPali) give, left on disk until needed.

    As a space it has one row per vector, whose key is that of its item and its place in the item. A fit holds out whole
    items, :func:`relatent.translate.translate_space` writes items again, and :func:`relatent.decide.evaluate_items`
    scores items.
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

    @property
    def recorded(self) -> Fingerprint:
        """What was recorded when the vectors were made."""
        return self.fingerprint.recorded()

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Return the vectors of the first items."""
        first = next(self._read(), None)
        if first is not None:
            yield 0, MultiVectors.from_arrow(first.column(self._columns.vector)).vectors

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
        record = columns.meta(fingerprint)
        batches = (self._mapped(batch, function).replace_schema_metadata(record) for batch in self._read())
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
    if not path.is_file():  # reading a pipe would block
        return None
    schema = pa.schema([])
    with suppress(pa.ArrowException, OSError):
        schema = pq.read_schema(path)
    nested = [field.name for field in schema if _is_nested(field.type)]
    if not nested or options.vector not in (None, *nested):
        return None
    layout = Layout(str(choose(path, "vector", options.vector, schema.names, nested, columns.VECTOR_NAMES)), None)
    layout = columns.with_key(path, layout, schema, options)
    return MultiSpace(str(path), layout, name, fingerprint or columns.stored_fingerprint(schema.metadata, path))


def _is_nested(kind: pa.DataType) -> bool:
    return columns.is_list(kind) and is_vector_type(kind.value_type)
