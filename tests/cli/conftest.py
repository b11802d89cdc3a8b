"""Two files of the same items, and a way to run a command on them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import relatent as rl
from relatent.cli import app

ITEMS = 600


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in a folder of its own; with ``--json``, return its answer."""
    monkeypatch.chdir(tmp_path)

    def call(*words, code=0):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if "--json" in words else result.output

    return call


@pytest.fixture
def pair(tmp_path):
    """Write old.parquet and new.parquet: the new model sees what the old one sees, turned and with a little noise."""
    rng = np.random.default_rng(0)
    old = rng.normal(size=(ITEMS, 12)) + 2 * rng.normal(size=(ITEMS // 3, 12)).repeat(3, axis=0)
    new = old @ np.linalg.qr(rng.normal(size=(16, 16)))[0][:12] + 0.1 * rng.normal(size=(ITEMS, 16))
    keys = [f"doc {i}" for i in range(ITEMS)]
    rl.write_space(rl.Space(old.astype(np.float32), keys, "old"), tmp_path / "old.parquet")
    order = rng.permutation(ITEMS)
    rl.write_space(rl.Space(new[order].astype(np.float32), [keys[i] for i in order]), tmp_path / "new.parquet")
    return old, new
