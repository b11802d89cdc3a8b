"""Shards in processes of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

from relatent.engines.engine import Done, Engine, noted, shard_name, tell
from relatent.engines.threads import cores, limit_threads, threads_per_worker

__all__ = ["Processes"]

# A shard in whose company so many worker processes have died is not tried again.
MOST_DEATHS = 3
# Results that wait for an earlier shard, per worker: what bounds memory.
AHEAD = 4

S = TypeVar("S")
R = TypeVar("R")


class Processes(Engine):
    """Runs shards in processes of this machine, which are started anew for each map."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()

    def map(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> Iterator[R]:
        """Yield the result of each shard."""
        return _ProcessRun(function, shards, self.workers, done).results()


class _ProcessRun:
    """One map over processes: which shards are at work, and which results wait for their turn."""

    def __init__(self, function: Callable[[Any], Any], shards: Sequence[Any], workers: int, done: Done | None) -> None:
        self._function, self._shards, self._workers, self._done = function, shards, workers, done
        self._waiting = list(range(len(shards)))
        self._running: dict[Future[Any], int] = {}
        self._results: dict[int, Any] = {}
        self._deaths = [0] * len(shards)
        self._pool = self._new_pool()

    def results(self) -> Iterator[Any]:
        """Yield results in order; end the processes at the end, or when nobody waits for more."""
        try:
            for i in range(len(self._shards)):
                while i not in self._results:
                    self._step(i)
                yield self._results.pop(i)
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _step(self, turn: int) -> None:
        """Keep the workers busy and wait for one of them."""
        try:
            # One more than there are workers, so that none waits for the next.
            while self._waiting and len(self._running) <= self._workers and self._waiting[0] < turn + self._most_ahead:
                self._running[self._pool.submit(_run_installed, self._shards[self._waiting[0]])] = self._waiting[0]
                del self._waiting[0]
            for future in wait(self._running, return_when=FIRST_COMPLETED).done:
                self._take(future)
        except BrokenProcessPool as error:
            self._restart(error)

    def _take(self, future: Future[Any]) -> None:
        i = self._running[future]
        with noted(self._shards, i):
            self._results[i] = future.result()
        del self._running[future]
        tell(self._done, self._shards[i])

    def _restart(self, error: BrokenProcessPool) -> None:
        """Begin again what was at work when a process died, as often as that is likely to help."""
        lost = sorted(self._running.values())
        for i in lost:
            self._deaths[i] += 1
            if self._deaths[i] == MOST_DEATHS:
                raise RuntimeError(
                    f"Worker processes died {MOST_DEATHS} times while they were at work on "
                    f"{', '.join(shard_name(self._shards, j) for j in lost)}: were they short of memory? Take fewer "
                    "workers. A script that starts them needs `if __name__ == '__main__':`."
                ) from error
        self._waiting = sorted({*lost, *self._waiting})
        self._running.clear()
        self._pool.shutdown(wait=False)
        self._pool = self._new_pool()

    @property
    def _most_ahead(self) -> int:
        return AHEAD * self._workers

    def _new_pool(self) -> ProcessPoolExecutor:
        threads = threads_per_worker(self._workers)
        # Spawned: a forked process inherits locks of BLAS and Arrow in whatever state they are.
        return ProcessPoolExecutor(
            min(self._workers, max(1, len(self._shards))), get_context("spawn"), _install, (self._function, threads)
        )


# What runs in a worker.

_installed: Callable[[Any], Any]


def _install(function: Callable[[Any], Any], threads: int) -> None:
    """Keep the function for all shards of a worker process, and end the process when its parent has died."""
    global _installed
    _installed = function
    limit_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends its workers
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_installed(shard: Any) -> Any:
    return _installed(shard)
