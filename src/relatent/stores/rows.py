"""The served vectors of a store as the rows of a space: what ``rl.read_space(URL)`` reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from relatent._errors import StoreError
from relatent.spaces.chunks import Chunk, Layout
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import ReadOptions
from relatent.stores.address import Address
from relatent.stores.base import Shard, Store
from relatent.stores.fields import Field

# Rows are found by number from the keys at every BLOCK rows.
BLOCK = 8_192


def open_rows(kind: type[Store], url: str | os.PathLike[str], options: ReadOptions) -> StoreRows:
    """Open a store by its URL; the columns that are named take the place of those in the URL."""
    if options.keys is not None:
        raise ValueError("keys= names the ids of an .npy file: a store has its own. Name a column of it with key=.")
    address = Address.parse(url)
    named = {name: value for name, value in (("vector", options.vector), ("key", options.key)) if value is not None}
    return StoreRows(kind, replace(address, options=address.options | named), options.dtype)


class StoreRows:
    """Rows in order of their keys. The store is open only while it is read, so that nothing is left to close."""

    def __init__(self, kind: type[Store], address: Address, dtype: np.dtype | None = None) -> None:
        self._kind, self.address = kind, address
        with self._opened() as store:
            self._field: Field = store.served
            first = next(store.scan(self._field, rows=1, columns=None), None)
            if first is None:
                raise StoreError(f"{address} holds no vectors: fill it first.")
            self.shape = (store.count(self._field), self._field.dim)
        self.layout: Layout = first.layout
        self.schema: pa.Schema = first.others.schema
        self.dtype = np.dtype(dtype or first.vectors.dtype)

    def _opened(self) -> Store:
        return self._kind.at(self.address)

    @property
    def fingerprint(self) -> Fingerprint:
        """What the store's note says of the model."""
        names = {field.name for field in fields(Fingerprint)} - {"dim", "probe"}
        known = {name: value for name, value in self._field.provenance.items() if name in names}
        return Fingerprint(dim=self._field.dim, **known)

    @cached_property
    def _bounds(self) -> list[Shard]:
        with self._opened() as store:
            return store.shards(BLOCK)

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Return rows start to stop, from the block in which the first one stands on."""
        if start >= stop:
            yield self._empty()
            return
        block = start // BLOCK
        low, row, at = self._bounds[block].low if block else None, block * BLOCK, start
        with self._opened() as store:
            for chunk in store.scan(self._field, shard=Shard(low, None), rows=min(size, BLOCK), columns=None):
                part = slice(max(at - row, 0), stop - row)
                row += len(chunk)
                if row > at:
                    yield Chunk(at, chunk.vectors[part].astype(self.dtype, copy=False), chunk.others[part], self.layout)
                    at = row
                if row >= stop:
                    return
        raise StoreError(
            f"{self.address} has {row:,} rows and had {self.shape[0]:,} when it was opened: read it again."
        )

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Read every column but the vectors, or some of them."""
        with self._opened() as store:
            tables = [chunk.others for chunk in store.scan(self._field, columns=names)]
        table = pa.concat_tables(tables) if tables else self._empty().others
        return table if names is None else table.select(names)

    def _empty(self) -> Chunk:
        return Chunk(0, np.empty((0, self.shape[1]), self.dtype), self.schema.empty_table(), self.layout)
