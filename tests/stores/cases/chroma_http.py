from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.stores.cases.chroma import Chroma
from tests.stores.chroma_server import shared_server


class ChromaHttp(Chroma):
    """A collection of Chroma's own server."""

    def url(self, folder: Path) -> str:
        return f"chroma://127.0.0.1:{shared_server().port}/{self.name(folder)}"

    def name(self, folder: Path) -> str:
        return f"items-{folder.name}"[:200].rstrip("_-.")

    def missing(self, folder: Path) -> str:
        return f"chroma://:secret@127.0.0.1:{shared_server().port}/nothing"

    @contextmanager
    def client(self, folder: Path) -> Iterator[Any]:
        yield shared_server().client()
