"""WHERE shards run: in this process, in processes of this machine, or on a Dask cluster.

An engine does two things with the shards of a space: :meth:`Engine.map` applies a function to each, and
:meth:`Engine.sum` adds up what the function returns. Both give the same result on every engine and with any number of
workers. A worker that dies is replaced, and its shard begun again: let a function write what it makes under a name of
its own, or write it idempotently. Functions and shards are pickled, so a script that uses processes needs the usual
``if __name__ == "__main__":``.
"""

from __future__ import annotations

import logging
import operator
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context, parent_process
from typing import Any, Self, TypeVar

from relatent._array import suggest
from relatent._errors import needs

__all__ = ["ENGINES", "Dask", "Engine", "Processes", "Serial", "open_engine"]

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
        return self

    def __exit__(self, *_: object) -> None:
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


_limited: int | None = None


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_per_worker(workers: int) -> int:
    """Return how many threads each worker may use, so that all of them do not ask for more cores than there are."""
    return max(1, cores() // workers)


def limit_threads(threads: int) -> None:
    """Limit the threads of BLAS and Arrow in this process."""
    global _limited
    if threads != _limited:
        import pyarrow as pa
        from threadpoolctl import threadpool_limits

        threadpool_limits(threads)
        pa.set_cpu_count(threads)
        _limited = threads


# A shard in whose company so many worker processes have died is not tried again.
MAX_DEATHS = 3
# Results that wait for an earlier shard, per worker: what bounds memory.
AHEAD = 4


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
            if self._deaths[i] == MAX_DEATHS:
                raise RuntimeError(
                    f"Worker processes died {MAX_DEATHS} times while they were at work on "
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


# Seconds to wait for a scheduler to answer.
PATIENCE = 10


class Dask(Engine):
    """Runs shards on a Dask cluster: one of this machine that lasts as long as the engine, or any other."""

    def __init__(self, workers: int | None = None, scheduler: str | None = None) -> None:
        self._distributed = needs("distributed", "dask", "run on a Dask cluster")
        self._cluster, self._threads, self._quiet = None, None, ExitStack()
        if scheduler is None:
            workers = workers or cores()
            self._threads = threads_per_worker(workers)
            # A cluster silences its log, but not that of its own end.
            self._quiet.enter_context(self._distributed.utils.silence_logging_cmgr(logging.WARNING))
            # The dashboard on any free port, for this machine only.
            self._cluster = self._distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
            )
        self._client = self._connected(scheduler)
        self.workers = sum(self._client.ncores().values()) or 1

    def map(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> Iterator[R]:
        """Yield the result of each shard."""
        futures = self._submitted(function, shards)
        try:
            for i, future in enumerate(futures):
                with noted(shards, i), self._killed():
                    result = future.result()
                tell(done, shards[i])
                yield result
        finally:
            _release(futures)

    def sum(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> R:
        """Add on the cluster, so that only the total comes here."""
        futures = self._submitted(function, shards)
        places = {future.key: i for i, future in enumerate(futures)}
        total = tree_sum(futures, lambda a, b: self._client.submit(operator.add, a, b, pure=False))
        try:
            for future in self._distributed.as_completed(futures):
                with noted(shards, places[future.key]), self._killed():
                    if future.status != "finished":
                        future.result()
                tell(done, shards[places[future.key]])
            result: R = total.result()
        finally:
            _release([total, *futures])
        return result

    def close(self) -> None:
        """Leave the cluster, and end it if it is ours."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._quiet.close()

    def _submitted(self, function: Callable[[S], R], shards: Sequence[S]) -> list[Any]:
        # The function is a result of its own: sent once, shared by all tasks, and made again if a worker dies with it.
        shared = self._client.submit(_itself, function, pure=False)
        return [self._client.submit(_run_limited, shared, shard, self._threads, pure=False) for shard in shards]

    @contextmanager
    def _killed(self) -> Iterator[None]:
        """Say in our words what became of the workers."""
        try:
            yield
        except self._distributed.KilledWorker as error:
            raise RuntimeError(
                "Worker processes died again and again while they were at work: were they short of memory? Take fewer "
                "workers, or more machines."
            ) from error

    def _connected(self, scheduler: str | None) -> Any:
        try:
            return self._distributed.Client(self._cluster if scheduler is None else scheduler, timeout=PATIENCE)
        except OSError as error:
            raise ConnectionError(
                f"No Dask scheduler answers at {scheduler}: check the address, or start one with `dask scheduler` and "
                "workers with `dask worker`."
            ) from error


def _release(futures: Iterable[Any]) -> None:
    """Let the cluster forget tasks: those that did not begin never will. An error's traceback would keep them alive."""
    for future in futures:
        future.release()


# What runs in a worker.


def _run_limited(function: Callable[[Any], Any], shard: Any, threads: int | None) -> Any:
    if threads is not None:
        limit_threads(threads)
    return function(shard)


def _itself(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


ENGINES = ("serial", "processes", "dask")


def open_engine(name: str | None = None, workers: int | None = None, scheduler: str | None = None) -> Engine:
    """Return an engine by its name: "serial", "processes" or "dask".

    Without a name, a ``scheduler`` means Dask, several ``workers`` mean processes, and neither means serial. Workers
    share the cores of the machine: each takes as many threads as leave no core to two of them. Dask starts a cluster on
    this machine, unless ``scheduler`` is the address of one.

    >>> with open_engine() as engine:
    ...     engine.sum(len, ["one", "three"])
    8
    """
    if name is None:
        name = "dask" if scheduler is not None else "processes" if (workers or 1) > 1 else "serial"
    if name not in ENGINES:
        raise ValueError(f"There is no engine {name!r}.{suggest(name, ENGINES)}")
    if workers is not None and workers < 1:
        raise ValueError(f"{workers} workers were asked for: expected at least 1.")
    if scheduler is not None and (name != "dask" or workers is not None):
        raise ValueError("A scheduler was given, whose cluster has its own workers: say engine dask and no workers.")
    if name == "serial":
        if (workers or 1) > 1:
            raise ValueError(f"{workers} workers were asked for: serial is one. Take the engine processes or dask.")
        return Serial()
    return Dask(workers, scheduler) if name == "dask" else Processes(workers)
