"""What every engine does: map a function over shards, and sum up what it returns."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Self, TypeVar

__all__ = ["Done", "Engine", "Serial", "noted", "shard_name", "tell", "tree_sum"]

S = TypeVar("S")
R = TypeVar("R")
Done = Callable[[Any], None]


class Engine(ABC):
    """Runs a function over shards. Close it, or use it in a ``with`` block."""

    workers: int = 1

    @abstractmethod
    def map(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> Iterator[R]:
        """Yield what the function returns for each shard, in their order.

        ``done`` is called with each shard once it is complete. An error says in a note which shard it came from.
        """

    def sum(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> R:
        """Return the sum of what the function returns for the shards, added up as a tree.

        The tree depends on the shards alone, so that the number of workers does not change a digit.
        """
        return tree_sum(self.map(function, shards, done), operator.add)

    def close(self) -> None:
        """End the workers."""
        return

    def __enter__(self) -> Self:
        """Use it in a ``with`` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class Serial(Engine):
    """Runs shards one after the other in this process."""

    def map(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> Iterator[R]:
        """Yield the result of each shard."""
        for i, shard in enumerate(shards):
            with noted(shards, i):
                result = function(shard)
            tell(done, shard)
            yield result


def tree_sum(parts: Iterable[R], add: Callable[[R, R], R]) -> R:
    """Add neighbors, then their sums, and so on; what is held at a time grows as the logarithm of the number of parts.

    >>> tree_sum(["a", "b", "c"], lambda x, y: f"({x}+{y})")
    '((a+b)+c)'
    """
    held: list[tuple[int, R]] = []
    for part in parts:
        level = 0
        while held and held[-1][0] == level:
            part, level = add(held.pop()[1], part), level + 1
        held.append((level, part))
    if not held:
        raise ValueError("There is no shard to add up: expected at least one.")
    total = held.pop()[1]
    while held:
        total = add(held.pop()[1], total)
    return total


@contextmanager
def noted(shards: Sequence[Any], i: int) -> Iterator[None]:
    """Add a note to an error that says which of several shards it came from."""
    try:
        yield
    except BrokenProcessPool:
        raise
    except Exception as error:
        if len(shards) > 1:
            error.add_note(f"This was {shard_name(shards, i)}.")
        raise


def shard_name(shards: Sequence[Any], i: int) -> str:
    """Return what a message calls a shard."""
    return f"shard {i + 1} of {len(shards)}, {shards[i]}"


def tell(done: Done | None, shard: Any) -> None:
    """Say that a shard is complete to whoever wants to know."""
    if done is not None:
        done(shard)
