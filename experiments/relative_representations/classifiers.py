"""Classifiers stitched across seeds and architectures, and what relative training costs: Moschella et al., ICLR 2023.

Three architectures (a plain CNN, a residual CNN, an MLP) are trained from several seeds, absolute and relative. Then
the encoder of each is joined, without training, to the head of every other: as it is (absolute), through cosines to 300
anchors on which both were trained (relative), or with a translator fitted on the same anchors between two absolute
models (translated). The first table gives test accuracy in percent, mean ± std over models (own) or ordered pairs of
them (stitched). The paper stitches classifiers of text and larger images, where absolute is chance and relative comes
close to own.

The second table is the structure of the paper's table 2: the same architecture with and without the relative layer. The
paper's finding is that relative training is not detrimental; ours is asked to stay within 2 points.

    python -m experiments.relative_representations.classifiers --data DIR
    python -m experiments.relative_representations.classifiers --quick      # two seeds on digits of 8×8 pixels
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import permutations, product
from pathlib import Path

import numpy as np
import torch
from experiments.data.images import Images, image_options, load_images
from experiments.models.classifier import ARCHITECTURES, classification_loss, classifier
from experiments.models.training import Training, train, trained
from rich.console import Console
from rich.table import Table
from torch import nn

import relatent as rl

KINDS = ("absolute", "relative")
COLUMNS = ("own absolute", "own relative", "absolute", "relative", "translated")
REACHES = ("other seed", "other architecture")

Name = tuple[str, int]  # architecture and seed
Models = dict[str, dict[Name, nn.Module]]


DEFAULT = Training(steps=200, rate=5e-3, images=5000, anchors=300)
FULL = Training(steps=4700, rate=1e-3, images=None, anchors=300)


@dataclass(frozen=True)
class Score:
    """The test accuracy of one encoder with one head."""

    dataset: str
    kind: str
    encoder: Name
    head: Name
    accuracy: float

    @property
    def reach(self) -> str:
        """How far apart the two parts were trained."""
        return REACHES[self.encoder[0] != self.head[0]]


def main() -> None:
    """Train or load the models, stitch them, print both tables."""
    full = "all training images, ten epochs: hours on one core"
    args = image_options(__doc__, "out/classifiers.json", ["digits", "mnist", "fashion-mnist"], test=None, full=full)
    how = FULL if args.full else DEFAULT
    how = replace(how, steps=args.steps or how.steps)
    scores: list[Score] = []
    for dataset in args.datasets:
        images = load_images(dataset, args.data).first(how.images, args.test)
        scores += stitch_all(images, train_all(images, args.seeds, how, args.models), how)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps([asdict(s) for s in scores], indent=1))
    console = Console(width=130)
    show_stitched(scores, console)
    show_cost(scores, console)


def train_all(images: Images, seeds: int, how: Training, folder: Path) -> Models:
    """Give the absolute and the relative models; all relative models share their anchor images."""
    x, labels = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    anchors = {"absolute": None, "relative": torch.from_numpy(images.anchors(how.anchors))}
    models: Models = {kind: {} for kind in KINDS}
    for seed, architecture, kind in product(range(seeds), ARCHITECTURES, KINDS):
        name = f"{images.name}-{architecture}-{kind}-{seed}"
        build = partial(classifier, architecture, images.side, int(labels.max()) + 1, anchors[kind])
        fit = partial(train, build, x, labels, classification_loss, how, seed=seed, title=name)
        models[kind][architecture, seed] = trained(folder / f"{name}.safetensors", how, build, fit)
    return models


@torch.no_grad()
def stitch_all(images: Images, models: Models, how: Training) -> Iterator[Score]:
    """Score every encoder with every head of its kind. Each image set is encoded once per encoder."""
    test, labels = torch.from_numpy(images.test), torch.from_numpy(images.test_labels)
    anchors = torch.from_numpy(images.anchors(how.anchors))
    latent = {kind: {name: m.encoder(test) for name, m in models[kind].items()} for kind in KINDS}
    known = {name: m.encoder(anchors) for name, m in models["absolute"].items()}

    def score(kind: str, i: Name, j: Name, head: nn.Module) -> Score:
        answers = head(latent["relative" if "relative" in kind else "absolute"][i]).argmax(1)
        return Score(images.name, kind, i, j, float((answers == labels).float().mean()))

    for kind in KINDS:
        heads = {name: m.decoder for name, m in models[kind].items()}
        for i, head in heads.items():
            yield score(f"own {kind}", i, i, head)
        for i, j in permutations(heads, 2):
            yield score(kind, i, j, heads[j])
    for i, j in permutations(known, 2):
        translator = rl.Translator("stitching").fit(known[i], known[j])
        yield score("translated", i, j, rl.stitch(None, translator, models["absolute"][j].decoder))


def show_stitched(scores: list[Score], console: Console) -> None:
    """Print the stitched accuracies, by how far apart the two parts were trained."""
    table = Table(title="Test accuracy in percent, encoder and head trained apart")
    for column in ("images", "head from", *COLUMNS):
        table.add_column(column, justify="left" if column in ("images", "head from") else "right")
    for dataset, reach in product(dict.fromkeys(s.dataset for s in scores), REACHES):
        found = [s for s in scores if s.dataset == dataset and (s.reach == reach or s.kind.startswith("own"))]
        table.add_row(dataset, reach, *(spread([s.accuracy for s in found if s.kind == kind]) for kind in COLUMNS))
    console.print(table)


def show_cost(scores: list[Score], console: Console) -> None:
    """Print the same architecture with and without the relative layer."""
    table = Table(title="What the relative layer costs in training: test accuracy in percent")
    for column in ("images", "architecture", *KINDS, "difference", "within 2 points"):
        table.add_column(column, justify="left" if column in ("images", "architecture") else "right")
    for dataset, architecture in dict.fromkeys((s.dataset, s.encoder[0]) for s in scores):
        own = {
            kind: [
                s.accuracy
                for s in scores
                if (s.dataset, s.kind, s.encoder[0]) == (dataset, f"own {kind}", architecture)
            ]
            for kind in KINDS
        }
        change = 100 * (np.mean(own["relative"]) - np.mean(own["absolute"]))
        cells = [spread(own[kind]) for kind in KINDS]
        table.add_row(dataset, architecture, *cells, f"{change:+.2f}", "YES" if change >= -2 else "NO")
    console.print(table)


def spread(values: list[float]) -> str:
    """Mean ± std in percent."""
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f}" if values else "–"


if __name__ == "__main__":
    main()
