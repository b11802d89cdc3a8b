"""A folder that was being written when its writer died is resumed, and ends up as if nothing had happened."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import relatent as rl
from relatent._files import FileError
from relatent.engines import open_engine
from relatent.spaces import ResumeWarning
from relatent.spaces.io import mapping as parts
from relatent.translate import translate_space

DIM = 16
# Small parts, and a moment of sleep in each so that a kill finds the run at work. The engine may be said.
RUN = """
import sys, time, warnings
import relatent as rl
from relatent.spaces.io import mapping as parts
from relatent.translate import translate_space
from relatent.engines import open_engine
parts.PART_BYTES = int(sys.argv[4])
warnings.simplefilter("ignore")
if __name__ == "__main__":
    print("begins", flush=True)
    with open_engine(sys.argv[5], None if sys.argv[5] == "serial" else 2) as engine:
        translate_space(rl.load(sys.argv[1]), rl.read_space(sys.argv[2]), sys.argv[3], engine=engine)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a space of 2,000 rows in two files, a translator, and parts of about 200 rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, DIM)).astype(np.float32)
    (tmp_path / "old").mkdir()
    for i, name in enumerate("ab"):
        part = rl.Space(x[1000 * i : 1000 * (i + 1)], list(range(1000 * i, 1000 * (i + 1))), others={"n": range(1000)})
        rl.write_space(part, tmp_path / "old" / f"{name}.parquet")
    rl.Translator(map="orthogonal").fit(x, x[:, ::-1].copy()).save(tmp_path / "t.safetensors")
    monkeypatch.setattr(parts, "PART_BYTES", 200 * 4 * DIM)
    monkeypatch.setattr("relatent.spaces.chunks.MAX_GROUP_ROWS", 200)
    return tmp_path


