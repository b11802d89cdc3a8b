"""One training loop for all reference models, and their checkpoints."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

Loss = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


def train(
    build: Callable[[], nn.Module],
    x: torch.Tensor,
    labels: torch.Tensor,
    loss: Loss,
    *,
    seed: int,
    steps: int,
    batch: int = 128,
    rate: float = 1e-3,
    title: str = "training",
) -> nn.Module:
    """Build a model and train it with Adam; the seed decides its first weights, its batches and its noise.

    The learning rate rises to ``rate`` over the first third and falls to nothing at the end.
    """
    quiet = not sys.stdout.isatty()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build().train()
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps)
        for rows in track(batches(len(x), batch, steps), description=title, total=steps, transient=True, disable=quiet):
            optimizer.zero_grad()
            loss(model, x[rows], labels[rows]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def batches(n: int, size: int, steps: int) -> Iterator[torch.Tensor]:
    """Row numbers for each step: every row once before any comes again, short batches left out."""
    rows = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(rows) < min(size, n):
            rows = torch.randperm(n)
        yield rows[:size]
        rows = rows[size:]


def trained(path: Path, settings: dict[str, Any], build: Callable[[], nn.Module], fit: Callable[[], nn.Module]):
    """Load the checkpoint at ``path`` if it was made with these settings; otherwise train, and leave one."""
    written = json.dumps(settings, sort_keys=True)
    if path.is_file():
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("settings") == written:
                model = build()
                model.load_state_dict(load_file(path))
                return model.eval()
    model = fit()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    save_file(model.state_dict(), beside, {"settings": written})
    beside.replace(path)
    return model
