"""Copy the shards of a migration: read, translate, write, and record each in a manifest."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._errors import with_remedy
from relatent.migrate.digest import Digest, buckets_of, hashed_keys
from relatent.migrate.side import deviations, translated
from relatent.migrate.state import Manifest, Plan
from relatent.spaces.keys import as_column
from relatent.stores import Shard, Store, StoreError, open_store
from relatent.stores.base import Unreadable, read_ahead
from relatent.translate.endpoints import BlockCheck
from relatent.translate.files import BatchTranslator

# Skipped rows are all counted, and at most this many of them named.
MAX_NAMED = 20
# Seconds after which a changed limit is noticed.
LISTEN = 0.5
# Chunks that are read and wait to be translated, and that are translated and wait to be written.
AHEAD = 2


@dataclass
class Pace:
    """Limits the rows per second by sleeping after each chunk; None is no limit, and 0 a pause.

    A number in ``file`` replaces the rate while the work is under way; ``workers`` share it.
    """

    rate: float | None = None
    file: Path | None = None
    workers: int = 1
    paid_until: float | None = None
    """The moment up to which the rows so far are paid for."""

    def begin(self) -> None:
        """Begin to count, unless that was done."""
        self.paid_until = time.monotonic() if self.paid_until is None else self.paid_until

    def __call__(self, rows: int) -> None:
        """Count rows that were just handled, and wait if that was too fast."""
        self.begin()
        assert self.paid_until is not None
        due = self.paid_until
        while (rate := self._now()) is not None:
            due = self.paid_until + rows / rate if rate > 0 else math.inf
            left = due - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, LISTEN))
        self.paid_until = max(due, time.monotonic() - LISTEN)  # what was slower is not made up for in a burst

    def _now(self) -> float | None:
        """Return the rate of now: that of the file, if there is a number in it."""
        with suppress(OSError, ValueError):
            if self.file is not None:
                return float(self.file.read_text()) / self.workers
        return None if self.rate is None else self.rate / self.workers


@dataclass
class Skipped:
    """Rows that were skipped: their keys, and the first of them with the reason."""

    keys: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def __call__(self, key: Any, reason: str) -> None:
        """Note one more."""
        self.keys.append(key)
        if len(self.reasons) < MAX_NAMED:
            self.reasons.append(f"{key!r}: {reason}")

    @property
    def digest(self) -> Digest:
        """The digest of these rows, by their keys alone."""
        return Digest.of_keys(hashed_keys(as_column(self.keys)))


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that were read together: keys, and vectors that are finite."""

    keys: pa.Array
    vectors: np.ndarray

    @property
    def digest(self) -> Digest:
        """The digest of these rows."""
        return Digest.of(hashed_keys(self.keys), self.vectors)

    def only(self, buckets: frozenset[int]) -> Part:
        """Return the rows that are in some buckets."""
        rows = np.isin(buckets_of(hashed_keys(self.keys)), [*buckets])
        return Part(self.keys.filter(pa.array(rows)), self.vectors[rows])


def read_shard(
    store: Store, plan: Plan, shard: Shard, skipped: Skipped | None = None, *, new: bool = False
) -> Iterator[Part]:
    """Return the rows of a shard, of the served field or the new one, in chunks.

    A row that cannot be read is an error that names its key, unless ``skipped`` is told of it.
    """
    of = plan.field if new else plan.served
    for chunk in store.scan(of, shard=shard, rows=plan.chunk_rows, unreadable=skipped or _refuse(store)):
        yield Part(pa.chunked_array(chunk.keys).combine_chunks(), chunk.vectors)


def _refuse(store: Store) -> Unreadable:
    def refuse(key: Any, reason: str) -> None:
        raise with_remedy(
            StoreError(f"The vector of {key!r} in {store.address} cannot be read: {reason}. Fix it, or skip such rows"),
            python="with skip_unreadable=True.",
            command="with --skip-unreadable.",
        )

    return refuse


@dataclass(frozen=True)
class Job:
    """A shard to copy: all of its rows, or of one that was copied ``before`` those in the buckets that changed."""

    shard: int
    before: Manifest | None = None
    buckets: frozenset[int] = frozenset()


