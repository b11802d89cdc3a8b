"""WHERE shards run: in this process, in processes of this machine, or on a Dask cluster.

An engine does two things with the shards of a space: :meth:`Engine.map` applies a function to each, and
:meth:`Engine.sum` adds up what the function returns. Both give the same result on every engine and with any number of
workers. A worker that dies is replaced, and its shard begun again: let a function write what it makes under a name of
its own, or write it idempotently. Functions and shards are pickled, so a script that uses processes needs the usual
``if __name__ == "__main__":``.
"""

from __future__ import annotations

from relatent._array import suggest
from relatent.engines.cluster import Dask
from relatent.engines.engine import Engine, Serial
from relatent.engines.processes import Processes

__all__ = ["ENGINES", "Dask", "Engine", "Processes", "Serial", "open_engine"]

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
