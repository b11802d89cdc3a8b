from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.stores.case import Case, Items, as_keys

from relatent.spaces.io.columns import as_lists
from relatent.stores import Address, Field

lance = pytest.importorskip("lance")


class Lance(Case):
    """A table in several fragments, some of whose rows were deleted."""

    kinds = ("integer", "negative", "text", "uuid")

    def create(self, folder: Path, items: Items) -> str:
        file = folder / "items one.lance"
        gone = as_keys(["gone"] if isinstance(items.keys[0], str) else [-99])
        deleted = pa.table({"id": gone, "vector": as_lists(items.vectors[:1]), "title": ["deleted"]})
        rows = _table(items)
        lance.write_dataset(pa.concat_tables([rows[:1], deleted, rows[1:]]), str(file), max_rows_per_file=16)
        self.delete(str(file), gone.to_pylist())
        return f"lance://{str(file).replace(' ', '%20')}"

    def insert(self, url: str, items: Items) -> None:
        table = _open(url)
        # The owner's program knows nothing of columns that were added.
        lance.write_dataset(_table(items), table.uri, mode="append")

    def delete(self, url: str, keys: list[Any]) -> None:
        _open(url).delete(" OR ".join(f"id = {key!r}" for key in keys))

    def spoil(self, url: str, key: Any) -> bool:
        return self._replace(url, key, as_lists(np.full((1, 8), np.nan, np.float32)))

    def unfill(self, url: str, key: Any) -> bool:
        return self._replace(url, key, pa.nulls(1, pa.list_(pa.float32(), 8)))

    def _replace(self, url: str, key: Any, vector: pa.Array) -> bool:
        self.delete(url, [key])
        table = pa.table({"id": [key], "vector": vector, "title": ["another"]})
        lance.write_dataset(table, _open(url).uri, mode="append")
        return True

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        metric = {"inner": "dot"}.get(served.metric, served.metric)
        nearest = {"column": "vector", "q": query, "k": k, "metric": metric}
        return _open(url).to_table(columns=["id"], nearest=nearest)["id"].to_pylist()

    def missing(self, folder: Path) -> str:
        return f"lance://{folder}/nothing.lance"


def _open(url: str) -> Any:
    return lance.dataset(str(Address.parse(url).file))


def _table(items: Items) -> pa.Table:
    vectors = as_lists(np.asarray(items.vectors, np.float32))
    return pa.table({"id": as_keys(items.keys), "vector": vectors, "title": items.payload})
