"""What is needed next, made in another thread while what came before is worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
END = object()


def read_ahead(items: Generator[T, None, None], most: int = 1) -> Generator[T, None, None]:
    """Yield the items of a generator that runs in a thread of its own, at most so many items ahead.

    An error of the generator is raised when its turn comes. The generator is closed with this one.

    >>> list(read_ahead(n * n for n in range(4)))
    [0, 1, 4, 9]
    """
    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(next, items, END) for _ in range(most))
        try:
            while (item := waiting.popleft().result()) is not END:
                waiting.append(thread.submit(next, items, END))
                yield item  # type: ignore[misc]  # it is not END
        finally:
            for future in waiting:
                future.cancel()
            thread.submit(items.close)  # in its own thread, after the item that it is making
