"""Log trainings to any logger of PyTorch Lightning: CSVLogger, TensorBoardLogger, WandbLogger and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

FOLDER = Path("out/logs")
# The class in lightning.pytorch.loggers that trainings log to; None logs nothing.
LOGGER: ContextVar[str | None] = ContextVar("logger", default=None)
Log = Callable[[Mapping[str, float], int], object]


@contextmanager
def open_log(title: str, settings: Mapping[str, Any]) -> Iterator[Log | None]:
    """Open a run of the logger for one training; yield what takes metrics and a step, or None where none is asked."""
    if LOGGER.get() is None:
        yield None
        return
    logger = find_logger(str(LOGGER.get()))(save_dir=str(FOLDER), name=title)
    logger.log_hyperparams(dict(settings))
    try:
        yield logger.log_metrics
    finally:
        logger.save()
        logger.finalize("success")


def find_logger(name: str) -> Any:
    """Return a class of loggers by its name, or stop with the names there are."""
    from lightning.pytorch import loggers

    if name not in loggers.__all__:
        raise SystemExit(f"there is no logger {name}: choose from {', '.join(loggers.__all__)}")
    return getattr(loggers, name)
