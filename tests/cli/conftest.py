"""Files of the same items, and a way to run a command on them."""

import json

import numpy as np
import pytest
from tests.cli import steps
from tests.cli.steps import NEW_DIM, OLD_DIM, N
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


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Two files of nearly the same items: the new model sees what the old one sees, turned into more coordinates."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    old = rng.normal(size=(N, OLD_DIM)) * np.linspace(2, 0.5, OLD_DIM) + np.linspace(-1, 1, OLD_DIM)
    turn = np.linalg.qr(rng.normal(size=(NEW_DIM, NEW_DIM)))[0][:OLD_DIM]
    new = old @ turn + 0.001 * rng.normal(size=(N, NEW_DIM))
    keys = [f"doc {i}" for i in range(N)]
    label = np.where(old[:, 0] > 0, "warm", "cold")
    order = rng.permutation(N)[: N - 20]
    known = rl.Fingerprint(dim=OLD_DIM, model="old-model"), rl.Fingerprint(dim=NEW_DIM, model="new-model")
    spaces = {
        "old": rl.Space(old.astype(np.float32), keys, "old", known[0], others={"label": label, "year": range(N)}),
        "new": rl.Space(new.astype(np.float32)[order], [keys[i] for i in order], "new", known[1]),
        "other": rl.Space(rng.normal(size=(N, NEW_DIM)).astype(np.float32), keys),
    }
    for name, space in spaces.items():
        rl.write_space(space, folder / f"{name}.parquet")
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A folder with links to the files, and the place where commands run."""
    for file in made.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def translator(here):
    steps.run("fit", "old.parquet", "new.parquet", "-o", "t.safetensors")
    return here / "t.safetensors"
