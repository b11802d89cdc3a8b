"""One training loop for all reference models, and their checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from experiments.models.logs import open_log
from filelock import FileLock
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from relatent._terminal import progress_bar

# Where every network that an item has trained or read is kept, with its settings: --keep-models.
KEEP: ContextVar[Path | None] = ContextVar("keep", default=None)
Loss = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Training:
    """What a training depends on, next to its seed. ``images=None`` takes all there are."""

    steps: int
    rate: float = 1e-3
    images: int | None = None
    anchors: int = 500
    batch: int = 128


def train(
    build: Callable[[], nn.Module],
    x: torch.Tensor,
    labels: torch.Tensor,
    loss: Loss,
    how: Training,
    *,
    seed: int,
    title: str = "training",
) -> nn.Module:
    """Build a model and train it with Adam; the seed decides its first weights, its batches and its noise.

    The learning rate rises to ``how.rate`` over the first third and falls to nothing at the end.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build().train()
        optimizer = torch.optim.Adam(model.parameters(), lr=how.rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, how.rate, how.steps)
        rows = batches(len(x), how.batch, how.steps)
        with open_log(title, asdict(how) | {"seed": seed}) as log, progress_bar(how.steps, title) as advance:
            for step, chosen in enumerate(rows):
                advance(1)
                optimizer.zero_grad()
                error = loss(model, x[chosen], labels[chosen])
                error.backward()
                optimizer.step()
                schedule.step()
                if log is not None:
                    log({"loss": error.item()}, step)
    return model.eval()


def batches(n: int, size: int, steps: int) -> Iterator[torch.Tensor]:
    """Row numbers for each step: every row once before any comes again, short batches left out."""
    rows = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(rows) < min(size, n):
            rows = torch.randperm(n)
        yield rows[:size]
        rows = rows[size:]


def trained(path: Path, how: Training, build: Callable[[], nn.Module], fit: Callable[[], nn.Module]) -> nn.Module:
    """Load the checkpoint at ``path`` if it was trained in this way; otherwise train, and leave one.

    Of several processes that ask for it, one trains and the others wait.
    """
    start, settings = time.perf_counter(), json.dumps(asdict(how), sort_keys=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        model = _loaded(path, settings, build)
        if model is None:
            model = fit()
            save_checkpoint(model, path, settings)
            print(f"{path.stem}: trained in {time.perf_counter() - start:.0f} s", flush=True)
    if KEEP.get() is not None:
        save_checkpoint(model, KEEP.get() / path.name, settings)
    return model


def save_checkpoint(model: nn.Module, path: Path, settings: str) -> None:
    """Write a network atomically, with its settings as metadata and, to be read by people, in a file of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tmp = path.with_suffix(".part")
    save_file(model.state_dict(), tmp, {"settings": settings})
    tmp.replace(path)
    path.with_suffix(".json").write_text(f"{settings}\n", encoding="utf8")


def _loaded(path: Path, settings: str, build: Callable[[], nn.Module]) -> nn.Module | None:
    if not path.is_file():
        return None
    with safe_open(path, "pt") as file:
        if (file.metadata() or {}).get("settings") != settings:
            return None
    model = build()
    model.load_state_dict(load_file(path))
    return model.eval()
