"""Which field a store serves: cut over to the new one, roll back, and drop the old one."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from relatent._errors import with_remedy
from relatent._terminal import Result, wrap
from relatent.migrate.side import stored_side
from relatent.migrate.state import Plan, Work, is_cut_over, work_of
from relatent.stores import Field, Store, StoreError, open_store


@dataclass(frozen=True)
class SwitchResult(Result):
    """Which field is served now, and in words what was done."""

    store: str
    served: str
    done: str

    def __str__(self) -> str:
        return wrap(self.done)


def cut_over(
    url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None, force: bool = False
) -> SwitchResult:
    """Serve the new field, in one step for every reader. The old one is kept.

    Refused unless :func:`verify_migration` has passed since the last write and the rows are as many as then, or
    ``force``. Idempotent.
    """
    folder = work_of(url, work)
    with open_store(url) as store, folder.locked(store.address), store.lock():
        plan = folder.required_plan(url)
        advice = stored_side(folder.translator(plan)).advice(store, plan.field)
        if not is_cut_over(store, plan):
            if not force:
                _check_verified(store, folder, plan)
            store.switch()
        served = store.served.name
        undo = f"To go back at any time: relatent migrate rollback {plan.store}"
        return SwitchResult(
            plan.store, served, f"{plan.store} serves {served!r} now; the old field is kept. {advice} {undo}"
        )


def roll_back(
    url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None, drop: bool = False
) -> SwitchResult:
    """Serve the old field again, in one step; with ``drop``, also remove the new one and what it holds.

    Needs nothing but the store: it works where the work folder is lost.
    """
    folder = work_of(url, work)
    with open_store(url) as store, folder.locked(store.address), store.lock():
        done = []
        if store.old is not None and store.new is None:
            store.switch_back()
            done.append(f"{store.address} serves {store.served.name!r} again.")
        if store.new is not None and drop:
            name = store.new.name
            store.drop_new()
            folder.forget()
            done.append(f"The new field {name!r} was removed.")
        if not done:
            raise _nothing_to_do(store)
        kept = "" if store.new is None else f" {store.new.name!r} is kept."
        return SwitchResult(str(store.address), store.served.name, " ".join(done) + kept)


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
    now = [store.count(plan.served), store.count(plan.field)]
    if now != list(verified["rows"]):
        raise _refused(
            f"{store.address} had {verified['rows'][0]:,} rows and {verified['rows'][1]:,} new vectors when it was "
            f"verified, and has {now[0]:,} and {now[1]:,} now: apply and verify the migration again."
        )


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

    @property
    def lacking(self) -> int:
        """How many more vectors the old field has."""
        return max(0, self.rows[0] - self.rows[1])

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

    def __str__(self) -> str:
        gone = "The old field was dropped earlier" if self.dropped is None else f"{self.dropped!r} was dropped"
        return wrap(f"{gone}: {self.store} serves {self.served!r} alone, and can be migrated again.")


def old_field(url: str | os.PathLike[str]) -> OldField | None:
    """Return what :func:`finish_migration` would drop; None if there is nothing."""
    with open_store(url) as store:
        return _old_field(store)


def finish_migration(
    url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None, force: bool = False
) -> FinishResult:
    """Drop the field that was served before the cutover: no rollback is possible after that.

    Refused where the old field has more vectors than the one that is served (rows that apply skipped, or that were
    added to the old field since), unless ``force``. Needs nothing but the store. A killed run is completed by the
    next one. Idempotent as long as the work folder exists.
    """
    folder = work_of(url, work)
    with open_store(url) as store, folder.locked(store.address), store.lock():
        found = _old_field(store)
        if found is None:
            _check_finished(store, folder)
        else:
            _check_complete(found, force)
            store.drop_old()
        folder.forget()
        return FinishResult(str(store.address), store.served.name, None if found is None else found.old.name)


def _old_field(store: Store) -> OldField | None:
    if store.old is None:
        return None
    rows = 0
    with suppress(StoreError):  # a field that is partly dropped cannot be counted
        rows = store.count(store.old)
    return OldField(str(store.address), store.old, store.served, (rows, store.count(store.served)))


def _check_complete(found: OldField, force: bool) -> None:
    if found.lacking and not force:
        raise with_remedy(
            StoreError(
                f"{found.old.name!r} of {found.store} has {found.rows[0]:,} vectors and {found.served.name!r}, which "
                f"is served, {found.rows[1]:,}: what is missing there would be lost."
            ),
            python="Write the missing ones, or give force=True.",
            command="Write the missing ones, or add --force.",
        )


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
