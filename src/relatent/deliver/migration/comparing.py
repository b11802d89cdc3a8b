"""Rows of a migrated shard, compared one by one with the translation of what they came from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from relatent.deliver.migration.allowance import cut_off, deviations
from relatent.deliver.migration.copying import Part, Skipped, read_shard
from relatent.deliver.migration.digest import Digest
from relatent.deliver.migration.records import Manifest, Plan
from relatent.deliver.migration.side import StoredSide
from relatent.spaces.fingerprint import SpaceWarning
from relatent.spaces.keys import key_texts
from relatent.stores import Field, Store

__all__ = ["Compared", "compare_shard"]

# Rows of each shard that may ask, in the old field and in the new one.
KEPT = 128


@dataclass
class Compared:
    """What was found in some shards."""

    rows: int = 0
    worst: float = 0.0
    """The largest error, relative to the norm; of bits, the largest share that differs."""
    cut: int = 0
    """Coordinates that the scale of codes does not reach."""
    wrong: list[str] = field(default_factory=list)
    """Rows that are not as they should be, in words."""
    changed: list[int] = field(default_factory=list)
    """Shards whose source is not what was read."""
    old: list[np.ndarray] = field(default_factory=list)
    new: list[np.ndarray] = field(default_factory=list)
    """Vectors of the same items in both fields, to ask with."""


def compare_shard(store: Store, plan: Plan, side: StoredSide, manifest: Manifest, found: Compared) -> None:
    """Compare every new vector of a shard with the translation of the old one, and the source with its manifest."""
    shard = plan.shards[manifest.shard]
    stored = list(read_shard(store, plan, shard, Skipped(), new=True))
    places = {text: i for i, text in enumerate(_texts([part.keys for part in stored]))}
    vectors = np.concatenate([np.empty((0, plan.field.dim), np.float32), *(part.vectors for part in stored)])
    skipped, read, first = Skipped(), Digest(), True
    for part in read_shard(store, plan, shard, skipped):
        read += part.digest
        rows = np.asarray([places.pop(key, -1) for key in _texts([part.keys])], dtype=np.intp)
        _compare(part, rows, vectors, plan.field, side, found, keep=first)
        first = first and not len(rows)
    found.wrong += [f"key {key!r}, whose item was deleted" for key in places]
    if read + skipped.digest != manifest.read:
        found.changed.append(manifest.shard)


def _compare(
    part: Part, rows: np.ndarray, vectors: np.ndarray, of: Field, side: StoredSide, found: Compared, *, keep: bool
) -> None:
    """Compare a chunk of the source with the rows of the new vectors that have its keys, -1 for none."""
    keys = part.keys.to_pylist()
    found.rows += len(keys)
    found.wrong += [f"key {keys[i]!r}, which has no new vector" for i in np.flatnonzero(rows < 0)]
    there = np.flatnonzero(rows >= 0)
    if not len(there):
        return
    stored = vectors[rows[there]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpaceWarning)  # which apply has given, or was told to accept
        expected = side(part.vectors)[there]
    errors, wrong = deviations(of, expected, stored)
    found.wrong += [f"key {keys[there[i]]!r}" for i in np.flatnonzero(wrong)]
    found.worst = max(found.worst, float(errors.max()))
    found.cut += cut_off(of, expected)
    if keep:
        found.old.append(part.vectors[there][:KEPT])
        found.new.append(stored[:KEPT])


def _texts(keys: list[pa.Array]) -> list[str]:
    return [text for part in keys for text in key_texts(part).to_pylist()]
