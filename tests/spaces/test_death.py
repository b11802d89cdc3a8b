"""A writer that dies at any moment leaves the old space or the new one, never a mixture."""

import subprocess
import sys
import time

import numpy as np
import pytest

from relatent._files import FileError
from relatent.spaces import Fingerprint, Space, read_space, write_space

# For each number in its input, a child that dies at the nth of the calls by which a file becomes durable or takes its
# name; prints how it ended, and how many there were.
DIES = """
import os, sys
from relatent.spaces import read_space, write_space
calls = 0
def write(last):
    def deadly(call):
        def wrapped(*args, **options):
            global calls
            calls += 1
            if calls == last:
                os._exit(9)
            return call(*args, **options)
        return wrapped
    for name in ("fsync", "replace", "link", "rename"):
        setattr(os, name, deadly(getattr(os, name)))
    write_space(read_space(sys.argv[1]), sys.argv[2], others=False, overwrite=True)
for line in sys.stdin:
    out, into = os.pipe()
    child = os.fork()
    if not child:
        write(int(line))
        os.write(into, str(calls).encode())
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(into)
    print(code, os.read(out, 9).decode(), flush=True)
"""
WRITES = """
import sys
from relatent.spaces import read_space, write_space
spaces = [read_space(path) for path in sys.argv[2:4]]
for i in range(1_000_000):
    write_space(spaces[i % 2], sys.argv[1], others=False, overwrite=True)
"""
# One format of one file, one with a sidecar, and one whose keys used to stand in a file of their own.
NAMES = ["x.vec", "x.npy", "x.parquet"]


def space_of(number):
    """Ten rows whose vectors, keys and fingerprint all carry one number."""
    vectors = np.full((10, 4), number, dtype=np.float32)
    return Space(
        vectors, keys=[f"{number}-{i}" for i in range(10)], fingerprint=Fingerprint(4, model=f"model {number}")
    )


def numbers(path):
    """Every number that a file carries; one, if it is of one writer."""
    space = read_space(path)
    keys = {int(str(key).split("-")[0]) for key in space.keys}
    return {*np.unique(space.vectors).astype(int).tolist(), *keys, int(space.fingerprint.model.split()[1])}


@pytest.fixture
def sources(tmp_path):
    paths = [tmp_path / f"source-{i}.parquet" for i in (1, 2)]
    for i, path in enumerate(paths, 1):
        write_space(space_of(i), path)
    return paths


@pytest.fixture
def die(tmp_path, sources):
    """Return a function that writes a source to a name and dies at a call: how it ended, and how many there were."""
    (tmp_path / "out").mkdir()
    running = {}

    def write(name, at):
        if name not in running:
            words = [sys.executable, "-c", DIES, sources[1], tmp_path / "out" / name]
            running[name] = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running[name].stdin.write(f"{at}\n")
        running[name].stdin.flush()
        return [int(word) for word in running[name].stdout.readline().split()]

    yield write
    for process in running.values():
        process.communicate()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("old", ["ours", "foreign", "none"])
def test_death_at_every_sync_and_rename(tmp_path, die, name, old):
    if old == "foreign" and name != "x.vec":
        pytest.skip("only a text has its record in another file")
    folder, at = tmp_path / "out", 0
    while True:
        for file in folder.iterdir():
            if file.is_file():
                file.unlink()
        if old == "ours":
            write_space(space_of(1), folder / name, others=False)
        elif old == "foreign":
            (folder / name).write_text("2 4\na 1 1 1 1\nb 1 1 1 1\n")
        at += 1
        code, *calls = die(name, at)
        if code == 0:
            break
        assert code == 9
        if old == "ours":
            assert numbers(folder / name) in ({1}, {2})
        elif old == "foreign":
            back = read_space(folder / name)
            assert (np.unique(back.vectors).tolist(), back.fingerprint.model) in (([1], None), ([2], "model 2"))
        elif (folder / name).exists():
            assert numbers(folder / name) == {2}
    assert at > 4
    assert calls == [at - 1]
    assert numbers(folder / name) == {2}
    assert not [file for file in folder.iterdir() if file.name.startswith(".relatent-")]  # the next run has cleaned up


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "x.jsonl", "x.npz", "x.arrow", "x.safetensors", "x.h5"])
def test_kill_at_any_moment(tmp_path, sources, name):
    """Two spaces replace one another until the writer is killed; what stands there is one of them."""
    write_space(space_of(1), tmp_path / name, others=False)
    rng, states = np.random.default_rng(0), []
    for _ in range(50):
        writer = subprocess.Popen([sys.executable, "-c", WRITES, tmp_path / name, *sources])
        time.sleep(1.5 + rng.uniform(0, 0.5))
        writer.kill()
        writer.wait()
        states.append(numbers(tmp_path / name))
    assert all(state in ({1}, {2}) for state in states), states
    write_space(space_of(3), tmp_path / name, others=False, overwrite=True)
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".relatent-")]


def test_interleaved_writers_do_not_mix(tmp_path, sources):
    """Two processes write one text and its sidecar again and again; every look finds one of them, whole."""
    path = tmp_path / "x.vec"
    write_space(space_of(1), path, others=False)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITES, path, *pair], stderr=subprocess.DEVNULL)
        for pair in (sources, sources[::-1])
    ]
    time.sleep(3)
    states = []
    for _ in range(30):
        try:
            states.append(numbers(path))
        except FileError:  # replaced while it was read, and noticed
            states.append("noticed")
    for writer in writers:
        writer.kill()
        writer.wait()
    assert all(state in ({1}, {2}, "noticed") for state in states), states
    assert numbers(path) in ({1}, {2})


def test_leftovers_are_not_read_as_data(tmp_path):
    write_space(space_of(1), tmp_path / "a.parquet")
    for hidden in (".relatent-abcdefgh.part", ".ipynb_checkpoints", "_temporary/0"):
        (tmp_path / hidden).mkdir(parents=True)
        write_space(space_of(2), tmp_path / hidden / "a.parquet")
    (tmp_path / "deep").mkdir()
    write_space(space_of(1), tmp_path / "deep" / "b.parquet")
    assert len(read_space(tmp_path)) == 20
    assert len(read_space(tmp_path / "**" / "*.parquet")) == 20
    assert len(read_space(tmp_path / "_temporary" / "0" / "*.parquet")) == 10
