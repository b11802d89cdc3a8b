"""A table that an application writes to, in a schema of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.stores.pgvector import traffic
from tests.stores.postgres import server


@pytest.fixture
def sql() -> Iterator[Any]:
    """Run a statement as the owner of the database."""
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        yield lambda text, *values: _rows(connection.execute(text, values or None))


def _rows(cursor: Any) -> list[Any]:
    return cursor.fetchall() if cursor.description else []


@pytest.fixture
def url() -> str:
    """A table `app.items` of 50 rows."""
    return traffic.make_items(50)