def translate(place, out="new", **options):
    translate_space(rl.load(place / "t.safetensors"), rl.read_space(place / "old"), place / out, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def stopped(place, monkeypatch, at: int, error: BaseException) -> None:
    """Run until the part of a number is to be written, and let that end in an error."""
    write = parts._WritePart.__call__

    def failing(self, part):
        if part.number == at:
            raise error
        return write(self, part)

    with monkeypatch.context() as patch:
        patch.setattr(parts._WritePart, "__call__", failing)
        with pytest.raises(type(error)):
            translate(place)


def work_folder(place: Path) -> Path:
    (found,) = place.glob(".relatent-new-*.resume")
    return found


def test_parts_are_the_translated_rows_in_order(place):
    translate(place)
    names = [file.name for file in sorted((place / "new").iterdir())]
    assert names == ["_relatent.json", *(f"part-{i:05d}.parquet" for i in range(10))]
    back, old = rl.read_space(place / "new"), rl.read_space(place / "old")
    np.testing.assert_array_equal(back.keys, old.keys)
    np.testing.assert_allclose(back.vectors, rl.load(place / "t.safetensors").transform(old.vectors), rtol=1e-5)
    assert back.others.column("n").to_pylist() == old.others.column("n").to_pylist()
    assert sorted(file.name for file in place.iterdir()) == ["new", "old", "t.safetensors"]


def test_a_stopped_run_is_resumed(place, monkeypatch):
    translate(place, "clean")
    stopped(place, monkeypatch, 6, KeyboardInterrupt())
    kept = {file.name: file.stat().st_mtime_ns for file in work_folder(place).glob("*.parquet")}
    assert len(kept) == 6
    with pytest.warns(ResumeWarning, match="which wrote 6 of 10 parts"):
        translate(place)
    assert contents(place / "new") == contents(place / "clean")
    assert kept.items() <= {file.name: file.stat().st_mtime_ns for file in (place / "new").iterdir()}.items()
    assert not list(place.glob(".*"))


@pytest.mark.parametrize("damage", ["record", "foreign", "part", "missing"])
def test_a_part_that_does_not_match_its_record_starts_over_with_a_warning(place, monkeypatch, damage):
    translate(place, "clean")
    stopped(place, monkeypatch, 6, OSError("the network is gone"))
    folder = work_folder(place)
    record, part = folder / ".resume" / "part-00002.parquet.json", folder / "part-00002.parquet"
    if damage == "record":
        record.write_bytes(record.read_bytes()[:-3])
    elif damage == "foreign":
        record.write_bytes((folder / ".resume" / "part-00003.parquet.json").read_bytes())
    elif damage == "part":
        pq.write_table(pq.read_table(part)[:5], part)
    else:
        part.unlink()
    with pytest.warns(ResumeWarning) as said:
        translate(place)
    assert [str(w.message) for w in said] == [
        "part-00002.parquet of an earlier run does not match its record: it is written again.",
        "Resuming an earlier run, which wrote 5 of 10 parts.",
    ]
    assert contents(place / "new") == contents(place / "clean")


def test_a_run_with_other_inputs_starts_over_with_a_warning(place, monkeypatch):
    stopped(place, monkeypatch, 6, OSError("the network is gone"))
    x = rl.read_space(place / "old").vectors
    rl.Translator(map="orthogonal").fit(x, x[:, ::-1] + 1).save(place / "t.safetensors", overwrite=True)
    with pytest.warns(ResumeWarning, match="had other inputs or another translator: this one starts over"):
        translate(place)
    np.testing.assert_allclose(rl.read_space(place / "new").vectors, x[:, ::-1] + 1, atol=1e-4)
    assert not list(place.glob(".*"))


def test_a_run_that_died_before_it_named_the_folder_writes_nothing_again(place, monkeypatch):
    translate(place, "clean")
    with monkeypatch.context() as patch:
        patch.setattr(parts, "land_folder", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            translate(place)
    assert not (work_folder(place) / ".resume").exists()
    monkeypatch.setattr(parts._WritePart, "__call__", None)
    translate(place)
    assert contents(place / "new") == contents(place / "clean")


@pytest.mark.filterwarnings("ignore:The rows of .* from about")
def test_an_input_that_cannot_be_translated_leaves_nothing_behind(place):
    x = rl.read_space(place / "old").vectors
    x[1500] = np.nan
    rl.write_space(rl.Space(x, list(range(2000))), place / "bad.parquet")
    with pytest.raises(ValueError, match=r"Row 1500 \(key 1500\) of .*bad\.parquet holds NaN") as caught:
        translate_space(rl.load(place / "t.safetensors"), rl.read_space(place / "bad.parquet"), place / "new")
    assert caught.value.__notes__ == ["This was shard 8 of 10, rows 1,400 to 1,600."]
    assert not list(place.glob(".*"))
    assert not (place / "new").exists()


def test_a_second_run_is_refused_while_the_first_lives(place, monkeypatch):
    write, refused = parts._WritePart.__call__, []

    def second(self, part):
        with pytest.raises(FileError, match="is being written by another run"):
            translate(place)
        refused.append(part)
        return write(self, part)

    monkeypatch.setattr(parts._WritePart, "__call__", second)
    translate(place)
    assert len(refused) == 10
    assert len(rl.read_space(place / "new")) == 2000


def test_what_is_there_is_kept(place):
    (place / "new").mkdir()
    (place / "new" / "mine.txt").touch()
    with pytest.raises(FileExistsError, match="exists"):
        translate(place)
    with pytest.raises(FileError, match="not an empty folder"):
        translate(place, overwrite=True)
    assert [file.name for file in (place / "new").iterdir()] == ["mine.txt"]
    assert not list(place.glob(".*"))
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        translate(place, "nowhere/new")


def test_a_full_disk_is_named_and_what_is_finished_kept(place, monkeypatch):
    write = parts._WritePart.__call__

    def filling(self, part):
        if part.number == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, part)

    monkeypatch.setattr(parts._WritePart, "__call__", filling)
    with pytest.raises(OSError, match=r"The disk was full before .*new was complete; the finished parts are kept"):
        translate(place)
    assert len(list(work_folder(place).glob("*.parquet"))) == 3


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_workers_write_the_folder_that_one_process_writes(place, name):
    translate(place, "clean")
    with open_engine(name, 2) as engine:
        translate(place, engine=engine)
        with pytest.raises(ValueError, match=r"new\.npy is one file"):
            translate(place, "new.npy", engine=engine)
    assert contents(place / "new") == contents(place / "clean")


def killed_and_run_again(place: Path, kills: int, engine: str, seed: int) -> int:
    """Kill runs at random moments until one gets through; return how many were killed."""
    rng, killed = np.random.default_rng(seed), 0
    command = [sys.executable, place / "run.py", place / "t.safetensors", place / "old", place / "new"]
    (place / "run.py").write_text(RUN)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    while not (place / "new").exists():
        run = subprocess.Popen(
            [*command, str(parts.PART_BYTES), engine], env=environment, stdout=subprocess.PIPE, start_new_session=True
        )
        assert run.stdout is not None
        run.stdout.readline()
        if killed < kills:
            time.sleep(rng.uniform(0, SPAN[engine]))
            run.send_signal(signal.SIGKILL)
        code = run.wait()
        run.stdout.close()
        assert code in (0, -signal.SIGKILL)
        killed += code == -signal.SIGKILL
    return killed


# Seconds from the first line of a run within which it is killed: less than it takes on a fast machine.
SPAN = {"serial": 0.3, "processes": 4.0}


def assert_survives(place, monkeypatch, kills, engine, seed):
    monkeypatch.setattr("relatent.spaces.chunks.MAX_GROUP_ROWS", 2**20)
    monkeypatch.setattr(parts, "PART_BYTES", 40 * 4 * DIM)
    x = np.random.default_rng(1).normal(size=(4000, DIM)).astype(np.float32)
    for file in (place / "old").iterdir():
        file.unlink()
    np.save(place / "old" / "x.npy", x)
    translate(place, "clean")
    seen = 0
    while seen < kills:
        seen += killed_and_run_again(place, kills - seen, engine, seed + seen)
        assert contents(place / "new") == contents(place / "clean")
        assert sorted(file.name for file in place.iterdir()) == ["clean", "new", "old", "run.py", "t.safetensors"]
        for file in (place / "new").iterdir():
            file.unlink()
        (place / "new").rmdir()


def test_killed_twice_the_result_is_that_of_a_clean_run(place, monkeypatch):
    assert_survives(place, monkeypatch, 2, "serial", 0)


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "engine"), [(40, "serial"), (10, "processes")])
def test_killed_at_any_moment_the_result_is_that_of_a_clean_run(place, monkeypatch, kills, engine):
    assert_survives(place, monkeypatch, kills, engine, 1)
