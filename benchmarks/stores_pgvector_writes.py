"""What an application pays for its writes while PostgreSQL translates them: INSERT of one row after the other.

Each row is a transaction of its own, over a socket, and the server does not wait for its disk. The maps run inside the
database, in the trigger of the store: an affine one, and a kernel map whose centers are beside the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Suite
from benchmarks.stores_pgvector import started
from relatent.steps import Step
from relatent.stores import Field, open_store


def setup(rows: int, dim: int, new_dim: int, centers: int) -> dict[str, Any]:
    """Start a server with three empty tables: one is not followed, one by an affine map, one by a kernel map."""
    _, socket, connection = started()
    connection.execute("SET synchronous_commit = off")
    rng = np.random.default_rng(0)
    maps = {"plain": None, "affine": _affine(rng, dim, new_dim), "kernel": _kernel(rng, dim, new_dim, centers)}
    for table, steps in maps.items():
        connection.execute(f"CREATE TABLE {table} (id bigserial PRIMARY KEY, embedding vector({dim}))")
        connection.execute(f"INSERT INTO {table} SELECT 0, array_fill(1, ARRAY[{dim}])::vector")
        if steps is not None:
            _follow(f"postgresql://postgres@/postgres/{table}?host={socket}", steps, dim, new_dim)
    texts = [f"[{','.join(map(repr, row))}]" for row in rng.normal(size=(rows, dim)).round(4).tolist()]
    return {"connection": connection, "texts": texts}


def _affine(rng: np.random.Generator, dim: int, new_dim: int) -> list[Step]:
    return [Step("linear", {"matrix": _drawn(rng, dim, new_dim), "offset": _drawn(rng, new_dim)})]


def _kernel(rng: np.random.Generator, dim: int, new_dim: int, centers: int) -> list[Step]:
    features = Step("gaussian", {"centers": _drawn(rng, centers, dim), "width": 1.0})
    return [Step("unit"), features, *_affine(rng, dim + centers, new_dim)]


def _drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)


def _follow(url: str, steps: list[Step], dim: int, new_dim: int) -> None:
    new, back = Field("new", new_dim), [Step("linear", {"matrix": np.ones((new_dim, dim), np.float32)})]
    with open_store(url) as store:
        store.add(new)
        reason = store.follow(new, steps, back)
        assert reason is None, reason


def _insert(table: str, connection: Any, texts: list[str]) -> None:
    for text in texts:
        connection.execute(f"INSERT INTO {table} (embedding) VALUES (%s)", (text,))


SUITE = Suite(
    title="Rows that are inserted one by one into PostgreSQL while it translates them",
    setup=setup,
    size={"rows": 1_000, "dim": 384, "new_dim": 512, "centers": 3_000},
    quick={"rows": 50, "dim": 32, "new_dim": 48, "centers": 100},
    contenders={
        "INSERT, not followed": lambda connection, texts: _insert("plain", connection, texts),
        "INSERT, an affine map": lambda connection, texts: _insert("affine", connection, texts),
        "INSERT, a kernel map": lambda connection, texts: _insert("kernel", connection, texts),
    },
    bare="INSERT, not followed",
    peer="INSERT, not followed",
    repeats=3,
)
