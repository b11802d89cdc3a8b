"""Passes over the shards of a migration: the first copies all of them, later ones what has changed since."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from relatent._terminal import progress_bar
from relatent.engines import Engine, Serial
from relatent.migrate.copy import Job, ShardWork, Skipped, read_shard
from relatent.migrate.state import Manifest, Plan, Work
from relatent.stores import Store
from relatent.stores.base import Tally

# Shards that a store is asked about at once, whether they have changed.
ASKED_AT_ONCE = 2


@dataclass(frozen=True)
class Passes:
    """Passes over the shards of a migration: the first one copies all, later ones what has changed since."""

    store: Store
    work: Work
    plan: Plan
    shards: ShardWork
    engine: Engine = field(default_factory=Serial)
    progress: bool | None = None

    def first(self) -> int:
        """Copy the shards that are not finished; return how many were.

        After a rollback, all start over: the new field may hold what was written to it while it was served.
        """
        noted = self.work.rolled_back()
        if noted is not None and noted["again"]:
            for number in range(len(self.plan.shards)):
                self.work.undo(number)
            self.work.note_rollback(self.kept(), again=False)
        done = [one for one in self.work.manifests(self.plan) if one is not None]
        known = {one.shard for one in done}
        self.copy([Job(number) for number in range(len(self.plan.shards)) if number not in known], "shards")
        return len(done)

    def complete(self) -> CaughtUp:
        """Copy what a store that follows still lacks, and remove what has lost its item, if there is anything."""
        found = self.store.tally(self.plan.served, self.plan.field)
        if not found.lacking and not found.orphans:
            return CaughtUp(tally=found)
        shards = self._fill_in() if found.lacking else 0
        removed = self.remove_orphans()
        return CaughtUp(shards, removed, tally=self.store.tally(self.plan.served, self.plan.field))

    def _fill_in(self) -> int:
        """Copy the shards in which new vectors are lacking; return how many there were."""
        lacking = [
            Job(number)
            for number, shard in enumerate(self.plan.shards)
            if len(self.store.only_in(self.plan.served, self.plan.field, shard))
        ]
        self.copy(lacking, "shards that lack rows")
        return len(lacking)

    def catch_up(self, max_passes: int) -> CaughtUp:
        """Copy what has changed until a pass finds no change.

        Added, deleted and changed rows are all noticed: what a shard held is compared bucket by bucket.
        """
        found = CaughtUp()
        for _ in range(max_passes):
            began, jobs = time.monotonic(), self.changed() or self._lacking()
            if not jobs:
                return replace(found, seconds=0.0)
            self.copy(jobs, "shards that have changed")
            found += CaughtUp(len(jobs), self.remove_orphans(), time.monotonic() - began)
        return found

    def remove_orphans(self) -> int:
        """Remove the new vectors of items that were deleted; return how many."""
        return self.store.remove_orphans(self.plan.field, self.kept())

    def kept(self) -> list[Any]:
        """Return the keys that only the new field has since a rollback: they were added while it was served."""
        noted = self.work.rolled_back()
        if noted is None or noted["kept"] == []:
            return []
        found: list[Any] = self.store.only_in(self.plan.field, self.plan.served).to_pylist()
        if noted["kept"] is not None:  # else the rollback was killed before it had noted them
            still = set(found)  # one that got an old vector meanwhile is an item like others
            found = [key for key in noted["kept"] if key in still]
        if found != noted["kept"]:
            self.work.note_rollback(found, noted["again"])
        return found

    def changed(self) -> list[Job]:
        """Return the shards of which the source is no longer what was read, and in which buckets."""
        manifests = self.work.manifests(self.plan)
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            unsure = [number for number, same in enumerate(pool.map(self._is_surely_same, manifests)) if not same]
        jobs = []
        with progress_bar(len(unsure), "shards checked for changes", self.progress) as advance:
            for number, digest in zip(unsure, self.engine.map(self.shards.digest, unsure), strict=True):
                manifest = manifests[number]
                if manifest is None:
                    jobs.append(Job(number))
                elif buckets := manifest.read.changed(digest):
                    jobs.append(Job(number, manifest, buckets))
                advance(1)
        return jobs

    def _lacking(self) -> list[Job]:
        """Return the shards of which new vectors are gone, although the source has not changed."""
        known = [one for one in self.work.manifests(self.plan) if one is not None]
        if self.store.count(self.plan.field) >= sum(one.written for one in known):
            return []
        counted = ((one, self.store.count(self.plan.field, self.plan.shards[one.shard])) for one in known)
        return [Job(one.shard) for one, rows in counted if rows < one.written]

    def late(self) -> list[Any]:
        """Return the keys whose old vectors seem to have changed since they were translated: they are out of date.

        Also some that were written with the new model since, and share a bucket with such a row.
        """
        found = []
        for job in self.changed():
            shard = self.plan.shards[job.shard]
            new = {
                key: vector
                for part in read_shard(self.store, self.plan, shard, Skipped(), new=True)
                for key, vector in zip(part.keys.to_pylist(), part.vectors, strict=True)
            }
            for part in read_shard(self.store, self.plan, shard, Skipped()):
                rows = part if job.before is None else part.only(job.buckets)
                found += self.shards.unlike(rows, new)
        return found

    def _is_surely_same(self, manifest: Manifest | None) -> bool:
        """Return whether the store knows, without reading the rows, that a shard is as it was before it was read."""
        if manifest is None or manifest.state is None:
            return False
        return self.store.state(self.plan.shards[manifest.shard]) == manifest.state

    def copy(self, jobs: list[Job], what: str) -> None:
        """Write shards, and each one's manifest after it; until then it counts as not finished."""
        for job in jobs:
            self.work.undo(job.shard)
        with progress_bar(len(jobs), what, self.progress) as advance:
            for manifest in self._copied(jobs):
                self.work.done(manifest)
                advance(1)

    def _copied(self, jobs: list[Job]) -> Iterator[Manifest]:
        """Copy shards on the engine; alone, the next one is read while others are translated and written."""
        if type(self.engine) is not Serial:
            yield from self.engine.map(self.shards.copy, jobs)
            return
        with cores_left():
            yield from self.shards.copies(jobs)


@contextmanager
def cores_left() -> Iterator[None]:
    """Leave half of the cores to reading, writing, and a store on the same machine: idle threads of BLAS spin."""
    pools, most = _blas(), max(1, (os.cpu_count() or 1) // 2)
    with pools.limit(limits={pool["prefix"]: min(pool["num_threads"] or most, most) for pool in pools.info()}):
        yield


@cache
def _blas() -> Any:
    """Return the BLAS libraries of this process, which take milliseconds to find."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@dataclass(frozen=True)
class CaughtUp:
    """What the passes after the first one did."""

    shards: int = 0
    """Shards of which rows were written again."""
    removed: int = 0
    """New vectors that were removed because their items were deleted."""
    seconds: float = 0.0
    """How long the last pass took, if it found a change: so far the new field may be behind; else 0."""
    tally: Tally | None = None
    """What a store that follows held at the end."""

    def __add__(self, later: CaughtUp) -> CaughtUp:
        """Return what both did; only the later one tells how far the new field is behind, and what it holds."""
        return CaughtUp(self.shards + later.shards, self.removed + later.removed, later.seconds, later.tally)
