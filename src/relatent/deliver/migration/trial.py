"""A trial of a migration on a few rows: how fast a store is read, translated and written."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from relatent.deliver.migration.side import StoredSide
from relatent.stores import Field, Store, StoreError

__all__ = ["Rates", "drop_trial", "measure"]


@dataclass(frozen=True)
class Rates:
    """Rows per second of each step of a migration, measured on ``rows`` of the store. None: not measured."""

    rows: int
    scan: float
    translate: float
    write: float | None

    def seconds(self, rows: int) -> float:
        """Return how long so many rows take: read twice, since the source is looked at again; then the index."""
        each = 2 / self.scan + 1 / self.translate + (0.0 if self.write is None else 1 / self.write)
        return rows * each


def drop_trial(store: Store) -> None:
    """Remove the field of a trial whose process was killed."""
    if store.new is not None and store.new.provenance.get("trial"):
        store.drop_new()


def measure(store: Store, side: StoredSide, new: Field, rows: int, *, write: bool) -> Rates:
    """Time the steps on a few rows from the beginning of the store.

    With ``write``, they are also written, into a field that is removed again.
    """
    began = time.perf_counter()
    chunk = next(iter(store.scan(store.served, rows=rows, unreadable=lambda *_: None)), None)
    read = time.perf_counter()
    if chunk is None or not len(chunk):
        raise StoreError(f"{store.address} has no row that can be read: there is nothing to migrate.")
    finite = np.isfinite(chunk.vectors).all(axis=1)
    keys, vectors = pa.chunked_array(chunk.keys).combine_chunks().filter(pa.array(finite)), side(chunk.vectors[finite])
    done = time.perf_counter()
    count = len(chunk)
    written = _write_rate(store, new, keys, vectors) if write else None
    return Rates(count, _rate(count, read - began), _rate(count, done - read), written)


def _write_rate(store: Store, new: Field, keys: pa.Array, vectors: np.ndarray) -> float | None:
    with store.lock():
        drop_trial(store)
        if store.new is not None:
            return None
        field = Field(f"{new.name}_trial", new.dim, new.dtype, new.metric, {"trial": True})
        store.add(field)
        try:
            began = time.perf_counter()
            store.write(field, keys, vectors)
            store.flush()
            return _rate(len(keys), time.perf_counter() - began)
        finally:
            store.drop_new()


def _rate(rows: int, seconds: float) -> float:
    return rows / max(seconds, 1e-9)
