"""`relatent migrate cutover` and `rollback`: which field a store serves."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from relatent._remedy import with_remedy
from relatent._terminal import wrap
from relatent.deliver.migration.records import Plan
from relatent.deliver.migration.side import stored_side
from relatent.deliver.migration.work import Work, work_of
from relatent.stores import Store, StoreError, open_store

__all__ = ["Switched", "check_not_served", "cut_over", "is_cut_over", "roll_back"]


@dataclass(frozen=True)
class Switched:
    """Which field is served now, and in words what was done."""

    store: str
    served: str
    done: str

    def __str__(self) -> str:
        """Say it for a person."""
        return wrap(self.done)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def cut_over(
    url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None, force: bool = False
) -> Switched:
    """Serve the new field, in one step for every reader. The old one is kept.

    Refused unless :func:`verify_migration` has passed since the last write and the rows are as many as then, or
    ``force``. Doing it again is no error.
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
        return Switched(
            plan.store, served, f"{plan.store} serves {served!r} now; the old field is kept. {advice} {undo}"
        )


def roll_back(
    url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None, drop: bool = False
) -> Switched:
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
        kept = "" if store.new is None else f" {store.new.name!r} is kept; --drop removes it."
        return Switched(str(store.address), store.served.name, " ".join(done) + kept)


def is_cut_over(store: Store, plan: Plan) -> bool:
    """Return whether the store serves what this migration has written."""
    return store.served == plan.field


def check_not_served(store: Store, translator: str) -> None:
    """Refuse to go on with a migration whose field is served already; ``translator`` is the hash of its translator."""
    if store.served.provenance.get("translator") == translator:
        undo = "" if store.old is None else " To go back, run relatent migrate rollback."
        raise StoreError(
            f"{store.address} serves what this translator has written, in {store.served.name!r}: there is nothing left "
            f"to do.{undo}"
        )


def _check_verified(store: Store, work: Work, plan: Plan) -> None:
    verified = work.noted("verified", plan)
    if verified is None or not verified["passed"]:
        what = "has not been verified since the last write" if verified is None else "did not pass verify"
        raise _refused(f"The new field of {store.address} {what}: run relatent migrate verify first.")
    now = [store.count(plan.served), store.count(plan.field)]
    if now != list(verified["rows"]):
        raise _refused(
            f"{store.address} had {verified['rows'][0]:,} rows and {verified['rows'][1]:,} new vectors when it was "
            f"verified, and has {now[0]:,} and {now[1]:,} now: run relatent migrate apply and verify again."
        )


def _refused(why: str) -> StoreError:
    return with_remedy(
        StoreError(why), python="To cut over anyway, say force=True.", command="To cut over anyway, add --force."
    )


def _nothing_to_do(store: Store) -> StoreError:
    if store.new is None:
        return StoreError(f"{store.address} has no field of a migration: there is nothing to roll back.")
    return with_remedy(
        StoreError(f"{store.address} has not been cut over and serves its old field {store.served.name!r}."),
        python=f"Say drop=True to remove {store.new.name!r}.",
        command=f"Add --drop to remove {store.new.name!r}.",
    )
