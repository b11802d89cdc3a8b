"""Latent similarity as a figure to watch, by hand and in a Lightning run."""

from __future__ import annotations

import copy
import csv
import importlib
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import relatent as rl
from relatent.nn.monitor import captured


def _draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Tanh())
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


def test_a_named_layer_is_measured_against_a_reference():
    model, x = Net().eval(), _draw(50, 6)
    reference, logged = x.numpy() ** 3, []
    rows = np.arange(0, 50, 4)
    values = rl.nn.latent_similarity(
        model, reference, x, layer="encoder", anchor_rows=rows, prefix="val/", log=logged.append, batch_size=7
    )
    z = model.encoder(x).detach().numpy().astype(np.float64)
    assert np.isclose(values["val/relative_similarity"], float(rl.evaluate.relative_similarity(z, reference, rows)))
    assert np.isclose(values["val/cka"], float(rl.evaluate.cka(z, reference.astype(np.float64))))
    assert logged == [values]
    assert rl.nn.latent_similarity(z, reference, anchor_rows=rows, prefix="val/") == pytest.approx(values)
    raw = float(rl.evaluate.relative_similarity(z, reference, rows, center=False))
    found = rl.nn.latent_similarity(z, reference, anchor_rows=rows, center=False)["relative_similarity"]
    assert found == pytest.approx(raw)
    assert abs(raw - values["val/relative_similarity"]) > 0.01


@pytest.mark.parametrize("fails", [False, True])
def test_measuring_leaves_the_model_unchanged(fails):
    model, x = Net(), _draw(50, 6)
    model.head.eval()
    model.head.weight.requires_grad_(False)
    model(x).sum().backward()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gradients = {name: p.grad for name, p in model.named_parameters()}
    flags = [m.training for m in model.modules()]
    if fails:
        model.head.forward = lambda _: 1 / 0
        with pytest.raises(ZeroDivisionError):
            rl.nn.latent_similarity(model, x, x, layer="encoder.1")
    else:
        rl.nn.latent_similarity(model, x, x, layer="encoder.1")
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert [m.training for m in model.modules()] == flags
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is gradients[name] for name, p in model.named_parameters())
    assert not model.head.weight.requires_grad
    assert torch.is_grad_enabled()


def test_the_observed_encoder_may_feed_a_relative_layer():
    x = _draw(50, 6)
    encoder = nn.Linear(6, 4)
    model = nn.Sequential(encoder, rl.nn.RelativeProjection(x[:10], encoder=encoder, output="none"))
    model(x)
    assert torch.allclose(captured(model, x, layer="0", batch_size=25), encoder(x))
    assert torch.allclose(
        captured(model, x, layer="1"), rl.project.similarity.cosine(encoder(x), encoder(x[:10])), atol=1e-6
    )


def test_outputs_of_other_shapes():
    images = _draw(5, 1, 8, 8)
    assert captured(nn.Conv2d(1, 3, 3), images).shape == (5, 3 * 6 * 6)
    assert captured(nn.LSTM(6, 4), _draw(5, 6)).shape == (5, 4)
    assert captured(lambda s: s.flatten(1), images).shape == (5, 64)


def test_layers_that_cannot_be_observed_are_refused():
    model, x = Net(), _draw(50, 6)
    with pytest.raises(ValueError, match=r"no layer 'encode'\. Did you mean 'encoder'"):
        rl.nn.latent_similarity(model, x, x, layer="encode")
    with pytest.raises(ValueError, match="without samples"):
        rl.nn.latent_similarity(model, x)
    with pytest.raises(TypeError, match="the model is a function"):
        rl.nn.latent_similarity(lambda s: s, x, x, layer="0")
    with pytest.raises(ValueError, match="x has 50 rows and y has 49 rows"):
        rl.nn.latent_similarity(model, x[:49], x)
    with pytest.raises(ValueError, match="expected one vector per sample"):
        captured(nn.Flatten(0), x)


def _module(library):
    class Classifier(library.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh())
            self.head = nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(x))

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    torch.manual_seed(0)
    return Classifier()


# Lightning warns of what it uses itself, and of how few workers a test has.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_a_training_run_logs_the_similarity_to_a_reference(name, tmp_path):
    library = pytest.importorskip(name)
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
    monitor = rl.nn.LatentMonitor(x, x**3, layer="encoder", center=False, every_n_steps=3)
    logger = importlib.import_module(f"{name}.loggers").CSVLogger(tmp_path)
    model = _module(library)
    trainer = library.Trainer(
        max_epochs=2,
        accelerator="cpu",
        callbacks=monitor,
        logger=logger,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(model, torch.utils.data.DataLoader(data, 16))
    expected = rl.nn.latent_similarity(model, x**3, x, layer="encoder", center=False, prefix="latent/")
    logged = {key: float(trainer.callback_metrics[key]) for key in expected}
    assert logged == pytest.approx(expected, abs=1e-6)
    with Path(logger.experiment.metrics_file_path).open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["latent/cka"]) == pytest.approx(expected["latent/cka"], abs=1e-6)
    assert {"0", "1"} == {row["epoch"] for row in rows}
    assert all(m.training for m in model.modules())
    assert model.encoder[1].num_batches_tracked == 8


@pytest.mark.filterwarnings("ignore")
def test_the_callback_can_be_pickled():
    library = pytest.importorskip("lightning.pytorch")
    monitor = rl.nn.LatentMonitor(torch.ones(2, 3), torch.ones(2, 3), layer="encoder")
    assert isinstance(monitor, library.Callback)
    for twin in (copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))):
        assert isinstance(twin, rl.nn.LatentMonitor)
        assert isinstance(twin, library.Callback)
        assert twin.layer == "encoder"


def test_a_step_of_zero_is_refused():
    pytest.importorskip("lightning.pytorch")
    with pytest.raises(ValueError, match="every_n_steps is 0"):
        rl.nn.LatentMonitor(torch.ones(2, 3), torch.ones(2, 3), every_n_steps=0)


def test_a_missing_lightning_names_the_extra(monkeypatch):
    from relatent.nn import monitor

    monkeypatch.setattr(monitor, "LIGHTNING", ("no_such_lightning.pytorch",))
    with pytest.raises(ModuleNotFoundError, match=r"relatent\[lightning\]"):
        rl.nn.LatentMonitor(torch.ones(2, 3), torch.ones(2, 3))
