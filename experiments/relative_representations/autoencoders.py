"""Autoencoders stitched across seeds: table 3 and figure 4 of Moschella et al., ICLR 2023.

Absolute and relative AEs and VAEs are trained from several seeds. Then the encoder of each is joined, without training,
to the decoder of every other: as it is (absolute), through cosines to anchors on which both models were trained
(relative), or with a translator fitted on the same anchors between two absolute models (translated). Two controls: a
relative encoder that was never trained, and a translator fitted on shuffled pairs. The table gives the squared error
per pixel × 1000 on test images, mean ± std over models (own) or ordered pairs of them (stitched); the picture shows
what it means. The paper reports an error up to two orders of magnitude lower than absolute.

Figure 4's text says that the images of an absolute VAE are wrong but meaningful, those of an AE neither. A second table
judges it by a classifier of the same images: its accuracy on stitched images says whether they are right, its
confidence (the mean probability of its answer), and the error to the nearest training image, whether they are images.

The quick size takes three convolutions in place of four, a quarter as wide, 5,000 training images, and 200 steps of
Adam with one cycle of the learning rate. ``--full`` takes the paper's convolutions, 500 anchors and all images.
Trained models are kept, so that an interrupted run resumes where it stopped.

    python -m experiments rr-table3 [--full]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import torch
from experiments.data.images import Images, load_images
from experiments.data.source import BySource
from experiments.figures import draw_grid, packed_grid, panels
from experiments.models.autoencoder import Autoencoding, builder, fitted, untrained
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Training, train, trained
from experiments.published import published
from experiments.relative_representations.stitched import ShuffledPairs
from experiments.results import Finding, Result, Setting, Table, spread
from torch import nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILIES, KINDS = ("AE", "VAE"), ("absolute", "relative")
PHOTOS = True
UNTRAINED, SHUFFLED = "relative, untrained encoder (control)", "translated, shuffled pairs (control)"
COLUMNS = ("own absolute", "own relative", "absolute", "relative", "translated (ours)", UNTRAINED, SHUFFLED)
QUICK = Autoencoding(steps=200, rate=1e-2, images=5_000, anchors=200, batch=64, channels=(8, 16, 32))
FULL = Autoencoding(steps=1_000, rate=1e-3, images=None, anchors=500)
SETS = BySource(
    packages=("MNIST", "Fashion-MNIST", "CIFAR-10"), hub=("MNIST", "Fashion-MNIST", "CIFAR-10", "CIFAR-100")
)
TESTED, SHOWN = 1_000, 7

Models = dict[str, list[nn.Module]]  # by kind, one per seed


@dataclass(frozen=True)
class Score:
    """The error of one encoder with one decoder: squared, per pixel × 1000, on test images."""

    dataset: str
    family: str
    kind: str
    error: float


def run(setting: Setting) -> Result:
    """Train or load the models, stitch them, and keep what some test images become."""
    torch.set_num_threads(1)
    how, seeds = setting.pick(quick=(QUICK, 3), full=(FULL, 2))
    scores: list[Score] = []
    judged: dict[tuple[str, str, str], np.ndarray] = {}
    grids = {}
    for dataset in SETS:
        images = load_images(dataset, how.images, TESTED)
        for family in FAMILIES:
            one = replace(how, variational=family == "VAE")
            models = train_all(images, one, seeds, setting)
            scores += [Score(dataset, family, *found) for found in stitch_all(images, models, one)]
            judged |= {(dataset, family, kind): found for kind, found in judge_all(images, models, setting).items()}
            grids[f"{dataset}, {family}"] = pictured(images, models, how)
    return Result(
        [table(scores), judged_table(judged)],
        [*findings(scores), meaningful(judged)],
        seeds=seeds,
        data=[f"{', '.join(SETS)}: {how.images or 'all'} images to train, {TESTED} to test"],
        stand_ins=stand_ins(how, how.anchors),
        notes=[note(scores)],
        series={"grids": grids},
        smaller=f"{seeds} seeds, {how.steps:,} steps",
    )


def stand_ins(how: Autoencoding, anchors: int) -> dict[str, str]:
    """Return where the networks and their training are not the paper's."""
    found = {"training of unknown length": f"{how.steps:,} steps of {how.batch} images"}
    if how.channels != FULL.channels:
        found["convolutions of 32, 64, 128 and 256 channels"] = f"of {', '.join(map(str, how.channels))} channels"
    if anchors != FULL.anchors:
        found[f"{FULL.anchors} anchors"] = f"{anchors:,}"
    return found | {"CIFAR-100": "not available in a registry"}


def train_all(images: Images, how: Autoencoding, seeds: int, setting: Setting) -> Models:
    """Return the absolute and the relative models, one per seed."""
    return {
        kind: [fitted(images, replace(how, relative=kind == "relative"), s, setting.models) for s in range(seeds)]
        for kind in KINDS
    }


