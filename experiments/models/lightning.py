"""The reference networks as PyTorch Lightning has them: modules that its Trainer runs, with any logger and callback.

    from lightning.pytorch import Trainer
    from lightning.pytorch.loggers import CSVLogger
    import relatent as rl

    images = load_images("digits")
    module = autoencoder_module(images, Autoencoding(steps=300, anchors=50, channels=(8, 16), relative=True))
    monitor = rl.nn.LatentMonitor(samples, vectors_of_a_reference, layer="model.encoder")
    Trainer(max_epochs=10, logger=CSVLogger("out"), callbacks=[monitor]).fit(module, Batches(images))

The items of the papers train by the one loop of ``experiments.models.training``, which needs no Lightning.
"""

from __future__ import annotations

from typing import Any

import torch
from experiments.data.images import Images
from experiments.models.autoencoder import Autoencoding, autoencoder, reconstruction_loss
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Loss, Training
from lightning.pytorch import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Module(LightningModule):
    """A network with its loss, trained as everywhere here: Adam, one cycle of the learning rate.

    The cycle is over ``how.steps`` steps, or over all that the trainer will take if it takes fewer. Logs ``loss`` and
    ``validation/loss``.
    """

    def __init__(self, model: nn.Module, loss: Loss, how: Training) -> None:
        super().__init__()
        self.model, self.loss, self.how = model, loss, how

    def forward(self, x: Tensor) -> Tensor:
        """Return what the network makes of a batch."""
        return self.model(x)  # type: ignore[no-any-return]

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        """Return the loss of a batch."""
        error = self.loss(self.model, *batch)
        self.log("loss", error)
        return error

    def validation_step(self, batch: tuple[Tensor, Tensor], _: int) -> None:
        """Log the loss of a batch that is not trained on."""
        self.log("validation/loss", self.loss(self.model, *batch))

    def configure_optimizers(self) -> dict[str, Any]:
        """Return Adam and its schedule."""
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.how.rate)
        steps = min(self.how.steps, int(self.trainer.estimated_stepping_batches))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.how.rate, max(steps, 1))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def autoencoder_module(images: Images, how: Autoencoding) -> Module:
    """Return an autoencoder of images: relative, variational and so on, as its settings say."""
    anchors = torch.from_numpy(images.anchors(how.anchors)) if how.relative else None
    shape = {"channels": how.channels, "latent": how.latent, "colors": images.colors, "unit": how.unit}
    return Module(autoencoder(images.side, anchors, variational=how.variational, **shape), reconstruction_loss, how)


def classifier_module(images: Images, how: Training, architecture: str = "plain", *, relative: bool = True) -> Module:
    """Return a classifier of images; a relative one reads cosines to anchor images."""
    anchors = torch.from_numpy(images.anchors(how.anchors)) if relative else None
    model = classifier(architecture, images.side, images.classes, anchors, colors=images.colors)
    return Module(model, classification_loss, how)


class Batches(LightningDataModule):
    """Batches of images to train on, and of those for testing to validate on."""

    def __init__(self, images: Images, size: int = 128) -> None:
        super().__init__()
        self.size = size
        parts = ((images.train, images.train_labels), (images.test, images.test_labels))
        self.train, self.test = (TensorDataset(torch.from_numpy(x), torch.from_numpy(labels)) for x, labels in parts)

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """Return whole batches in another order every epoch."""
        return DataLoader(self.train, self.size, shuffle=True, drop_last=len(self.train) > self.size)

    def val_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """Return the images for testing in their order."""
        return DataLoader(self.test, self.size)
