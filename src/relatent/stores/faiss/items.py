"""The items of an index: keys in order, their ids, and the columns beside them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent.spaces.io.columns import KEY_NAMES
from relatent.spaces.io.formats.npy import ids_beside, read_ids
from relatent.stores.address import Address, StoreError
from relatent.stores.checks import key_column
from relatent.stores.store import Shard


@dataclass(frozen=True)
class Items:
    """The items of the served index: rows in order of their keys, and FAISS's id of each."""

    table: pa.Table
    key: str
    ids: np.ndarray
    hash: str
    """Of the keys file as it is now, since ids are rows of it; "ids" where there is none."""

    @cached_property
    def keys(self) -> pa.Array:
        """The sorted keys."""
        return self.table.column(self.key).combine_chunks()

    @cached_property
    def _sortable(self) -> np.ndarray:
        return np.asarray(self.keys.to_numpy(zero_copy_only=False))

    @cached_property
    def by_id(self) -> tuple[np.ndarray, np.ndarray]:
        """The sorted ids, and the row of each."""
        rows = np.argsort(self.ids)
        return self.ids[rows], rows

    def rows_of_ids(self, ids: np.ndarray) -> np.ndarray:
        """Return the row of each id; -1 for those that are not there."""
        known, rows = self.by_id
        if not len(known):
            return np.full(len(ids), -1)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[at] == ids, rows[at], -1)

    def rows_of_keys(self, keys: pa.Array) -> np.ndarray:
        """Return the row of each key; -1 for those that are not there."""
        if pa.types.is_integer(keys.type) and len(self.keys):
            sought, known = keys.to_numpy(zero_copy_only=False), self._sortable
            at = np.minimum(np.searchsorted(known, sought), len(known) - 1)
            return np.where(known[at] == sought, at, -1)
        found = pc.index_in(keys, value_set=self.keys)
        rows: np.ndarray = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
        return rows

    def within(self, shard: Shard | None) -> tuple[int, int]:
        """Return the first row of a shard and its end."""
        keys, shard = self._sortable, shard or Shard()
        low = 0 if shard.low is None else int(np.searchsorted(keys, shard.low))
        high = len(keys) if shard.high is None else int(np.searchsorted(keys, shard.high))
        return low, max(low, high)


def read_items(address: Address, path: Path, ids: np.ndarray) -> Items:
    """Give the ids of an index their keys: the rows of the keys file with these numbers, or the ids themselves."""
    beside = ids_beside(path)
    if beside is None:
        ids = np.sort(ids)
        return Items(pa.table({"key": ids}), "key", ids, "ids")
    table = read_ids(beside)
    if len(ids) and ids.max() >= len(table):
        raise StoreError(
            f"{beside} has {len(table):,} rows and {address} has the id {ids.max():,}: expected a row for each id, "
            "from 0 on. Write the keys again."
        )
    key = next((name for name in KEY_NAMES if name in table.column_names), table.column_names[0])
    table = table.set_column(table.column_names.index(key), key, key_column(table.column(key))).take(pa.array(ids))
    order = pc.sort_indices(table.column(key))
    with beside.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Items(table.take(order), key, ids[order.to_numpy()], digest)
