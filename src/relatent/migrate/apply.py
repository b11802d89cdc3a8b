"""Apply a migration: translate the vectors of a store into a new field, shard by shard; a killed run is resumed."""

from __future__ import annotations

import hashlib
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from relatent._saved import load
from relatent._terminal import Result, progress_bar, wrap
from relatent.engines import Engine, Serial
from relatent.migrate.copy import ShardWork
from relatent.migrate.plan import drop_trial
from relatent.migrate.side import StoredSide, check_fingerprint, stored_side
from relatent.migrate.state import Manifest, Plan, Work, work_of
from relatent.migrate.switch import check_not_served, or_drop
from relatent.stores import Store, open_store
from relatent.stores.fields import check_no_old

# A run that is killed loses at most the work on this many rows.
SHARD_ROWS = 50_000
# The source is checked for changes until a pass finds none, at most this often.
MAX_PASSES = 5
# Shards that a store is asked about at once, whether they have changed.
ASKED_AT_ONCE = 2


@dataclass(frozen=True)
class ApplyResult(Result):
    """What a run has done, and what the new field holds now."""

    store: str
    work: str
    field: str
    rows: int
    """Rows that have a new vector."""
    shards: int
    resumed: int
    """Shards that an earlier run had finished."""
    redone: int
    """Shards that were written again because the source had changed."""
    removed: int
    """New vectors that were removed because their items were deleted meanwhile."""
    skipped: int
    reasons: tuple[str, ...]
    converged: bool
    """Whether the last pass over the source found no change."""
    advice: str

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows of {self.store} have a new vector in {self.field!r}."]
        if self.resumed:
            lines.append(f"{self.resumed:,} of {self.shards:,} shards were finished by an earlier run.")
        if self.redone or self.removed:
            lines.append(
                f"The source changed meanwhile: {self.redone:,} shards were written again, and {self.removed:,} "
                "vectors of deleted items removed."
            )
        if self.skipped:
            lines.append(f"{self.skipped:,} rows could not be read and were skipped, first {self.reasons[0]}.")
        if not self.converged:
            lines.append(wrap(NOT_CONVERGED))
        return "\n".join([*lines, f"Next: relatent migrate verify {self.store}", wrap(self.advice)])


NOT_CONVERGED = (
    "The source still changed during the last pass: some rows may be missing or out of date. Run apply again when "
    "fewer items are written, right before the cutover."
)


def apply_migration(
    translator: str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str] | None = None,
    into: str | None = None,
    dtype: str | None = None,
    metric: str | None = None,
    shard_rows: int = SHARD_ROWS,
    rate: float | None = None,
    max_passes: int = MAX_PASSES,
    skip_unreadable: bool = False,
    accept: bool = False,
    engine: Engine | None = None,
    progress: bool | None = None,
) -> ApplyResult:
    """Fill a new field of a store with translated vectors. The old field is not modified.

    Each shard is recorded in the ``work`` folder after it is durable in the store; a killed run is resumed from there.
    Then the source is checked for changes: shards whose rows have changed are written again and vectors of deleted
    items are removed, until a pass finds no change, at most ``max_passes`` times.

    ``rate`` is the maximum of rows per second to read. ``accept`` allows a store with another fingerprint. An
    ``engine`` (:mod:`relatent.engines`) lets several workers copy shards; it is not closed.
    """
    folder, engine = work_of(url, work), engine or Serial()
    with open_store(url) as store, folder.locked(store.address), store.lock():
        side, digest = stored_side(load(translator)), hashlib.sha256(Path(translator).read_bytes()).hexdigest()
        _check_store(store, side, digest, accept)
        plan, chosen = folder.plan(), {"name": into, "dtype": dtype, "metric": metric}
        _check_chosen(store, chosen)
        if plan is None or not _still_holds(plan, folder, store, digest):
            plan = _new_plan(store, side, digest, chosen, shard_rows, rate)
            folder.begin(plan)
        folder.keep_translator(Path(translator))
        fresh = store.new is None
        store.add(plan.field)
        share = None if rate is None else rate / engine.workers
        shards = ShardWork(os.fspath(url), store, plan, side.translate, rate=share, skip=skip_unreadable)
        run = _Run(store, folder, plan, shards, engine, progress)
        resumed = run.first_pass()
        redone, removed, converged = run.catch_up(max_passes, fresh)
        store.build_index(plan.field)
        return _finished(run, side, resumed, redone, removed, converged)


