"""The toy autoencoder of the authors' slides: one small network, and what should and should not matter changed in turn.

The slides list what decides a latent space in practice and should not: the first weights, the order of the data, the
hyperparameters; and what should: the data, the task, constraints. An autoencoder of digits with a bottleneck of 2 (the
picture) or 10 coordinates is trained again with one of them changed, and the new space is compared with the first by
the measures of ``seeds.py`` on test images. The last row compares with rows in another order.

    python -m experiments rr-slides
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from experiments.data.images import Images, load_images
from experiments.figures import panels
from experiments.models.autoencoder import reconstruction_loss
from experiments.models.classifier import classification_loss
from experiments.models.training import Training, train
from experiments.relative_representations.points import draw_digits, pack
from experiments.relative_representations.seeds import COLUMNS, compared, findings
from experiments.results import Finding, Result, Setting, Table, spread
from torch import nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST, UNRELATED, WIDTHS = "the first training", "unrelated rows", (2, 10)
CHANGES = ("other first weights", "other order of the data", "other learning rate", "other activation")
HALF, TASK, CONSTRAINT = DECISIVE = (
    "data: five of the ten digits",
    "task: to classify",
    "constraint: codes of length 1",
)


def run(setting: Setting) -> Result:
    """Train the toy again and again, and compare."""
    torch.set_num_threads(1)
    seeds, steps = setting.pick(quick=(5, 1_000), full=(10, 5_000), smoke=(1, 40))
    images, series, rows = load_images("digits"), {}, []
    mean = {}
    for width in WIDTHS:
        spaces = [
            {name: space(images, name, width, steps, seed) for name in (FIRST, *CHANGES, *DECISIVE)}
            for seed in range(seeds)
        ]
        scores = {name: [compared(s[FIRST], s[name]) for s in spaces] for name in (*CHANGES, *DECISIVE)}
        scores[UNRELATED] = [compared(s[FIRST], np.roll(s[FIRST], 1, axis=0)) for s in spaces]
        rows += [[f"{width}", name, *map(spread, np.asarray(found).T)] for name, found in scores.items()]
        mean |= {(width, name): np.mean(found, axis=0) for name, found in scores.items()}
        if width == min(WIDTHS):
            series = pictured(images, spaces[0])
    return Result(
        [Table("Similarity to the first training", ("bottleneck", "what changed", *COLUMNS), rows)],
        [finding for width in WIDTHS for finding in judged(width, mean)],
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
            model = toy(width, nn.Tanh() if change == "other activation" else nn.GELU())
            if change == TASK:
                model.decoder = nn.Linear(width, images.classes)
            if change == CONSTRAINT:
                model.encoder.append(Unit())
            return model

    how = Training(steps, rate=3e-3 if change == "other learning rate" else 1e-2)
    order = seed + 1_000 * (change == "other order of the data")
    rows = images.train_labels < images.classes // 2 if change == HALF else slice(None)
    x, labels = torch.from_numpy(images.train[rows]), torch.from_numpy(images.train_labels[rows])
    loss = classification_loss if change == TASK else reconstruction_loss
    model = train(build, x, labels, loss, how, seed=order)
    with torch.no_grad():
        return model.encoder(torch.from_numpy(images.test)).numpy()


class Unit(nn.Module):
    """Rescale each code to length 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the rescaled codes."""
        return nn.functional.normalize(x)


def toy(width: int, activation: nn.Module, hidden: int = 64) -> nn.Sequential:
    """Return an autoencoder of 8×8 pixels with one hidden layer on either side."""
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), activation, nn.Linear(hidden, width))
    decoder = nn.Sequential(
        nn.Linear(width, hidden), activation, nn.Linear(hidden, 64), nn.Sigmoid(), nn.Unflatten(1, (1, 8, 8))
    )
    return nn.Sequential(OrderedDict(encoder=encoder, decoder=decoder))


def judged(width: int, mean: Mapping[tuple[int, str], np.ndarray]) -> Iterator[Finding]:
    """Judge what the slides show, by the least similar of the trainings whose space should be the same."""
    where = "in the plane" if width == 2 else f"with {width} coordinates"
    least = np.min([mean[width, name] for name in CHANGES], axis=0)
    yield from findings(f"{where}, with other weights, order or hyperparameters", least, mean[width, UNRELATED])
    same, other = ({name: float(mean[width, name][-1]) for name in names} for names in (CHANGES, DECISIVE))
    yield Finding(
        f"data, task and constraints decide the space more than weights, order and hyperparameters, {where}",
        max(other.values()) < min(same.values()),
        "relative similarity to the first training: "
        + ", ".join(f"{name} {value:.2f}" for name, value in (other | same).items()),
    )


def pictured(images: Images, spaces: dict[str, np.ndarray]) -> dict[str, object]:
    """Return each plane, as it is and rotated onto the first."""
    first = spaces[FIRST]
    turned = {n: rl.Translator(map="orthogonal").fit(x, first).transform(x) for n, x in spaces.items()}
    planes = {"as it is": spaces, "rotated onto the first": turned}
    return {
        "labels": images.test_labels,
        "planes": {kind: {name: pack(x) for name, x in found.items()} for kind, found in planes.items()},
    }


def draw(result: Result) -> Figure:
    """Draw each plane, and below it the same rotated."""
    planes, labels = result.series["planes"], np.asarray(result.series["labels"])
    figure, axes = panels(2, len(planes["as it is"]), size=(1.9, 2.0))
    for row, (kind, found) in zip(axes, planes.items(), strict=True):
        row[0].set_ylabel(kind)
        for panel, points in zip(row, found.values(), strict=True):
            draw_digits(panel, points, labels)
    for panel, name in zip(axes[0], planes["as it is"], strict=True):
        panel.set_title(name.replace(": ", ":\n").replace("other ", "other\n"), fontsize=9)
    return figure
