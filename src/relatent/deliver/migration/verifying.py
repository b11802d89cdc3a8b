"""`relatent migrate verify`: whether the new field holds what it should, and whether its index finds it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from relatent._terminal import render, stages
from relatent.deliver.migration.comparing import Compared, compare_shard
from relatent.deliver.migration.records import Manifest, Plan
from relatent.deliver.migration.side import StoredSide, stored_side
from relatent.deliver.migration.switching import check_not_served
from relatent.deliver.migration.work import Work, work_of
from relatent.spaces.space import Space
from relatent.stores import Field, Hits, Store, open_store
from relatent.stores.codes import is_coded

__all__ = ["Check", "Verification", "recall", "verify_migration"]

# Shards that are compared row by row, and queries that are asked.
SHARDS, QUERIES = 8, 100
# How much less than the old index the new one may find: two standard errors of 1,000 neighbors at a recall of 0.9.
MARGIN = 0.02
# Share of the coordinates that the scale of codes may miss.
MOST_CUT = 0.01


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: whether it is as it should be, and what was found."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Verification:
    """What was found about a migrated store."""

    store: str
    checks: tuple[Check, ...]
    rows: tuple[int, int]
    """Rows of the old field and of the new one."""

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        """Lay it out for a person."""
        rows = [(check.name, "ok" if check.passed else "FAILED", check.found) for check in self.checks]
        next_step = f"Verified. Next: relatent migrate cutover {self.store}"
        return "\n".join(
            [
                render(("check", "result", "found"), rows),
                next_step if self.passed else "Not verified: do not cut over.",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"passed": self.passed, **asdict(self)}


def verify_migration(
    url: str | os.PathLike[str],
    *,
    work: str | os.PathLike[str] | None = None,
    queries: Space | None = None,
    shards: int = SHARDS,
    sample: int = QUERIES,
    k: int = 10,
    margin: float = MARGIN,
    seed: int = 0,
    progress: bool | None = False,
) -> Verification:
    """Compare counts, the rows of some shards, and searches of the index that will be served with exact ones.

    ``queries`` are vectors of the new model, such as your users ask with; without them, stored vectors ask. The recall
    of the new index against exact search over the same vectors may not be worse than that of the old one by more than
    ``margin``: an approximate index over other vectors can lose recall.
    """
    folder = work_of(url, work)
    with open_store(url) as store, folder.locked(store.address), stages(progress) as stage:
        plan = folder.required_plan(url)
        check_not_served(store, plan.translator)
        checks, counted = [_complete(folder, plan)], (0, 0)
        if checks[0].passed:
            stage("counting rows")
            counted = store.count(plan.served), store.count(plan.field)
            manifests = [one for one in folder.manifests(plan) if one is not None]
            side, found = stored_side(folder.translator(plan)), Compared()
            for number in np.random.default_rng(seed).permutation(len(manifests))[:shards]:
                stage(f"comparing shard {number:,}")
                compare_shard(store, plan, side, manifests[number], found)
            stage("searching")
            checks += [_counts(counted, manifests), *_rows(found, plan.field, min(shards, len(manifests)))]
            checks += _searches(store, plan, side, found, queries, sample, k, margin)
        done = Verification(plan.store, tuple(checks), counted)
        about = {"passed": done.passed, "rows": counted, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        folder.note("verified", about, plan)
        return done


def _complete(work: Work, plan: Plan) -> Check:
    """Look whether an apply came to its end, and whether the source was still changing then."""
    finished, total = work.noted("finished", plan), len(plan.shards)
    if finished is None:
        done = sum(one is not None for one in work.manifests(plan))
        return Check("complete", False, f"{done:,} of {total:,} shards are done, and apply has not ended: run it again")
    if not finished["settled"]:
        return Check("complete", False, "the source was still changing when apply ended: run it again")
    return Check("complete", True, f"{_shards(total)}, and no change at the last look")


def _shards(n: int) -> str:
    return f"{n:,} shard" if n == 1 else f"{n:,} shards"


def _counts(counted: tuple[int, int], manifests: list[Manifest]) -> Check:
    """Look whether the new field has as many vectors as the old one, without those left out."""
    old, new = counted
    written, skipped = sum(one.written.rows for one in manifests), sum(one.skipped for one in manifests)
    right = new == written and 0 <= old - new <= skipped
    found = f"{old:,} rows in the old field, {new:,} in the new one" + (f", {skipped:,} left out" if skipped else "")
    return Check("counts", right, found if right else f"{found}; apply wrote {written:,}: run it again")


def _rows(found: Compared, of: Field, shards: int) -> list[Check]:
    """Say what the comparison row by row has found."""
    looked = f"{found.rows:,} rows of {_shards(shards)}"
    source, vectors = f"checksums of {looked} are those that apply read", f"{looked} are translations of the old ones"
    if found.changed:
        source = f"shard {found.changed[0]} has changed since: run apply again"
    if found.wrong:
        vectors = f"{len(found.wrong):,} of {looked} are wrong, first {found.wrong[0]}"
    unit = "bits" if of.dtype == "bit" else "norm"
    checks = [
        Check("source", not found.changed, source),
        Check("vectors", not found.wrong, f"{vectors}; largest error {found.worst:.1g} of the {unit}"),
    ]
    return [*checks, _scale(found, of)] if is_coded(of) else checks


def _scale(found: Compared, of: Field) -> Check:
    """Look whether the scale of codes, which a sample has given, is right for the rest."""
    share = found.cut / max(1, found.rows * of.dim)
    words = f"{share:.2%} of the coordinates lie beyond the scale of the {of.dtype} codes and are cut off"
    fine = share <= MOST_CUT
    return Check("scale", fine, words if fine else f"{words}: choose float16")


def _searches(
    store: Store,
    plan: Plan,
    side: StoredSide,
    found: Compared,
    queries: Space | None,
    sample: int,
    k: int,
    margin: float,
) -> list[Check]:
    """Ask both indexes, and compare with exact search over the same vectors."""
    if not found.new:
        return [Check("search", False, "there is no row to ask with")]
    old, new = _spread(np.concatenate(found.old), sample), _spread(np.concatenate(found.new), sample)
    asked = new if queries is None else side.queries(_spread(queries.vectors, sample))
    old_hits, new_hits = _both_ways(store, plan.served, old, k), _both_ways(store, plan.field, asked, k)
    before, after = recall(*old_hits), recall(*new_hits)
    who = "stored vectors" if queries is None else "queries of the new model"
    words = f"recall@{k} of the new index against exact search {after:.3f}, of the old one {before:.3f} ({who} ask)"
    checks = [Check("search", after >= before - margin, words)]
    if queries is None:
        same = recall(new_hits[1], old_hits[1])
        checks.append(Check("neighbors", True, f"{same:.3f} of the {k} nearest are those of the old field"))
    return checks


def _both_ways(store: Store, of: Field, vectors: np.ndarray, k: int) -> tuple[Hits, Hits]:
    return store.search(vectors, k, of=of), store.search(vectors, k, of=of, exact=True)


def recall(found: Hits, exact: Hits) -> float:
    """Return the share of the exact hits that were found, mean over queries.

    >>> recall(Hits([["a", "b"]], np.zeros((1, 2))), Hits([["b", "c"]], np.zeros((1, 2))))
    0.5
    """
    shares = [len(set(mine) & set(true)) / max(1, len(true)) for mine, true in zip(found.keys, exact.keys, strict=True)]
    return float(np.mean(shares))


def _spread(x: np.ndarray, most: int) -> np.ndarray:
    """Return rows from all over an array."""
    return np.asarray(x[np.linspace(0, len(x) - 1, min(len(x), most)).astype(np.intp)], dtype=np.float32)
