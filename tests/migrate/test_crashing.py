"""Killed at any moment: the next run resumes, and ends with what an undisturbed run would have made."""

import subprocess
import threading
import time

import numpy as np
import pytest
from tests.migrate.steps import DIM, NEW_DIM, ROWS, assert_translated, contents, new_vectors

from relatent.migrate import cut_over, migration_status, roll_back, verify_migration
from relatent.stores import StoreError, open_store

pytestmark = pytest.mark.stores

# Rows per second that make a run last for about two seconds from its first row on.
RATE = ROWS * 2
LONG = [pytest.param(2, id="2 kills"), pytest.param(30, id="30 kills", marks=pytest.mark.slow)]


def waited_for(path, process):
    """Wait until a file appears, or the process has ended."""
    while not path.exists() and process.poll() is None:
        time.sleep(0.002)


def killed(task, verb, delay, *words):
    """Start a step, kill it some time after its first trace in the work folder; return whether it was still alive."""
    begun = task.work / ("plan.json" if verb == "apply" else "lock")
    with subprocess.Popen(task.command(verb, *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        waited_for(begun, process)
        time.sleep(delay)
        alive = process.poll() is None
        process.kill()
    return alive


def clean_run(task):
    """Return what a run that is left alone makes, and how long it works; the field is dropped again."""
    with subprocess.Popen(task.command("apply", "--max-rate", RATE), stdout=subprocess.DEVNULL) as process:
        waited_for(task.work / "plan.json", process)
        began = time.monotonic()
    assert process.returncode == 0
    lasted, clean = time.monotonic() - began, contents(task.url)
    roll_back(task.url, work=task.work, drop=True)
    return clean, lasted


@pytest.mark.parametrize("kills", LONG)
def test_apply_killed_at_any_moment(task, kills):
    before = contents(task.url, "served", None)
    clean, lasted = clean_run(task)
    rng, alive, restarts = np.random.default_rng(kills), 0, 0
    while alive < kills:
        alive += killed(task, "apply", rng.uniform(0, lasted), "--max-rate", RATE)
        assert contents(task.url, "served", None) == before
        restarts += 1
        assert restarts < 4 * kills, "no run lived long enough to be killed"
        if migration_status(task.url, work=task.work).stage == "applied":
            roll_back(task.url, work=task.work, drop=True)
    done = task.run("apply", "--max-rate", RATE)
    assert done.returncode == 0, done.stderr
    assert contents(task.url) == clean
    assert contents(task.url, "served", None) == before
    with open_store(task.url) as store:
        assert store.count(store.new) == store.count(store.served) == ROWS
    assert verify_migration(task.url, work=task.work).passed


@pytest.mark.parametrize("kills", LONG)
def test_cutover_and_rollback_killed_at_any_moment(task, kills):
    """A killed switch leaves the one or the other served, whole, and can be done again."""
    task.apply()
    assert verify_migration(task.url, work=task.work).passed
    before, rng = contents(task.url, "served", None), np.random.default_rng(kills)
    began = time.monotonic()
    assert task.run("cutover").returncode == 0
    lasts = time.monotonic() - began
    for kill in range(kills):
        # Much of the time goes by before the command begins.
        killed(task, "rollback" if kill % 2 else "cutover", lasts * rng.uniform(0.5, 1.0))
        with open_store(task.url) as store:
            switched = store.served.dim == NEW_DIM
        cut_over(task.url, work=task.work)
        assert_translated(task.url, task.items, "served")
        assert contents(task.url, "old", None) == before
        roll_back(task.url, work=task.work)
        assert contents(task.url, "served", None) == before
        assert_translated(task.url, task.items)
        if switched:
            cut_over(task.url, work=task.work)


def test_a_reader_never_sees_a_mixture(task):
    """While the store is cut over and rolled back, every search is answered by one of the two fields alone."""
    task.needs_other_processes()
    task.apply()
    assert verify_migration(task.url, work=task.work).passed
    queries = {DIM: task.items.vectors[:1], NEW_DIM: new_vectors(task.items.vectors[:1])}
    with open_store(task.url) as store:
        whole = {
            field.dim: store.search(queries[field.dim], ROWS, of=field, exact=True).keys[0]
            for field in (store.served, store.new)
        }
        seen, failed, done = [], [], threading.Event()

        def watch():
            with open_store(task.url) as reader:
                while not done.is_set():
                    dim = reader.served.dim
                    try:
                        seen.append((dim, reader.search(queries[dim], ROWS, exact=True).keys[0]))
                    except StoreError as error:  # it was switched between the two calls, and refused as a whole
                        seen.append((dim, str(error)))
                    except Exception as error:  # noqa: BLE001 (whatever goes wrong for a reader is what is tested)
                        failed.append(error)

        thread = threading.Thread(target=watch)
        thread.start()
        for verb in ("cutover", "rollback"):
            assert task.run(verb).returncode == 0
        done.set()
        thread.join()
    assert not failed
    refused = [found for _, found in seen if isinstance(found, str)]
    assert all("coordinates" in error for error in refused), refused
    assert all(found == whole[dim] for dim, found in seen if not isinstance(found, str))
    assert {dim for dim, _ in seen} == {DIM, NEW_DIM}
