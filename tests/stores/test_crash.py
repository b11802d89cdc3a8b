"""Every store: a migration that is killed and begun again ends as if it had not been."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.stores.steps import NEW, new_vectors, read, snapshot

from relatent.stores import open_store

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


def run(url: str, kill_after: int | None = None, delay: float = 0.0) -> int:
    """Run the migration; kill it a moment after so many of its steps."""
    command = [sys.executable, "-W", "ignore", "-c", MIGRATION, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        if kill_after is not None:
            for _ in range(kill_after):
                process.stdout.readline()
            time.sleep(delay)
            process.kill()
        process.communicate()
    return process.returncode


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
