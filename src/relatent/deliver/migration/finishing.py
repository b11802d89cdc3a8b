"""`relatent migrate finish`: drop what was served before the cutover."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from relatent._remedy import with_remedy
from relatent._terminal import wrap
from relatent.deliver.migration.switching import is_cut_over
from relatent.deliver.migration.work import Work, work_of
from relatent.stores import Field, Store, StoreError, open_store

__all__ = ["Finished", "OldField", "finish_migration", "old_field"]


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
        """Say it for a person."""
        lost = f"{self.old.name!r} of {self.store} holds {self.rows[0]:,} vectors of {self.old.dim:,} coordinates."
        kept = f"{self.served.name!r} is served, with {self.rows[1]:,}."
        return wrap(f"{lost} {kept} Once it is dropped, there is no rollback any more.")


@dataclass(frozen=True)
class Finished:
    """What is served now, and what was dropped; None where an earlier run had done it."""

    store: str
    served: str
    dropped: str | None

    def __str__(self) -> str:
        """Say it for a person."""
        gone = "The old field was dropped before" if self.dropped is None else f"{self.dropped!r} was dropped"
        return wrap(f"{gone}: {self.store} serves {self.served!r} alone, and can be migrated again.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def old_field(url: str | os.PathLike[str]) -> OldField | None:
    """Return what :func:`finish_migration` would drop; None if there is nothing."""
    with open_store(url) as store:
        return _old_field(store)


def finish_migration(
    url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None, force: bool = False
) -> Finished:
    """Drop the field that was served before the cutover: there is no rollback any more.

    Refused where the old field has more vectors than the one that is served (rows that apply left out, or that were
    added to the old field since), unless ``force``. Needs nothing but the store. A run that was killed is followed by
    one that ends it, and doing it again is no error as long as the work folder is there.
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
        return Finished(str(store.address), store.served.name, None if found is None else found.old.name)


def _old_field(store: Store) -> OldField | None:
    if store.old is None:
        return None
    rows = 0
    with suppress(StoreError):  # of a field that is dropped by half, nothing can be counted
        rows = store.count(store.old)
    return OldField(str(store.address), store.old, store.served, (rows, store.count(store.served)))


def _check_complete(found: OldField, force: bool) -> None:
    if found.lacking and not force:
        raise with_remedy(
            StoreError(
                f"{found.old.name!r} of {found.store} has {found.rows[0]:,} vectors and {found.served.name!r}, which "
                f"is served, {found.rows[1]:,}: what is missing there would be lost."
            ),
            python="Write the missing ones, or say force=True.",
            command="Write the missing ones, or add --force.",
        )


def _check_finished(store: Store, work: Work) -> None:
    """Refuse to finish what was not cut over."""
    plan = work.plan()
    if plan is None or not is_cut_over(store, plan):
        raise StoreError(
            f"{store.address} has no old field: there is nothing to finish. What was added and is not served is "
            "removed with relatent migrate rollback --drop."
        )
