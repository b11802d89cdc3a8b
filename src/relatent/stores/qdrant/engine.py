"""What the store needs of Qdrant, whether a server or the embedded engine does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from relatent.stores.address import Address, StoreError
from relatent.stores.checks import NUMERIC_METRICS
from relatent.stores.codes import is_coded, quantizer
from relatent.stores.store import Field

# What the vector without a name is called here. A collection that has one has no other vector of that name.
DEFAULT = "default"
# Qdrant's names of metrics and datatypes.
DISTANCES = {"cosine": "Cosine", "inner": "Dot", "l2": "Euclid"}
DTYPES = {"float32": "Float32", "float16": "Float16", "uint8": "Uint8"}
# Codes are compared with codes. Their distances are those of the vectors, in units of the scale; their products are
# not, since codes begin at the offset.
HELD = {"float32": NUMERIC_METRICS, "float16": NUMERIC_METRICS, "uint8": ("cosine", "l2")}


@dataclass(frozen=True)
class Point:
    """A point: its id, the vector that was asked for if it has one, and its payload."""

    id: int | str
    vector: Sequence[float] | None
    payload: Mapping[str, Any]


class Engine(Protocol):
    """A collection, by the calls that both engines have."""

    def fields(self) -> list[Field]:
        """Return the dense vectors of the collection."""
        ...

    def read_note(self) -> dict[str, Any] | None:
        """Return what was noted, if anything."""
        ...

    def write_note(self, note: dict[str, Any]) -> None:
        """Note something, in one step for every reader."""
        ...

    def scroll(
        self, start: int | str | None, limit: int, vector: str | None, payload: bool
    ) -> tuple[list[Point], int | str | None]:
        """Return points in order of their ids from a start on, and the id that comes next."""
        ...

    def existing(self, ids: list[int | str]) -> set[int | str]:
        """Return which ids there are."""
        ...

    def set_vectors(self, name: str, ids: list[int | str], vectors: np.ndarray) -> None:
        """Set a vector of points that are there. Durable when it returns."""
        ...

    def create(self, field: Field) -> None:
        """Create a named vector, empty for every point."""
        ...

    def drop(self, name: str) -> None:
        """Remove a named vector from every point."""
        ...

    def search(self, name: str, queries: np.ndarray, k: int, exact: bool) -> list[list[tuple[int | str, float]]]:
        """Return the ids of the best points of each query, with Qdrant's score."""
        ...

    def count(self, name: str) -> int:
        """Count the points that have a vector."""
        ...

    def build_index(self) -> None:
        """Wait until everything is indexed that is to be."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Keep other migrations out."""
        ...

    def close(self) -> None:
        """Close the connection or folder."""
        ...


def engine_name(name: str) -> str:
    """Return Qdrant's name of a vector."""
    return "" if name == DEFAULT else name


def distance_of(field: Field) -> str:
    """Return Qdrant's name of what a field is compared by; at norm 1, distances rank as cosines do."""
    return DISTANCES["l2" if is_coded(field) else field.metric]


def scores(field: Field, found: Sequence[float]) -> np.ndarray:
    """Return what Qdrant says of hits as scores: a distance becomes minus itself, or the cosine of unit vectors."""
    said = np.asarray(found, dtype=np.float64)
    if is_coded(field):
        said = said * quantizer(field).scale
        return np.asarray(1 - said**2 / 2 if field.metric == "cosine" else -said)
    return -said if field.metric == "l2" else said


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
    return Field(name or DEFAULT, size, dtype, metrics[distance])


def vector_of(found: Any, name: str) -> Sequence[float] | None:
    """Return one vector of what Qdrant returns: a list where there is only the default one, else a dictionary."""
    if isinstance(found, dict):
        vector: Sequence[float] | None = found.get(engine_name(name))
        return vector
    return found if name == DEFAULT and found else None
