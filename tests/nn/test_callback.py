from __future__ import annotations

import copy
import csv
import importlib
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

import relatent as rl


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
    monitor = rl.nn.LatentMonitor(x, x**3, layer="encoder", every_n_steps=3)
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
    expected = rl.nn.latent_similarity(model, x**3, x, layer="encoder", prefix="latent/")
    logged = {key: float(trainer.callback_metrics[key]) for key in expected}
    assert logged == pytest.approx(expected, abs=1e-6)
    with Path(logger.experiment.metrics_file_path).open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["latent/cka"]) == pytest.approx(expected["latent/cka"], abs=1e-6)
    assert {"0", "1"} == {row["epoch"] for row in rows}
    assert all(m.training for m in model.modules())
    assert model.encoder[1].num_batches_tracked == 8


@pytest.mark.filterwarnings("ignore")
def test_the_callback_can_be_passed_on():
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
    from relatent.nn import callback

    monkeypatch.setattr(callback, "LIGHTNING", ("no_such_lightning.pytorch",))
    with pytest.raises(ModuleNotFoundError, match=r"relatent\[lightning\]"):
        rl.nn.LatentMonitor(torch.ones(2, 3), torch.ones(2, 3))
