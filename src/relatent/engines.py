"""WHERE shards run: in this process, in processes of this machine, or on a Dask cluster.

:meth:`Engine.map` applies a function to every shard of a space, and :meth:`Engine.sum` adds up the results. Both return
the same on every engine and with any number of workers. A worker that dies is replaced and its shard starts over:
functions that write must be idempotent. Functions and shards are pickled, so a script that uses processes needs
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

ENGINES = ("serial", "processes", "dask")
# A shard is not tried again after it was running in this many worker processes that died.
MAX_DEATHS = 3
# Results per worker that may wait for an earlier shard: bounds memory.
AHEAD = 4
# Seconds to wait for a Dask scheduler to answer.
TIMEOUT = 10

S = TypeVar("S")
R = TypeVar("R")
Done = Callable[[Any], None]

# In a worker process: its function, and the number of threads that it is limited to.
_installed: Callable[[Any], Any]
_limited: int | None = None


def open_engine(name: str | None = None, workers: int | None = None, scheduler: str | None = None) -> Engine:
    """Return an engine by its name: "serial", "processes" or "dask".

    By default, a ``scheduler`` means Dask, several ``workers`` mean processes, and neither means serial. The threads of
    all workers together do not exceed the cores of the machine. Dask starts a local cluster, unless ``scheduler`` is
    the address of one.

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
        raise ValueError("A scheduler was given, whose cluster has its own workers: use engine dask and no workers.")
    if name == "serial":
        if (workers or 1) > 1:
            raise ValueError(f"{workers} workers were asked for: the engine serial has one. Use processes or dask.")
        return Serial()
    return Dask(workers, scheduler) if name == "dask" else Processes(workers)


