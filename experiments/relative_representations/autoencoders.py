"""Autoencoders stitched across seeds: table 3 and figure 4 of Moschella et al., ICLR 2023.

Absolute and relative AEs and VAEs are trained from several seeds. Then the encoder of each is joined, without training,
to the decoder of every other: as it is (absolute), through cosines to 500 anchors on which both models were trained
(relative), or with a translator fitted on the same 500 anchors between two absolute models (translated). The table
gives the squared error per pixel × 1000 on test images, mean ± std over models (own) or ordered pairs of them
(stitched); the picture shows what it means. The paper reports an error up to two orders of magnitude lower than
absolute.

The default is sized for half an hour on one core: three convolutions in place of four, half as wide, 5,000 training
images, 600 steps of Adam with one cycle of the learning rate. ``--full`` takes the paper's convolutions, all images and
twenty epochs. Trained models are kept in ``--models`` and found there again, so that an interrupted run goes on where
it stopped.

    python -m experiments.relative_representations.autoencoders --data DIR
    python -m experiments.relative_representations.autoencoders --quick     # digits of 8×8 pixels: a minute
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
from experiments.models.autoencoder import CHANNELS, autoencoder, reconstruction_loss
from experiments.models.training import Training, train, trained
from rich.console import Console
from rich.table import Table
from torch import nn

import relatent as rl

FAMILIES = ("AE", "VAE")
KINDS = ("absolute", "relative")
COLUMNS = ("own absolute", "own relative", "absolute", "relative", "translated")

Models = dict[str, list[nn.Module]]  # by kind, one per seed


@dataclass(frozen=True)
class Settings(Training):
    """A training and the channels of its convolutions."""

    steps: int = 600
    rate: float = 1e-2
    images: int | None = 5000
    channels: tuple[int, ...] = (16, 32, 64)


FULL = Settings(channels=CHANNELS, steps=9400, rate=1e-3, images=None)
QUICK = Settings(channels=(32, 64), steps=500, anchors=300)


@dataclass(frozen=True)
class Score:
    """The error of one encoder with one decoder: squared, per pixel, on test images."""

    dataset: str
    family: str
    kind: str
    encoder: int
    decoder: int
    mse: float


def main() -> None:
    """Train or load the models, stitch them, print the table, draw the pictures."""
    full = "the paper's channels, all images: a day on one core"
    args = image_options(__doc__, "out/autoencoders.json", ["mnist", "fashion-mnist"], test=1000, full=full)
    settings = FULL if args.full else QUICK if args.quick else Settings()
    settings = replace(settings, steps=args.steps or settings.steps)
    console = Console(width=130)
    scores: list[Score] = []
    for dataset in args.datasets:
        images = load_images(dataset, args.data).first(settings.images, args.test)
        models = {}
        for family in FAMILIES:
            models[family] = train_all(images, family, args.seeds, settings, args.models)
            scores += stitch_all(images, family, models[family], settings)
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps([asdict(s) for s in scores], indent=1))
            show(scores, settings, console)
        draw(images, models, settings, args.out.with_name(f"autoencoders-{dataset}.png"))
    judge(scores, console)


def train_all(images: Images, family: str, seeds: int, settings: Settings, folder: Path) -> Models:
    """Give the absolute and the relative models, one per seed; all relative models share their anchor images."""
    x, labels = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    anchors = {"absolute": None, "relative": torch.from_numpy(images.anchors(settings.anchors))}
    options = {"variational": family == "VAE", "channels": settings.channels}
    models: Models = {kind: [] for kind in KINDS}
    for seed, kind in product(range(seeds), KINDS):
        name = f"{images.name}-{family}-{kind}-{seed}"
        build = partial(autoencoder, images.side, anchors[kind], **options)
        fit = partial(train, build, x, labels, reconstruction_loss, settings, seed=seed, title=name)
        models[kind].append(trained(folder / f"{name}.safetensors", settings, build, fit))
    return models


@torch.no_grad()
def stitch_all(images: Images, family: str, models: Models, settings: Settings) -> Iterator[Score]:
    """Score every encoder with every decoder of its kind. Each image set is encoded once per encoder."""
    test = torch.from_numpy(images.test)
    anchors = torch.from_numpy(images.anchors(settings.anchors))
    latent = {kind: [m.encoder(test) for m in models[kind]] for kind in KINDS}
    known = [m.encoder(anchors) for m in models["absolute"]]

    def score(kind: str, i: int, j: int, decoder: nn.Module) -> Score:
        decoded = decoder(latent["relative" if "relative" in kind else "absolute"][i])
        return Score(images.name, family, kind, i, j, float(nn.functional.mse_loss(decoded, test)))

    for kind in KINDS:
        decoders = [m.decoder for m in models[kind]]
        for i, decoder in enumerate(decoders):
            yield score(f"own {kind}", i, i, decoder)
        for i, j in permutations(range(len(decoders)), 2):
            yield score(kind, i, j, decoders[j])
    for i, j in permutations(range(len(known)), 2):
        translator = rl.Translator("vectors").fit(known[i], known[j])
        yield score("translated", i, j, rl.stitch(None, translator, models["absolute"][j].decoder))


def show(scores: list[Score], settings: Settings, console: Console) -> None:
    """Print what is known so far: mean ± std."""
    table = Table(title=f"Squared error per pixel × 1000, {settings.steps:,} steps, channels {settings.channels}")
    for column in ("images", "model", *COLUMNS, "absolute / relative", "paper"):
        table.add_column(column, justify="left" if column in ("images", "model") else "right")
    for dataset, family in dict.fromkeys((s.dataset, s.family) for s in scores):
        found = {kind: errors(scores, dataset, family, kind) for kind in COLUMNS}
        cells = [f"{1000 * v.mean():.2f} ± {1000 * v.std():.2f}" for v in found.values()]
        table.add_row(dataset, family, *cells, f"{gain(scores, dataset, family):.1f} ×", "up to 100 ×")
    console.print(table)


def errors(scores: list[Score], dataset: str, family: str, kind: str) -> np.ndarray:
    """Collect the errors of one cell of the table."""
    return np.asarray([s.mse for s in scores if (s.dataset, s.family, s.kind) == (dataset, family, kind)])


def gain(scores: list[Score], dataset: str, family: str) -> float:
    """How many times lower the mean relative error is than the absolute."""
    return errors(scores, dataset, family, "absolute").mean() / errors(scores, dataset, family, "relative").mean()


def judge(scores: list[Score], console: Console) -> None:
    """Say whether relative stitching makes an error at least ten times lower than absolute."""
    for dataset, family in dict.fromkeys((s.dataset, s.family) for s in scores):
        lower = gain(scores, dataset, family)
        console.print(
            f"{dataset} {family}: relative ≥ 10 × below absolute: {'YES' if lower >= 10 else 'NO'}, {lower:.1f} ×"
        )


@torch.no_grad()
def draw(images: Images, models: dict[str, Models], settings: Settings, path: Path) -> None:
    """Draw one image of each class as it is, and as the encoder of seed 0 and the decoder of seed 1 give it back."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(f"{path} needs matplotlib: pip install matplotlib and run again, the trained models are kept.")
        return
    x = torch.from_numpy(images.test[np.unique(images.test_labels, return_index=True)[1]])
    anchors = torch.from_numpy(images.anchors(settings.anchors))
    rows = {"original": x}
    for family, by_kind in models.items():
        (first, second), (r_first, r_second) = by_kind["absolute"][:2], by_kind["relative"][:2]
        translator = rl.Translator("vectors").fit(first.encoder(anchors), second.encoder(anchors))
        rows[f"{family}, own decoder"] = first(x)
        rows[f"{family}, absolute"] = rl.stitch(first.encoder, None, second.decoder)(x)
        rows[f"{family}, relative"] = rl.stitch(r_first.encoder, None, r_second.decoder)(x)
        rows[f"{family}, translated"] = rl.stitch(first.encoder, translator, second.decoder)(x)
    step = images.side + 1
    pixels = np.stack([row[:, 0].numpy() for row in rows.values()])
    tiles = np.pad(pixels, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=1)
    mosaic = tiles.transpose(0, 2, 1, 3).reshape(step * len(rows), step * len(x))
    figure = Figure(figsize=(0.75 * len(x), 0.75 * len(rows)))
    axis = figure.subplots()
    axis.imshow(mosaic, cmap="gray", vmin=0, vmax=1)
    axis.set(xticks=[], yticks=step * np.arange(len(rows)) + step / 2, yticklabels=list(rows))
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    figure.savefig(path, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
