"""The base of all stores: what a store can do, and all that every store does alike.

The public methods read the roles once, check what they are given, and do the bookkeeping; a store implements the
methods that begin with an underscore, and describes itself by class attributes, from which the tables of
``docs/stores.md`` are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._array import suggest
from relatent._errors import StoreError, with_remedy
from relatent.spaces.chunks import CHUNK_BYTES, Chunk, Layout, chunk_rows
from relatent.steps import Step
from relatent.stores.address import Address
from relatent.stores.fields import Checks, Field, Roles, key_column, read_as

Unreadable = Callable[[Any, str], None]
"""What is told of a row that cannot be read: its key, and why."""
Purpose = Literal["read", "write", "scan"]
"""What a session is for. One for a scan stays open while the store is used otherwise."""
Writer = Literal["old", "new"]
"""Which model a vector was written with."""
Found = tuple[Sequence[Any], Any]
"""What a search found for one query: keys from the best on, and their distances as the store gives them."""
Rows = Generator[tuple[pa.Table, np.ndarray], None, None]
"""What a store reads: keys with other columns, and vectors."""
T = TypeVar("T")
END = object()
# Places of a store are the beginnings of shards of this many rows; of smaller ones, where there are too few.
PLACE_ROWS = 4_096


@dataclass(frozen=True)
class Shard:
    """Part of a store's rows: keys from ``low`` (included) to ``high`` (excluded); None has no bound.

    Bounds are keys, not row numbers, so that a shard means the same after rows were added or deleted. Keys are ordered
    as the store orders them.
    """

    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class Hits:
    """What a search found: for each query, keys from the best on, and their scores (the larger, the better).

    A score is the cosine, the inner product, or minus the Euclidean (``l2``) or Hamming distance. Where fewer than k
    items are found, there are fewer keys, and the scores end in minus infinity.
    """

    keys: list[list[Any]]
    scores: np.ndarray


@dataclass(frozen=True)
class Effort:
    """How much of an approximate index a search examines: the engine's own setting, which trades speed for recall."""

    setting: str
    """What the engine calls it."""
    value: int
    """What a search uses that asks for nothing else."""
    maximum: int
    advice: str
    """How an application sets it, with ``{n}`` in place of the value."""
    denser: str
    """How to build an index that finds more at the same effort."""


@dataclass(frozen=True)
class Size:
    """How many items have a vector in a field: counted, or estimated where counting takes long."""

    rows: int
    is_exact: bool = True


@dataclass(frozen=True)
class Tally:
    """How the vectors of two fields belong together."""

    items: int
    """Items of the store, with a vector or without."""
    first: int
    """Items that have a vector in the first field."""
    both: int
    """Items that have a vector in both fields."""
    orphans: int
    """Vectors of the second field whose items are gone, or have no vector in the first one."""

    @property
    def lacking(self) -> int:
        """Items that have a vector in the first field and none in the second."""
        return self.first - self.both


@dataclass(frozen=True)
class Form:
    """One kind of URL of a store, for the tables of the documentation."""

    title: str
    url: str
    new_field: str
    switch: str
    reads: str
    """What an application does before the cutover, so that it follows it."""
    dropped: str
    """What is gone once the old field is dropped."""


@dataclass(frozen=True)
class Session:
    """What an operation works with: the roles, read once, and the key column. A store adds more, such as a cursor."""

    roles: Roles
    key: str


@dataclass(frozen=True)
class Scan:
    """What is asked of a scan. ``skip`` is called with the key of a row that cannot be read, and why."""

    of: Field
    shard: Shard
    rows: int
    columns: Sequence[str] | None
    skip: Unreadable

    def names(self, key: str, known: Sequence[str]) -> list[str]:
        """Return the columns to read: all that are known, or the key and those that are asked for."""
        if self.columns is None:
            return list(known)
        missing = next((name for name in self.columns if name not in known), None)
        if missing is not None:
            raise StoreError(f"There is no column {missing!r}; there are: {', '.join(known)}.{suggest(missing, known)}")
        return [key, *(name for name in self.columns if name != key)]


