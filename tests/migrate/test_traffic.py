"""A store that is written to while it is migrated: apply converges, verify passes, and what is served is up to date."""

import json
import threading
from contextlib import contextmanager
from itertools import count

import numpy as np
import pytest
from tests.migrate.conftest import make_task
from tests.migrate.steps import new_vectors, old_vectors, vectors_of
from tests.stores.case import Items

from relatent.migrate import cut_over, verify_migration

pytestmark = pytest.mark.stores
SERVED_BY_OTHERS = ("pgvector", "lance", "chroma-http")


class Application:
    """Writes ten times a second, as the owner of a store does: it adds, changes and deletes items."""

    def __init__(self, task):
        self._task, self._stop, self.error = task, threading.Event(), None
        self.items = dict(zip(task.items.keys, task.items.vectors, strict=True))
        self._numbers = count(10_000)

    def write(self, seed):
        rng = np.random.default_rng(seed)
        case, url, vector = self._task.case, self._task.url, old_vectors(1, seed=1_000 + seed)
        key = rng.choice(list(self.items)[:50]).item() if seed % 2 else case.key(next(self._numbers))
        if key in self.items:
            case.delete(url, [key])
            del self.items[key]
        if seed % 5:
            case.insert(url, Items([key], vector, ["written"]))
            self.items[key] = vector[0]

    def run(self):
        for seed in count():
            if self._stop.wait(0.1):
                return
            try:
                self.write(seed)
            except Exception as error:  # noqa: BLE001 (whatever it is, the test asserts that there was none)
                self.error = error
                return

    @contextmanager
    def writing(self):
        self._stop.clear()
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
        assert self.error is None, repr(self.error)


def wrong_keys(task, items, of="served"):
    """Return the keys whose vector is not the translation of the item's, whose item is gone, or that have none."""
    found = vectors_of(task.url, of)
    keys = [key for key in items if key in found]
    expected, stored = new_vectors(np.asarray([items[key] for key in keys])), np.asarray([found[key] for key in keys])
    cosines = np.sum(expected * stored, axis=1) / np.linalg.norm(expected, axis=1) / np.linalg.norm(stored, axis=1)
    off = {key for key, cosine in zip(keys, cosines, strict=True) if cosine < 1 - 1e-5}
    return off | (found.keys() ^ items.keys())


@pytest.mark.parametrize("name", SERVED_BY_OTHERS)
def test_ten_writes_a_second_converge(name, tmp_path):
    task = make_task(name, tmp_path)
    application = Application(task)
    with application.writing():
        for _ in range(3):
            done = task.apply(shard_rows=50_000)
            assert done.converged, str(done)
            found = verify_migration(task.url, work=task.work)
            assert found.passed, str(found)
    cut_over(task.url, work=task.work)
    assert wrong_keys(task, application.items) == set()


def test_what_is_written_during_the_cutover_is_named(tmp_path, monkeypatch):
    """A store that cannot tell whether it has changed: rows that come between the last pass and the switch."""
    task = make_task("chroma-http", tmp_path)
    task.apply()
    assert verify_migration(task.url, work=task.work).passed
    application = Application(task)
    from relatent.stores.chroma import ChromaStore

    switch = ChromaStore.switch

    def late(self):
        for seed in (1, 2, 3):
            application.write(seed)
        switch(self)

    monkeypatch.setattr(ChromaStore, "switch", late)
    done = cut_over(task.url, work=task.work)
    named = {json.loads(line) for line in (task.work / "late-keys.txt").read_text().splitlines()}
    assert "out of date" in done.done
    served = vectors_of(task.url, "served")
    assert {key for key in wrong_keys(task, application.items) if key in application.items} <= named
    assert named <= served.keys() | application.items.keys()