class ShardWork:
    """Copies shards or computes their digests, in any process.

    In another process it opens the store again, once. The URL may hold a password, so nothing shows it.
    """

    def __init__(
        self,
        url: str,
        store: Store,
        plan: Plan,
        translate: BatchTranslator,
        *,
        skip: bool,
        check: BlockCheck | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._url, self._plan, self._translate, self._skip = url, plan, translate, skip
        self._store: Store | None = store
        self._check, self._pace = check, pace or Pace()

    def copy(self, job: Job) -> Manifest:
        """Translate a shard into the new field; return its manifest once all of it is durable."""
        (manifest,) = self.copies([job])
        return manifest

    def copies(self, jobs: Iterable[Job]) -> Iterator[Manifest]:
        """Translate shards into the new field one after the other; yield the manifest of each once it is durable.

        Where the store can be read and written at once, the next chunks are read, be they of the next shard, while one
        is translated and those before it are written.
        """
        store, parts = self._opened(), self._parts(jobs)
        reading = read_ahead(parts, AHEAD) if store.writes_while_read else parts
        results: deque[Future[Manifest | None]] = deque()
        with _in_turn(store) as submit, closing(reading):
            for shard, part in reading:
                if part is None:
                    results.append(submit(shard.manifest, store))
                elif len(part.keys):
                    vectors = _translated(store, self._plan, self._translate, part)
                    results.append(submit(store.write, self._plan.field, part.keys, vectors))
                while len(results) > AHEAD:
                    yield from _manifest(results.popleft())
            while results:
                yield from _manifest(results.popleft())

    def _parts(self, jobs: Iterable[Job]) -> Generator[tuple[_Copied, Part | None], None, None]:
        """Yield what is to be written of each shard in parts, and after its last part None."""
        store, plan = self._opened(), self._plan
        follows = store.follows()  # then nobody asks whether the source has changed
        for job in jobs:
            bounds = plan.shards[job.shard]
            shard = _Copied(plan.migration, job, None if follows else store.state(bounds))
            for part in read_shard(store, plan, bounds, shard.skipped if self._skip else None):
                if self._check is not None:
                    self._check(part.vectors, part.keys)
                yield shard, shard.wanted(part)
                self._pace(len(part.keys))
            yield shard, None

    def digest(self, number: int) -> Digest:
        """Return the digest of what the source holds now, to compare with :attr:`Manifest.read`."""
        skipped, total = Skipped(), Digest()
        for part in read_shard(self._opened(), self._plan, self._plan.shards[number], skipped):
            total += part.digest
            self._pace(len(part.keys))
        return total + skipped.digest

    def unlike(self, part: Part, new: Mapping[Any, np.ndarray]) -> list[Any]:
        """Return the keys of rows whose new vector is not their translation, or is missing."""
        keys = part.keys.to_pylist()
        there = [i for i, key in enumerate(keys) if key in new]
        missing = [key for key in keys if key not in new]
        if not there:
            return missing
        expected = translated(self._translate, part.vectors)[there]
        off = deviations(self._plan.field, expected, np.asarray([new[keys[i]] for i in there]))[1]
        return missing + [keys[i] for i, bad in zip(there, off.tolist(), strict=True) if bad]

    def _opened(self) -> Store:
        self._pace.begin()
        self._store = open_store(self._url) if self._store is None else self._store
        return self._store

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open store behind."""
        return vars(self) | {"_store": None, "_pace": replace(self._pace, paid_until=None)}

    def __repr__(self) -> str:
        """Name the store without its password."""
        return f"ShardWork({self._plan.store!r})"


@dataclass
class _Copied:
    """What is known of a shard while it is copied."""

    migration: str
    job: Job
    state: str | None
    read: Digest = field(default_factory=Digest)
    skipped: Skipped = field(default_factory=Skipped)

    def wanted(self, part: Part) -> Part:
        """Count rows that were read, and return those that are to be written."""
        self.read += part.digest
        return part if self.job.before is None else part.only(self.job.buckets)

    def manifest(self, store: Store) -> Manifest:
        """Return the manifest of a shard whose rows are all written, once they are durable.

        Buckets that were not written keep the digest of what was: a row that changed there meanwhile is noticed by the
        next pass, which then has to read the shard.
        """
        store.flush()
        rows, left_out = self.read.rows, len(self.skipped.keys)
        read, state = self.read + self.skipped.digest, self.state
        if self.job.before is not None:
            kept = self.job.before.read.updated(read, self.job.buckets)
            read, state = kept, state if kept == read else None
        return Manifest(self.migration, self.job.shard, read, rows, left_out, tuple(self.skipped.reasons), state)


Submit = Callable[..., "Future[Any]"]


@contextmanager
def _in_turn(store: Store) -> Iterator[Submit]:
    """Yield what runs calls in their order: in a thread, or at once where a store is not written while it is read."""
    if not store.writes_while_read:
        yield _done
        return
    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread.submit
        finally:
            thread.shutdown(cancel_futures=True)  # after an error, pending chunks are not written


def _done(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(function(*arguments))
    return future


def _manifest(future: Future[Manifest | None]) -> Iterator[Manifest]:
    """Wait for a call; yield what it returns, if that is a manifest."""
    result = future.result()
    if result is not None:
        yield result


def _translated(store: Store, plan: Plan, translate: BatchTranslator, part: Part) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        vectors = translated(translate, part.vectors)
        kept = vectors.astype(np.float16) if plan.field.dtype == "float16" else vectors
        fits = np.isfinite(kept).all(axis=1)
    if not fits.all():
        key = part.keys[int(np.argmin(fits))].as_py()
        raise StoreError(
            f"The row with key {key!r} of {store.address} becomes infinite in {plan.field.dtype} when it is "
            "translated: fix or delete it, or choose float32 for the new field."
        )
    return vectors
