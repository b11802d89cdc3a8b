"""A newcomer's loop: train with a relative layer from several seeds, then give each encoder the head of another.

Nothing is tuned: the digits of scikit-learn, an encoder of two linear layers with or without batch normalization, a
head of one layer or two, Adam, twenty epochs. What varies is how the relative layer prepares its input
(``normalize``) and its output (``output``). The table gives accuracy in percent, mean ± std over models (own) or
ordered pairs of them (stitched). Settings are compared on validation images; the last column repeats the stitched
figure on test images.

    python -m experiments.relative_representations.newcomer [--seeds 5]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn

import relatent as rl
from relatent._terminal import working

TRAINED, VALIDATED = 900, 1300  # rows up to here
EPOCHS, BATCH, LATENT = 20, 64, 32
ENCODERS, HEADS, ANCHORS = ("plain", "batch norm"), ("linear", "two layers"), (50, 200)
SETTINGS = tuple(product(("none", "center"), ("none", "l2", "layer")))


@dataclass(frozen=True)
class Digits:
    """Images and labels in one fixed shuffled order: to train on, to choose by, to test."""

    images: Tensor
    labels: Tensor

    def part(self, start: int, stop: int | None) -> Digits:
        """Return some consecutive rows."""
        return Digits(self.images[start:stop], self.labels[start:stop])


@dataclass(frozen=True)
class Model:
    """What is built: all but the seed."""

    encoder: str
    head: str
    anchors: int
    normalize: str
    output: str

    def build(self, images: Tensor) -> nn.Sequential:
        """Return encoder, relative layer and head; the first images are the anchors."""
        norm = [nn.BatchNorm1d(128)] if self.encoder == "batch norm" else []
        encoder = nn.Sequential(nn.Linear(64, 128), *norm, nn.ReLU(), nn.Linear(128, LATENT))
        relative = rl.nn.RelativeProjection(
            images[: self.anchors], encoder=encoder, normalize=self.normalize, output=self.output
        )
        hidden = [] if self.head == "linear" else [nn.Linear(self.anchors, 64), nn.ReLU()]
        width = self.anchors if self.head == "linear" else 64
        return nn.Sequential(encoder, relative, nn.Sequential(*hidden, nn.Linear(width, 10)))


def load() -> Digits:
    """Return the digits of scikit-learn, shuffled once and for all."""
    images, labels = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(images))
    return Digits(torch.tensor(images[rows] / 16, dtype=torch.float32), torch.tensor(labels[rows]))


def train(model: Model, digits: Digits, seed: int, epochs: int = EPOCHS) -> nn.Sequential:
    """Train from one seed, as anybody would."""
    torch.manual_seed(seed)
    network = model.build(digits.images)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(digits.images)).split(BATCH):
            loss = nn.functional.cross_entropy(network(digits.images[rows]), digits.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


@torch.no_grad()
def accuracy(seen: nn.Sequential, head: nn.Sequential, digits: Digits) -> float:
    """Return how often the head of one network is right about the relative vectors of another."""
    return float((head[2](seen[:2](digits.images)).argmax(1) == digits.labels).float().mean())


def stitched(networks: list[nn.Sequential], digits: Digits) -> list[float]:
    """Return the accuracy of every encoder with every head but its own."""
    return [accuracy(a, b, digits) for a, b in permutations(networks, 2)]


def spread(values: list[float]) -> str:
    """Return mean ± std in percent."""
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f}"


def main() -> None:
    """Train, stitch, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    digits = load()
    chosen_by, tested = digits.part(TRAINED, VALIDATED), digits.part(VALIDATED, None)
    everywhere: dict[tuple[str, str], list[float]] = {setting: [] for setting in SETTINGS}
    table = Table(title=f"Encoder and head trained apart, {seeds} seeds: accuracy in percent")
    for column in ("encoder", "head", "anchors", "normalize", "output", "own", "stitched", "stitched, test"):
        table.add_column(column)
    for encoder, head, k, setting in product(ENCODERS, HEADS, ANCHORS, SETTINGS):
        model = Model(encoder, head, k, *setting)
        networks = [train(model, digits.part(0, TRAINED), seed) for seed in range(seeds)]
        found = stitched(networks, chosen_by)
        everywhere[setting].append(float(np.mean(found)))
        own = [accuracy(network, network, chosen_by) for network in networks]
        table.add_row(encoder, head, str(k), *setting, spread(own), spread(found), spread(stitched(networks, tested)))
    console = Console(width=120)
    console.print(table)
    for (normalize, output), means in everywhere.items():
        console.print(f"normalize={normalize!r:8} output={output!r:7}: {spread(means)}, worst {100 * min(means):.1f}")


if __name__ == "__main__":
    with working("newcomer"):
        main()