@torch.no_grad()
def stitch_all(images: Images, models: Models, how: Autoencoding) -> Iterator[tuple[str, float]]:
    """Score every encoder with every decoder of its kind. Each image set is encoded once per encoder."""
    test, anchors = torch.from_numpy(images.test), torch.from_numpy(images.anchors(how.anchors))
    latent = {kind: [m.encoder(test) for m in models[kind]] for kind in KINDS}
    known = [m.encoder(anchors) for m in models["absolute"]]

    def error(decoder: nn.Module, z: torch.Tensor) -> float:
        return 1_000 * float(nn.functional.mse_loss(decoder(z), test))

    for kind in KINDS:
        decoders = [m.decoder for m in models[kind]]
        for i, decoder in enumerate(decoders):
            yield f"own {kind}", error(decoder, latent[kind][i])
        for i, j in permutations(range(len(decoders)), 2):
            yield kind, error(decoders[j], latent[kind][i])
    for i, j in permutations(range(len(known)), 2):
        translator = rl.Translator("vectors").fit(known[i], known[j])
        decoder = rl.stitch(None, translator, models["absolute"][j].decoder)
        yield "translated (ours)", error(decoder, latent["absolute"][i])
        shuffled = ShuffledPairs(rl.Translator("vectors")).fit(known[i].numpy(), known[j].numpy())
        moved = torch.from_numpy(shuffled.transform(latent["absolute"][i].numpy()))
        yield SHUFFLED, error(models["absolute"][j].decoder, moved)
    build = builder(images, replace(how, relative=True))
    for i, m in enumerate(models["relative"]):
        yield UNTRAINED, error(m.decoder, untrained(build, len(models["relative"]) + i).encoder(test))


JUDGE = Training(steps=300, rate=5e-3, images=5_000)
LOOKS = ("accuracy", "confidence", "nearest training image")


def judge_all(images: Images, models: Models, setting: Setting) -> dict[str, np.ndarray]:
    """Return what a classifier says of the images of two seeds, own and stitched both ways, as LOOKS per kind."""
    judge, test = judge_of(images, setting), torch.from_numpy(images.test)
    found = {"original": np.asarray([looks(judge, test, images)])}
    for kind, (first, second, *_) in models.items():
        pairs = [(first, second), (second, first)]
        for name, ways in ((f"own {kind}", [(m, m) for m in (first, second)]), (f"stitched {kind}", pairs)):
            with torch.no_grad():
                made = [b.decoder(a.encoder(test)) for a, b in ways]
            found[name] = np.asarray([looks(judge, one, images) for one in made])
    return found


def judge_of(images: Images, setting: Setting) -> nn.Module:
    """Return a classifier of the same images, trained on first use."""
    x, labels = (torch.from_numpy(part[: JUDGE.images]) for part in (images.train, images.train_labels))
    build = partial(classifier, "plain", images.side, int(images.train_labels.max()) + 1, colors=images.colors)
    fit = partial(train, build, x, labels, classification_loss, JUDGE, seed=0)
    return trained(setting.models / f"{images.name}-judge.safetensors", JUDGE, build, fit)


@torch.no_grad()
def looks(judge: nn.Module, made: torch.Tensor, images: Images) -> list[float]:
    """Return LOOKS of some images that were made of the test images; the error per pixel × 1000."""
    chances = judge(made).softmax(dim=1)
    correct = chances.argmax(dim=1) == torch.from_numpy(images.test_labels)
    known = torch.from_numpy(images.train[: JUDGE.images]).flatten(1)
    nearest = torch.cdist(made.flatten(1), known).min(dim=1).values ** 2 / known.shape[1]
    return [float(correct.float().mean()), float(chances.max(dim=1).values.mean()), 1_000 * float(nearest.mean())]


def judged_table(judged: dict[tuple[str, str, str], np.ndarray]) -> Table:
    """Return LOOKS of own and stitched images."""
    rows = [[*key, *map(spread, found.T)] for key, found in judged.items()]
    title = "What a classifier says of the images, two seeds; error to the nearest training image × 1000"
    return Table(title, ("images", "model", "decoder", *LOOKS), rows)


def meaningful(judged: dict[tuple[str, str, str], np.ndarray]) -> Finding:
    """Judge whether the stitched images of an absolute VAE are wrong but meaningful."""
    mean = {key: found.mean(axis=0) for key, found in judged.items()}
    ways = {family: [mean[dataset, family, "stitched absolute"] for dataset in SETS] for family in FAMILIES}
    originals = [mean[dataset, "VAE", "original"] for dataset in SETS]
    own = [mean[dataset, "VAE", "own absolute"] for dataset in SETS]
    held = all(
        vae[0] < 0.3 and vae[1] > ae[1] and vae[2] < ae[2] and vae[2] < 1.5 * mine[2]
        for ae, vae, mine in zip(ways["AE"], ways["VAE"], own, strict=True)
    )
    said = (
        f"{dataset}: accuracy {vae[0]:.2f} (AE {ae[0]:.2f}), confidence {vae[1]:.2f} (AE {ae[1]:.2f}, originals "
        f"{true[1]:.2f}), error to the nearest training image {vae[2]:.0f} (AE {ae[2]:.0f}, own decoder {mine[2]:.0f})"
        for dataset, ae, vae, true, mine in zip(SETS, ways["AE"], ways["VAE"], originals, own, strict=True)
    )
    return Finding("stitched images of an absolute VAE are wrong but meaningful", held, "; ".join(said))


