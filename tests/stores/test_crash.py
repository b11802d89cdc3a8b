"""Every store: a migration that is killed and resumed ends as if it had not been."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.stores.steps import NEW, NEXT, fill, new_vectors, read, snapshot

from relatent.stores import StoreError, open_store

pytestmark = pytest.mark.stores

# A migration that says after each step that it is done.
MIGRATION = """
import sys
from tests.stores.case import as_keys
from tests.stores.steps import NEW, new_vectors, read
from relatent.stores import open_store
with open_store(sys.argv[1]) as store:
    store.add(NEW)
    print("added", flush=True)
    keys = read(store, store.served)[0]
    for start in range(0, len(keys), 9):
        part = keys[start : start + 9]
        store.write(NEW, as_keys(part), new_vectors(part))
        print("written", flush=True)
    store.remove_orphans(NEW)
    store.build_index(NEW)
    print("built", flush=True)
"""
STEPS = 7
ROOT = Path(__file__).parents[2]


def run(url: str, kill_after: int | None = None, delay: float = 0.0, program: str = MIGRATION) -> int:
    """Run a program, by default the migration; kill it a moment after n of its steps."""
    command = [sys.executable, "-W", "ignore", "-c", program, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        if kill_after is not None:
            for _ in range(kill_after):
                process.stdout.readline()
            time.sleep(delay)
            process.kill()
        process.communicate()
    return process.returncode


# Drops the old field, and says before and after that it does.
DROP = """
import sys
from relatent.stores import open_store
with open_store(sys.argv[1]) as store:
    print("begun", flush=True)
    store.drop_old()
    print("dropped", flush=True)
"""


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_a_drop_of_the_old_field_that_is_killed(url, kills):
    """Killed at any moment, the new field is served, whole; the old one is whole too, or can be dropped to the end."""
    moments, fields = random.Random(kills), [NEW, NEXT]
    with open_store(url) as store:
        served, items = store.served, [row[:-1] for row in snapshot(store, store.served)]
    for kill in range(kills):
        new = fields[kill % 2]
        with open_store(url) as store:
            before = snapshot(store, store.served)
            keys = fill(store, new)
            store.build_index(new)
            store.switch()
        run(url, 1, moments.uniform(0, 0.02), program=DROP)
        with open_store(url) as store:
            assert (store.served, store.new) == (new, None)
            found, vectors = read(store, store.served)
            assert found == keys
            np.testing.assert_allclose(vectors, new_vectors(keys, new.dim), rtol=1e-6)
            assert [row[:-1] for row in snapshot(store, store.served)] == items
            if store.old is not None:
                store.drop_old() if kill % 3 else _back_and_forth(store, served, before)
            assert store.old is None
        served = new


def _back_and_forth(store, served, before):
    """Go back to the old field if it is still whole, and then drop it."""
    with suppress(StoreError):  # dropping was begun
        store.switch_back()
        assert store.served == served
        assert snapshot(store, served) == before
        store.switch()
    store.drop_old()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_a_migration_that_is_killed_and_begun_again_ends_the_same(case, url, items, seed):
    with open_store(url) as store:
        before = snapshot(store, store.served)
    moments = random.Random(seed)
    steps = [1, moments.randrange(2, STEPS - 1), STEPS - 1] if seed == 0 else range(1, STEPS + 1)
    for kill_after in steps:
        run(url, kill_after, moments.uniform(0, 0.05))
        with open_store(url) as store:
            assert snapshot(store, store.served) == before
            if store.new is not None:  # whatever is there is whole
                keys, vectors = read(store, NEW)
                np.testing.assert_allclose(vectors, new_vectors(keys), rtol=1e-6)
    assert run(url) == 0
    with open_store(url) as store:
        keys, vectors = read(store, NEW)
        assert keys == sorted(items.keys)
        assert store.count(NEW) == len(items.keys)
        np.testing.assert_allclose(vectors, new_vectors(keys), rtol=1e-6)
        assert snapshot(store, store.served) == before
        store.switch()
        assert read(store, store.served)[0] == keys
