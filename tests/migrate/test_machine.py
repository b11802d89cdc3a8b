"""Verbs and writes in any order that hypothesis finds, shrunk to the shortest that fails, without faults.

On the simulated store a write comes at any call of the store; on FAISS, which has real files, between the steps and
whenever apply or verify records something.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.migrate.simulate import CALLS, SHARD_ROWS, Run, translator_file
from tests.migrate.simulated import DIM, ROWS, Kind, Rates, registered, translated
from tests.stores.case import Items
from tests.stores.cases import faiss as cases

from relatent._files import Records
from relatent.migrate import apply_migration, cut_over, finish_migration, roll_back, verify_migration
from relatent.stores import Field, Store, StoreError, open_store

KEYS = st.integers(0, 2 * ROWS - 1)
VECTORS = st.integers(0, 10_000).map(lambda seed: unit(np.random.default_rng(seed).normal(size=DIM)))
WRITE = {"what": st.sampled_from(("insert", "update", "swap", "delete")), "key": KEYS, "other": KEYS, "vector": VECTORS}
LATER = st.one_of(st.just(0), st.integers(1, 150))
WRITES = st.lists(st.fixed_dictionaries({**WRITE, "late": st.booleans(), "after": LATER}), max_size=3)
FILE_WRITES = st.lists(st.fixed_dictionaries({**WRITE, "now": st.booleans()}), max_size=3)


def unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x), np.float32)


def among(keys: Iterable[int], number: int) -> int:
    """Return one of the keys that are there."""
    return sorted(keys)[number % len(list(keys))]


class OnSimulated(RuleBasedStateMachine):
    """What must hold is checked after every step by :mod:`tests.migrate.simulate`."""

    @initialize(kind=st.builds(Kind, *[st.booleans()] * 5))
    def begin(self, kind: Kind) -> None:
        self.opened, self.folder = ExitStack(), Path(tempfile.mkdtemp(prefix="relatent-machine-"))
        self.run = Run(0, self.folder / "work")
        self.run.world.kind, self.run.world.rates = kind, Rates()
        self.opened.enter_context(registered(self.run.world))

    def write(self, what: str, late: bool, key: int, other: int, vector: np.ndarray) -> None:
        world = self.run.world
        roles = world.roles
        late = late and roles.old is not None and not roles.dropping
        name = roles.first.name if late else roles.served.name
        rows = world.fields[name]
        known, another = among(rows, key), among(rows, other)
        if what in ("insert", "update"):
            world.put(name, key if what == "insert" else known, vector if name == "old" else translated(vector))
        elif what == "delete" and len(rows) > 2:
            world.delete(name, known)
        elif what == "swap":
            mine, theirs = rows[known], rows[another]
            world.put(name, known, theirs)
            world.put(name, another, mine)

    def others_write(self, writes: list[dict[str, Any]]) -> None:
        """Write now, or at a later call of the store."""
        world = self.run.world
        for given in writes:
            after = given.pop("after")
            if after == 0:
                self.write(**given)
            else:
                world.planned.append((world.clock + after, partial(self.write, **given)))
        world.planned.sort(key=lambda plan: plan[0])

    @rule(writes=WRITES)
    def go_forward(self, writes: list[dict[str, Any]]) -> None:
        """Take the step that a user takes next, up to the cutover."""
        self.others_write(writes)
        if self.run.world.roles.old is None:
            self.run.step({"apply": "verify", "verify": "cutover"}.get(self.run.succeeded, "apply"), {})

    @rule(verb=st.sampled_from([*CALLS]), drop=st.booleans(), writes=WRITES)
    def go_anywhere(self, verb: str, drop: bool, writes: list[dict[str, Any]]) -> None:
        self.others_write(writes)
        self.run.step(verb, {"drop": True} if drop and verb == "rollback" else {})
        if self.run.finished:  # another one begins
            self.teardown()
            self.begin(self.run.world.kind)

    def teardown(self) -> None:
        if hasattr(self, "opened"):
            try:
                self.run.world.planned.clear()
                if not self.run.finished:
                    self.run.end()
            finally:
                self.opened.close()
                shutil.rmtree(self.folder)


class OnFaiss(RuleBasedStateMachine):
    """Index files, whose owner replaces them by others."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="relatent-machine-"))
        vectors = np.stack([unit(x) for x in np.random.default_rng(0).normal(size=(ROWS, DIM))])
        self.old = dict(zip(range(0, 2 * ROWS, 2), vectors, strict=True))
        self.url = cases.Faiss().create(self.folder, self.items())
        self.planned: list[Callable[[], None]] = []

    def items(self) -> Items:
        keys = list(self.old)
        return Items(keys, np.stack([self.old[key] for key in keys]), [f"text of {key}" for key in keys])

    def write(self, what: str, key: int, other: int, vector: np.ndarray) -> None:
        known, another = among(self.old, key), among(self.old, other)
        if what in ("insert", "update"):
            self.old[key if what == "insert" else known] = vector
        elif what == "delete" and len(self.old) > 2:
            del self.old[known]
        elif what == "swap":
            self.old[known], self.old[another] = self.old[another], self.old[known]
        cases.Faiss().create(self.folder, self.items())

    def called(self, verb: Callable[..., Any], *given: Any, **options: Any) -> Any:
        """Call a verb; what others do meanwhile happens when it records something. Return None if it is refused."""
        record = Records.write_bytes

        def recording(self_: Records, name: str, content: bytes) -> None:
            record(self_, name, content)
            if self.planned:
                self.planned.pop(0)()

        with patch.object(Records, "write_bytes", recording), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return verb(*given, self.url, work=self.folder / "work", **options)
            except StoreError as error:
                if not str(error):
                    raise
                return None
            finally:
                self.planned.clear()

    def served(self) -> bool:
        """Return whether the old field is the one that is served."""
        with open_store(self.url) as store:
            return store.old is None

    def others_write(self, writes: list[dict[str, Any]]) -> None:
        """Write now, or when the next step records something: only as long as the old index is served."""
        for given in writes if self.served() else []:
            if given.pop("now"):
                self.write(**given)
            else:
                self.planned.append(partial(self.write, **given))

    @rule(writes=FILE_WRITES)
    def apply(self, writes: list[dict[str, Any]]) -> None:
        self.others_write(writes)
        options = {"shard_rows": SHARD_ROWS, "max_passes": 5, "accept": True}
        self.called(apply_migration, translator_file(), progress=False, **options)
        self.called(verify_migration, progress=False)

    @rule(
        verb=st.sampled_from((verify_migration, cut_over, cut_over, roll_back, finish_migration)),
        drop=st.booleans(),
        writes=FILE_WRITES,
    )
    def go_anywhere(self, verb: Callable[..., Any], drop: bool, writes: list[dict[str, Any]]) -> None:
        self.others_write(writes)
        if verb is not verify_migration:  # what is written during the switch may be behind
            self.planned.clear()
        done = self.called(verb, **({"drop": drop} if verb is roll_back else {}))
        if verb is finish_migration and done is not None:
            with open_store(self.url) as store:
                self.check(store, store.served, {key: translated(x) for key, x in self.old.items()})
            self.teardown()  # another one begins
            self.begin()

    @invariant()
    def fields_are_right(self) -> None:
        """The old field is what its owner wrote; what is served after a cutover is its translation, all of it."""
        if not hasattr(self, "url"):
            return
        with open_store(self.url) as store:
            self.check(store, store.old or store.served, self.old)
            if store.old is not None:
                self.check(store, store.served, {key: translated(x) for key, x in self.old.items()})

    def check(self, store: Store, of: Field, expected: dict[int, np.ndarray]) -> None:
        found = {
            key: vector
            for chunk in store.scan(of)
            for key, vector in zip(chunk.keys.to_pylist(), chunk.vectors, strict=True)
        }
        assert sorted(found) == sorted(expected)
        for key, vector in expected.items():
            np.testing.assert_allclose(found[key], vector, atol=1e-4)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


def trial(machine: type[RuleBasedStateMachine], examples: int) -> type:
    return type(f"Test{machine.__name__}", (machine.TestCase,), {"settings": settings(max_examples=examples, **STEPS)})


STEPS: dict[str, Any] = {"stateful_step_count": 12, "deadline": None}
TestOnSimulated, TestOnFaiss = trial(OnSimulated, 40), trial(OnFaiss, 10)
TestLongOnSimulated = pytest.mark.slow(trial(OnSimulated, 1_000))
TestLongOnFaiss = pytest.mark.slow(trial(OnFaiss, 200))
