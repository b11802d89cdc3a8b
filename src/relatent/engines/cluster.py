"""Shards on a Dask cluster."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from relatent._extras import needs
from relatent.engines.engine import Done, Engine, noted, tell, tree_sum
from relatent.engines.threads import cores, limit_threads, threads_per_worker

__all__ = ["Dask"]

# Seconds to wait for a scheduler to answer.
PATIENCE = 10

S = TypeVar("S")
R = TypeVar("R")


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
