"""The stores as a whole: registered by themselves, found from every entrance, light until one is opened, documented."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stores.case import Items
from tests.stores.cases.faiss import Faiss

from relatent._schemes import known_schemes, scheme_of
from relatent.stores import STORES, Store, StoreError, open_store

ROOT = Path(__file__).parents[2]
ENGINES = {"faiss", "psycopg", "qdrant_client", "qdrant_edge", "lance", "chromadb", "sklearn", "torch"}


def run(code: str, *arguments: str) -> str:
    """Run Python in a fresh interpreter, where nothing of relatent is imported yet."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "entrance",
    [
        "import relatent as rl; read_space = rl.read_space",
        "from relatent.spaces import read_space",
        "from relatent.spaces.io.files import read_space",
    ],
)
def test_a_store_is_read_from_every_entrance(entrance, tmp_path):
    url = Faiss().create(tmp_path, Items.draw([3, 5]))
    for place in (url, str(tmp_path / "items one.faiss")):
        assert run(f"import sys; {entrance}; print(read_space(sys.argv[1]).keys.tolist())", place) == "[3, 5]"


def test_a_url_of_every_store_is_known_in_a_fresh_interpreter():
    code = "import sys; from relatent._schemes import is_store; print([is_store(url) for url in sys.argv[1:]])"
    urls = [form.url for store in STORES for form in store.forms]
    assert run(code, *urls, "s3://bucket/old.parquet", "old.parquet") == str([True] * len(urls) + [False] * 2)


def test_no_engine_is_imported_before_a_store_is_opened():
    found = run("import sys, relatent.stores; print(*{name.split('.')[0] for name in sys.modules})")
    assert not ENGINES & set(found.split())


def test_importing_relatent_imports_no_store():
    found = run("import sys, relatent; print(*[name for name in sys.modules if name.startswith('relatent')])")
    assert "relatent.stores" not in found.split()


def test_no_two_stores_share_a_scheme_or_a_suffix():
    for names in ([s for store in STORES for s in store.schemes], [s for store in STORES for s in store.suffixes]):
        assert len(names) == len(set(names))
    assert known_schemes() == [scheme for store in STORES for scheme in store.schemes]
    assert all(scheme_of(f"x{suffix}") == store.schemes[0] for store in STORES for suffix in store.suffixes)


@pytest.mark.parametrize(("url", "says"), [("postgre://db/x/y", "postgresql"), ("items.parquet", "names no store")])
def test_what_is_no_store_says_what_is(url, says):
    with pytest.raises(StoreError, match=says):
        open_store(url)


@pytest.mark.parametrize("store", STORES)
def test_a_store_describes_itself(store: type[Store]):
    assert store.extra in (ROOT / "pyproject.toml").read_text("utf8")
    assert all(form.url.split("://")[0] in store.schemes for form in store.forms)
    assert "float32" in store.holds


def test_the_tables_of_the_documentation_are_those_of_the_stores():
    """A store that is missing from docs/stores.md or docs/migrate.md fails here: run python docs/make_stores.py."""
    for path, text in runpy.run_path(str(ROOT / "docs" / "make_stores.py"))["pages"]().items():
        assert path.read_text("utf8") == text