class Store(Checks, ABC):
    """A table, collection or index file: items with a key and one vector field that searches read.

    A migration adds one new field, fills it, and has it served in place of the old one, which is kept until it is
    dropped. Until then, the vectors, keys and payload that were there are not modified.
    All three roles survive the process: :func:`relatent.open_store` of the same URL finds them.
    """

    schemes: ClassVar[tuple[str, ...]]
    """The schemes of its URLs."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """A path that ends so is opened by this store, without a scheme."""
    extra: ClassVar[str]
    """The extra that installs what it needs."""
    forms: ClassVar[tuple[Form, ...]]
    """Its kinds of URLs."""
    writes_while_read: ClassVar[bool] = False
    """Whether one thread may write to the new field while another scans."""
    can_follow: ClassVar[bool] = False
    """Whether it has triggers, by which it may translate by itself what is written (:meth:`follow`)."""
    compares_codes: ClassVar[bool] = False
    """Whether queries of an application must be coded as the vectors are, where these are codes."""
    searches_exactly: ClassVar[bool] = True
    """Whether its own search can compare with every vector; if not, a scan does."""
    denser: ClassVar[str] = "build a denser index"
    """How to have an index find more, where no setting of a search does."""
    chunk_bytes: ClassVar[int] = CHUNK_BYTES
    """Vectors that are read at a time, unless rows are asked for."""

    def __init__(self, address: Address) -> None:
        self.address, self._closing = address, ExitStack()
        try:
            self._open()
            self.roles()
        except BaseException:
            self.close()
            raise

    @classmethod
    def at(cls, address: Address) -> Store:
        """Open the store at an address; raise :class:`StoreError` where it is not there."""
        return cls(address)

    # Roles -----------------------------------------------------------------------------------------------------------

    def roles(self) -> Roles:
        """Read which fields are served, new and old."""
        with self._session() as session:
            roles: Roles = session.roles
        return roles

    @property
    def served(self) -> Field:
        """The field that searches read."""
        return self.roles().served

    @property
    def new(self) -> Field | None:
        """The field that was added and is not served yet."""
        return self.roles().new

    @property
    def old(self) -> Field | None:
        """The field that was served before the last switch."""
        return self.roles().old

    # Rows ------------------------------------------------------------------------------------------------------------

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the items that have a vector in a field."""
        with self._session() as session:
            return self._count(session, self._find(session.roles, of), shard or Shard())

    def size(self, of: Field) -> Size:
        """Return how many items have a vector in a field, in a moment: an estimate where counting them takes long."""
        return Size(self.count(of))

    def unfilled(self, of: Field) -> int:
        """Count the items that have no vector in a field."""
        return 0

    def shards(self, rows: int) -> list[Shard]:
        """Cut the items into shards of about ``rows`` rows, which together hold every key that there can be."""
        with self._session() as session:
            bounds = self._bounds(session, rows)
        return [Shard(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True)]

    def places(self, n: int) -> list[Shard]:
        """Return at most n shards that begin at places all over the store, in order."""
        shards = self.shards(PLACE_ROWS)
        if len(shards) < n:
            shards = self.shards(max(1, -(-self.count(self.served) // n)))
        return [shards[at] for at in np.unique(np.linspace(0, len(shards) - 1, n).astype(int))]

    def state(self, shard: Shard) -> str | None:
        """Return what changes with every change of a shard's served vectors; None if that takes reading them.

        It may also change where they have not.
        """
        return None

    def scan(
        self,
        of: Field,
        *,
        shard: Shard | None = None,
        rows: int | None = None,
        columns: Sequence[str] | None = (),
        unreadable: Unreadable | None = None,
    ) -> Iterator[Chunk]:
        """Return the items of a field in order of their keys, as chunks of at most ``rows`` rows.

        The chunk's other columns are the key and the payload columns that are named (None: all). The view is one of a
        moment where the store can do so. An item without a vector is left out (:meth:`unfilled` counts them). A vector
        that cannot be read (it is not finite, or of another dimension) is an error that names its key, unless
        ``unreadable`` is told of it; then it is left out.
        """

        def skip(key: Any, reason: str) -> None:
            if unreadable is None:
                raise StoreError(
                    f"The vector of {key!r} in {self.address} cannot be read: {reason}. Fix it, or skip such rows."
                )
            unreadable(key, reason)

        size = None if rows is None else chunk_rows(1, np.dtype(np.uint8), rows)
        with self._session("scan") as session:
            field = self._find(session.roles, of)
            asked = Scan(field, shard or Shard(), size or self._chunk_rows(field), columns, skip)
            yield from self._chunks(session, asked)

    def _chunks(self, session: Any, asked: Scan) -> Iterator[Chunk]:
        start, of = 0, asked.of
        with closing(self._scan(session, asked)) as parts:
            for others, vectors in parts:
                finite = np.isfinite(vectors).all(axis=1)
                for row in np.flatnonzero(~finite):
                    asked.skip(others[session.key][int(row)].as_py(), "it is not finite")
                if not finite.all():
                    vectors, others = vectors[finite], others.filter(pa.array(finite))
                yield Chunk(start, vectors, others, Layout(of.name, session.key, (*others.column_names, of.name)))
                start += len(vectors)

    def _chunk_rows(self, of: Field) -> int:
        return max(1, self.chunk_bytes // max(1, of.dim * read_as(of).itemsize))

    # The new field ---------------------------------------------------------------------------------------------------

    def add(self, new: Field) -> Field:
        """Add an empty field beside the served one. Adding the same field again is no error and keeps what it holds.

        Raise :class:`StoreError` if another new field is there, or if the store cannot hold such vectors.
        """
        self._check_kind(new)
        with self._session("write") as session:
            if session.roles.new != new:
                self._check_addable(session.roles, new)
                self._check_name(new, (session.roles.served.name, *self._taken(session)))
                self._add(session, new)
        return new

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Set the vectors of these keys in the new field: idempotent.

        Keys that the store does not have (an item was deleted meanwhile) are ignored.
        """
        with self._session("write") as session:
            new = self._new(session.roles, into)
            kept = self._as_vectors(new, vectors)
            if len(kept):
                self._write(session, new, key_column(keys), kept)

    def overwrite(self, keys: pa.Array, vectors: np.ndarray) -> None:
        """Replace vectors of the served field, where a migration has added it: idempotent.

        The old field, keys and payload stay as they are. Keys without a vector in the served field are ignored.
        """
        with self._session("write") as session:
            served = session.roles.served
            if not served.provenance.get("translator"):
                raise StoreError(
                    f"{self.address} serves {served.name!r}, which no migration has added: its vectors are not "
                    "replaced. Migrate the store and cut over first."
                )
            kept = self._as_vectors(served, vectors)
            if len(kept):
                self._overwrite(session, served, key_column(keys), kept)

    def flush(self) -> None:
        """Return when all that was written is durable; in most stores it is when a write returns."""
        return

    def remove_orphans(self, of: Field, kept: Collection[Any] = ()) -> int:
        """Remove from the new field what belongs to items that the store no longer has; return how many.

        ``kept`` are keys of items that the new field may have alone.
        """
        with self._session("write") as session:
            return self._remove_orphans(session, self._new(session.roles, of), frozenset(kept))

    def build_index(self, of: Field) -> None:
        """Make searches of a field fast, if the store does not do so by itself. Doing it again is no error."""
        with self._session("write") as session:
            self._build_index(session, self._find(session.roles, of))

    def effort(self, of: Field) -> Effort | None:
        """Return the setting that makes searches of a field find more; None where there is none, or no index."""
        with self._session() as session:
            return self._effort(session, self._find(session.roles, of))

    def approximates(self, of: Field) -> bool:
        """Return whether a search of a field that asks for nothing else may miss items."""
        return not self.searches_exactly or self.effort(of) is not None

    def search(
        self, vectors: np.ndarray, k: int, *, of: Field | None = None, exact: bool = False, effort: int | None = None
    ) -> Hits:
        """Return the k best items of each query, in the served field or another; ``exact`` compares with all.

        ``effort`` is a value of the index's own setting (:meth:`effort`); None searches as an application does that
        sets nothing.
        """
        with self._session() as session:
            field = session.roles.served if of is None else self._find(session.roles, of)
            queries = self._as_queries(field, vectors)
            if exact and not self.searches_exactly:
                every = Scan(field, Shard(), self._chunk_rows(field), (), lambda *_: None)
                return exact_search(self._chunks(session, every), queries, k, field.metric)
            found = self._search(session, field, queries, k, exact, effort)
        scores = np.full((len(queries), k), -np.inf)
        for row, (_, distances) in zip(scores, found, strict=True):
            row[: len(distances)] = self.score(np.asarray(distances, np.float64), field)
        return Hits([list(keys) for keys, _ in found], scores)

    def score(self, distances: np.ndarray, of: Field) -> np.ndarray:
        """Return the scores of distances as the store gives them: here 1 - cosine or product, or a squared length."""
        return np.asarray(-np.sqrt(np.maximum(distances, 0)) if of.metric == "l2" else 1 - distances)

    # While others write ----------------------------------------------------------------------------------------------

    def follow(self, new: Field, steps: Sequence[Step], back: Sequence[Step]) -> str | None:
        """Have the store translate by itself what is written from now on; return why it cannot, or None if it does.

        Then every vector that is written to the served field is translated by ``steps`` into the new one, in the
        transaction of the writer, and what is deleted is deleted in both. After a switch, what is written with the new
        model gets an old vector by ``back``. :meth:`write` then fills in what has no new vector yet, and never replaces
        one. Idempotent; ends when either field is dropped.
        """
        return "the store has no triggers"

    def follows(self) -> bool:
        """Return whether the store translates by itself what is written to it (:meth:`follow`)."""
        return False

    def written_since(self) -> Mapping[Writer, pa.Array]:
        """Return the keys that were written since the switch, by the model that their writer used.

        Those of the old model have a translated vector in the served field, those of the new one a vector by ``back``
        in the old field. Known only to a store that follows; empty otherwise.
        """
        return {}

    def at_one_moment(self) -> AbstractContextManager[object]:
        """Have all scans inside read the store as it was when this began, where the store can do so."""
        return nullcontext()

    def only_in(self, of: Field, other: Field, shard: Shard | None = None) -> pa.Array:
        """Return the keys of a shard that have a vector in one field and none in another."""
        mine, theirs = (self._keys_of(field, shard) for field in (of, other))
        return mine.filter(pc.invert(pc.is_in(mine, value_set=theirs)))

    def _keys_of(self, of: Field, shard: Shard | None) -> pa.Array:
        found = [key_column(chunk.keys) for chunk in self.scan(of, shard=shard, unreadable=lambda *_: None)]
        return pa.concat_arrays(found) if found else pa.array([], pa.null())

    def tally(self, of: Field, other: Field) -> Tally:
        """Count at one moment what two fields have in common, in a store that follows (:meth:`follow`)."""
        raise NotImplementedError

    def rehearsal(self, rows: int) -> AbstractContextManager[str]:
        """Make a small store of the same kind beside this one, of at most ``rows`` items; yield its URL.

        It has the served field of this store, with an index of the same kind, and no other; it is removed at the end.
        """
        raise StoreError(f"{self.address} cannot be copied for a rehearsal.")

    # Cutover ---------------------------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Serve the new field in place of the served one, which becomes the old one: in one step for every reader."""
        with self._session("write") as session:
            self._switch(session, self._new(session.roles))

    def switch_back(self) -> None:
        """Undo :meth:`switch`: the old field is served again, and the other one is new again."""
        with self._session("write") as session:
            old = self._old(session.roles)
            if session.roles.dropping:
                raise with_remedy(
                    StoreError(f"{old.name!r} of {self.address} is partly dropped and cannot be served again."),
                    python="Call drop_old to finish.",
                    command="Run relatent migrate finish.",
                )
            self._switch_back(session, old)

    def drop_new(self) -> None:
        """Remove the new field and what it holds. Nothing is left of it."""
        with self._session("write") as session:
            self._drop_new(session, self._new(session.roles))

    def drop_old(self) -> None:
        """Remove the old field and what it holds: from then on there is no way back, and another field can be added.

        If it is killed, call it again to complete it; meanwhile the old field cannot be served any more.
        """
        with self._session("write") as session:
            self._drop_old(session, self._old(session.roles))

    def replace_old(self, advance: Callable[[int], None] | None = None) -> None:
        """Put the served vectors in the place and under the name of the old ones, which are dropped.

        For a store that keeps fields in different places; ``advance`` is told of rows. If it is killed, call it again.
        """
        raise StoreError(f"{self.address} keeps its fields in one place already: drop the old one as it is.")

    @abstractmethod
    def lock(self) -> AbstractContextManager[object]:
        """Keep other migrations of this store out, or raise :class:`StoreError`. A lock dies with its process."""

    def close(self) -> None:
        """Close the connection or file. Closing twice is no error."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What a store implements; the type of the session is its own -----------------------------------------------------

    def _open(self) -> None:
        """Connect, or read files; raise StoreError where nothing is there. ``_closing`` takes what is to be closed."""

    @abstractmethod
    def _session(self, purpose: Purpose = "read") -> AbstractContextManager[Any]:
        """Begin an operation: read the roles, and report errors of the engine as StoreError."""

    @abstractmethod
    def _count(self, session: Any, of: Field, shard: Shard) -> int: ...

    @abstractmethod
    def _bounds(self, session: Any, rows: int) -> list[Any]:
        """Return the key of every n-th row but the first, in order."""

    @abstractmethod
    def _scan(self, session: Any, asked: Scan) -> Rows:
        """Return keys with other columns, and vectors, in order of the keys; those not finite are left out later."""

    def _taken(self, session: Any) -> Iterable[str]:
        """Return names that a new field cannot have, beside that of the served one."""
        return ()

    @abstractmethod
    def _add(self, session: Any, new: Field) -> None: ...

    @abstractmethod
    def _write(self, session: Any, new: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Set vectors, at least one, as :meth:`_as_vectors` returns them. Of a key given twice the last one counts."""

    def _overwrite(self, session: Any, served: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Replace vectors, at least one, of items that are there. Of a key given twice the last one counts."""
        raise StoreError(f"{self.address} cannot replace single vectors: build a new index of re-embedded items.")

    def _remove_orphans(self, session: Any, new: Field, kept: frozenset[Any]) -> int:
        """Return 0: vectors go with their items."""
        return 0

    def _build_index(self, session: Any, of: Field) -> None:
        """Do nothing: the store indexes what is written."""

    def _effort(self, session: Any, of: Field) -> Effort | None:
        """Return None: there is no approximate index, or nothing to set when it is searched."""
        return None

    @abstractmethod
    def _search(
        self, session: Any, of: Field, queries: np.ndarray, k: int, exact: bool, effort: int | None
    ) -> Sequence[Found]: ...

    def _write_roles(self, session: Any, roles: Roles) -> None:
        """Note the roles, in one step for every reader: for stores that keep such a note."""
        raise NotImplementedError

    def _switch(self, session: Any, new: Field) -> None:
        self._write_roles(session, session.roles.switched())

    def _switch_back(self, session: Any, old: Field) -> None:
        self._write_roles(session, session.roles.switched_back())

    @abstractmethod
    def _drop_new(self, session: Any, new: Field) -> None: ...

    @abstractmethod
    def _drop_old(self, session: Any, old: Field) -> None: ...


def every_nth(keys: pa.Array, rows: int) -> list[Any]:
    """Return the key of every n-th row but the first."""
    return [keys[at].as_py() for at in range(rows, len(keys), rows)]


def exact_search(chunks: Iterable[Chunk], queries: np.ndarray, k: int, metric: str) -> Hits:
    """Return the k best items of each query among the items of all chunks."""
    from relatent.evaluate.neighbors import nearest

    keys: list[list[Any]] = [[] for _ in queries]
    scores = np.full((len(queries), k), -np.inf)
    for chunk in chunks:
        if not len(chunk) or chunk.keys is None:
            continue
        similarity = "euclidean" if metric == "l2" else metric
        found = nearest(queries, chunk.vectors, min(k, len(chunk)), similarity, method="exact")
        names = chunk.keys.to_pylist()
        for row, (rows, fresh) in enumerate(zip(found.indices, found.similarities, strict=True)):
            both = np.concatenate([scores[row, : len(keys[row])], fresh])
            every = [*keys[row], *(names[i] for i in rows)]
            best = np.argsort(-both, kind="stable")[:k]
            keys[row], scores[row, : len(best)] = [every[i] for i in best], both[best]
    return Hits(keys, scores)


def read_ahead(items: Generator[T, None, None], ahead: int = 1) -> Generator[T, None, None]:
    """Yield the items of a generator that runs in a thread of its own, at most ``ahead`` items ahead.

    An error of the generator is raised when its turn comes. The generator is closed with this one.

    >>> list(read_ahead(n * n for n in range(4)))
    [0, 1, 4, 9]
    """
    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(next, items, END) for _ in range(ahead))
        try:
            while (item := waiting.popleft().result()) is not END:
                waiting.append(thread.submit(next, items, END))
                yield item  # type: ignore[misc]  # it is not END
        finally:
            for future in waiting:
                future.cancel()
            thread.submit(items.close)  # in its own thread, after the item that it is making
