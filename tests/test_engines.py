"""Shards run anywhere with one result; a worker that dies is survived, a shard that fails is named."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import relatent as rl
from relatent import engines as cluster
from relatent.engines import Engine, cores, open_engine, threads_per_worker, tree_sum

NAMES = ["serial", "processes", "dask"]


@pytest.fixture(scope="module", params=NAMES)
def engine(request):
    with open_engine(request.param, None if request.param == "serial" else 2) as opened:
        yield opened


@pytest.fixture(scope="module", params=NAMES[1:])
def several(request):
    """An engine of two worker processes."""
    with open_engine(request.param, 2) as opened:
        yield opened


def squared(n: int) -> int:
    time.sleep(0.05 * (n % 2))  # so that shards do not end in the order in which they began
    return n * n


def refuse_three(n: int) -> int:
    if n == 3:
        raise ValueError("three is refused")
    return n


class DiesOnce:
    """Kills the process that works on one shard, the first time it is tried, or every time."""

    def __init__(self, folder: Path, shard: int, always: bool = False) -> None:
        self.folder, self.shard, self.always = folder, shard, always

    def __call__(self, n: int) -> int:
        with (self.folder / f"{n}.tried").open("a") as file:
            file.write(f"{os.getpid()}\n")
        tried = (self.folder / f"{n}.tried").read_text().split()
        if n == self.shard and (self.always or len(tried) == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return n


class Summed:
    """Pairs of a range of rows."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size

    def __call__(self, shard: tuple[int, int]) -> rl.Pairs:
        start, stop = shard
        x, y = views(self.rows)
        return rl.Pairs.of(x[start:stop], y[start:stop], start=start, size=self.size)


def views(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, 6)) + 3
    return x, x @ rng.normal(size=(6, 4)) + 0.1 * rng.normal(size=(rows, 4))


def threads_at_work(_: int) -> tuple[int, list[int]]:
    np.ones((4, 4)) @ np.ones((4, 4))
    return os.getpid(), [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_results_come_in_the_order_of_the_shards(engine):
    completed: list[int] = []
    assert list(engine.map(squared, range(11), completed.append)) == [n * n for n in range(11)]
    assert sorted(completed) == list(range(11))
    assert list(engine.map(squared, [])) == []


def test_an_error_keeps_its_type_and_names_its_shard(engine):
    with pytest.raises(ValueError, match="three is refused") as caught:
        list(engine.map(refuse_three, range(6)))
    assert caught.value.__notes__ == ["This was shard 4 of 6, 3."]
    with pytest.raises(ValueError, match="three is refused") as caught:
        engine.sum(refuse_three, range(6))
    assert caught.value.__notes__ == ["This was shard 4 of 6, 3."]
    assert list(engine.map(squared, range(3))) == [0, 1, 4]  # and the engine still works


@pytest.mark.parametrize(("shards", "size"), [(1, 50), (2, 10_000), (7, 50)])
def test_sums_and_the_fit_do_not_depend_on_engine_or_shards(engine, shards, size):
    rows = 400
    edges = np.linspace(0, rows, shards + 1).astype(int).tolist()
    completed: list[tuple[int, int]] = []
    found = engine.sum(Summed(rows, size), list(pairwise(edges)), completed.append)
    assert len(completed) == shards
    whole = rl.Pairs.of(*views(rows), size=size)
    np.testing.assert_array_equal(found.sample.ids, whole.sample.ids)
    for name, moments in whole.summary.arrays().items():
        assert np.linalg.norm(getattr(found.summary, name) - moments) <= 1e-9 * np.linalg.norm(moments)
    one, other = (rl.Translator().fit(pairs).transform(views(rows)[0]) for pairs in (found, whole))
    assert np.linalg.norm(one - other) <= 1e-9 * np.linalg.norm(other)


def test_the_number_of_workers_changes_no_digit(several):
    shards = [(i, i + 40) for i in range(0, 400, 40)]
    one, two = (engine.sum(Summed(400, 50), shards).summary.xy for engine in (open_engine(), several))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("primitive", ["map", "sum"])
def test_a_worker_that_is_killed_is_survived(several, tmp_path, primitive):
    done = getattr(several, primitive)(DiesOnce(tmp_path, shard=3), range(8))
    assert (done if primitive == "sum" else sum(done)) == sum(range(8))
    tried = (tmp_path / "3.tried").read_text().split()
    assert len(tried) >= 2
    assert str(os.getpid()) not in tried


def test_a_shard_that_kills_every_worker_is_named(several, tmp_path):
    with pytest.raises(RuntimeError, match=r"died 3 times|died repeatedly") as caught:
        list(several.map(DiesOnce(tmp_path, shard=1, always=True), range(3)))
    # Shards that shared its worker are named too.
    assert re.search("shard [1-3] of 3, [0-2]", " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])]))


def test_workers_do_not_ask_for_more_threads_than_there_are_cores(several):
    seen = dict(several.map(threads_at_work, range(8)))
    assert os.getpid() not in seen
    assert len(seen) <= 2
    for pools in seen.values():
        assert all(threads * 2 <= max(2, cores()) for threads in pools)
    assert threads_per_worker(1) == cores()
    assert threads_per_worker(10 * cores()) == 1


def test_workers_die_with_their_parent(tmp_path):
    """A killed command leaves no process behind that still writes."""
    code = """
import sys, time
from pathlib import Path
from tests.test_engines import Lingers
from relatent.engines import open_engine
if __name__ == "__main__":
    list(open_engine("processes", 2).map(Lingers(sys.argv[1]), range(4)))
"""
    (tmp_path / "main.py").write_text(code)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "main.py", tmp_path], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    workers = [int(file.stem) for file in _appear(tmp_path, "*.pid", 2)]
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while any(map(_lives, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_lives, workers))


class Lingers:
    """Tells the id of its process and stays for a minute."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def __call__(self, n: int) -> None:
        (self.folder / f"{os.getpid()}.pid").touch()
        time.sleep(60)


def _appear(folder: Path, pattern: str, count: int) -> list[Path]:
    deadline = time.monotonic() + 60
    while len(found := list(folder.glob(pattern))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_engines_are_chosen_by_name_or_by_what_is_given():
    assert type(open_engine()) is rl.engines.Serial
    assert open_engine(workers=3).workers == 3
    assert isinstance(open_engine(workers=3), rl.engines.Processes)
    assert issubclass(rl.engines.Dask, Engine)
    for given, message in [
        ({"name": "daks"}, "no engine 'daks'. Did you mean 'dask'"),
        ({"workers": 0}, "0 workers were asked for"),
        ({"name": "serial", "workers": 2}, "the engine serial has one"),
        ({"name": "processes", "scheduler": "tcp://x:1"}, "use engine dask and no workers"),
        ({"workers": 2, "scheduler": "tcp://x:1"}, "use engine dask and no workers"),
    ]:
        with pytest.raises(ValueError, match=message):
            open_engine(**given)


def test_a_scheduler_is_used_by_its_address_and_a_wrong_one_is_named(monkeypatch):
    with open_engine("dask", 1) as local, open_engine(scheduler=local._cluster.scheduler_address) as other:
        assert len(local._cluster.workers) == local.workers == other.workers == 1
        assert list(other.map(squared, range(3))) == [0, 1, 4]
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    with pytest.raises(ConnectionError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        open_engine(scheduler="tcp://127.0.0.1:1")


def test_adding_up_nothing_is_refused():
    with pytest.raises(ValueError, match="no shards to add up"):
        tree_sum([], max)