class Engine(ABC):
    """Runs a function over shards. Close it, or use it in a ``with`` block."""

    workers: int = 1

    @abstractmethod
    def map(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> Iterator[R]:
        """Yield the result of each shard, in order.

        ``done`` is called with each completed shard. Errors have a note that names their shard.
        """

    def sum(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> R:
        """Return the sum of the results, added up as a tree.

        The tree depends on the shards only, so that the number of workers does not change a digit.
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


class Processes(Engine):
    """Runs shards in processes of this machine, which are started for each map."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()

    def map(self, function: Callable[[S], R], shards: Sequence[S], done: Done | None = None) -> Iterator[R]:
        """Yield the result of each shard."""
        return _ProcessRun(function, shards, self.workers, done).results()


class _ProcessRun:
    """One map over processes: the running shards, and the results that wait for an earlier one."""

    def __init__(self, function: Callable[[Any], Any], shards: Sequence[Any], workers: int, done: Done | None) -> None:
        self._function, self._shards, self._workers, self._done = function, shards, workers, done
        self._waiting = list(range(len(shards)))
        self._running: dict[Future[Any], int] = {}
        self._results: dict[int, Any] = {}
        self._deaths = [0] * len(shards)
        self._pool = self._new_pool()

    def results(self) -> Iterator[Any]:
        """Yield results in order; the processes end with the iteration."""
        try:
            for i in range(len(self._shards)):
                while i not in self._results:
                    self._step(i)
                yield self._results.pop(i)
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _step(self, turn: int) -> None:
        """Submit waiting shards and wait for a result."""
        try:
            # One more than the workers, so that none is idle.
            ahead = turn + AHEAD * self._workers
            while self._waiting and len(self._running) <= self._workers and self._waiting[0] < ahead:
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
        """Submit again the shards that were running when a process died, ``MAX_DEATHS`` times at most."""
        lost = sorted(self._running.values())
        for i in lost:
            self._deaths[i] += 1
            if self._deaths[i] == MAX_DEATHS:
                raise RuntimeError(
                    f"Worker processes died {MAX_DEATHS} times while they were running "
                    f"{', '.join(shard_name(self._shards, j) for j in lost)}: did they run out of memory? Use fewer "
                    "workers. A script that starts them needs `if __name__ == '__main__':`."
                ) from error
        self._waiting = sorted({*lost, *self._waiting})
        self._running.clear()
        self._pool.shutdown(wait=False)
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        threads = threads_per_worker(self._workers)
        # Spawned: a forked process inherits the locks of BLAS and Arrow in any state.
        return ProcessPoolExecutor(
            min(self._workers, max(1, len(self._shards))), get_context("spawn"), _install, (self._function, threads)
        )


class Dask(Engine):
    """Runs shards on a Dask cluster: a local one that is closed with the engine, or that of a scheduler."""

    def __init__(self, workers: int | None = None, scheduler: str | None = None) -> None:
        self._distributed = needs("distributed", "dask", "run on a Dask cluster")
        self._cluster, self._threads, self._quiet = None, None, ExitStack()
        if scheduler is None:
            workers = workers or cores()
            self._threads = threads_per_worker(workers)
            # A cluster silences its log, except while it closes.
            self._quiet.enter_context(self._distributed.utils.silence_logging_cmgr(logging.WARNING))
            # The dashboard on a free port, for this machine only.
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
        """Add on the cluster, so that only the total is transferred."""
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
        """Disconnect from the cluster, and close it if it was started here."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._quiet.close()

    def _submitted(self, function: Callable[[S], R], shards: Sequence[S]) -> list[Any]:
        # The function is a task of its own: sent once, shared by all tasks, and recomputed if its worker dies.
        shared = self._client.submit(_itself, function, pure=False)
        return [self._client.submit(_run_limited, shared, shard, self._threads, pure=False) for shard in shards]

    @contextmanager
    def _killed(self) -> Iterator[None]:
        """Explain the error of dead workers."""
        try:
            yield
        except self._distributed.KilledWorker as error:
            raise RuntimeError(
                "Worker processes died repeatedly: did they run out of memory? Use fewer workers, or more machines."
            ) from error

    def _connected(self, scheduler: str | None) -> Any:
        try:
            return self._distributed.Client(self._cluster if scheduler is None else scheduler, timeout=TIMEOUT)
        except OSError as error:
            raise ConnectionError(
                f"No Dask scheduler answers at {scheduler}: check the address, or start one with `dask scheduler` and "
                "workers with `dask worker`."
            ) from error


def tree_sum(parts: Iterable[R], add: Callable[[R, R], R]) -> R:
    """Add neighbors, then their sums, and so on. The number of parts held is logarithmic in their count.

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
        raise ValueError("There are no shards to add up: expected at least one.")
    total = held.pop()[1]
    while held:
        total = add(held.pop()[1], total)
    return total


@contextmanager
def noted(shards: Sequence[Any], i: int) -> Iterator[None]:
    """Add a note to an error that names the shard."""
    try:
        yield
    except BrokenProcessPool:
        raise
    except Exception as error:
        if len(shards) > 1:
            error.add_note(f"This was {shard_name(shards, i)}.")
        raise


def shard_name(shards: Sequence[Any], i: int) -> str:
    """Return the name of a shard in messages."""
    return f"shard {i + 1} of {len(shards)}, {shards[i]}"


def tell(done: Done | None, shard: Any) -> None:
    """Call ``done``, if given, with a completed shard."""
    if done is not None:
        done(shard)


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_per_worker(workers: int) -> int:
    """Return the number of threads of each worker, so that all together do not exceed the cores."""
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


def _release(futures: Iterable[Any]) -> None:
    """Release tasks: pending ones are canceled. The traceback of an error would keep them alive."""
    for future in futures:
        future.release()


def _install(function: Callable[[Any], Any], threads: int) -> None:
    """Keep the function for all shards of a worker process, and end the process when its parent dies."""
    global _installed
    _installed = function
    limit_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and stops its workers
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_installed(shard: Any) -> Any:
    return _installed(shard)


def _run_limited(function: Callable[[Any], Any], shard: Any, threads: int | None) -> Any:
    if threads is not None:
        limit_threads(threads)
    return function(shard)


def _itself(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function
