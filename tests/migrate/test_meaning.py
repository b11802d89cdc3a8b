"""Each store, both directions: what is served answers the right model's queries, asked by the engine's own client.

A map that runs the wrong way round passes every check of counts, checksums and finiteness: only meaning tells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.migrate.conftest import case_of
from tests.stores.case import Case, Items
from tests.stores.conftest import CASES

import relatent as rl
from relatent.migrate import apply_migration, cut_over, roll_back, verify_migration
from relatent.stores import StoreError, open_store
from relatent.translate import SpaceMismatchError

pytestmark = pytest.mark.stores

ROWS, DIM = 200, 32
ASKED = range(3, ROWS, 25)


def old_model() -> np.ndarray:
    """Vectors of a space that is longer in some directions than in others, and not centered."""
    rng = np.random.default_rng(0)
    return at_norm_1(rng.normal(size=(ROWS, DIM)) * np.geomspace(2, 0.3, DIM) + rng.normal(size=DIM))


def new_model() -> np.ndarray:
    """The same items in another such space of the same dimension: neither a rotation of it, nor its own inverse."""
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(DIM, DIM)))[0]
    return at_norm_1(old_model() @ (turn * np.geomspace(0.4, 1.6, DIM)))


def at_norm_1(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


class Moved:
    """A store of the old model, and a translator to the new one: of vectors, or of queries and items."""

    def __init__(self, case: Case, folder: Path, goal: str) -> None:
        self.case, self.work = case, folder / "work"
        self.keys = [case.key(i) for i in range(ROWS)]
        self.url = case.create(folder, Items(self.keys, old_model(), [f"text {i}" for i in range(ROWS)]))
        old, new = self.space(old_model(), "old"), self.space(new_model(), "new")
        self.forward = rl.Translator(goal).fit(*((new, old) if goal == "retrieval" else (old, new)))
        self.backward = rl.Translator(goal).fit(*((old, new) if goal == "retrieval" else (new, old)))
        self.goal, self.file = goal, folder / "t.safetensors"

    def space(self, vectors: np.ndarray, name: str) -> rl.Space:
        return rl.Space(vectors, self.keys, name)

    def queries(self) -> np.ndarray:
        """Queries of the new model, as an application makes them after the cutover."""
        return np.asarray(self.forward.transform(new_model())) if self.goal == "retrieval" else new_model()

    def is_misled(self) -> bool:
        """Whether the engine has an index by inner product, whose links suit no query of a two-sided translator."""
        with open_store(self.url) as store:
            return store.new.metric == "inner" and store.approximates(store.new) and not self.scans_small_tables

    @property
    def scans_small_tables(self) -> bool:
        return type(self.case).__name__ in ("Pgvector", "QdrantEdge")

    def apply(self, translator: rl.Translator, **options: Any) -> None:
        translator.save(self.file, overwrite=True)
        given = {"work": self.work, "shard_rows": 50, "progress": False}
        apply_migration(self.file, self.url, **(given | options))

    def first_found(self, queries: np.ndarray) -> float:
        """Return self-retrieval@1 of some queries, one per item, by the engine's own client."""
        with open_store(self.url) as store:
            served = store.served
        found = [self.case.ask(self.url, np.asarray(queries[i], np.float32), 1, served) for i in ASKED]
        return float(np.mean([keys == [self.keys[i]] for keys, i in zip(found, ASKED, strict=True)]))


@pytest.fixture(params=["vectors", "retrieval"])
def goal(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=CASES)
def moved(request: pytest.FixtureRequest, tmp_path: Path, goal: str) -> Moved:
    return Moved(case_of(request.param), tmp_path, goal)


def test_one_direction_is_refused_the_other_is_found_and_after_a_rollback_the_old_one(moved):
    with pytest.raises((StoreError, SpaceMismatchError)):  # although the dimensions are equal
        moved.apply(moved.backward)
    with open_store(moved.url) as store:
        assert store.new is None
    moved.apply(moved.forward)
    verified = verify_migration(moved.url, work=moved.work, queries=rl.Space(new_model()))
    if moved.is_misled():  # which the check sees, if it has queries
        assert [check.name for check in verified.checks if not check.passed] == ["search"]
        return
    assert verified.passed, str(verified)
    assert moved.first_found(old_model()) == 1  # what is served has not changed yet
    cut_over(moved.url, work=moved.work)
    assert moved.first_found(moved.queries()) > 0.99
    roll_back(moved.url, work=moved.work)
    assert moved.first_found(old_model()) == 1


@pytest.mark.filterwarnings("ignore::relatent.spaces.probe.SpaceWarning")
def test_the_spaces_tell_one_direction_from_the_other(goal, tmp_path):
    """What the test above relies on: vectors that went the wrong way round are not found."""
    moved = Moved(case_of("faiss"), tmp_path, goal)
    wrong = moved.backward if goal == "vectors" else moved.forward
    items = np.asarray(wrong.transform(old_model()))  # a map that takes the new model's vectors
    found = np.argmax(moved.queries() @ items.T, axis=1)
    assert np.mean(found == np.arange(ROWS)) < 0.5


def test_without_queries_an_index_over_two_sided_vectors_is_not_trusted(tmp_path):
    """Stored vectors find their neighbors in such an index where queries find next to nothing."""
    moved = Moved(case_of("pgvector"), tmp_path, "retrieval")
    moved.apply(moved.forward)
    found = {check.name: check for check in verify_migration(moved.url, work=moved.work).checks}
    assert not found["search"].passed
    assert "verify with queries of the new model" in found["search"].found


@pytest.mark.filterwarnings("ignore::relatent.spaces.probe.SpaceWarning")
def test_an_accepted_one_serves_what_is_not_found(goal, tmp_path):
    """The negative: the store that a wrong map has filled passes no test of meaning."""
    moved = Moved(case_of("faiss"), tmp_path, goal)
    moved.apply(moved.backward, accept=True)
    cut_over(moved.url, work=moved.work, force=True)
    assert moved.first_found(moved.queries()) < 0.5
