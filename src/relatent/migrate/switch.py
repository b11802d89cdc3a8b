"""Which field a store serves: cut over to the new one, roll back, and drop the old one."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from relatent._errors import with_remedy
from relatent._terminal import Result, progress_bar, wrap
from relatent.migrate.copy import ShardWork
from relatent.migrate.passes import CaughtUp, Passes
from relatent.migrate.side import stored_side
from relatent.migrate.state import Plan, Work, is_cut_over, missing_rows, work_of
from relatent.stores import Field, Store, StoreError, open_store

# The source is checked for changes until a pass finds none, at most this often.
MAX_PASSES = 5
# Keys that a sentence names.
NAMED = 3


@dataclass(frozen=True)
class SwitchResult(Result):
    """Which field is served now, and in words what was done."""

    store: str
    served: str
    done: str

    def __str__(self) -> str:
        return wrap(self.done)


def cut_over(
    url: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str] | None = None,
    allow_missing: int = 0,
    max_passes: int = MAX_PASSES,
    force: bool = False,
    progress: bool | None = None,
) -> SwitchResult:
    """Serve the new field, in one step for every reader. The old one is kept.

    Unless the store follows by itself, what has changed since it was translated is translated first: all of the source
    is compared with what was read, at most ``max_passes`` times, as long as it keeps changing. Refused unless
    :func:`verify_migration` has passed, and if more than ``allow_missing`` rows have no new vector; ``force`` skips
    both. Idempotent.
    """
    folder = work_of(url, work)
    with open_store(url) as store, folder.locked(store.address), store.lock():
        plan = folder.required_plan(url)
        side = stored_side(folder.translator(plan))
        words = [f"{plan.store} serves {plan.field.name!r} now; the old field is kept."]
        if not is_cut_over(store, plan):
            if not force:
                _check_verified(store, folder, plan)
            shards = ShardWork(os.fspath(url), store, plan, side.translate, skip=True)
            words += _switched(Passes(store, folder, plan, shards, progress=progress), allow_missing, max_passes, force)
        undo = f"To go back at any time: relatent migrate rollback {plan.store}"
        return SwitchResult(plan.store, store.served.name, " ".join([*words, side.advice(store, plan.field), undo]))


def _switched(passes: Passes, allow_missing: int, max_passes: int, force: bool) -> list[str]:
    """Bring the new field up to date and serve it; return what is to be reported."""
    store, work, plan = passes.store, passes.work, passes.plan
    verified, removed = work.noted("verified", plan), passes.remove_orphans()
    done = CaughtUp(removed=removed) + (CaughtUp() if store.follows() else passes.catch_up(max_passes))
    store.build_index(plan.field)
    if verified is not None:  # what is translated here need not be verified again
        work.note("verified", verified, plan)
    said = [*_check_missing(store, work, plan, None if force else allow_missing), *_kept(passes)]
    store.flush()
    store.switch()
    return [*said, *_report(done), *_late(passes, done)]


def _kept(passes: Passes) -> list[str]:
    """Report the items that are only in the new field, where a rollback left them there."""
    keys, field = passes.kept() and _alone(passes.store), passes.plan.field
    if not keys:
        return []
    path = passes.work.write_keys(f"only-in-{field.name}", keys)
    return [f"{_items(keys)} only in {field.name!r}, written before the last rollback: see {path}."]


def _report(done: CaughtUp) -> list[str]:
    if not done.shards and not done.removed:
        return []
    changed = f"Rows of {done.shards:,} shards had changed and were translated again"
    return [f"{changed}; {done.removed:,} vectors of deleted items were removed." if done.removed else f"{changed}."]


def _late(passes: Passes, done: CaughtUp) -> list[str]:
    """Report what was written to the old field between the last pass and the switch, unless there can be no such row.

    It is not written here: by now the application may have written a better vector.
    """
    known = all(one is not None and one.state is not None for one in passes.work.manifests(passes.plan))
    if passes.store.follows() or (known and not done.seconds):
        return []
    began, keys = time.monotonic(), passes.late()
    if not keys:
        return []
    path = passes.work.write_keys("late-keys", keys)
    return [
        f"{_items(keys)} out of date, because they were written in the {time.monotonic() - began:.2g} s between the "
        f"last pass and the switch. Write them again with the new model; their keys are in {path}."
    ]


def roll_back(
    url: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str] | None = None,
    drop: bool = False,
    force: bool = False,
) -> SwitchResult:
    """Serve the old field again, in one step; with ``drop``, also remove the new one and what it holds.

    Items that have a vector in the new field only are not found any more: their keys are reported and written to a file
    in the work folder. Dropping the new field is refused as long as there are such items, unless ``force``. Needs
    nothing but the store: it works where the work folder is lost.
    """
    folder = work_of(url, work)
    with open_store(url) as store, folder.locked(store.address), store.lock():
        if store.new is None and (store.old is None or store.roles().dropping):
            raise _nothing_to_do(store)
        done, added = [], store.roles().second
        assert added is not None
        if drop and not force:
            _check_kept(store, added, _alone(store), "Go back without dropping it")
        if store.old is not None:
            folder.note_rollback(None)
            store.switch_back()
            done += [f"{store.address} serves {store.served.name!r} again.", *_only_new(store, folder, added)]
        elif not drop:
            raise _nothing_to_do(store)
        if drop:
            if not force:
                _check_kept(store, added, _alone(store), "Go back without dropping it")
            store.drop_new()
            folder.forget()
            done.append(f"The new field {added.name!r} was removed.")
        kept = "" if drop else f" {added.name!r} is kept."
        return SwitchResult(str(store.address), store.served.name, " ".join(done) + kept)


def _alone(store: Store) -> list[Any]:
    """Return the keys of the items that have a vector in the field of the migration only."""
    roles = store.roles()
    assert roles.second is not None
    return list(store.only_in(roles.second, roles.first).to_pylist())


def _only_new(store: Store, work: Work, added: Field) -> list[str]:
    """Report the items that the old model has not seen: those with a computed old vector, and those without one."""
    said, alone, computed = [], _alone(store), len(store.written_since().get("new", ()))
    work.note_rollback(alone)
    if computed:
        said.append(
            f"{computed:,} items were written with the new model since the cutover: their old vectors are computed "
            "from the new ones, and less exact. Embed them anew with the old model."
        )
    if alone:
        path = work.write_keys(f"only-in-{added.name}", alone)
        said.append(
            f"{_items(alone)} only in {added.name!r} and not found any more. Their keys are in {path}: embed them with "
            "the old model."
        )
    return said


def _items(keys: list[Any], of: str = "") -> str:
    """Return how many items these are, and the first of them, as the subject and verb of a sentence.

    >>> _items([7, 8, 9, 10], " of the shop")
    '4 items (7, 8, 9, …) of the shop are'
    """
    first = ", ".join(map(repr, keys[:NAMED])) + (", …" if len(keys) > NAMED else "")
    return f"1 item ({first}){of} is" if len(keys) == 1 else f"{len(keys):,} items ({first}){of} are"


def _check_kept(store: Store, dropped: Field, alone: list[Any], remedy: str) -> None:
    """Refuse to drop a field that has the only vectors of some items."""
    if alone:
        raise with_remedy(
            StoreError(f"{_items(alone, f' of {store.address}')} only in {dropped.name!r}, and would be lost with it."),
            python=f"{remedy}, or give force=True.",
            command=f"{remedy}, or add --force.",
        )


def check_not_served(store: Store, translator: str) -> None:
    """Refuse to resume a migration whose field is served already; ``translator`` is the hash of its translator."""
    if store.served.provenance.get("translator") == translator:
        undo = "" if store.old is None else " To go back, run relatent migrate rollback."
        raise StoreError(
            f"{store.address} already serves what this translator has written, in {store.served.name!r}.{undo}"
        )


def _check_verified(store: Store, work: Work, plan: Plan) -> None:
    verified = work.noted("verified", plan)
    if verified is None or not verified["passed"]:
        what = "has not been verified since the last write" if verified is None else "did not pass verify"
        raise _refused(f"The new field of {store.address} {what}: verify it first.")


def _check_missing(store: Store, work: Work, plan: Plan, allowed: int | None) -> list[str]:
    """Refuse to serve a field that lacks more rows than allowed; return the sentence about those that it lacks."""
    missing = missing_rows(store, plan)
    skipped = sum(one.skipped for one in work.manifests(plan) if one is not None)
    count = max(len(missing), skipped)
    if not count:
        return []
    said = f"{count:,} rows of {store.address} have no new vector" + (f", first {missing[0]!r}" if missing else "")
    if allowed is not None and count > allowed:
        raise with_remedy(
            StoreError(f"{said}, and would not be found any more; {allowed:,} are allowed to be missing. Fix them, or"),
            python=f"give allow_missing={count}.",
            command=f"add --allow-missing {count}.",
        )
    return [f"{said}, and are not found any more."]


def _refused(why: str) -> StoreError:
    return with_remedy(
        StoreError(why), python="To cut over anyway, give force=True.", command="To cut over anyway, add --force."
    )


def _nothing_to_do(store: Store) -> StoreError:
    if store.new is None:
        return StoreError(f"{store.address} has no field of a migration: there is nothing to roll back.")
    return with_remedy(
        StoreError(f"{store.address} has not been cut over and serves its old field {store.served.name!r}."),
        python=f"Give drop=True to remove {store.new.name!r}.",
        command=f"Add --drop to remove {store.new.name!r}.",
    )


@dataclass(frozen=True)
class OldField:
    """The field that a store served before, and what is lost with it."""

    store: str
    old: Field
    served: Field
    rows: tuple[int, int]
    """Vectors of the old field and of the one that is served."""

    def __str__(self) -> str:
        lost = f"{self.old.name!r} of {self.store} holds {self.rows[0]:,} vectors of {self.old.dim:,} coordinates."
        kept = f"{self.served.name!r} is served, with {self.rows[1]:,}."
        return wrap(f"{lost} {kept} After it is dropped, no rollback is possible.")


@dataclass(frozen=True)
class FinishResult(Result):
    """What is served now, and what was dropped; None if an earlier run had dropped it."""

    store: str
    served: str
    dropped: str | None
    into_table: bool = False

    def __str__(self) -> str:
        gone = "The old field was dropped earlier" if self.dropped is None else f"{self.dropped!r} was dropped"
        if self.into_table:
            gone = f"The new vectors are in the table, under the name {self.served!r}"
        return wrap(f"{gone}: {self.store} serves {self.served!r} alone, and can be migrated again.")


def old_field(url: str | os.PathLike[str]) -> OldField | None:
    """Return what :func:`finish_migration` would drop; None if there is nothing."""
    with open_store(url) as store:
        return _old_field(store)


def finish_migration(
    url: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str] | None = None,
    into_table: bool = False,
    force: bool = False,
    progress: bool | None = None,
) -> FinishResult:
    """Drop the field that was served before the cutover: no rollback is possible after that.

    Refused where items have a vector in the old field only (rows that apply skipped, or that were added to the old
    field since), unless ``force``. ``into_table`` puts the new vectors into the place of the old ones, under their
    name, where a store keeps them beside (PostgreSQL, SQLite). Needs nothing but the store. A killed run is completed
    by the next one. Idempotent as long as the work folder exists.
    """
    folder = work_of(url, work)
    with open_store(url) as store, folder.locked(store.address), store.lock():
        old, dropping = store.old, store.roles().dropping
        if old is None:
            _check_finished(store, folder)
        else:
            if not force and not dropping:
                _check_kept(
                    store,
                    old,
                    store.only_in(old, store.served).to_pylist(),
                    "Write those that were not deleted to the new field",
                )
                _check_not_late(url, store, folder)
            if into_table:
                with progress_bar(store.count(store.served), "finish: rows", progress) as advance:
                    store.replace_old(advance)
            else:
                store.drop_old()
        folder.forget()
        dropped = None if old is None else old.name
        return FinishResult(str(store.address), store.served.name, dropped, into_table and old is not None)


def _check_not_late(url: str | os.PathLike[str], store: Store, work: Work) -> None:
    """Refuse to drop old vectors that were written after they were translated, where the work folder still knows."""
    plan = work.plan()
    if plan is None or store.follows() or not is_cut_over(store, plan):
        return
    shards = ShardWork(os.fspath(url), store, plan, stored_side(work.translator(plan)).translate, skip=True)
    keys = Passes(store, work, plan, shards).late()
    if keys:
        path = work.write_keys("late-keys", keys)
        raise with_remedy(
            StoreError(
                f"{_items(keys)} out of date in {plan.field.name!r}: they were written to {plan.served.name!r} since "
                f"they were translated. Write them again with the new model (their keys are in {path}),"
            ),
            python="or give force=True.",
            command="or add --force.",
        )


def _old_field(store: Store) -> OldField | None:
    if store.old is None:
        return None
    rows = 0
    with suppress(StoreError):  # a field that is partly dropped cannot be counted
        rows = store.count(store.old)
    return OldField(str(store.address), store.old, store.served, (rows, store.count(store.served)))


def _check_finished(store: Store, work: Work) -> None:
    """Refuse to finish what was not cut over."""
    plan = work.plan()
    if plan is None or not is_cut_over(store, plan):
        problem = f"{store.address} has no old field: there is nothing to finish."
        raise or_drop(problem, "A new field that is not served is removed with {}.")


def or_drop(problem: str, remedy: str) -> StoreError:
    """Return the error whose remedy is to remove the new field, with the call or the command for it in place of {}."""
    call, command = "roll_back(url, drop=True)", "relatent migrate rollback --drop"
    return with_remedy(StoreError(problem), python=remedy.format(call), command=remedy.format(command))
