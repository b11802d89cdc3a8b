"""SQL in the engines that it is for: the function, the macro and the view give what transform gives."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.exports.translators import CASES, fitted, near, nonlinear, rounding, spaces
from typer.testing import CliRunner

import relatent as rl
from relatent._linalg import unit_norm
from relatent.cli import app
from relatent.exports import export
from relatent.exports.sql import DIALECTS

ROWS, PARITY = slice(500, 508), 1e-5


def by_postgresql(path: Path, x: np.ndarray) -> np.ndarray:
    import psycopg
    from tests.stores.postgres import server

    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        connection.execute(
            "DROP SCHEMA IF EXISTS scripts CASCADE; CREATE SCHEMA scripts; SET search_path = scripts, public"
        )
        connection.execute(path.read_text("utf8"))
        given = [str(row.tolist()) for row in x]
        found = [connection.execute(f"SELECT {path.stem}(%s)", (row,)).fetchone()[0] for row in given]
    return np.asarray([json.loads(row) for row in found])


def by_duckdb(path: Path, x: np.ndarray) -> np.ndarray:
    duckdb = pytest.importorskip("duckdb", reason="make test-stores")
    with duckdb.connect() as connection:
        connection.execute(path.read_text("utf8"))
        connection.execute(f"CREATE TABLE items (id INTEGER, v FLOAT[{x.shape[1]}])")
        connection.executemany("INSERT INTO items VALUES (?, ?)", [*enumerate(x.tolist())])
        found = connection.execute(f"SELECT {path.stem}(v) FROM items ORDER BY id").fetchall()
    return np.asarray([row for (row,) in found])


def by_sqlite(path: Path, x: np.ndarray) -> np.ndarray:
    """By Python's own sqlite3, which loads nothing."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(path.read_text("utf8"))
    rows = [(key, json.dumps(row)) for key, row in enumerate(x.tolist())]
    connection.executemany(f"INSERT INTO {path.stem}__given VALUES (?, ?)", rows)
    found = connection.execute(f"SELECT key, vector FROM {path.stem} ORDER BY key").fetchall()
    connection.close()
    assert [key for key, _ in found] == list(range(len(x)))
    return np.asarray([json.loads(row) for _, row in found])


# The same maps on another pair of spaces take as long again.
TRIED = [pytest.param(*case, marks=[pytest.mark.slow] if case[1] == "correlated" else []) for case in CASES]
TRIED.append(pytest.param("nonlinear", "digits"))
ENGINES: dict[str, Callable[[Path, np.ndarray], np.ndarray]] = {
    "postgresql": by_postgresql,
    "duckdb": by_duckdb,
    "sqlite": by_sqlite,
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("setting", "space"), TRIED)
def test_the_script_gives_what_transform_gives(setting, space, dialect, tmp_path):
    t = nonlinear(space) if setting == "nonlinear" else fitted(setting, space)
    sides = {"source": t.transform} | ({} if t.target_map_ is None else {"target": t.transform_target})
    for side, transform in sides.items():
        x = spaces(space)[side == "target"][ROWS]
        export(t, tmp_path / f"{side}.sql", "sql", side=side, dialect=dialect)
        found = ENGINES[dialect](tmp_path / f"{side}.sql", x)
        # pgvector computes in single precision, the others in double.
        exact, rtol = (x, rounding(t)) if dialect == "postgresql" else (x.astype(np.float64), PARITY)
        near(found, transform(exact), rtol)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_zero_rows_stay_what_transform_makes_of_them(dialect, tmp_path):
    t = fitted("ridge, l2", "digits")
    export(t, tmp_path / "t.sql", "sql", dialect=dialect, normalize=True)
    x = np.zeros((1, 48), np.float32)
    near(ENGINES[dialect](tmp_path / "t.sql", x), unit_norm(t.transform(x)))


def test_a_vector_of_another_dimension_has_no_translation(tmp_path):
    t, x = fitted("orthogonal", "digits"), np.ones((2, 7), np.float32)
    for dialect in DIALECTS:
        export(t, tmp_path / f"to_{dialect}.sql", "sql", dialect=dialect)
    connection = sqlite3.connect(":memory:")
    connection.executescript((tmp_path / "to_sqlite.sql").read_text("utf8"))
    connection.execute("INSERT INTO to_sqlite__given VALUES (1, '[1, 2]')")
    assert connection.execute("SELECT * FROM to_sqlite").fetchall() == []
    connection.close()
    with pytest.raises(TypeError, match="NoneType"):  # of NULL
        by_postgresql(tmp_path / "to_postgresql.sql", x)
    duckdb = pytest.importorskip("duckdb", reason="make test-stores")
    with pytest.raises(duckdb.Error):
        by_duckdb(tmp_path / "to_duckdb.sql", x)


def test_the_name_of_the_file_is_that_of_the_function(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted("orthogonal", "digits").save("t.safetensors")
    words = ["export", "t.safetensors", "--to", "sql", "-o", "Old to-new.sql"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert 'CREATE FUNCTION "old_to_new"(given vector)' in Path("Old to-new.sql").read_text("utf8")
    assert CliRunner().invoke(app, [*words, "--dialect", "sqlite", "--overwrite"]).exit_code == 0
    assert 'CREATE VIEW "old_to_new" ' in Path("Old to-new.sql").read_text("utf8")
    refused = CliRunner().invoke(app, [*words, "--dialect", "sqlit", "--overwrite"])
    assert refused.exit_code == 1
    assert "Did you mean 'sqlite'" in " ".join(refused.output.split())


def test_what_no_sql_has_is_refused(tmp_path):
    t = rl.Translator(map="orthogonal").fit(*(rows[:500] for rows in spaces("digits")))
    t.map_.matrix[0, 0] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        export(t, tmp_path / "t.sql", "sql")
    with pytest.raises(ValueError, match="takes only: side, normalize, dialect"):
        export(t, tmp_path / "t.sql", "sql", index="old.faiss")
    assert not (tmp_path / "t.sql").exists()


def test_a_map_that_is_longer_on_its_way_than_a_vector_of_pgvector_is_refused(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 4))
    t = rl.Translator(map="affine").fit(x, x @ np.ones((4, 16_001)))
    with pytest.raises(ValueError, match="16,001 coordinates on the way, and a vector of pgvector takes 16,000"):
        export(t, tmp_path / "t.sql", "sql")
    export(t, tmp_path / "t.sql", "sql", dialect="sqlite")
