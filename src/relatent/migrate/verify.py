"""Verify a migration: counts, rows against their translations, and the index against exact search."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._terminal import render, stages
from relatent.migrate.copy import Part, Skipped, read_shard
from relatent.migrate.side import StoredSide, stored_side
from relatent.migrate.state import Digest, Manifest, Plan, Work, work_of
from relatent.migrate.switch import check_not_served
from relatent.spaces.keys import key_texts
from relatent.spaces.probe import SpaceWarning
from relatent.spaces.sample import shuffled_rows
from relatent.spaces.space import Space
from relatent.stores import Field, Hits, Store, open_store
from relatent.stores.fields import is_coded, quantizer, uncoded

# Relative to the norm: a few units in the last place.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3}
# A code is the nearest one, but for the rounding of what is coded.
STEPS = 0.51
TINY = 1e-300


def deviations(of: Field, expected: np.ndarray, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of each row, and which rows are further off than the numbers of the field require.

    The error is that of :func:`relative_errors`; of bits, the share that differs.
    """
    if of.dtype == "bit":
        return _of_bits(expected, stored)
    errors = relative_errors(of, expected, stored)
    return errors, _off_by_a_step(of, expected, stored) if is_coded(of) else errors > TOLERANCE[of.dtype]


def relative_errors(of: Field, expected: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return the norm of each difference relative to the norm; of directions where only the cosine counts."""
    expected, stored = expected.astype(np.float64), stored.astype(np.float64)
    norms = np.maximum(np.linalg.norm(expected, axis=1), TINY)
    if of.metric == "cosine":  # which a store may compute from vectors that it keeps at norm 1
        stored = stored * (norms / np.maximum(np.linalg.norm(stored, axis=1), TINY))[:, None]
    return np.asarray(np.linalg.norm(expected - stored, axis=1) / norms)


def clipped(of: Field, expected: np.ndarray) -> int:
    """Count the coordinates that lie more than a step beyond the largest and the smallest code of a field."""
    if not is_coded(of):
        return 0
    x, (low, high) = uncoded(of, expected), quantizer(of).range
    step = quantizer(of).scale  # less than that is only rounded
    return int(np.count_nonzero((x < low - step) | (x > high + step)))


def _off_by_a_step(of: Field, expected: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return which rows have a coordinate that is not the nearest one that a code stands for."""
    within = np.clip(uncoded(of, expected), *quantizer(of).range)
    return np.asarray((np.abs(within - stored) > STEPS * quantizer(of).scale).any(axis=1))


def _of_bits(expected: np.ndarray, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compare bits; those of coordinates that are zero but for their rounding may be either."""
    sure = np.abs(expected) > TOLERANCE["float32"] * np.linalg.norm(expected, axis=1, keepdims=True)
    differs = sure & ((expected > 0) != (stored > 0))
    return differs.mean(axis=1), differs.any(axis=1)


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
    changed: list[int] = field(default_factory=list)
    """Shards whose source is not what was read."""
    old: list[np.ndarray] = field(default_factory=list)
    new: list[np.ndarray] = field(default_factory=list)
    """Vectors of the same items in both fields, to query with."""


def compare_shard(store: Store, plan: Plan, side: StoredSide, manifest: Manifest, found: Compared) -> None:
    """Compare every new vector of a shard with the translation of the old one, and the source with its manifest."""
    shard = plan.shards[manifest.shard]
    stored = list(read_shard(store, plan, shard, Skipped(), new=True))
    places = {text: i for i, text in enumerate(_texts([part.keys for part in stored]))}
    vectors = np.concatenate([np.empty((0, plan.field.dim), np.float32), *(part.vectors for part in stored)])
    skipped, read, first = Skipped(), Digest(), True
    for part in read_shard(store, plan, shard, skipped):
        read += part.digest
        rows = np.asarray([places.pop(key, -1) for key in _texts([part.keys])], dtype=np.intp)
        _compare(part, rows, vectors, plan.field, side, found, keep=first)
        first = first and not len(rows)
    found.wrong += [f"key {key!r}, whose item was deleted" for key in places]
    if read + skipped.digest != manifest.read:
        found.changed.append(manifest.shard)


def _compare(
    part: Part, rows: np.ndarray, vectors: np.ndarray, of: Field, side: StoredSide, found: Compared, *, keep: bool
) -> None:
    """Compare a chunk of the source with the rows of the new vectors that have its keys, -1 for none."""
    keys = part.keys.to_pylist()
    found.rows += len(keys)
    found.wrong += [f"key {keys[i]!r}, which has no new vector" for i in np.flatnonzero(rows < 0)]
    there = np.flatnonzero(rows >= 0)
    if not len(there):
        return
    stored = vectors[rows[there]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpaceWarning)  # which apply has given, or was told to accept
        expected = side(part.vectors)[there]
    errors, wrong = deviations(of, expected, stored)
    found.wrong += [f"key {keys[there[i]]!r}" for i in np.flatnonzero(wrong)]
    found.worst = max(found.worst, float(errors.max()))
    found.clipped += clipped(of, expected)
    if keep:
        found.old.append(part.vectors[there][:MAX_QUERIES])
        found.new.append(stored[:MAX_QUERIES])


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

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        rows = [(check.name, "ok" if check.passed else "FAILED", check.found) for check in self.checks]
        next_step = f"Verified. Next: relatent migrate cutover {self.store}"
        end = next_step if self.passed else "Not verified: do not cut over."
        return "\n".join([render(("check", "result", "found"), rows), end])

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
            checks += [_counts(counted, manifests), *_rows(found, plan.field, min(shards, len(manifests)))]
            checks += _searches(store, plan, side, found, queries, sample, k, margin, effort)
        done = Verification(plan.store, tuple(checks), counted)
        about = {"passed": done.passed, "rows": counted, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        folder.note("verified", about, plan)
        return done


def _complete(work: Work, plan: Plan) -> Check:
    """Check that a run of apply is complete, and that the source was not changing any more."""
    finished, total = work.noted("finished", plan), len(plan.shards)
    if finished is None:
        done = sum(one is not None for one in work.manifests(plan))
        return Check("complete", False, f"{done:,} of {total:,} shards are finished: run apply again")
    if not finished["settled"]:
        return Check("complete", False, "the source was still changing when apply ended: run it again")
    return Check("complete", True, f"{_shards(total)}, and no change in the last pass")


def _shards(n: int) -> str:
    return f"{n:,} shard" if n == 1 else f"{n:,} shards"


def _counts(counted: tuple[int, int], manifests: list[Manifest]) -> Check:
    """Check that the new field has as many vectors as the old one, without those skipped."""
    old, new = counted
    written, skipped = sum(one.written.rows for one in manifests), sum(one.skipped for one in manifests)
    right = new == written and 0 <= old - new <= skipped
    found = f"{old:,} rows in the old field, {new:,} in the new one" + (f", {skipped:,} skipped" if skipped else "")
    return Check("counts", right, found if right else f"{found}; apply wrote {written:,}: run it again")


def _rows(found: Compared, of: Field, shards: int) -> list[Check]:
    """Return the checks of the row-by-row comparison."""
    compared = f"{found.rows:,} rows of {_shards(shards)}"
    source = f"checksums of {compared} are those that apply read"
    vectors = f"{compared} are translations of the old ones"
    if found.changed:
        source = f"shard {found.changed[0]} has changed since: run apply again"
    if found.wrong:
        vectors = f"{len(found.wrong):,} of {compared} are wrong, first {found.wrong[0]}"
    unit = "bits" if of.dtype == "bit" else "norm"
    checks = [
        Check("source", not found.changed, source),
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
