"""A node classifier as a LightningModule, and one point of the grid of Cora (table 10 of Moschella et al., ICLR 2023).

    python -m experiments.relative_representations.node_module --layers=32 --epochs=50 --out=out/point.json

The whole grid is a sweep in the format of Weights & Biases, which also runs locally and resumes:

    python -m experiments.sweep experiments/sweeps/rr-table10.yaml --out out/rr-table10
"""

from __future__ import annotations

import argparse
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from experiments.data.graphs import load_citations
from experiments.models.logs import FOLDER, find_logger
from experiments.relative_representations.cora import pearson, reference_space
from experiments.relative_representations.nodes import Run, Task, make_task
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

import relatent as rl


class NodeModule(LightningModule):
    """A node classifier that is trained on all training nodes at once; an epoch is a step.

    Called with the numbers of nodes, it returns their logits; ``latent`` passes on their vectors, for monitors. Logs
    ``loss`` and ``validation/accuracy``.
    """

    def __init__(self, task: Task, one: Run, **relative: Any) -> None:
        super().__init__()
        self.task, self.one = task, one
        self.model, self._optimizer = one.build(task, **relative)
        self.latent = nn.Identity()

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logits of some nodes."""
        vectors = self.model.encode(self.task.graph)
        self.latent(vectors[rows])
        return self.model.decode(vectors)[rows]

    def training_step(self, rows: Tensor, _: int) -> Tensor:
        """Return the loss on all training nodes."""
        error = nn.functional.cross_entropy(self.model(self.task.graph)[rows], self.task.labels[rows])
        self.log("loss", error, batch_size=len(rows))
        return error

    def validation_step(self, rows: Tensor, _: int) -> None:
        """Log the share of validation nodes that are classified correctly."""
        found = self(rows).argmax(dim=1) == self.task.labels[rows]
        self.log("validation/accuracy", found.float().mean(), batch_size=len(rows))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer of the run."""
        return self._optimizer

    def train_dataloader(self) -> DataLoader[Tensor]:
        """Return one batch: the training nodes."""
        return _one_batch(self.task.train)

    def val_dataloader(self) -> DataLoader[Tensor]:
        """Return one batch: the validation nodes."""
        return _one_batch(self.task.validation)


def _one_batch(rows: Any) -> DataLoader[Tensor]:
    return DataLoader([torch.as_tensor(rows)], batch_size=None)  # type: ignore[arg-type]


def train_point(
    one: Run, epochs: int, folder: Path, logger: Any = False, reference_epochs: int = 500
) -> dict[str, Any]:
    """Train a point of the grid; return accuracy and similarity to the reference, by raw cosines, per epoch."""
    task = make_task(load_citations("cora"))
    reference, _ = reference_space(task, replace(Run(), width=one.width), reference_epochs, folder)
    rows = torch.arange(len(task.labels))
    options = {"anchor_rows": task.anchors, "center": False, "batch_size": len(rows)}
    monitor = rl.nn.LatentMonitor(rows, reference, layer="latent", **options)
    history = {"accuracy": [], "similarity": []}  # type: dict[str, list[float]]
    module = NodeModule(task, one)
    module.on_train_epoch_end = lambda: _note(module.trainer.callback_metrics, history)  # type: ignore[method-assign]
    logged = {"logger": logger, "enable_progress_bar": False, "enable_checkpointing": False, "log_every_n_steps": 1}
    quiet = {"enable_model_summary": False, "num_sanity_val_steps": 0, "accelerator": "cpu"}
    Trainer(max_epochs=epochs, callbacks=[monitor], **logged, **quiet).fit(module)
    return {"run": {**vars(one), "epochs": epochs}, **history, "correlation": pearson(*history.values())}


def _note(metrics: dict[str, Tensor], history: dict[str, list[float]]) -> None:
    for name, key in (("accuracy", "validation/accuracy"), ("similarity", "latent/relative_similarity")):
        if key in metrics:
            history[name].append(float(metrics[key]))


def main() -> None:
    """Train one point, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in fields(Run):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--reference_epochs", type=int, default=500)
    parser.add_argument("--models", type=Path, default=Path("out/models/cora"), help="folder of the reference")
    parser.add_argument("--logger", help="class of lightning.pytorch.loggers, e.g. WandbLogger")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args()
    one = Run(**{field.name: getattr(given, field.name) for field in fields(Run)})
    logger = find_logger(given.logger)(save_dir=str(FOLDER)) if given.logger else False
    found = train_point(one, given.epochs, given.models, logger, given.reference_epochs)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        tmp = given.out.with_suffix(".part")
        tmp.write_text(json.dumps(found), encoding="utf8")
        tmp.replace(given.out)
    print(f"accuracy {max(found['accuracy']):.3f}, correlation {found['correlation']}")


if __name__ == "__main__":
    main()
