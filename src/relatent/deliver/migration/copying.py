"""One shard of a migration: read, translate, write, and what a manifest remembers of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._remedy import with_remedy
from relatent.deliver.migration.digest import Digest
from relatent.deliver.migration.records import Manifest, Plan
from relatent.deliver.migration.side import StoredSide
from relatent.stores import Shard, Store, StoreError

__all__ = ["Advance", "Pace", "Part", "Skipped", "copy_shard", "digest_shard", "read_shard"]

# Rows that were left out are all counted, and so many of them named.
NAMED = 20
Advance = Callable[[int], None]


@dataclass
class Pace:
    """Keeps to at most so many rows per second, by sleeping after each chunk. None: as fast as it goes."""

    rate: float | None = None
    rows: int = 0
    began: float = field(default_factory=time.monotonic)

    def __call__(self, rows: int) -> None:
        """Count rows that were just handled, and wait if that was too fast."""
        self.rows += rows
        if self.rate is not None:
            time.sleep(max(0.0, self.began + self.rows / self.rate - time.monotonic()))


@dataclass
class Skipped:
    """Rows that were left out: how many, and the first of them by key and reason."""

    keys: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def __call__(self, key: Any, reason: str) -> None:
        """Note one more."""
        self.keys.append(key)
        if len(self.reasons) < NAMED:
            self.reasons.append(f"{key!r}: {reason}")


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that were read together: keys, vectors that are finite."""

    keys: pa.Array
    vectors: np.ndarray


def read_shard(
    store: Store, plan: Plan, shard: Shard, skipped: Skipped | None = None, *, new: bool = False
) -> Iterator[Part]:
    """Return the rows of a shard, of the served field or the new one, in chunks.

    A row that cannot be read, or that holds NaN or infinity, is an error that names its key, unless ``skipped`` is
    told of it.
    """
    of = plan.field if new else plan.served
    for chunk in store.scan(of, shard=shard, rows=plan.chunk_rows, unreadable=skipped):
        keys = pa.chunked_array(chunk.keys).combine_chunks()
        finite = np.isfinite(chunk.vectors).all(axis=1)
        for row in np.flatnonzero(~finite):
            _leave_out(store, keys[int(row)].as_py(), skipped)
        whole = bool(finite.all())
        yield Part(keys if whole else keys.filter(pa.array(finite)), chunk.vectors if whole else chunk.vectors[finite])


def copy_shard(
    store: Store, plan: Plan, number: int, side: StoredSide, pace: Pace, advance: Advance, *, skip: bool = False
) -> Manifest:
    """Translate one shard into the new field, and return its manifest, once all of it is durable."""
    skipped = Skipped() if skip else None
    read, written = Digest(), Digest()
    for part in read_shard(store, plan, plan.shards[number], skipped):
        read += Digest.of(part.keys, part.vectors)
        if len(part.keys):
            vectors = _translated(store, plan, side, part)
            store.write(plan.field, part.keys, vectors)
            written += Digest.of(part.keys, vectors)
        advance(len(part.keys))
        pace(len(part.keys))
    left_out = skipped or Skipped()
    read += Digest.of_keys(left_out.keys)
    return Manifest(plan.migration, number, read, written, len(left_out.keys), tuple(left_out.reasons))


def digest_shard(store: Store, plan: Plan, number: int, pace: Pace, advance: Advance) -> Digest:
    """Return the digest of what the source holds now, to compare with :attr:`Manifest.read`."""
    skipped, total = Skipped(), Digest()
    for part in read_shard(store, plan, plan.shards[number], skipped):
        total += Digest.of(part.keys, part.vectors)
        advance(len(part.keys))
        pace(len(part.keys))
    return total + Digest.of_keys(skipped.keys)


def _translated(store: Store, plan: Plan, side: StoredSide, part: Part) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        vectors = side(part.vectors)
        fits = np.isfinite(vectors.astype(plan.field.dtype)).all(axis=1)
    if not fits.all():
        key = part.keys[int(np.argmin(fits))].as_py()
        raise StoreError(
            f"The row with key {key!r} of {store.address} becomes infinite in {plan.field.dtype} when it is "
            "translated: mend or delete it, or choose float32 for the new field."
        )
    return vectors


def _leave_out(store: Store, key: Any, skipped: Skipped | None) -> None:
    if skipped is None:
        error = StoreError(f"The row with key {key!r} of {store.address} holds NaN or infinity: mend or delete it, or")
        raise with_remedy(
            error,
            python="leave such rows out with skip_unreadable=True.",
            command="leave such rows out with --skip-unreadable.",
        )
    skipped(key, "holds NaN or infinity")
