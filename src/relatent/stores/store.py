"""What every store can do: give rows, take new vectors beside the old, search, and change which of them it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from relatent.spaces.chunks import Chunk
from relatent.stores.address import Address

Unreadable = Callable[[Any, str], None]
"""What is told of a row that cannot be read: its key, and why."""


@dataclass(frozen=True)
class Field:
    """A vector field of a store: a column, a named vector, or a companion collection or file."""

    name: str
    dim: int
    dtype: str = "float32"
    """float32, float16, int8, uint8 or bit.

    Bits are read as 0 and 1, and written as 1 where a coordinate is positive. Codes of eight bits stand for vectors by
    ``scale`` and ``offset``; where these are not known, they are read as the integers that they are: fit on such codes
    to translate them.
    """
    metric: str = "cosine"
    """cosine, inner or l2; hamming for bits. A store without cosines of its own keeps the vectors at norm 1."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where the vectors come from: translator, model, revision. Kept in the store, beside the vectors."""
    scale: float | None = None
    """Of codes: a coordinate is ``offset + scale * code``. None: not known. Kept in the store, beside the vectors."""
    offset: float = 0.0


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


class Store(Protocol):
    """A table, collection or index file: items with a key and one vector field that searches read.

    A migration adds one new field, fills it, and has it served in place of the old one, which is kept until it is
    dropped. Until then, the vectors, keys and payload that were there are not modified.
    All three roles survive the process: :func:`relatent.open_store` of the same URL finds them.

    An error is a :class:`StoreError` that names ``str(address)``, never the password.
    """

    address: Address
    writes_while_read: bool
    """Whether one thread may write to the new field while another scans."""
    compares_codes: bool
    """Whether queries of an application must be coded as the vectors are, where these are codes."""

    @property
    def served(self) -> Field:
        """The field that searches read."""
        ...

    @property
    def new(self) -> Field | None:
        """The field that was added and is not served yet."""
        ...

    @property
    def old(self) -> Field | None:
        """The field that was served before the last switch."""
        ...

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the items that have a vector in a field."""
        ...

    def shards(self, rows: int) -> list[Shard]:
        """Cut the items into shards of about so many rows, which together hold every key that there can be."""
        ...

    def state(self, shard: Shard) -> str | None:
        """Return what changes with every change of a shard's served vectors; None if that takes reading them.

        It may also change where they have not.
        """
        ...

    def scan(
        self,
        of: Field,
        *,
        shard: Shard | None = None,
        rows: int | None = None,
        columns: Sequence[str] | None = (),
        unreadable: Unreadable | None = None,
    ) -> Iterator[Chunk]:
        """Return the items of a field in order of their keys, as chunks of at most so many rows.

        The chunk's other columns are the key and the payload columns that are named (None: all). The view is one of a
        moment where the store can do so. A row that cannot be read (a null or broken vector) is an error that names its
        key, unless ``unreadable`` is told of it; then it is left out.
        """
        ...

    def add(self, new: Field) -> Field:
        """Add an empty field beside the served one. Adding the same field again is no error and keeps what it holds.

        Raise :class:`StoreError` if another new field is there, or if the store cannot hold such vectors.
        """
        ...

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Set the vectors of these keys in the new field. Writing twice is writing once.

        Keys that the store does not have (an item was deleted meanwhile) are ignored.
        """
        ...

    def flush(self) -> None:
        """Return when all that was written is durable."""
        ...

    def remove_orphans(self, of: Field) -> int:
        """Remove from the new field what belongs to items that the store no longer has; return how many."""
        ...

    def build_index(self, of: Field) -> None:
        """Make searches of a field fast, if the store does not do so by itself. Doing it again is no error."""
        ...

    def search(self, vectors: np.ndarray, k: int, *, of: Field | None = None, exact: bool = False) -> Hits:
        """Return the k best items of each query, in the served field or another; ``exact`` compares with all."""
        ...

    def switch(self) -> None:
        """Serve the new field in place of the served one, which becomes the old one: in one step for every reader."""
        ...

    def switch_back(self) -> None:
        """Undo :meth:`switch`: the old field is served again, and the other one is new again."""
        ...

    def drop_new(self) -> None:
        """Remove the new field and what it holds. Nothing is left of it."""
        ...

    def drop_old(self) -> None:
        """Remove the old field and what it holds: from then on there is no way back, and another field can be added.

        Killed in the middle, it is called again to end it; meanwhile the old field cannot be served any more.
        """
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Keep other migrations of this store out, or raise :class:`StoreError`. A lock dies with its process."""
        ...

    def close(self) -> None:
        """Close the connection or file."""
        ...

    def __enter__(self) -> Store: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
