"""The toy autoencoder of the authors' slides: one small network, and all that should not matter changed in turn.

The slides list what decides a latent space in practice and should not: the first weights, the order of the data, the
hyperparameters. An autoencoder of digits with a bottleneck of 2 (the picture) or 10 coordinates is trained again with
one of them changed, and the new space is compared with the first by the measures of ``seeds.py`` on test images. The
last row compares with rows in another order: what unrelated spaces score.

    python -m experiments rr-slides
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np
import torch
from experiments.data.images import Images, load_images
from experiments.figures import numerals, panels
from experiments.models.autoencoder import reconstruction_loss
from experiments.models.training import Training, train
from experiments.relative_representations.seeds import COLUMNS, compared
from experiments.results import Finding, Result, Setting, Table, spread
from torch import nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST, WIDTHS, SHOWN = "the first training", (2, 10), 110
CHANGES = ("other first weights", "other order of the data", "other learning rate", "other activation")


def run(setting: Setting) -> Result:
    """Train the toy again and again, and compare."""
    torch.set_num_threads(1)
    seeds, steps = setting.pick(quick=(5, 1_000), full=(10, 5_000), smoke=(1, 40))
    images, series, rows = load_images("digits"), {}, []
    mean = {}
    for width in WIDTHS:
        spaces = [
            {name: space(images, name, width, steps, seed) for name in (FIRST, *CHANGES)} for seed in range(seeds)
        ]
        scores = {name: [compared(s[FIRST], s[name]) for s in spaces] for name in CHANGES}
        scores["unrelated rows"] = [compared(s[FIRST], np.roll(s[FIRST], 1, axis=0)) for s in spaces]
        rows += [[f"{width}", name, *map(spread, np.asarray(found).T)] for name, found in scores.items()]
        mean |= {(width, name): np.mean(found, axis=0) for name, found in scores.items()}
        if width == min(WIDTHS):
            series = pictured(images, spaces[0])
    return Result(
        [Table("Similarity to the first training", ("bottleneck", "what changed", *COLUMNS), rows)],
        findings(mean),
        seeds=seeds,
        data=["scikit-learn's digits, 8×8 pixels: 1,437 images to train, 360 to compare"],
        stand_ins={"MNIST": "scikit-learn's digits"},
        series=series,
    )


def space(images: Images, change: str, width: int, steps: int, seed: int) -> np.ndarray:
    """Train the toy with one thing changed, and return the latent vectors of the test images."""

    def build() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + 1_000 * (change == "other first weights"))
            return toy(width, nn.Tanh() if change == "other activation" else nn.GELU())

    how = Training(steps, rate=3e-3 if change == "other learning rate" else 1e-2)
    order = seed + 1_000 * (change == "other order of the data")
    x, labels = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    model = train(build, x, labels, reconstruction_loss, how, seed=order)
    with torch.no_grad():
        return model.encoder(torch.from_numpy(images.test)).numpy()


def toy(width: int, activation: nn.Module, hidden: int = 64) -> nn.Sequential:
    """Return an autoencoder of 8×8 pixels with one hidden layer on either side."""
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), activation, nn.Linear(hidden, width))
    decoder = nn.Sequential(
        nn.Linear(width, hidden), activation, nn.Linear(hidden, 64), nn.Sigmoid(), nn.Unflatten(1, (1, 8, 8))
    )
    return nn.Sequential(OrderedDict(encoder=encoder, decoder=decoder))


def findings(mean: dict[tuple[int, str], np.ndarray]) -> list[Finding]:
    """Judge what the slides show."""
    found = {width: np.stack([mean[width, name] for name in CHANGES]) for width in WIDTHS}
    weights = mean[max(WIDTHS), CHANGES[0]]
    lowest = found[max(WIDTHS)].min(axis=0)
    return [
        Finding(
            "trainings of one network differ by a rotation and a scale, nearly",
            bool(lowest[1] > 0.8 and weights[0] < 0.5),
            f"10 coordinates, other first weights: cosine {weights[0]:.2f} as it is; "
            f"{lowest[1]:.2f} at least after a rotation, whatever changed ({found[2].min(axis=0)[1]:.2f} in the plane)",
        ),
        Finding(
            "relative representations do not change",
            bool(lowest[3] > 0.8),
            f"similarity {lowest[3]:.2f} at least with 10 coordinates, {found[2].min(axis=0)[3]:.2f} in the plane",
        ),
    ]


def pictured(images: Images, spaces: dict[str, np.ndarray]) -> dict[str, object]:
    """Return a sample of each plane, as it is and rotated onto the first."""
    first = spaces[FIRST]
    turned = {n: rl.Translator(map="orthogonal").fit(x, first).transform(x) for n, x in spaces.items()}
    planes = {"as it is": spaces, "rotated onto the first": turned}
    return {
        "labels": images.test_labels[:SHOWN],
        "planes": {kind: {name: x[:SHOWN] for name, x in found.items()} for kind, found in planes.items()},
    }


def draw(result: Result) -> Figure:
    """Draw each plane, and below it the same rotated."""
    planes, labels = result.series["planes"], result.series["labels"]
    figure, axes = panels(2, len(planes["as it is"]), size=(2.5, 2.5))
    for row, (kind, found) in zip(axes, planes.items(), strict=True):
        for panel, (name, points) in zip(row, found.items(), strict=True):
            numerals(panel, np.asarray(points), labels, f"{name}\n{kind}")
    return figure
