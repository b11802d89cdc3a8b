"""Latent similarity in the logs of a Lightning run."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from typing import Any, Self

from torch import Tensor

from relatent._extras import needs
from relatent.nn.monitor import latent_similarity

__all__ = ["LatentMonitor"]

# One library under two names: their trainers know only their own callbacks.
LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


class LatentMonitor:
    """A Lightning callback that logs relative similarity and CKA to a reference at the end of every epoch.

    ``samples`` and ``reference`` as in :func:`~relatent.nn.latent_similarity`; ``layer`` names a submodule of the
    LightningModule, say "encoder". With ``every_n_steps`` it also logs while an epoch runs. The figures go through
    ``log_dict`` of the module, so that they reach whichever logger the trainer has and can be monitored
    by checkpoints and early stopping as ``latent/relative_similarity`` and ``latent/cka``.

    Works with ``lightning`` and ``pytorch_lightning`` (extra ``lightning``).

    ``Trainer(callbacks=[LatentMonitor(samples, teacher_vectors, layer="encoder")])``
    """

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Make it a callback of whichever Lightning is in use."""
        made: type[Self] = _as_callback(cls, _libraries())  # type: ignore[arg-type]
        return super().__new__(made)

    def __init__(
        self,
        samples: Tensor,
        reference: Any,
        *,
        layer: str | None = None,
        anchor_rows: Any = None,
        every_n_steps: int | None = None,
        batch_size: int = 512,
        prefix: str = "latent/",
    ) -> None:
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError(f"every_n_steps is {every_n_steps}: expected at least 1, or None for epochs only.")
        self.samples = samples
        self.reference = reference
        self.layer = layer
        self.anchor_rows = anchor_rows
        self.every_n_steps = every_n_steps
        self.batch_size = batch_size
        self.prefix = prefix

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Log every so many steps, if asked for."""
        if self.every_n_steps is not None and trainer.global_step % self.every_n_steps == 0:
            pl_module.log_dict(self.measure(pl_module), on_step=True, on_epoch=False)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log after an epoch."""
        pl_module.log_dict(self.measure(pl_module))

    def measure(self, pl_module: Any) -> dict[str, float]:
        """Compare the module as it is now with the reference."""
        return latent_similarity(
            pl_module,
            self.reference,
            self.samples.to(pl_module.device),
            layer=self.layer,
            anchor_rows=self.anchor_rows,
            batch_size=self.batch_size,
            prefix=self.prefix,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Let processes of a trainer pass it on: its class is made here, and found nowhere."""
        return _rebuilt, (dict(self.__dict__),)


def _rebuilt(state: dict[str, Any]) -> LatentMonitor:
    monitor = LatentMonitor.__new__(LatentMonitor)
    monitor.__dict__.update(state)
    return monitor


def _libraries() -> tuple[str, ...]:
    """Give what is imported already, because the trainer comes from there; else what is installed."""
    imported = tuple(name for name in LIGHTNING if name in sys.modules)
    if imported:
        return imported
    installed = [name for name in LIGHTNING if find_spec(name.split(".")[0]) is not None]
    return ((installed or LIGHTNING)[0],)


@cache
def _as_callback(cls: type, libraries: tuple[str, ...]) -> type:
    bases = (needs(name, "lightning", "watch a Lightning run").Callback for name in libraries)
    return type(cls.__name__, (cls, *bases), {"__module__": cls.__module__, "__doc__": cls.__doc__})
