"""The reference networks under Lightning's Trainer, and sweeps that run here."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from experiments.data.graphs import Citations
from experiments.data.images import Images, load_images
from experiments.models.autoencoder import Autoencoding
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import KEEP, Training, train, trained
from experiments.relative_representations import cora, node_module, nodes

import relatent as rl
from experiments import sweep

lightning = pytest.importorskip("lightning.pytorch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of Lightning, about workers and devices
from experiments.models import lightning as ours  # noqa: E402

QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
TABLE_10 = Path(sweep.__file__).parent / "sweeps" / "rr-table10.yaml"


@pytest.fixture(scope="module")
def images() -> Images:
    return load_images("digits", 96, 40)


@pytest.fixture
def papers() -> Citations:
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    words = rng.random((60, 9)) < np.where(np.arange(9) % 3 == y[:, None], 0.7, 0.1)
    edges = np.argwhere(np.triu(rng.random((60, 60)) < np.where(y[:, None] == y, 0.2, 0.01), 1))
    return Citations(scipy.sparse.csr_matrix(words.astype(np.float32)), edges, y)


def test_a_trainer_takes_the_steps_of_the_loop_of_the_items(images, tmp_path) -> None:
    """With all rows in one batch their order plays no part, and both must end at the same network."""
    how = Training(steps=4, rate=1e-3, batch=len(images.train), anchors=10)
    anchors = torch.from_numpy(images.anchors(10))
    x, labels = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    wanted = train(lambda: classifier("plain", 8, 10, anchors), x, labels, classification_loss, how, seed=3)
    torch.manual_seed(3)
    module = ours.classifier_module(images, how)
    trainer = lightning.Trainer(max_epochs=4, logger=False, accelerator="cpu", num_sanity_val_steps=0, **QUIET)
    trainer.fit(module, ours.Batches(images, size=len(images.train)))
    torch.manual_seed(3)
    untrained = ours.classifier_module(images, how).model.eval()
    test = torch.from_numpy(images.test)
    with torch.no_grad():
        away = float((untrained(test) - wanted(test)).norm())
        assert (
            float((module.model.eval()(test) - wanted(test)).norm()) < 0.02 * away
        )  # rows are summed in another order


def test_loggers_and_monitors_work_with_a_relative_autoencoder(images, tmp_path) -> None:
    from lightning.pytorch.loggers import CSVLogger

    how = Autoencoding(steps=30, rate=3e-3, anchors=12, channels=(4, 8), relative=True)
    torch.manual_seed(0)
    module = ours.autoencoder_module(images, how)
    x = torch.from_numpy(images.test)
    monitor = rl.nn.LatentMonitor(x, x.flatten(1), layer="model.encoder")
    logger = CSVLogger(str(tmp_path))
    trainer = lightning.Trainer(
        max_epochs=10, logger=logger, callbacks=[monitor], accelerator="cpu", log_every_n_steps=1, **QUIET
    )
    trainer.fit(module, ours.Batches(images, size=32))
    rows = list(csv.DictReader((Path(logger.log_dir) / "metrics.csv").open()))
    losses = [float(row["loss"]) for row in rows if row["loss"]]
    similar = [float(row["latent/relative_similarity"]) for row in rows if row["latent/relative_similarity"]]
    assert len(losses) == 30
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert len(similar) == 10
    assert all(-1 <= one <= 1 for one in similar)
    assert any(row["validation/loss"] for row in rows)


def test_a_node_module_takes_the_steps_of_the_items_on_graphs(papers) -> None:
    task, one = nodes.make_task(papers, n_anchors=10), nodes.Run(layers=2, width=12, dropout=0.0)
    *_, last = nodes.train(*one.build(task), task, 5)
    module = node_module.NodeModule(task, one)
    trainer = lightning.Trainer(max_epochs=5, logger=False, accelerator="cpu", num_sanity_val_steps=0, **QUIET)
    trainer.fit(module)
    rows = torch.arange(60)
    with torch.no_grad():
        assert torch.equal(module.eval()(rows).argmax(dim=1), last.predicted)
        assert torch.allclose(module.model.encode(task.graph), last.embedding, atol=1e-5)
    expected = nodes.accuracy(last, task, task.validation)
    assert float(trainer.callback_metrics["validation/accuracy"]) == pytest.approx(expected)


def test_a_point_of_the_grid_is_followed_as_in_the_item(papers, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(node_module, "load_citations", lambda name: papers)
    monkeypatch.setattr(node_module, "make_task", lambda papers: nodes.make_task(papers, n_anchors=10))
    one = nodes.Run(seed=0, layers=2, width=12, dropout=0.0)
    found = node_module.train_point(one, 4, tmp_path, reference_epochs=3)
    task = nodes.make_task(papers, n_anchors=10)
    reference, _ = cora.reference_space(task, replace(nodes.Run(), width=12), 3, tmp_path)
    wanted = cora.follow(one, task, torch.from_numpy(reference), 4)
    assert found["accuracy"] == pytest.approx(wanted["accuracy"])
    assert found["similarity"] == pytest.approx(wanted["similarity"], abs=1e-4)


def test_the_sweep_of_table_10_is_the_grid_of_the_item() -> None:
    points = list(sweep.points(sweep.read_sweep(TABLE_10)))
    assert len(points) == 1920
    runs = {(nodes.Run(**{k: v for k, v in one.items() if k != "epochs"}), one["epochs"]) for one in points}
    assert runs == {(one, epochs) for one in cora.GRID for epochs in cora.EPOCHS}


def test_a_sweep_resumes_and_says_what_failed(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "given = dict(one[2:].split('=') for one in sys.argv[1:])\n"
        "open('calls.txt', 'a').write(given['a'] + given['b'])\n"
        "assert given['a'] != '2', 'two is too many'\n"
        "open(given['out'], 'w').write('{}')\n"
    )
    grid = {"a": {"values": [1, 2]}, "b": {"value": "x"}}
    plan = {"method": "grid", "parameters": grid, "command": [sys.executable, str(program), "${args}"]}
    out = tmp_path / "out"
    import os

    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        kept, failed = sweep.run(plan, out)
        assert kept == 1
        assert len(failed) == 1
        assert "two is too many" in failed[0]
        program.write_text(program.read_text().replace("assert", "0 and").replace("0 and given", "given"))
        assert sweep.run(plan, out) == (2, [])
    finally:
        os.chdir(here)
    assert (tmp_path / "calls.txt").read_text() == "1x2x2x"  # the first point was not run again


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: random\nparameters: {a: {value: 1}}", "only grids run here"),
        ("method: grid", "has no parameters"),
        ("method: grid\nparameters: {a: 3}", "the parameter a has 3: expected value or values"),
        ("a: [", "cannot be read as a sweep"),
    ],
)
def test_what_is_no_grid_is_refused(text: str, message: str, tmp_path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    with pytest.raises(SystemExit, match=message):
        sweep.read_sweep(path)


def test_kept_networks_are_read_in_place_of_training(tmp_path) -> None:
    how = Training(steps=2, batch=8)
    x, labels = torch.rand(16, 1, 8, 8), torch.arange(16) % 3

    def build() -> torch.nn.Module:
        return classifier("plain", 8, 3)

    def refused() -> torch.nn.Module:
        raise AssertionError("trained again")

    token = KEEP.set(tmp_path / "kept")
    try:
        first = trained(
            tmp_path / "models" / "net-0.safetensors",
            how,
            build,
            lambda: train(build, x, labels, classification_loss, how, seed=0),
        )
    finally:
        KEEP.reset(token)
    assert json.loads((tmp_path / "kept" / "net-0.json").read_text())["steps"] == 2
    again = trained(tmp_path / "kept" / "net-0.safetensors", how, build, refused)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    with pytest.raises(AssertionError, match="trained again"):
        trained(tmp_path / "kept" / "net-0.safetensors", replace(how, steps=3), build, refused)
