"""Networks cut at inner layers: every layer of one network in front of every layer of another.

The papers stitch at the last layer and name inner layers as future work. Here ``rl.stitch_at`` joins two residual
networks for small photos (feature maps, 64 channels at most) and two transformers for questions (token sequences), at
every pair of blocks; the translator is fitted on what passes for training samples, without labels. Beside some pairs
stands a stitching layer of the same form, trained on the labels by gradient descent (Lenc & Vedaldi, 2015; Bansal et
al., 2021), and two controls: a front that was never trained, and a translator fitted on shuffled pairs.

    python -m experiments stitch-at
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data import pictures, texts
from experiments.figures import heat_map, panels
from experiments.models.autoencoder import untrained
from experiments.models.classifier import classification_loss
from experiments.models.resnet import resnet
from experiments.models.training import Training, train
from experiments.models.transformer import transformer, word_numbers
from experiments.relative_representations.stitched import fit_anyway
from experiments.results import Finding, Result, Setting, Table
from torch import Tensor, nn

import relatent as rl
from relatent.stitching.modules import CutNetwork

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS, TEST, FITTED, ROWS = (8, 14), 500, 500, 2_000
NOTE = (
    "A trained layer had 100 steps of 64 samples, drawn from the same 500 samples with their labels; trained longer, "
    "or on more of them, it may do better. Blocks 0.3 to 0.5 of ResNet-8 and 0.3 to 0.8 of ResNet-14 are their "
    "residual blocks."
)
OURS, CONTROLS = "fitted without labels (ours)", ("untrained front (control)", "shuffled pairs (control)")
LEARNED = Training(steps=100, rate=3e-3, batch=64)


@dataclass(frozen=True)
class Pair:
    """Two trained networks with the layers where each can be cut, an untrained first one, samples and their labels."""

    name: str
    networks: tuple[nn.Module, nn.Module]
    empty: nn.Module
    layers: tuple[list[str], list[str]]
    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def run(setting: Setting) -> Result:
    """Stitch at all pairs of layers, and train a layer at those of equal depth."""
    pairs = [photos(setting), questions(setting)]
    grids = {pair.name: accuracies(pair) for pair in pairs}
    rows = [row for pair in pairs for row in beside_trained(pair, grids[pair.name])]
    columns = ("networks", "front up to", "back from", "own", OURS, "trained on labels", *CONTROLS)
    table = Table(f"Accuracy on {TEST} held-out samples, {FITTED} samples to fit on", columns, rows)
    series = {
        pair.name: {"rows": pair.layers[0], "columns": pair.layers[1], "accuracy": grids[pair.name]} for pair in pairs
    }
    data = ["CIFAR-10 (one training batch)", "TREC"]
    return Result([table], findings(rows), data=data, notes=[NOTE], series=series)


def photos(setting: Setting) -> Pair:
    """Return two residual networks of different depth, trained from different seeds, and photos that neither saw."""
    learn, held = (pictures.cifar(pictures.CIFAR_BATCH, batch) for batch in (1, 2))
    networks = tuple(pictures.trained_resnet(depth, seed, *learn) for seed, depth in enumerate(DEPTHS))
    layers = tuple([f"0.{3 + i}" for i in range((depth - 2) // 2)] for depth in DEPTHS)
    x, y = (torch.from_numpy(part) for part in held)
    empty = untrained(lambda: resnet(DEPTHS[0]), len(networks))
    return Pair("ResNet-8 → ResNet-14", networks, empty, layers, (x[TEST:], y[TEST:]), (x[:TEST], y[:TEST]))


def questions(setting: Setting) -> Pair:
    """Return two small transformers that were trained on questions from different seeds."""
    corpus, trained = texts.trec()
    numbers, vocabulary = word_numbers(corpus.texts, trained)
    x, y = torch.from_numpy(numbers), torch.from_numpy(corpus.labels)
    how = Training(steps=setting.pick(quick=300, full=2_000), rate=1e-3, batch=64)
    learn, held = (x[:trained], y[:trained]), (x[trained:], y[trained:])

    def build() -> nn.Module:
        return transformer(vocabulary, 6)

    networks = tuple(train(build, *learn, classification_loss, how, seed=seed) for seed in (0, 1))
    layers = [name for name, _ in networks[0].named_children()][:-1]
    empty = untrained(build, len(networks))
    return Pair("transformer → transformer", networks, empty, (layers, layers), learn, held)


def accuracies(pair: Pair) -> list[list[float]]:
    """Return the accuracy of every front layer with every back layer."""
    return [[accuracy(fitted(pair, a, b), pair.test) for b in pair.layers[1]] for a in pair.layers[0]]


def fitted(
    pair: Pair, front_layer: str, back_layer: str, front: nn.Module | None = None, translator: Any = None
) -> nn.Module:
    """Join the two networks at two layers; ``front`` takes the place of the first."""
    first, back = pair.networks
    return rl.stitch_at(front or first, front_layer, back, back_layer, pair.train[0][:FITTED], translator, rows=ROWS)


class Shuffled:
    """A control: fits our default on pairs that are shuffled."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> rl.Translator:
        """Exchange the targets of the pairs."""
        return fit_anyway(rl.Translator("stitching"), x, np.random.default_rng(0).permutation(y))


