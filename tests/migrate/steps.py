"""A small migration to test on: items in a store, a translator fitted on them, and what should come out."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stores.case import Case, Items

import relatent as rl
from relatent.migrate import ApplyResult, apply_migration
from relatent.stores import Field, open_store

ROWS, DIM, NEW_DIM, SHARD_ROWS = 240, 8, 12, 50
PROGRAM = "from relatent.cli import app; app(prog_name='relatent')"
TURN = np.linalg.qr(np.random.default_rng(1).normal(size=(NEW_DIM, NEW_DIM)))[0][:DIM]

ANOTHER_TURN = np.linalg.qr(np.random.default_rng(2).normal(size=(NEW_DIM, NEW_DIM)))[0]


def old_vectors(rows: int, seed: int = 0) -> np.ndarray:
    """Unit vectors of a model that is not isotropic, so that its fingerprint tells it from others."""
    x = np.random.default_rng(seed).normal(size=(rows, DIM)) * np.linspace(2, 0.3, DIM) + np.linspace(-1, 1, DIM)
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), dtype=np.float32)


def new_vectors(old: np.ndarray) -> np.ndarray:
    """What the new model makes of the same items."""
    return np.asarray(old @ TURN, dtype=np.float32)


def items_of(keys: list[Any], seed: int = 0) -> Items:
    return Items(keys, old_vectors(len(keys), seed), [f"text of {key!r}" for key in keys])


def space_of(items: Items, new: bool = False) -> rl.Space:
    vectors = new_vectors(items.vectors) if new else items.vectors
    name = "new-model" if new else "old-model"
    known = rl.Fingerprint(vectors.shape[1], name, "2" if new else "1")
    return rl.Space(vectors, items.keys, name, known)


def save_translator(path: Path, items: Items, goal: str = "vectors", **options: Any) -> Path:
    """Fit from old to new; for retrieval from new to old, since then queries are translated."""
    spaces = [space_of(items), space_of(items, new=True)]
    rl.Translator(goal, **options).fit(*(spaces[::-1] if goal == "retrieval" else spaces)).save(path, overwrite=True)
    return path


def third_vectors(old: np.ndarray) -> np.ndarray:
    """What a third model makes of the same items."""
    return np.asarray(new_vectors(old) @ ANOTHER_TURN, dtype=np.float32)


def save_second_translator(path: Path, url: str, items: Items) -> Path:
    """Fit from what a store serves to a third model."""
    vectors = third_vectors(items.vectors)
    third = rl.Space(vectors, items.keys, "third-model", rl.Fingerprint(vectors.shape[1], "third-model", "3"))
    translator = rl.Translator()
    translator.fit(rl.read_space(url), third, held_out=0, progress=False)
    translator.save(path)
    return path


@dataclass
class Task:
    """A store, a translator and a work folder."""

    case: Case
    url: str
    items: Items
    translator: Path
    work: Path

    def apply(self, **options: Any) -> ApplyResult:
        given = {"work": self.work, "shard_rows": SHARD_ROWS, "progress": False}
        return apply_migration(self.translator, self.url, **(given | options))

    def needs_other_processes(self) -> None:
        """Skip a test in which an application uses the store meanwhile, where only one process can open it."""
        with open_store(self.url) as store, closing(self.case.reader(self.url, store)) as reader:
            alone = reader is store
        if alone:
            pytest.skip("only one process can open this store")

    def command(self, verb: str, *words: Any) -> list[str]:
        """Return the command line of a step, in a process of its own."""
        named = {"plan": (self.translator, self.url), "rehearse": (self.translator, self.url)}
        kept = ("--work", self.work)
        named["apply"] = (self.translator, self.url, "--shard-rows", SHARD_ROWS, *kept)
        words = (verb, *named.get(verb, (self.url, *kept)), *words)
        return [sys.executable, "-c", PROGRAM, "migrate", *map(str, words)]

    def run(self, verb: str, *words: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(verb, *words), capture_output=True, text=True, check=False, **options)


def edited(task: Task) -> Items:
    """Write as an application does: change a vector, swap two, delete and add an item; return what there is then."""
    keys, vectors = list(task.items.keys), task.items.vectors.copy()
    vectors[3] = old_vectors(1, seed=9)[0]
    vectors[[10, 200]] = vectors[[200, 10]]
    written = [3, 10, 200]
    task.case.delete(task.url, [keys[i] for i in (*written, 5)])
    again = Items([keys[i] for i in written], vectors[written], [task.items.payload[i] for i in written])
    task.case.insert(task.url, again)
    added = items_of([task.case.key(ROWS + 7)], seed=5)
    task.case.insert(task.url, added)
    kept = [i for i in range(ROWS) if i != 5]
    return Items(
        [*(keys[i] for i in kept), *added.keys],
        np.concatenate([vectors[kept], added.vectors]),
        [*(task.items.payload[i] for i in kept), *added.payload],
    )


def contents(url: str, of: str = "new", columns: tuple[str, ...] | None = ()) -> dict[Any, tuple[Any, ...]]:
    """Return what a field holds by key: the bytes of the vectors, and the payload where asked for."""
    rows: dict[Any, tuple[Any, ...]] = {}
    with open_store(url) as store:
        for chunk in store.scan(field_of(store, of), columns=columns):
            for key, vector, others in zip(
                chunk.keys.to_pylist(), chunk.vectors, chunk.others.to_pylist(), strict=True
            ):
                assert key not in rows, f"{key} is there twice"
                rows[key] = (vector.tobytes(), *others.values())
    return rows


def vectors_of(url: str, of: str = "new") -> dict[Any, np.ndarray]:
    with open_store(url) as store:
        field = field_of(store, of)
        return {
            key: vector
            for chunk in store.scan(field)
            for key, vector in zip(chunk.keys.to_pylist(), chunk.vectors, strict=True)
        }


def field_of(store: Any, role: str) -> Field:
    field: Field | None = getattr(store, role)
    assert field is not None
    return field


def assert_translated(url: str, items: Items, of: str = "new") -> None:
    """Every item has its new vector, to the precision of float32, up to its norm; and no other key has one."""
    found = vectors_of(url, of)
    assert sorted(found) == sorted(items.keys)
    expected = new_vectors(items.vectors)
    stored = np.asarray([found[key] for key in items.keys])
    stored = stored / np.linalg.norm(stored, axis=1, keepdims=True)
    np.testing.assert_allclose(stored, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=2e-5)
