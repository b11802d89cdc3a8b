"""Apply a migration: translate the vectors of a store into a new field, shard by shard; a killed run is resumed."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from relatent._saved import load
from relatent._terminal import Result, wrap
from relatent.engines import Engine, Serial
from relatent.migrate.copy import Pace, ShardWork
from relatent.migrate.passes import CaughtUp, Passes, cores_left
from relatent.migrate.plan import drop_trial
from relatent.migrate.side import SAMPLE_ROWS, StoredSide, check_fingerprint, sample_vectors, stored_side
from relatent.migrate.state import Plan, Work, work_of
from relatent.migrate.switch import MAX_PASSES, check_not_served, or_drop
from relatent.spaces.space import Space
from relatent.stores import Store, open_store
from relatent.stores.fields import check_no_old

# A run that is killed loses at most the work on this many rows.
SHARD_ROWS = 50_000
# A new field that is at most this many seconds behind a source that keeps changing will do: the cutover catches up.
MAX_LAG = 10.0
# Seconds between the passes of a run that waits before its last one.
WAIT = 2.0


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
    """Shards of which rows were written again because the source had changed."""
    removed: int
    """New vectors that were removed because their items were deleted meanwhile."""
    skipped: int
    reasons: tuple[str, ...]
    without_vector: int
    """Items of the store that have no vector to translate."""
    follows: bool
    """Whether the store translates by itself what is written from now on."""
    not_following: str | None
    """Why it does not."""
    lag: float
    """Seconds that the new field is behind a source that keeps changing; 0 where it follows, or did not change."""
    converged: bool
    """Whether that is so little that it can be left to the cutover."""
    advice: str

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows of {self.store} have a new vector in {self.field!r}."]
        if self.resumed:
            lines.append(f"{self.resumed:,} of {self.shards:,} shards were finished by an earlier run.")
        if self.redone or self.removed:
            lines.append(
                f"The source changed meanwhile: rows of {self.redone:,} shards were written again, and "
                f"{self.removed:,} vectors of deleted items removed."
            )
        if self.without_vector:
            lines.append(f"{self.without_vector:,} items have no vector and were left out.")
        if self.skipped:
            lines.append(f"{self.skipped:,} rows could not be read and were skipped, first {self.reasons[0]}.")
        lines.append(wrap(self.traffic))
        return "\n".join([*lines, f"Next: relatent migrate verify {self.store}", wrap(self.advice)])

    @property
    def traffic(self) -> str:
        """What becomes of what is written from now on, in a sentence."""
        if self.follows:
            return FOLLOWS
        changing = f" The source keeps changing, and a pass over it takes {self.lag:.2g} s." if self.lag else ""
        return f"{LATER} ({self.not_following}).{changing}{'' if self.converged else TOO_SLOW}"


FOLLOWS = "The store translates what is written from now on by itself, with triggers: the application may keep writing."
LATER = "What is written from now on is translated by the cutover, which takes about as long as one pass"
TOO_SLOW = " Plan a pause of writes for the cutover, or run apply again when fewer items are written."


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
    postpone: bool = False,
    skip_unreadable: bool = False,
    canary: Space | None = None,
    accept: bool = False,
    engine: Engine | None = None,
    progress: bool | None = None,
) -> ApplyResult:
    """Fill a new field of a store with translated vectors. The old field is not modified.

    A store that can translate by itself (PostgreSQL, with triggers) does so from the start: then the new field follows
    the old one, whatever is written. Each shard is recorded in the ``work`` folder after it is durable in the store; a
    killed run is resumed from there. In other stores the source is then checked for changes: rows that have changed are
    written again and vectors of deleted items are removed, until a pass finds no change, at most ``max_passes`` times.

    ``rate`` is the maximum of rows per second to read; a number in the file ``max-rate`` of the work folder replaces it
    while the run is under way, 0 for a pause. With ``postpone``, the run writes the file ``postponed`` there, keeps
    catching up as long as it exists, and ends with a last pass after it was removed. A ``canary`` of items of the store
    (:func:`relatent.monitor.make_canary`) tells whether it holds vectors of the right model; without it, fingerprints
    do, and ``accept`` allows a store with another one. An ``engine`` (:mod:`relatent.engines`) lets several workers
    copy shards; it is not closed.
    """
    folder, engine = work_of(url, work), engine or Serial()
    with open_store(url) as store, folder.locked(store.address), store.lock():
        side, digest = stored_side(load(translator)), hashlib.sha256(Path(translator).read_bytes()).hexdigest()
        _check_store(store, digest)
        check = check_fingerprint(side, store, canary=canary, accept=accept)
        plan, chosen = folder.plan(), {"name": into, "dtype": dtype, "metric": metric}
        _check_chosen(store, chosen)
        if plan is None or not _still_holds(plan, folder, store, digest):
            plan = _new_plan(store, side, digest, chosen, shard_rows, rate)
            folder.begin(plan)
        folder.keep_translator(Path(translator))
        fresh = store.new is None or not store.count(store.new)
        store.add(plan.field)
        reason = _follow(store, side, plan) if fresh else NOT_FRESH
        pace = Pace(rate, folder.max_rate, engine.workers)
        shards = ShardWork(os.fspath(url), store, plan, side.translate, skip=skip_unreadable, check=check, pace=pace)
        passes = Passes(store, folder, plan, shards, engine, progress)
        if postpone:
            folder.postponed.touch()
        resumed = passes.first()
        done = _caught_up(passes, max_passes, fresh)
        store.build_index(plan.field)
        while postpone and _postponed(folder):
            done += _caught_up(passes, 1, fresh=False)
            store.build_index(plan.field)
        return _finished(passes, side, resumed, done, reason)


NOT_FRESH = "the migration began without triggers"


def _follow(store: Store, side: StoredSide, plan: Plan) -> str | None:
    """Have the store translate what is written to it, if it can; return why it does not."""
    if store.follows():
        return None
    if not store.can_follow:
        return store.follow(plan.field, (), ())
    with cores_left():
        back = side.back(sample_vectors(store, max(SAMPLE_ROWS, 4 * max(side.translate.dims))))
    return store.follow(plan.field, side.steps, back)


def _caught_up(passes: Passes, max_passes: int, fresh: bool) -> CaughtUp:
    """Follow what has changed since it was copied; a store that follows by itself only lacks what was never copied.

    A field that was added by this run has nothing of deleted items unless a shard has changed.
    """
    if passes.store.follows():
        return passes.complete()
    removed = 0 if fresh else passes.remove_orphans()
    return CaughtUp(removed=removed) + passes.catch_up(max_passes)


def _postponed(work: Work) -> bool:
    """Wait a little if the last pass is to wait; return whether it was, so that one more pass is due."""
    if not work.postponed.exists():
        return False
    time.sleep(WAIT)
    return True


def _check_store(store: Store, translator: str) -> None:
    """Refuse a store that is migrated already, or with an unfinished migration by another translator."""
    check_not_served(store, translator)
    check_no_old(store.address, store.old)
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


def _finished(passes: Passes, side: StoredSide, resumed: int, done: CaughtUp, reason: str | None) -> ApplyResult:
    """Record that the run is complete, and return what it did."""
    store, plan, work = passes.store, passes.plan, passes.work
    manifests = [one for one in work.manifests(plan) if one is not None]
    work.note("finished", {"lag": done.seconds, "date": datetime.now(UTC).isoformat(timespec="seconds")}, plan)
    follows, tally = store.follows(), done.tally
    return ApplyResult(
        store=plan.store,
        work=str(work.folder),
        field=plan.field.name,
        rows=sum(one.written for one in manifests) if tally is None else tally.both,
        shards=len(plan.shards),
        resumed=resumed,
        redone=done.shards,
        removed=done.removed,
        skipped=sum(one.skipped for one in manifests),
        reasons=tuple(reason for one in manifests for reason in one.reasons),
        without_vector=store.unfilled(plan.served) if tally is None else tally.items - tally.first,
        follows=follows,
        not_following=None if follows else reason or NOT_FRESH,
        lag=done.seconds,
        converged=done.seconds <= MAX_LAG,
        advice=side.advice(store, plan.field),
    )
