from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from tests.migrate.steps import ROWS, Task, items_of, save_translator
from tests.stores.case import Case
from tests.stores.conftest import CASES, NEEDED

from relatent.stores import open_store


def case_of(name: str) -> Case:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    module, kind = CASES[name]
    found: Case = getattr(import_module(f"tests.stores.cases.{module}"), kind)()
    return found


def make_task(name: str, folder: Path) -> Task:
    """Make a store, and a translator of the vectors as the store has them."""
    case = case_of(name)
    items = items_of([case.key(i) for i in range(ROWS)])
    translator = save_translator(folder / "t.safetensors", items)
    return Task(case, case.create(folder, items), items, translator, folder / "work")


@pytest.fixture(params=CASES)
def task(request: pytest.FixtureRequest, tmp_path: Path) -> Task:
    """A migration on each store."""
    return make_task(request.param, tmp_path)


@pytest.fixture
def light(tmp_path: Path) -> Task:
    """A migration on the store that is quickest to make, for what does not depend on the store."""
    return make_task("faiss", tmp_path)


@pytest.fixture
def opened(light: Task):
    with open_store(light.url) as store:
        yield store
