"""The commands take the URL of a store where they take a file, and show no password of it."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest
from tests.stores.postgres import server
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import ERROR, NO_VERDICT, OK, app

N = 300


@pytest.fixture
def urls() -> dict[str, str]:
    """Two tables of the same items, as an old and a new model see them."""
    rng = np.random.default_rng(0)
    old = rng.normal(size=(N, 12)) * np.linspace(2, 0.5, 12)
    spaces = {"old": old, "new": old @ np.linalg.qr(rng.normal(size=(12, 12)))[0]}
    with psycopg.connect(server().conninfo, autocommit=True) as connection:
        for name, vectors in spaces.items():
            connection.execute(f"DROP TABLE IF EXISTS {name}_model CASCADE")
            connection.execute(f"CREATE TABLE {name}_model (id int PRIMARY KEY, embedding vector(12))")
            rows = [(i, str(v)) for i, v in enumerate(vectors.tolist())]
            connection.cursor().executemany(f"INSERT INTO {name}_model VALUES (%s, %s)", rows)
    return {name: server().url(f"{name}_model", user="postgres:hunter2") for name in spaces}


def test_a_table_is_described_fitted_on_evaluated_and_translated(urls, tmp_path):
    said = []

    def run(*arguments: str, code: int = OK) -> None:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == code, result.output
        said.append(result.output)

    translator, out = str(tmp_path / "t.safetensors"), str(tmp_path / "out.parquet")
    run("info", urls["old"])
    run("fit", urls["old"], urls["new"], "-o", translator)
    run("evaluate", translator, urls["old"], urls["new"], code=NO_VERDICT)
    run("translate", translator, urls["old"], "-o", out)
    run("translate", translator, urls["old"], "-o", urls["new"], code=ERROR)
    assert "300 × 12 float32" in said[0]
    assert "Use relatent migrate" in " ".join(said[-1].split())
    new, made = rl.read_space(urls["new"]), rl.read_space(out)
    assert made.keys.tolist() == new.keys.tolist()
    np.testing.assert_allclose(made.vectors, new.vectors, atol=0.01)
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert "hunter2" not in "".join(said) + repr(rl.read_space(urls["old"]).path)
    assert b"hunter2" not in written