def errors(scores: list[Score], dataset: str, family: str, kind: str) -> list[float]:
    """Collect the errors of one cell of the table."""
    return [s.error for s in scores if (s.dataset, s.family, s.kind) == (dataset, family, kind)]


def gain(scores: list[Score], dataset: str, family: str) -> float:
    """Return how many times lower the mean relative error is than the absolute."""
    absolute, relative = (np.mean(errors(scores, dataset, family, kind)) for kind in KINDS)
    return float(absolute / relative)


def table(scores: list[Score]) -> Table:
    """Return the squared errors, own and stitched."""
    rows = []
    for dataset, family in dict.fromkeys((s.dataset, s.family) for s in scores):
        cells = [spread(errors(scores, dataset, family, kind)) for kind in COLUMNS]
        beside = gain(scores, dataset, family), published("rr-table3", dataset, family)
        rows.append([dataset, family, *cells, *beside])
    columns = ("images", "model", *COLUMNS, "absolute ÷ relative", "published")
    return Table("Squared error per pixel × 1000, own decoder and stitched", columns, rows)


def findings(scores: list[Score]) -> list[Finding]:
    """Judge the structure of the table."""
    cells = list(dict.fromkeys((s.dataset, s.family) for s in scores))
    gains = [gain(scores, *cell) for cell in cells]
    lost = [np.mean(errors(scores, *c, "relative")) / np.mean(errors(scores, *c, "own relative")) for c in cells]
    ours = [
        np.mean(errors(scores, *c, "translated (ours)")) / np.mean(errors(scores, *c, "own absolute")) for c in cells
    ]
    controls = {
        control: [np.mean(errors(scores, *c, control)) / np.mean(errors(scores, *c, kind)) for c in cells]
        for control, kind in ((UNTRAINED, "relative"), (SHUFFLED, "translated (ours)"))
    }
    return [
        Finding(
            "stitched autoencoders: relative reconstructs, absolute does not",
            min(gains) > 3,
            f"the error of absolute stitching is {min(gains):.1f} to {max(gains):.1f} times that of relative "
            "(paper: up to two orders of magnitude)",
        ),
        Finding(
            "relative stitching comes close to the decoder's own encoder",
            max(lost) < 1.5,
            f"{min(lost):.2f} to {max(lost):.2f} times the own error; a translator between absolute models "
            f"{min(ours):.2f} to {max(ours):.2f} times",
        ),
        Finding(
            "what is stitched is the networks' own: controls do not come close",
            min(*controls[UNTRAINED], *controls[SHUFFLED]) > 1.5,
            f"the error of an untrained relative encoder is {min(controls[UNTRAINED]):.1f} to "
            f"{max(controls[UNTRAINED]):.1f} times that of a trained one, that of shuffled pairs "
            f"{min(controls[SHUFFLED]):.1f} to {max(controls[SHUFFLED]):.1f} times that of true ones",
        ),
    ]


def note(scores: list[Score]) -> str:
    """Say what limits the factor."""
    cells = list(dict.fromkeys((s.dataset, s.family) for s in scores))
    most = [np.mean(errors(scores, *c, "absolute")) / np.mean(errors(scores, *c, "own relative")) for c in cells]
    return (
        "The factor is limited by the own error of the relative networks: with those above it could be "
        f"{min(most):.1f} to {max(most):.1f} if relative stitching lost nothing."
    )


@torch.no_grad()
def pictured(images: Images, models: Models, how: Autoencoding) -> dict[str, object]:
    """Return one image per class as it is, from its own decoder, and stitched from the first seed to the second."""
    x = torch.from_numpy(images.test[np.unique(images.test_labels, return_index=True)[1]][:SHOWN])
    anchors = torch.from_numpy(images.anchors(how.anchors))
    rows = {"original": x}
    for kind, (first, second, *_) in models.items():
        rows[f"{kind}, own decoder"] = first(x)
        rows[f"{kind}, stitched"] = rl.stitch(first.encoder, None, second.decoder)(x)
    first, second, *_ = models["absolute"]
    translator = rl.Translator("vectors").fit(first.encoder(anchors), second.encoder(anchors))
    rows["translated (ours)"] = rl.stitch(first.encoder, translator, second.decoder)(x)
    return packed_grid({name: pixels.numpy() for name, pixels in rows.items()})


def draw(result: Result) -> Figure:
    """Draw the images, one panel per data set and model."""
    grids = result.series["grids"]
    figure, axes = panels(len(SETS), len(FAMILIES), size=(4.8, 3.4))
    for panel, (title, grid) in zip(axes.flat, grids.items(), strict=True):
        draw_grid(panel, grid, title)
    return figure
