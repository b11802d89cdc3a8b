"""A trial of a migration on a few rows: how fast a store is read, translated and written."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from relatent.deliver.migration.copying import ShardWork
from relatent.deliver.migration.records import Plan
from relatent.deliver.migration.side import StoredSide
from relatent.stores import Field, Shard, Store, StoreError

__all__ = ["Rates", "drop_trial", "measure"]

# Chunks that a trial is cut into, so that they are read and written at once as those of apply are.
CHUNKS = 8


@dataclass(frozen=True)
class Rates:
    """Rows per second of a migration, measured on ``rows`` of the store. None: not measured."""

    rows: int
    scan: float
    translate: float
    copy: float | None
    """Read, translated and written as apply does it: at once, where the store can be read and written at once."""
    read_again: bool = True
    """Whether noticing changes takes reading all rows again."""

    def seconds(self, rows: int) -> float:
        """Return how long so many rows take, without building an index."""
        each = 1 / self.scan + 1 / self.translate if self.copy is None else 1 / self.copy
        return rows * (each + (1 / self.scan if self.read_again else 0.0))


def drop_trial(store: Store) -> None:
    """Remove the field of a trial whose process was killed."""
    if store.new is not None and store.new.provenance.get("trial"):
        store.drop_new()


def measure(store: Store, side: StoredSide, new: Field, rows: int, *, write: bool) -> Rates:
    """Time the steps on a few rows from the beginning of the store.

    With ``write``, they are also copied, into a field that is removed again.
    """
    began = time.perf_counter()
    chunk = next(iter(store.scan(store.served, rows=rows, unreadable=lambda *_: None)), None)
    read = time.perf_counter()
    if chunk is None or not len(chunk):
        raise StoreError(f"{store.address} has no row that can be read: there is nothing to migrate.")
    side(chunk.vectors[np.isfinite(chunk.vectors).all(axis=1)])
    done = time.perf_counter()
    count = len(chunk)
    shard = Shard(None, pa.chunked_array(chunk.keys)[-1].as_py())
    copied = _copy_rate(store, side, new, shard, max(1, count // CHUNKS)) if write else None
    read_again = store.state(shard) is None
    return Rates(count, _rate(count, read - began), _rate(count, done - read), copied, read_again)


def _copy_rate(store: Store, side: StoredSide, new: Field, shard: Shard, chunk_rows: int) -> float | None:
    """Return the rate of copying a shard as apply does it; None where a migration is under way."""
    with store.lock():
        drop_trial(store)
        if store.new is not None:
            return None
        field = replace(new, name=f"{new.name}_trial", provenance={"trial": True})
        plan = Plan("trial", str(store.address), "", side.name, store.served, field, (shard,), chunk_rows)
        store.add(field)
        try:
            began = time.perf_counter()
            done = ShardWork(plan.store, store, plan, side.translate, skip=True).copy(0)
            return _rate(done.read.rows, time.perf_counter() - began) if done.read.rows else None
        finally:
            store.drop_new()


def _rate(rows: int, seconds: float) -> float:
    return rows / max(seconds, 1e-9)
