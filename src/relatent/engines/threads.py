"""Cores and threads: workers together use no more threads than there are cores."""

from __future__ import annotations

import os

__all__ = ["cores", "limit_threads", "threads_per_worker"]

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
