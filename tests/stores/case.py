"""What the contract must know of a store to test it: one :class:`Case` per store, in ``tests/stores/cases``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from relatent.stores import Field, Store, open_store

# What a store may have to keep as keys; a case names the kinds that its store has.
KEYS: dict[str, list[Any]] = {
    "integer": [*range(40), 10**12, 2**53 + 1],
    "negative": [-(2**53), -7, 0, 5],
    "text": ["a", "b", "B", "10", "9", "", " ", "x" * 500, "é", "e\u0301", "ключ", "🔑", "a'b", 'a"b', "a\\b", "a,b\t"],
    "uuid": [f"{i * 2**120:032x}"[:8] + f"-0000-4000-8000-{i:012x}" for i in range(16)],
}


@dataclass(frozen=True)
class Items:
    """Items to put into a store."""

    keys: list[Any]
    vectors: np.ndarray
    payload: list[str]

    @staticmethod
    def draw(keys: list[Any], dim: int = 8, seed: int = 0) -> Items:
        rng = np.random.default_rng(seed)
        vectors = rng.normal(size=(len(keys), dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        order = rng.permutation(len(keys))  # a store must not depend on the order in which items came
        return Items([keys[i] for i in order], vectors[order], [f"text of {keys[i]!r}" for i in order])


class Case(ABC):
    """A store under test."""

    kinds: ClassVar[tuple[str, ...]] = ("integer",)
    """Which of KEYS it can hold."""
    metrics: ClassVar[tuple[str, ...]] = ("cosine", "inner", "l2")
    """The metrics that a new field can have."""
    codes: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The codes of eight bits that a new field can hold, and the metrics of each."""
    codes_queries: ClassVar[bool] = False
    """Whether it compares codes with codes, so that queries are coded, too."""
    bits: ClassVar[bool] = False
    """Whether a new field can hold bits."""
    payload: ClassVar[str | None] = "title"
    """The column of the payload; None where the store keeps none."""
    refused: ClassVar[tuple[str, ...]] = ()
    """Keys that the store cannot have."""

    def key(self, number: int) -> Any:
        """Return the key of an item that has a number; those of a store without integers rise as numbers do."""
        return number

    @abstractmethod
    def create(self, folder: Path, items: Items) -> str:
        """Make a store with these items, without relatent, and return its URL."""

    @abstractmethod
    def insert(self, url: str, items: Items) -> None:
        """Add items, as the owner of the store would."""

    @abstractmethod
    def delete(self, url: str, keys: list[Any]) -> None:
        """Delete items, as the owner of the store would."""

    @abstractmethod
    def missing(self, folder: Path) -> str:
        """Return the URL of what is not there."""

    def spoil(self, url: str, key: Any) -> bool:
        """Make the vector of an item unreadable; return False where the store keeps no such vectors."""
        return False

    def unfill(self, url: str, key: Any) -> bool:
        """Take the vector of an item away; return False where every item of the store has one."""
        return False

    @abstractmethod
    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        """Search as an application does, by the engine's own client; return the keys that it finds."""

    def reader(self, url: str, store: Store) -> Store:
        """Open the store for another reader; an engine that only one process can open returns the store itself."""
        return open_store(url)


def as_keys(keys: list[Any]) -> pa.Array:
    return pa.array(keys, pa.string() if isinstance(keys[0], str) else pa.int64())
