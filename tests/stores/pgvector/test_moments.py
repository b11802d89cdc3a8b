"""The SQL of docs/migrate.md is run at each of its moments."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from tests.stores.pgvector.test_view import migrate
from tests.stores.pgvector.traffic import NEW
from tests.stores.postgres import server

from relatent.stores import open_store

PAGE = Path(__file__).parents[3] / "docs" / "migrate.md"


def moments() -> list[list[str]]:
    section = PAGE.read_text().split("## PostgreSQL, moment by moment")[1].split("\n## ")[0]
    blocks = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    return [[part.strip() for part in block.split(";\n") if part.strip()] for block in blocks]


def test_the_sql_of_each_moment_runs(sql, url):
    before, applied, switched, rolled_back, finished, inside = moments()
    with psycopg.connect(server().conninfo, autocommit=True, options="-c search_path=app,public") as application:

        def run(statements: list[str]) -> None:
            for statement in statements:
                text = statement.replace(":old", "'[1,2,3,4]'").replace(":new", "'[1,2,3,4,5,6]'")
                assert application.execute(text).rowcount != 0, statement

        run(before)
        with open_store(url) as store:
            migrate(store)
            store.build_index(NEW)
            run(applied)
            store.switch()
            run(switched)
            store.switch_back()
            run(rolled_back)
            store.switch()
            store.drop_old()
            run(finished)
            store.replace_old()
            run(inside)
        assert application.execute("SELECT count(*), count(embedding) FROM items").fetchone() == (56, 56)