@dataclass(frozen=True)
class _Run:
    """What the passes of one apply share."""

    store: Store
    work: Work
    plan: Plan
    shards: ShardWork
    engine: Engine
    progress: bool | None

    def first_pass(self) -> int:
        """Copy the shards that are not finished; return how many were."""
        done = [one for one in self.work.manifests(self.plan) if one is not None]
        known = {one.shard for one in done}
        todo = [number for number in range(len(self.plan.shards)) if number not in known]
        self._copy(todo, "apply: shards")
        return len(done)

    def catch_up(self, max_passes: int, fresh: bool) -> tuple[int, int, bool]:
        """Copy what has changed until a pass finds no change; return shards redone, vectors removed, whether converged.

        A shard is compared as a whole, so that added, deleted and changed rows are all noticed. A field that was
        added by this run has nothing of deleted items unless a shard has changed.
        """
        redone, removed = 0, 0 if fresh else self.store.remove_orphans(self.plan.field)
        for _ in range(max_passes):
            changed = self._changed()
            if not changed:
                return redone, removed, True
            self._copy(changed, "apply: shards that have changed")
            redone, removed = redone + len(changed), removed + self.store.remove_orphans(self.plan.field)
        return redone, removed, False

    def _changed(self) -> list[int]:
        """Return the shards of which the source is no longer what was read."""
        manifests = self.work.manifests(self.plan)
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            unsure = [number for number, same in enumerate(pool.map(self._is_surely_same, manifests)) if not same]
        changed = []
        with progress_bar(len(unsure), "apply: shards checked for changes", self.progress) as advance:
            for number, digest in zip(unsure, self.engine.map(self.shards.digest, unsure), strict=True):
                manifest = manifests[number]
                if manifest is None or digest != manifest.read:
                    changed.append(number)
                advance(1)
        return changed

    def _is_surely_same(self, manifest: Manifest | None) -> bool:
        """Return whether the store knows, without reading the rows, that a shard is as it was before it was read."""
        if manifest is None or manifest.state is None:
            return False
        return self.store.state(self.plan.shards[manifest.shard]) == manifest.state

    def _copy(self, numbers: list[int], title: str) -> None:
        """Write shards, and each one's manifest after it; until then it counts as not finished."""
        for number in numbers:
            self.work.undo(number)
        with progress_bar(len(numbers), title, self.progress) as advance:
            alone = type(self.engine) is Serial  # then a shard is read while the previous one is written
            for manifest in self.shards.copies(numbers) if alone else self.engine.map(self.shards.copy, numbers):
                self.work.done(manifest)
                advance(1)


def _check_store(store: Store, side: StoredSide, translator: str, accept: bool) -> None:
    """Refuse a store of another model, or one with an unfinished migration by another translator."""
    check_not_served(store, translator)
    check_no_old(store.address, store.old)
    check_fingerprint(side, store, accept=accept)
    drop_trial(store)
    new = store.new
    if new is not None and new.provenance.get("translator") != translator:
        known = [f"{name} {new.provenance[name]}" for name in ("target", "date") if name in new.provenance]
        made = f" ({', '.join(known)})" if known else ""
        raise or_drop(
            f"{store.address} has a new field {new.name!r} from another translator{made}: give that one to resume, or",
            "remove the field with {}.",
        )


def _check_chosen(store: Store, chosen: dict[str, str | None]) -> None:
    """Refuse to resume a new field that differs from what is asked for."""
    for what, value in chosen.items():
        if store.new is not None and value not in (None, getattr(store.new, what)):
            raise or_drop(
                f"{store.address} has a new field of {what} {getattr(store.new, what)}, and {value} was asked for: "
                f"leave out the {what} to resume, or",
                "remove the field with {}.",
            )


def _still_holds(plan: Plan, work: Work, store: Store, translator: str) -> bool:
    """Return whether a plan can be resumed: the same translator, and a store that has the field of the manifests."""
    if (plan.translator, plan.served, plan.field) == (translator, store.served, store.new):
        return True
    if any(work.manifests(plan)):
        warnings.warn(
            f"{work.folder} records a new field that {store.address} no longer has: the migration starts over.",
            stacklevel=3,
        )
    return False


def _new_plan(
    store: Store, side: StoredSide, translator: str, chosen: dict[str, str | None], shard_rows: int, rate: float | None
) -> Plan:
    # A field that exists already is resumed: it is of this translator, and its work folder was lost. The random name
    # of a new one tells it from any that was dropped, whose manifests may still exist.
    about = {"migration": uuid4().hex, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    field = store.new if store.new is not None else side.new_field(store, translator, about, **chosen)
    return Plan(
        migration=uuid4().hex,
        store=str(store.address),
        translator=translator,
        side=side.name,
        served=store.served,
        field=field,
        shards=tuple(store.shards(shard_rows)),
        chunk_rows=None if rate is None else max(1, int(rate)),  # no more than a second's worth
    )


def _finished(run: _Run, side: StoredSide, resumed: int, redone: int, removed: int, converged: bool) -> ApplyResult:
    """Record that the run is complete, and return what it did."""
    plan, work = run.plan, run.work
    manifests = [one for one in work.manifests(plan) if one is not None]
    work.note("finished", {"settled": converged, "date": datetime.now(UTC).isoformat(timespec="seconds")}, plan)
    return ApplyResult(
        store=plan.store,
        work=str(work.folder),
        field=plan.field.name,
        rows=sum(one.written.rows for one in manifests),
        shards=len(plan.shards),
        resumed=resumed,
        redone=redone,
        removed=removed,
        skipped=sum(one.skipped for one in manifests),
        reasons=tuple(reason for one in manifests for reason in one.reasons),
        converged=converged,
        advice=side.advice(run.store, plan.field),
    )
