"""The pages on switching a model, each run from top to bottom where its store is at hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.docs.test_pages import BLOCK, DOCS, run_commands, run_python

pytestmark = pytest.mark.docs


def in_folder(text: str, folder: Path) -> str:
    """Name the current folder, as a shell does."""
    return text.replace("$PWD", str(folder))


def on_server(text: str, folder: Path) -> str:
    """Ask the PostgreSQL of the tests in place of that of the page."""
    from tests.stores.postgres import server

    text = text.replace("host=localhost dbname=shop", server().conninfo)
    return text.replace("postgresql://localhost/shop/items", server().url("items"))


def in_client(text: str, folder: Path) -> str:
    """Ask the client of Qdrant itself, which keeps a folder, in place of a server."""
    text = text.replace('url="http://localhost:6333"', f'path="{folder}/qdrant"')
    return text.replace("qdrant://localhost:6333/items", f"qdrant:///items?path={folder}/qdrant")


# What a page needs, and how its addresses become those of the tests.
PAGES: dict[str, tuple[str, Callable[[str, Path], str]]] = {
    "sqlite": ("sqlite_vec", in_folder),
    "postgresql": ("psycopg", on_server),
    "chroma": ("chromadb", in_folder),
    "qdrant": ("qdrant_client", in_client),
    "lancedb": ("lancedb", in_folder),
}


@pytest.mark.filterwarnings("ignore:Local mode|Failed to|Payload indexes:UserWarning")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page, tmp_path, monkeypatch):
    package, as_here = PAGES[page]
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with ExitStack() as background:
        for kind, text in BLOCK.findall(as_here((DOCS / "switch" / f"{page}.md").read_text("utf8"), tmp_path)):
            if kind == "python":
                run_python(text, names, page)
            else:
                run_commands(text, background)
