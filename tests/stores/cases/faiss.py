from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.stores.case import Case, Items

from relatent.stores import Address, Field


class Faiss(Case):
    """An index with a Parquet file of keys beside it; row i of the file is the vector with id i."""

    kinds = ("integer", "negative", "text", "uuid")
    codes: ClassVar = dict.fromkeys(("int8", "uint8"), ("cosine", "inner", "l2"))

    def create(self, folder: Path, items: Items) -> str:
        file = folder / "items one.faiss"
        _save(file, _index(items.vectors), {"id": items.keys, "title": items.payload})
        return f"faiss://{str(file).replace(' ', '%20')}"

    def insert(self, url: str, items: Items) -> None:
        file, index, table = _load(url)
        index.add(items.vectors)
        more = {"id": items.keys, "title": items.payload}
        _save(file, index, {name: table[name] + more[name] for name in table})

    def delete(self, url: str, keys: list[Any]) -> None:
        file, index, table = _load(url)
        kept = np.flatnonzero([key not in keys for key in table["id"]])
        _save(
            file,
            _index(index.reconstruct_batch(kept)),
            {name: [column[i] for i in kept] for name, column in table.items()},
        )

    def spoil(self, url: str, key: Any) -> bool:
        file, index, table = _load(url)
        vectors = index.reconstruct_n(0, index.ntotal)
        vectors[table["id"].index(key), 3] = np.nan
        _save(file, _index(vectors), table)
        return True

    def ask(self, url: str, query: np.ndarray, k: int, served: Field) -> list[Any]:
        _, index, table = _load(url)
        return [table["id"][row] for row in index.search(query[None], k)[1][0]]

    def missing(self, folder: Path) -> str:
        return f"faiss://{folder}/nothing.faiss"


def _index(vectors: np.ndarray) -> Any:
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def _load(url: str) -> tuple[Path, Any, dict[str, list[Any]]]:
    file = Address.parse(url).file
    return file, faiss.read_index(str(file)), pq.read_table(_keys(file)).to_pydict()


def _save(file: Path, index: Any, columns: dict[str, list[Any]]) -> None:
    # Each under its name at once: a migration may read them meanwhile.
    for path, write in (
        (file, lambda tmp: faiss.write_index(index, str(tmp))),
        (_keys(file), lambda tmp: pq.write_table(pa.table(columns), tmp)),
    ):
        tmp = path.with_name(f".{path.name}.tmp")
        write(tmp)
        tmp.replace(path)


def _keys(file: Path) -> Path:
    return file.with_name(f"{file.stem}.keys.parquet")
