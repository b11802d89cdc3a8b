"""Copy a shard of a migration: read, translate, write, and record it in a manifest."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from relatent.migrate.side import translated
from relatent.migrate.state import Digest, Manifest, Plan, hashed_keys
from relatent.spaces.keys import as_column
from relatent.stores import Shard, Store, StoreError, open_store
from relatent.stores.base import read_ahead
from relatent.translate.files import BatchTranslator

# Skipped rows are all counted, and at most this many of them named.
MAX_NAMED = 20
# Chunks that are read and wait to be translated, and that are translated and wait to be written.
AHEAD = 2


@dataclass
class Pace:
    """Limits the rows per second by sleeping after each chunk. None: no limit."""

    rate: float | None = None
    rows: int = 0
    began: float | None = None

    def begin(self) -> None:
        """Begin to count, unless that was done."""
        self.began = time.monotonic() if self.began is None else self.began

    def __call__(self, rows: int) -> None:
        """Count rows that were just handled, and wait if that was too fast."""
        self.rows += rows
        if self.rate is not None and self.began is not None:
            time.sleep(max(0.0, self.began + self.rows / self.rate - time.monotonic()))


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


def read_shard(
    store: Store, plan: Plan, shard: Shard, skipped: Skipped | None = None, *, new: bool = False
) -> Iterator[Part]:
    """Return the rows of a shard, of the served field or the new one, in chunks.

    A row that cannot be read is an error that names its key, unless ``skipped`` is told of it.
    """
    of = plan.field if new else plan.served
    for chunk in store.scan(of, shard=shard, rows=plan.chunk_rows, unreadable=skipped):
        yield Part(pa.chunked_array(chunk.keys).combine_chunks(), chunk.vectors)


class ShardWork:
    """Copies a shard or computes its digest, by its number in the plan, in any process.

    In another process it opens the store again, once. The URL may hold a password, so nothing shows it.
    """

    def __init__(
        self, url: str, store: Store, plan: Plan, translate: BatchTranslator, *, rate: float | None, skip: bool
    ) -> None:
        self._url, self._plan, self._translate, self._skip = url, plan, translate, skip
        self._store: Store | None = store
        self._pace = Pace(rate)

    def copy(self, number: int) -> Manifest:
        """Translate a shard into the new field; return its manifest once all of it is durable."""
        (manifest,) = self.copies([number])
        return manifest

    def copies(self, numbers: Iterable[int]) -> Iterator[Manifest]:
        """Translate shards into the new field one after the other; yield the manifest of each once it is durable.

        Where the store can be read and written at once, the next chunks are read, be they of the next shard, while one
        is translated and those before it are written.
        """
        store, parts = self._opened(), self._parts(numbers)
        reading = read_ahead(parts, AHEAD) if store.writes_while_read else parts
        results: deque[Future[Manifest | None]] = deque()
        with _in_turn(store) as submit, closing(reading):
            for shard, part in reading:
                if part is None:
                    results.append(submit(shard.manifest, store))
                elif len(part.keys):
                    vectors = _translated(store, self._plan, self._translate, part)
                    shard.count(part, vectors)
                    results.append(submit(store.write, self._plan.field, part.keys, vectors))
                while len(results) > AHEAD:
                    yield from _manifest(results.popleft())
            while results:
                yield from _manifest(results.popleft())

    def _parts(self, numbers: Iterable[int]) -> Generator[tuple[_Copied, Part | None], None, None]:
        """Yield the parts of shards, and after the last one of each None."""
        store, plan = self._opened(), self._plan
        for number in numbers:
            shard = _Copied(plan.migration, number, store.state(plan.shards[number]))
            for part in read_shard(store, plan, plan.shards[number], shard.skipped if self._skip else None):
                yield shard, part
                self._pace(len(part.keys))
            yield shard, None

    def digest(self, number: int) -> Digest:
        """Return the digest of what the source holds now, to compare with :attr:`Manifest.read`."""
        skipped, total = Skipped(), Digest()
        for part in read_shard(self._opened(), self._plan, self._plan.shards[number], skipped):
            total += part.digest
            self._pace(len(part.keys))
        return total + skipped.digest

    def _opened(self) -> Store:
        self._pace.begin()
        self._store = open_store(self._url) if self._store is None else self._store
        return self._store

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open store behind."""
        return vars(self) | {"_store": None, "_pace": Pace(self._pace.rate)}

    def __repr__(self) -> str:
        """Name the store without its password."""
        return f"ShardWork({self._plan.store!r})"


@dataclass
class _Copied:
    """What is known of a shard while it is copied."""

    migration: str
    number: int
    state: str | None
    read: Digest = field(default_factory=Digest)
    written: Digest = field(default_factory=Digest)
    skipped: Skipped = field(default_factory=Skipped)

    def count(self, part: Part, vectors: np.ndarray) -> None:
        """Count rows that were read, and what they became."""
        hashes = hashed_keys(part.keys)
        self.read += Digest.of(hashes, part.vectors)
        self.written += Digest.of(hashes, vectors)

    def manifest(self, store: Store) -> Manifest:
        """Return the manifest of a shard whose rows are all written, once they are durable."""
        store.flush()
        left_out, reasons = len(self.skipped.keys), tuple(self.skipped.reasons)
        read = self.read + self.skipped.digest
        return Manifest(self.migration, self.number, read, self.written, left_out, reasons, self.state)


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
