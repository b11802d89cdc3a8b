"""What the store needs of Qdrant, whether a server or the embedded engine does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._errors import StoreError
from relatent.stores.address import Address
from relatent.stores.fields import Field, is_coded

# What the vector without a name is called here. A collection that has one has no other vector of that name.
DEFAULT = "default"
# Qdrant's names of metrics and datatypes.
DISTANCES = {"cosine": "Cosine", "inner": "Dot", "l2": "Euclid"}
DTYPES = {"float32": "Float32", "float16": "Float16", "uint8": "Uint8"}

Key = int | str


@dataclass(frozen=True)
class Point:
    """A point: its id, the vector that was asked for if it has one, and its payload."""

    id: Key
    vector: Sequence[float] | None
    payload: Mapping[str, Any]


class Engine(ABC):
    """A collection, by what both engines can do."""

    @abstractmethod
    def fields(self) -> list[Field]:
        """Return the dense vectors of the collection."""

    @abstractmethod
    def read_note(self) -> dict[str, Any] | None:
        """Return what was noted, if anything."""

    @abstractmethod
    def write_note(self, note: dict[str, Any]) -> None:
        """Note something, in one step for every reader."""

    @abstractmethod
    def scroll(
        self, start: Key | None, limit: int, vector: str | None, payload: bool
    ) -> tuple[list[Point], Key | None]:
        """Return points in order of their ids from a start on, and the id that comes next."""

    @abstractmethod
    def existing(self, ids: list[Key]) -> set[Key]:
        """Return which ids there are."""

    @abstractmethod
    def set_vectors(self, name: str, ids: list[Key], vectors: np.ndarray) -> None:
        """Set a vector of points that are there. Durable when it returns."""

    @abstractmethod
    def create(self, field: Field) -> None:
        """Create a named vector, empty for every point."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove a named vector from every point."""

    @abstractmethod
    def search(self, name: str, queries: np.ndarray, k: int, exact: bool) -> list[list[tuple[Key, float]]]:
        """Return the ids of the best points of each query, with Qdrant's score."""

    @abstractmethod
    def count(self, name: str) -> int:
        """Count the points that have a vector."""

    @abstractmethod
    def build_index(self) -> None:
        """Wait until everything is indexed that is to be."""

    def lock(self) -> AbstractContextManager[Any]:
        """Keep other migrations out; here nothing is to be done, since whoever has it open has it alone."""
        return nullcontext()

    @abstractmethod
    def close(self) -> None:
        """Close the connection or folder."""

    @abstractmethod
    def reporting(self) -> AbstractContextManager[None]:
        """Report what Qdrant refuses as StoreError."""

    def _ask(self, question: Callable[..., Any], *given: Any, **options: Any) -> Any:
        """Call the client or the engine."""
        with self.reporting():
            return question(*given, **options)


def engine_name(name: str) -> str:
    """Return Qdrant's name of a vector."""
    return "" if name == DEFAULT else name


def distance_of(field: Field) -> str:
    """Return Qdrant's name of what a field is compared by; at norm 1, distances rank as cosines do."""
    return DISTANCES["l2" if is_coded(field) else field.metric]


def field_of(address: Address, name: str, size: int, distance: str, datatype: str | None) -> Field:
    """Describe a vector by Qdrant's words for it."""
    metrics = {theirs: ours for ours, theirs in DISTANCES.items()}
    dtypes = {theirs.lower(): ours for ours, theirs in DTYPES.items()}
    dtype = dtypes.get((datatype or "Float32").lower())
    if distance not in metrics or dtype is None:
        raise StoreError(
            f"The vector {name or DEFAULT!r} of {address} is {datatype or 'Float32'} with the distance {distance}: "
            f"expected one of {', '.join(DTYPES.values())} and one of {', '.join(metrics)}."
        )
    return Field(name or DEFAULT, size, dtype, metrics[distance])  # type: ignore[arg-type]


def vector_of(found: Any, name: str) -> Sequence[float] | None:
    """Return one vector of what Qdrant returns: a list where there is only the default one, else a dictionary."""
    if isinstance(found, dict):
        vector: Sequence[float] | None = found.get(engine_name(name))
        return vector
    return found if name == DEFAULT and found else None