def trained_layer(pair: Pair, front_layer: str, back_layer: str) -> nn.Module:
    """Train a linear map between the two layers on the labels; the networks stay as they are."""
    joined = fitted(pair, front_layer, back_layer)
    widths = joined.translator.source.dims_in, joined.translator.source.width

    def build() -> CutNetwork:
        network = CutNetwork(pair.networks[0], front_layer, pair.networks[1], back_layer)
        network.requires_grad_(False)
        network.translator = nn.Linear(*widths)
        return network

    def loss(network: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        network.front.eval()
        network.back.eval()
        return classification_loss(network, x, labels)

    x, y = pair.train
    return train(build, x[:FITTED], y[:FITTED], loss, LEARNED, seed=0)


def beside_trained(pair: Pair, grid: list[list[float]]) -> list[list[str | float]]:
    """Return rows of the table for layers at about equal depth."""
    front, back = pair.layers
    own = accuracy(pair.networks[1], pair.test)
    chosen = [(i, round((i + 1) * len(back) / len(front)) - 1) for i in range(len(front))]
    rows: list[list[str | float]] = []
    for i, j in chosen:
        at = pair, front[i], back[j]
        joined = trained_layer(*at), fitted(*at, front=pair.empty), fitted(*at, translator=Shuffled())
        rows.append([pair.name, *at[1:], own, grid[i][j], *(accuracy(one, pair.test) for one in joined)])
    return rows


def accuracy(network: nn.Module, samples: tuple[Tensor, Tensor]) -> float:
    """Return the share of samples that are classified rightly."""
    x, labels = samples
    with torch.inference_mode():
        return float((torch.cat([network(part) for part in x.split(250)]).argmax(1) == labels).float().mean())


def findings(rows: list[list[str | float]]) -> list[Finding]:
    """Compare the fitted layers with the trained ones."""
    _, _, _, own, ours, learned, empty, shuffled = (np.asarray(column) for column in zip(*rows, strict=True))
    gaps = ours - learned
    return [
        Finding(
            "a closed-form map at inner layers is as good as a stitching layer trained on as many labelled samples",
            bool(gaps.min() > -0.02),
            f"Differences in accuracy between {gaps.min():+.3f} and {gaps.max():+.3f}",
        ),
        Finding(
            "what a stitch reaches is due to the front's training and to true pairs",
            bool((np.maximum(empty, shuffled) < ours - 0.05).all()),
            f"share of the back's own accuracy: {np.min(ours / own):.2f} to {np.max(ours / own):.2f}, behind an "
            f"untrained front {np.min(empty / own):.2f} to {np.max(empty / own):.2f}, with shuffled pairs "
            f"{np.min(shuffled / own):.2f} to {np.max(shuffled / own):.2f}",
        ),
    ]


def draw(result: Result) -> Figure:
    """Draw one heat map for each pair of networks."""
    figure, axes = panels(1, len(result.series), (4.6, 3.4))
    for panel, (name, found) in zip(axes[0], result.series.items(), strict=True):
        heat_map(panel, found["accuracy"], found["rows"], found["columns"])
        panel.set_title(f"{name}: accuracy")
        panel.set_ylabel("front up to layer")
        panel.set_xlabel("back from behind layer")
    return figure
