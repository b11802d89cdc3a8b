"""Verify a migration: counts, rows against their translations, and the index against exact search."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._terminal import render, stages
from relatent.migrate.copy import Part, Skipped, read_shard
from relatent.migrate.digest import Digest, buckets_of, hashed_keys
from relatent.migrate.side import SLACK, StoredSide, clipped, deviations, stored_side
from relatent.migrate.state import Manifest, Plan, Work, work_of
from relatent.migrate.switch import check_not_served
from relatent.spaces.keys import key_texts
from relatent.spaces.sample import shuffled_rows
from relatent.spaces.space import Space
from relatent.stores import Field, Hits, Store, open_store
from relatent.stores.fields import is_coded

# Why stored vectors cannot stand for the queries of a two-sided translator: in an HNSW index, they find most of their
# neighbors where real queries find next to nothing.
TWO_SIDED = (
    "this translator maps queries otherwise than items, so that stored vectors tell nothing of how the index answers "
    "queries: verify with queries of the new model"
)
UNLIKE = (
    "an index by inner product is built for queries like the stored vectors, and a two-sided translator's are not. "
    "Search without an index, or fit vectors from the old model to the new one"
)
# Candidates or lists beyond which an index is searched hardly faster than all vectors are.
MAX_EFFORT = 8_192
# Rows of each shard that may serve as queries, in the old field and in the new one.
MAX_QUERIES = 128


@dataclass
class Compared:
    """What was found in some shards."""

    rows: int = 0
    worst: float = 0.0
    """The largest error, relative to the norm; of bits, the largest share that differs."""
    clipped: int = 0
    """Coordinates that the scale of codes does not reach."""
    wrong: list[str] = field(default_factory=list)
    """Rows with a wrong vector, described."""
    behind: int = 0
    """Rows that may have changed since they were translated: the cutover translates them again."""
    extra: int = 0
    """New vectors without an old one: of items that were deleted since, or that have no other vector."""
    old: list[np.ndarray] = field(default_factory=list)
    new: list[np.ndarray] = field(default_factory=list)
    """Vectors of the same items in both fields, to query with."""


def compare_shard(store: Store, plan: Plan, side: StoredSide, manifest: Manifest, found: Compared) -> None:
    """Compare every new vector of a shard with the translation of the old one.

    Rows of buckets in which the source is no longer what was read do not count. A store that follows has none such: all
    of its rows are compared, as they are at one moment.
    """
    shard, skipped, read, rows = plan.shards[manifest.shard], Skipped(), Digest(), _Rows()
    with store.at_one_moment():
        stored = list(read_shard(store, plan, shard, Skipped(), new=True))
        places = {text: i for i, text in enumerate(_texts([part.keys for part in stored]))}
        vectors = np.concatenate([np.empty((0, plan.field.dim), np.float32), *(part.vectors for part in stored)])
        for part in read_shard(store, plan, shard, skipped):
            read += part.digest
            there = np.asarray([places.pop(key, -1) for key in _texts([part.keys])], dtype=np.intp)
            rows.compare(part, there, vectors, plan.field, side, SLACK if store.follows() else 1.0)
    found.extra += len(places)
    rows.report(frozenset() if store.follows() else manifest.read.changed(read + skipped.digest), found)


@dataclass
class _Rows:
    """What was found of the rows of one shard: the bucket of each, its error, and what is wrong with it."""

    buckets: list[np.ndarray] = field(default_factory=list)
    errors: list[np.ndarray] = field(default_factory=list)
    clipped: list[np.ndarray] = field(default_factory=list)
    wrong: list[str | None] = field(default_factory=list)
    queries: tuple[np.ndarray, np.ndarray] | None = None

    def compare(
        self, part: Part, rows: np.ndarray, vectors: np.ndarray, of: Field, side: StoredSide, slack: float
    ) -> None:
        """Compare a chunk of the source with the rows of the new vectors that have its keys, -1 for none."""
        keys, there = part.keys.to_pylist(), np.flatnonzero(rows >= 0)
        wrong: list[str | None] = [f"key {key!r}, which has no new vector" for key in keys]
        errors, cut = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.intp)
        if len(there):
            stored = vectors[rows[there]]
            expected = side(part.vectors)[there]
            errors[there], off = deviations(of, expected, stored, slack)
            cut[there] = clipped(of, expected)
            for row, bad in zip(there.tolist(), off.tolist(), strict=True):
                wrong[row] = f"key {keys[row]!r}" if bad else None
            self.queries = self.queries or (part.vectors[there][:MAX_QUERIES], stored[:MAX_QUERIES])
        self.buckets.append(buckets_of(hashed_keys(part.keys)))
        self.errors.append(errors)
        self.clipped.append(cut)
        self.wrong += wrong

    def report(self, changed: frozenset[int], found: Compared) -> None:
        """Add to what was found, but for the rows of buckets that have changed."""
        if not self.buckets:
            return
        same = ~np.isin(np.concatenate(self.buckets), [*changed])
        found.rows += int(same.sum())
        found.behind += int((~same).sum())
        found.worst = max(found.worst, float(np.concatenate(self.errors)[same].max(initial=0.0)))
        found.clipped += int(np.concatenate(self.clipped)[same].sum())
        found.wrong += [self.wrong[i] or "" for i in np.flatnonzero(same) if self.wrong[i] is not None]
        if self.queries is not None:
            found.old.append(self.queries[0])
            found.new.append(self.queries[1])


def _texts(keys: list[pa.Array]) -> list[str]:
    return [text for part in keys for text in key_texts(part).to_pylist()]


# Shards that are compared row by row, and queries that are asked.
SHARDS, QUERIES = 8, 100
# How much less than the old index the new one may find: two standard errors of 1,000 neighbors at a recall of 0.9.
MARGIN = 0.02
# Share of the coordinates that the scale of codes may miss.
MAX_CLIPPED = 0.01


@dataclass(frozen=True)
class Check:
    """One property that was checked: whether it holds, and what was found."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Verification:
    """The checks of a migrated store."""

    store: str
    checks: tuple[Check, ...]
    rows: tuple[int, int]
    """Rows of the old field and of the new one."""
    rehearsed: bool = False
    """Whether a small copy of the store was migrated, and the checks are its steps."""

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        rows = [(check.name, "ok" if check.passed else "FAILED", check.found) for check in self.checks]
        ends = {
            (False, True): f"Verified. Next: relatent migrate cutover {self.store}",
            (False, False): "Not verified: do not cut over.",
            (True, True): f"Rehearsed on a copy. Next: relatent migrate apply TRANSLATOR {self.store}",
            (True, False): f"The rehearsal on a copy failed: {self.store} is as it was.",
        }
        return "\n".join([render(("check", "result", "found"), rows), ends[self.rehearsed, self.passed]])

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
    effort: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Verification:
    """Compare counts, the rows of some shards, and searches of the index that will be served with exact ones.

    ``queries`` are vectors of the new model, such as your users ask with; without them, stored vectors ask. The recall
    of the new index against exact search over the same vectors may not be worse than that of the old one by more than
    ``margin``: an approximate index over other vectors can lose recall. Where it does, the setting of the store that
    makes up for it is measured and named; ``effort`` is the value of that setting that your application will search
    with, and the recall of the new index is judged at it.
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
            for number in shuffled_rows(len(manifests), shards, seed):
                stage(f"comparing shard {number:,}")
                compare_shard(store, plan, side, manifests[number], found)
            stage("searching")
            checks += [_counts(store, plan, counted), *_rows(store, found, plan.field, min(shards, len(manifests)))]
            checks += _searches(store, plan, side, found, queries, sample, k, margin, effort)
        done = Verification(plan.store, tuple(checks), counted)
        about = {"passed": done.passed, "rows": counted, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        folder.note("verified", about, plan)
        return done


def _complete(work: Work, plan: Plan) -> Check:
    """Check that a run of apply is complete."""
    total = len(plan.shards)
    if work.noted("finished", plan) is None:
        done = sum(one is not None for one in work.manifests(plan))
        return Check("complete", False, f"{done:,} of {total:,} shards are finished: run apply again")
    return Check("complete", True, _shards(total))


def _shards(n: int) -> str:
    return f"{n:,} shard" if n == 1 else f"{n:,} shards"


def _counts(store: Store, plan: Plan, counted: tuple[int, int]) -> Check:
    """Report the rows of both fields, and how many would not be served; the cutover decides how many may be missing."""
    old, new = counted
    found = f"{old:,} rows in the old field, {new:,} in the new one"
    if old == new:
        return Check("counts", True, found)
    lacking = sum(len(store.only_in(plan.served, plan.field, shard)) for shard in plan.shards)
    return Check("counts", new > 0, f"{found}; {lacking:,} have no new vector yet")


def _rows(store: Store, found: Compared, of: Field, shards: int) -> list[Check]:
    """Return the checks of the row-by-row comparison."""
    compared = f"{found.rows:,} rows of {_shards(shards)}"
    source = "what is written is translated by the store itself" if store.follows() else f"{compared} have not changed"
    if found.behind:
        source = f"about {found.behind:,} rows may have changed since apply: the cutover translates them again"
    if found.extra:
        source += f"; {found.extra:,} new vectors have no old one: those of deleted items are removed by the cutover"
    vectors = f"{compared} are translations of the old ones"
    if found.wrong:
        vectors = f"{len(found.wrong):,} of {compared} are wrong, first {found.wrong[0]}"
    unit = "bits" if of.dtype == "bit" else "norm"
    checks = [
        Check("source", True, source),
        Check("vectors", not found.wrong, f"{vectors}; largest error {found.worst:.1g} of the {unit}"),
    ]
    return [*checks, _scale(found, of)] if is_coded(of) else checks


def _scale(found: Compared, of: Field) -> Check:
    """Check that the scale of codes, which comes from a sample, fits the rest."""
    share = found.clipped / max(1, found.rows * of.dim)
    words = f"{share:.2%} of the coordinates lie beyond the scale of the {of.dtype} codes and are clipped"
    fine = share <= MAX_CLIPPED
    return Check("scale", fine, words if fine else f"{words}: choose float16")


@dataclass(frozen=True)
class Measured:
    """What one way of searching an index found."""

    recall: float
    """Against exact search over the same vectors."""
    rate: float
    """Queries per second."""


def _searches(
    store: Store,
    plan: Plan,
    side: StoredSide,
    found: Compared,
    queries: Space | None,
    n: int,
    k: int,
    margin: float,
    effort: int | None = None,
) -> list[Check]:
    """Ask both indexes n queries, and compare with exact search over the same vectors."""
    if not found.new:
        return [Check("search", False, "there is no row to query with")]
    if queries is None and side.name == "target" and store.approximates(plan.field):
        return [Check("search", False, TWO_SIDED)]
    old, new = _spread(np.concatenate(found.old), n), _spread(np.concatenate(found.new), n)
    asked = new if queries is None else side.queries(_spread(queries.vectors, n))
    before, old_exact = _both_ways(store, plan.served, old, k)
    after, new_exact = _both_ways(store, plan.field, asked, k, effort)
    who = "stored vectors" if queries is None else "the new model's"
    words = f"recall@{k} against exact search: new index {after.recall:.3f}, old index {before.recall:.3f}"
    words += f" (queries: {who})" if effort is None else f" (queries: {who}; effort {effort:,})"
    passed = after.recall >= before.recall - margin
    if not passed:
        found_more = _more_effort(store, plan.field, asked, new_exact, before)
        words += f"; {_remedy(store, plan.field, side, found_more, before, margin)}"
    checks = [Check("search", passed, words)]
    if queries is None:
        same = recall(new_exact, old_exact)
        checks.append(Check("neighbors", True, f"{same:.3f} of the {k} nearest are those of the old field"))
    return checks


def _both_ways(
    store: Store, of: Field, vectors: np.ndarray, k: int, effort: int | None = None
) -> tuple[Measured, Hits]:
    """Search a field by its index, and exactly."""
    exact = store.search(vectors, k, of=of, exact=True)
    return _measured(store, of, vectors, exact, effort), exact


def _measured(store: Store, of: Field, vectors: np.ndarray, exact: Hits, effort: int | None) -> Measured:
    began = time.perf_counter()
    hits = store.search(vectors, exact.scores.shape[1], of=of, effort=effort)
    return Measured(recall(hits, exact), len(vectors) / (time.perf_counter() - began))


def _more_effort(store: Store, of: Field, asked: np.ndarray, exact: Hits, before: Measured) -> dict[int, Measured]:
    """Search with twice the effort, and twice again, until the recall of the old index is reached."""
    about, tried = store.effort(of), dict[int, Measured]()
    if about is None:
        return tried
    value, limit = about.value, min(about.maximum, MAX_EFFORT)
    while value < limit and not any(one.recall >= before.recall for one in tried.values()):
        value = min(2 * value, limit)
        tried[value] = _measured(store, of, asked, exact, value)
    return tried


def _remedy(
    store: Store, of: Field, side: StoredSide, tried: dict[int, Measured], before: Measured, margin: float
) -> str:
    """Return in words which effort reaches the recall of the old index, and at what speed; else what to build."""
    about = store.effort(of)
    if about is None:
        return f"a search has no setting to find more: {store.denser}, and verify again"
    best = max(tried, key=lambda value: tried[value].recall, default=about.value)
    if best not in tried or tried[best].recall < before.recall - margin:
        denser = UNLIKE if side.name == "target" else f"{about.denser}, and verify again"
        return f"no {about.setting} up to {max(tried, default=about.value):,} reaches the old recall: {denser}"
    reached, speed = tried[best].recall, tried[best].rate / before.rate
    return (
        f"{about.setting} = {best} reaches {reached:.3f} at {speed:.2g} of the old index's speed: "
        f"{about.advice.format(n=best)}, and verify with effort {best}"
    )


def recall(found: Hits, exact: Hits) -> float:
    """Return the share of the exact hits that were found, mean over queries.

    >>> recall(Hits([["a", "b"]], np.zeros((1, 2))), Hits([["b", "c"]], np.zeros((1, 2))))
    0.5
    """
    shares = [len(set(mine) & set(true)) / max(1, len(true)) for mine, true in zip(found.keys, exact.keys, strict=True)]
    return float(np.mean(shares))


def _spread(x: np.ndarray, max_rows: int) -> np.ndarray:
    return np.asarray(x[np.linspace(0, len(x) - 1, min(len(x), max_rows)).astype(np.intp)], dtype=np.float32)
