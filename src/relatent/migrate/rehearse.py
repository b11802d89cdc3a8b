"""Rehearse a migration: every step on a small copy of the store, which is removed again."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from relatent._saved import load
from relatent._terminal import stages
from relatent.migrate.apply import apply_migration
from relatent.migrate.side import StoredSide, check_fingerprint, stored_side
from relatent.migrate.switch import cut_over, roll_back
from relatent.migrate.verify import Check, Verification, verify_migration
from relatent.stores import StoreError, open_store

ROWS = 2_000
# Items that are searched for after the cutover, and the share of them that must be found.
ASKED, FOUND = 50, 0.9


def rehearse_migration(
    translator: str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    rows: int = ROWS,
    accept: bool = False,
    progress: bool | None = None,
) -> Verification:
    """Try a migration on a small copy: apply, verify, cut over, search, roll back; then remove the copy.

    The copy has the first ``rows`` rows of the store and stands beside it, in the same engine, so that missing rights,
    an old version or a full disk show before they can do harm. It stops at the first step that fails.
    """
    with open_store(url) as store, stages(progress) as stage:
        side = stored_side(load(translator))
        check_fingerprint(side, store, accept=accept)
        stage("copying rows")
        with store.rehearsal(rows) as copy, tempfile.TemporaryDirectory() as work:
            checks = list(_tried(_Steps(translator, copy, Path(work), side, accept), stage))
            with open_store(copy) as small:
                counted = (small.count(small.served),) * 2
    return Verification(str(store.address), tuple(checks), counted, rehearsed=True)


class _Steps:
    """The steps of a migration of a copy, each of which returns what it found."""

    def __init__(self, translator: str | os.PathLike[str], url: str, work: Path, side: StoredSide, accept: bool):
        self._translator, self._url, self._work, self._side, self._accept = translator, url, work, side, accept

    def apply(self) -> str:
        done = apply_migration(self._translator, self._url, work=self._work, accept=self._accept, progress=False)
        return f"{done.rows:,} rows; {done.traffic}"

    def verify(self) -> str:
        found = verify_migration(self._url, work=self._work, progress=False)
        failed = [f"{check.name}: {check.found}" for check in found.checks if not check.passed]
        if failed:
            raise StoreError("; ".join(failed))
        return "; ".join(f"{check.name}: {check.found}" for check in found.checks)

    def cutover(self) -> str:
        return f"{cut_over(self._url, work=self._work, progress=False).served!r} is served"

    def search(self) -> str:
        with open_store(self._url) as store:
            old = store.old
            assert old is not None
            chunk = next(islice(store.scan(old, rows=ASKED), 1))
            assert chunk.keys is not None
            hits = store.search(self._side(chunk.vectors), 10)
        found = np.mean([key in keys for key, keys in zip(chunk.keys.to_pylist(), hits.keys, strict=True)])
        if found < FOUND:
            raise StoreError(f"only {found:.0%} of the items are found by their own translations")
        return f"{found:.0%} of {len(chunk)} items are found by their own translations"

    def rollback(self) -> str:
        return f"{roll_back(self._url, work=self._work, drop=True).served!r} is served again, and nothing is left"


def _tried(steps: _Steps, stage: Callable[[str], None]) -> Iterator[Check]:
    """Take each step as long as none fails."""
    for step in (steps.apply, steps.verify, steps.cutover, steps.search, steps.rollback):
        name = step.__name__
        stage(name)
        began = time.monotonic()
        try:
            found = step()
        except StoreError as error:
            yield Check(name, False, str(error))
            return
        yield Check(name, True, f"{found} ({time.monotonic() - began:.2g} s)")
