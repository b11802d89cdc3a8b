"""Faults are reported in one line, lose nothing, and are recovered from."""

import errno
import os
import resource
import subprocess
import warnings

import pytest
from tests.migrate.conftest import make_task
from tests.migrate.steps import ROWS, assert_translated, contents
from tests.stores.postgres import server

from relatent.engines import Serial
from relatent.stores import StoreError, open_store

pytestmark = pytest.mark.stores


class Full:
    """A disk that is full from the nth time on that a file should become durable."""

    def __init__(self, first):
        self.first, self.calls, self.fsync = first, 0, os.fsync

    def __call__(self, handle):
        self.calls += 1
        if self.calls >= self.first:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.fsync(handle)


def test_a_disk_that_is_full_at_any_moment(light, monkeypatch):
    """Work folder and store are both on it; each run gets a little further before it is full again."""
    before, counted = contents(light.url, "served", None), Full(10**9)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", counted)
        light.apply()
    clean = contents(light.url)
    with open_store(light.url) as store:
        store.drop_new()
    failures, done = 0, False
    while not done:
        with monkeypatch.context() as patched, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it starts over where the field was dropped
            patched.setattr(os, "fsync", Full(1 + 4 * failures))
            try:
                light.apply()
                done = True
            except OSError as error:
                assert "The disk was full before" in str(error)  # noqa: PT017 (the last run has no error)
                failures += 1
        assert contents(light.url, "served", None) == before
    assert failures > 5
    assert contents(light.url) == clean


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Lance warns of every fork
def test_a_full_disk_is_reported_in_one_line(light):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    done = subprocess.run(
        light.command("apply"), preexec_fn=limited, capture_output=True, text=True, check=False, env=without_bytecode()
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "The disk was full" in done.stderr
    assert light.run("apply").returncode == 0
    assert_translated(light.url, light.items)


def without_bytecode():
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize("operation", ["add", "scan", "write", "remove_orphans", "build_index", "count"])
def test_a_store_that_goes_down_in_any_operation(task, monkeypatch, operation):
    """The third call fails, or the first where there may be but one; the next run resumes."""
    before = contents(task.url, "served", None)
    if operation == "remove_orphans":  # which are looked for in a field that an earlier run has added
        stop_in(task, monkeypatch, "write", 3)
        with open_store(task.url) as store:  # one that translates by itself counts them first
            operation = "tally" if store.can_follow else operation
    stop_in(task, monkeypatch, operation, 3 if operation in ("scan", "write") else 1)
    assert contents(task.url, "served", None) == before
    assert task.apply().rows == ROWS
    assert_translated(task.url, task.items)


def stop_in(task, monkeypatch, operation, call):
    """Apply, while the store goes down in some call of an operation."""
    with open_store(task.url) as store:
        kind = type(store)
    real, calls = getattr(kind, operation), []

    def fails(self, *args, **options):
        calls.append(args)
        if len(calls) == call:
            raise StoreError(f"{self.address} is down: start it again.")
        return real(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(kind, operation, fails)
        with pytest.raises(StoreError, match="is down"):
            task.apply()


def test_no_permission_in_the_work_folder_is_reported(light, tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "file").write_text("not a folder")
        with pytest.raises(OSError, match="file"):
            light.apply(work=tmp_path / "file")
        return
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="no permission"):
        light.apply(work=tmp_path / "locked" / "work")


def test_a_store_that_is_not_there(light, tmp_path):
    light.url = light.case.missing(tmp_path)
    done = light.run("apply")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is not there" in done.stderr
    assert not light.work.exists()


def test_a_file_that_is_no_translator(light, tmp_path):
    (tmp_path / "t.safetensors").write_bytes(b"nothing of the kind")
    done = light.run("apply")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "is not a safetensors file" in done.stderr


def test_a_server_that_is_restarted_in_the_middle(tmp_path):
    """PostgreSQL is stopped at once, as by a power cut, while shards are copied; the next run resumes."""
    task = make_task("pgvector", tmp_path)
    before = contents(task.url, "served", None)

    class Restarting(Serial):
        def map(self, function, shards, done=None):
            for i, result in enumerate(super().map(function, shards, done)):
                yield result
                if i == 1:
                    server().restart()

    with pytest.raises(StoreError) as caught:
        task.apply(engine=Restarting())
    assert "postgresql://" in str(caught.value)
    done = task.apply()
    assert (done.resumed, done.rows) == (2, ROWS)
    assert_translated(task.url, task.items)
    assert contents(task.url, "served", None) == before
