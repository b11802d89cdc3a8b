"""`relatent migrate status`: how far a migration is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from relatent._terminal import Result
from relatent.migrate.state import Plan, Work, work_of
from relatent.migrate.switch import is_cut_over
from relatent.stores import StoreError, open_store


@dataclass(frozen=True)
class Status(Result):
    """How far a migration is, from its work folder and its store."""

    store: str
    work: str
    stage: str
    """applying, applied, verified or cut over"""
    running: bool
    """Whether a process is at work on it now."""
    shards_done: int
    shards: int
    rows_done: int
    rows: int | None
    skipped: int
    field: str
    provenance: dict[str, Any]
    problem: str | None
    """Why the store could not be asked."""

    def __str__(self) -> str:
        of = "" if self.rows is None else f" of {self.rows:,}"
        lines = [
            f"{self.store}: {self.stage}{', at work now' if self.running else ''}.",
            f"{self.rows_done:,}{of} rows, {self.shards_done:,} of {self.shards:,} shards are in {self.field!r}.",
        ]
        if self.skipped:
            lines.append(f"{self.skipped:,} rows were left out because they could not be read.")
        made = ", ".join(f"{name} {value}" for name, value in self.provenance.items())
        lines.append(f"Made with: {made}.")
        return "\n".join([*lines, *([] if self.problem is None else [f"The store could not be asked: {self.problem}"])])


def migration_status(url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None) -> Status:
    """Return how far a migration is. Reads only, also while it runs and while the store is down."""
    folder = work_of(url, work)
    plan = folder.required_plan(url)
    done = [one for one in folder.manifests(plan) if one is not None]
    rows, switched, problem = _asked(url, plan)
    return Status(
        plan.store,
        str(folder.folder),
        "cut over" if switched else _stage(folder, plan),
        folder.is_busy(url),
        len(done),
        len(plan.shards),
        sum(one.written.rows for one in done),
        rows,
        sum(one.skipped for one in done),
        plan.field.name,
        dict(plan.field.provenance),
        problem,
    )


def _stage(work: Work, plan: Plan) -> str:
    verified = work.noted("verified", plan)
    if verified is not None and verified["passed"]:
        return "verified"
    return "applying" if work.noted("finished", plan) is None else "applied"


def _asked(url: str | os.PathLike[str], plan: Plan) -> tuple[int | None, bool, str | None]:
    """Ask the store for its rows and whether it was cut over; or return why it could not be asked."""
    try:
        with open_store(url) as store:
            return store.count(plan.served), is_cut_over(store, plan), None
    except StoreError as error:
        return None, False, str(error)
