"""The stores that the contract is tested on: one case each, in ``tests/stores/cases``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from tests.stores.case import KEYS, Case, Items

from relatent.stores import Store, open_store

# The module and class of each case. What is in the extra `dev` is never skipped: it is not in NEEDED.
CASES = {
    "faiss": ("faiss", "Faiss"),
    "pgvector": ("pgvector", "Pgvector"),
    "sqlite-vec0": ("sqlite", "Vec0"),
    "sqlite-blobs": ("sqlite", "Blobs"),
    "qdrant": ("qdrant", "Qdrant"),
    "qdrant-alias": ("qdrant", "QdrantAlias"),
    "qdrant-edge": ("qdrant", "QdrantEdge"),
    "lance": ("lance", "Lance"),
    "chroma": ("chroma", "Chroma"),
    "chroma-http": ("chroma", "ChromaHttp"),
}
# The package that a case needs and the extra `dev` does not bring: `make test-stores` has them all.
NEEDED = {"lance": "lance", "chroma": "chromadb", "chroma-http": "chromadb"}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    if request.param in NEEDED:
        pytest.importorskip(NEEDED[request.param])
    module, name = CASES[request.param]
    found: Case = getattr(import_module(f"tests.stores.cases.{module}"), name)()
    return found


@pytest.fixture
def items(case: Case) -> Items:
    return Items.draw([case.key(number) for number in KEYS["integer"]])


@pytest.fixture
def url(case: Case, items: Items, tmp_path: Path) -> str:
    return case.create(tmp_path, items)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def again(url: str) -> Callable[[Store], Store]:
    """Close a store and open it again: what another process would find."""

    def reopened(store: Store) -> Store:
        store.close()
        return open_store(url)

    return reopened
