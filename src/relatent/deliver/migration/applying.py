"""`relatent migrate apply`: translate a store's vectors into a new field, shard by shard, from where it was left."""

from __future__ import annotations

import hashlib
import os
import warnings
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from relatent._terminal import progress_bar, wrap
from relatent.deliver.loading import load
from relatent.deliver.migration.copying import Advance, Pace, copy_shard, digest_shard
from relatent.deliver.migration.records import Plan
from relatent.deliver.migration.side import StoredSide, check_fingerprint, stored_side
from relatent.deliver.migration.switching import check_not_served
from relatent.deliver.migration.trial import drop_trial
from relatent.deliver.migration.work import Work, work_of
from relatent.spaces.chunks import chunk_rows
from relatent.stores import Field, Store, StoreError, open_store

__all__ = ["Applied", "apply_migration"]

# A run that is killed loses at most the work on so many rows.
SHARD_ROWS = 50_000
# The source is looked at again until nothing has changed, and at most so often.
LOOKS = 5


@dataclass(frozen=True)
class Applied:
    """What an apply has done, and what the new field holds now."""

    store: str
    work: str
    field: str
    rows: int
    """Rows that have a new vector."""
    shards: int
    resumed: int
    """Shards that an earlier run had done."""
    redone: int
    """Shards that were written again because the source had changed."""
    removed: int
    """New vectors that were removed because their items were deleted meanwhile."""
    skipped: int
    reasons: tuple[str, ...]
    settled: bool
    """Whether the last look at the source found nothing that had changed."""
    advice: str

    def __str__(self) -> str:
        """Say it in a few lines for a person."""
        lines = [f"{self.rows:,} rows of {self.store} have a new vector in {self.field!r}."]
        if self.resumed:
            lines.append(f"{self.resumed:,} of {self.shards:,} shards were done by an earlier run.")
        if self.redone or self.removed:
            lines.append(
                f"The source changed meanwhile: {self.redone:,} shards were written again, and {self.removed:,} "
                "vectors of deleted items removed."
            )
        if self.skipped:
            lines.append(f"{self.skipped:,} rows could not be read and were left out, first {self.reasons[0]}.")
        if not self.settled:
            lines.append(wrap(UNSETTLED))
        return "\n".join([*lines, f"Next: relatent migrate verify {self.store}", wrap(self.advice)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


UNSETTLED = (
    "The source still changed during the last look: some rows may be missing or out of date. Run apply again when "
    "fewer items are written, right before the cutover."
)


def apply_migration(
    url: str | os.PathLike[str],
    translator: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str] | None = None,
    into: str | None = None,
    dtype: str | None = None,
    shard_rows: int = SHARD_ROWS,
    rate: float | None = None,
    looks: int = LOOKS,
    skip_unreadable: bool = False,
    accept: bool = False,
    progress: bool | None = None,
) -> Applied:
    """Fill a new field of a store with translated vectors. The old field is not modified.

    What is done is remembered in the ``work`` folder, shard by shard, after it is durable in the store; a run that was
    killed is followed by one that goes on from there. Then the source is read again: shards whose rows have changed
    are written again and vectors of deleted items are removed, until a look finds no change, at most ``looks`` times.

    ``rate`` is the most rows per second to read. ``accept`` lets a store pass whose fingerprint is another's.
    """
    folder = work_of(url, work)
    with open_store(url) as store, folder.locked(), store.lock():
        plan = _settled_plan(store, folder, Path(translator), into, dtype, shard_rows, rate, accept)
        side = stored_side(folder.translator(plan))
        store.add(plan.field)
        run = _Run(store, folder, plan, side, Pace(rate), skip_unreadable)
        resumed = sum(one is not None for one in folder.manifests(plan))
        with progress_bar(store.count(plan.served), "apply", progress) as advance:
            run.first_pass(advance)
        redone, settled, removed = run.looks(looks, progress)
        store.build_index(plan.field)
        return _finished(run, resumed, redone, settled, removed)


@dataclass
class _Run:
    """What the passes of one apply share."""

    store: Store
    work: Work
    plan: Plan
    side: StoredSide
    pace: Pace
    skip: bool

    def first_pass(self, advance: Advance) -> None:
        """Copy the shards that are not done."""
        for number, manifest in enumerate(self.work.manifests(self.plan)):
            if manifest is None:
                self.copy(number, advance)
            else:
                advance(manifest.read.rows)

    def looks(self, most: int, progress: bool | None) -> tuple[int, bool, int]:
        """Look at the source until nothing has changed; return shards redone, whether it settled, vectors removed."""
        redone, settled = 0, False
        removed = self.store.remove_orphans(self.plan.field)
        for _ in range(most):
            with progress_bar(self.store.count(self.plan.served), "look again", progress) as advance:
                changed = sum(self._changed(number, advance) for number in range(len(self.plan.shards)))
            if not changed:
                settled = True
                break
            redone += changed
            removed += self.store.remove_orphans(self.plan.field)
        return redone, settled, removed

    def _changed(self, number: int, advance: Advance) -> bool:
        """Write a shard again if the source is no longer what was read."""
        manifest = self.work.manifest(self.plan, number)
        if manifest is not None and manifest.read == digest_shard(self.store, self.plan, number, self.pace, advance):
            return False
        self.copy(number, lambda _: None)
        return True

    def copy(self, number: int, advance: Advance) -> None:
        """Write a shard and then its manifest; until then it counts as not done."""
        self.work.undo(number)
        manifest = copy_shard(self.store, self.plan, number, self.side, self.pace, advance, skip=self.skip)
        self.work.done(manifest)


def _settled_plan(
    store: Store,
    work: Work,
    translator: Path,
    into: str | None,
    dtype: str | None,
    shard_rows: int,
    rate: float | None,
    accept: bool,
) -> Plan:
    """Return the plan to follow: that of the work folder if it is still true, else a new one."""
    digest = hashlib.sha256(translator.read_bytes()).hexdigest()
    check_not_served(store, digest)
    drop_trial(store)
    known, new = work.plan(), store.new
    if known is not None and new is not None and _is_of(new, known.migration):
        if known.translator != digest:
            raise _other_translator(store, new)
        return known
    side = stored_side(load(translator))
    check_fingerprint(side, store, accept=accept)
    if new is not None and new.provenance.get("translator") != digest:
        raise _other_translator(store, new)
    if known is not None and any(work.manifests(known)):
        warnings.warn(
            f"{work.folder} tells of a new field that {store.address} does not have any more: it starts afresh.",
            stacklevel=3,
        )
    field = new if new is not None else _new_field(side, store, digest, into, dtype)
    plan = Plan(
        str(field.provenance["migration"]),
        str(store.address),
        digest,
        side.name,
        store.served,
        field,
        tuple(store.shards(shard_rows)),
        _rows_at_once(store.served, field, rate),
    )
    work.begin(plan, translator)
    return plan


def _new_field(side: StoredSide, store: Store, digest: str, into: str | None, dtype: str | None) -> Field:
    about = {"migration": uuid4().hex, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    return side.field(store.served, digest, about, name=into, dtype=dtype)


def _rows_at_once(served: Field, new: Field, rate: float | None) -> int:
    """Return rows per chunk: as fit in memory, and no more than a second's worth where the rate is limited."""
    rows = chunk_rows(max(served.dim, new.dim), np.dtype(np.float32))
    return rows if rate is None else max(1, min(rows, int(rate)))


def _is_of(field: Field, migration: str) -> bool:
    return field.provenance.get("migration") == migration


def _other_translator(store: Store, new: Field) -> StoreError:
    made = ", ".join(f"{name} {new.provenance[name]}" for name in ("target", "date") if name in new.provenance)
    return StoreError(
        f"{store.address} has a new field {new.name!r} from another translator{f' ({made})' if made else ''}: give "
        "that one to go on with it, or remove the field with relatent migrate rollback --drop."
    )


def _finished(run: _Run, resumed: int, redone: int, settled: bool, removed: int) -> Applied:
    """Note that all is done, and say what."""
    plan, work = run.plan, run.work
    manifests = [one for one in work.manifests(plan) if one is not None]
    skipped = sum(one.skipped for one in manifests)
    work.note("finished", {"settled": settled, "date": datetime.now(UTC).isoformat(timespec="seconds")}, plan)
    return Applied(
        plan.store,
        str(work.folder),
        plan.field.name,
        sum(one.written.rows for one in manifests),
        len(plan.shards),
        resumed,
        redone,
        removed,
        skipped,
        tuple(reason for one in manifests for reason in one.reasons),
        settled,
        run.side.advice,
    )
