"""What was tried where training with relative representations falls short of absolute (``rr-table2``).

On Cora with raw cosines: anchors without gradient, another learning rate, activation and dropout, and centering. On
Fashion-MNIST with the residual network and on CIFAR-10 with the plain one: longer training, more anchors, gradient
through the anchors, and centering.

    python -m experiments.relative_representations.training_attempts [cora | fashion | cifar]
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from experiments.data.graphs import load_citations
from experiments.data.images import load_images
from experiments.models.classifier import ARCHITECTURES, LATENT, classification_loss
from experiments.models.graph import NodeClassifier
from experiments.models.heads import norm_head
from experiments.models.training import Training, train
from experiments.relative_representations import nodes
from experiments.relative_representations.training import best_epoch, weighted_f1
from torch import Tensor, nn

import relatent as rl

SEEDS, EPOCHS = 5, 100
GRADIENT = {"anchor_grad": True}
# What the head is relative to, and what else changes in the network.
CORA: dict[str, tuple[dict[str, bool] | None, dict[str, Any]]] = {
    "absolute": (None, {}),
    "raw cosines": (GRADIENT, {}),
    "raw, anchors without gradient": ({}, {}),
    "raw, learning rate .005": (GRADIENT, {"lr": 0.005}),
    "raw, tanh": (GRADIENT, {"hidden_activation": "tanh", "conv_activation": "tanh"}),
    "raw, dropout .1": (GRADIENT, {"dropout": 0.1}),
    "centered": (GRADIENT | {"center": True}, {}),
}
# Anchors, options of the relative layer, and steps.
IMAGES: dict[str, tuple[int | None, dict[str, Any], int]] = {
    "absolute, 100 steps": (None, {}, 100),
    "relative, 150 anchors, 100 steps": (150, {}, 100),
    "relative, 300 anchors, 100 steps": (300, {}, 100),
    "the same, centered, 150 anchors": (150, {"normalize": "center"}, 100),
    "the same, gradient through 150 anchors": (150, {"anchor_grad": True}, 100),
    "absolute, 300 steps": (None, {}, 300),
    "relative, 150 anchors, 300 steps": (150, {}, 300),
    "the same, centered": (150, {"normalize": "center"}, 300),
    "the same, gradient through the anchors": (150, {"anchor_grad": True}, 300),
}


def try_cora() -> None:
    """Print weighted F1 of every variant, and how parallel the vectors of an untrained network are."""
    papers = load_citations("cora")
    print(f"cosines between nodes before training: mean {spread_at_start(papers):.4f}", flush=True)
    for name, (relative, changes) in CORA.items():
        scores = []
        for seed in range(SEEDS):
            task = nodes.make_task(papers, seed=seed, test=0.1)
            anchors = {} if relative is None else {"anchor_rows": task.anchors, **relative}
            scores.append(best_epoch(task, nodes.Run(seed=seed, layers=4, width=64, **changes), EPOCHS, anchors))
        report(name, scores)


@torch.no_grad()
def spread_at_start(papers: Any) -> float:
    """Return the mean cosine between the vectors of 300 nodes in an untrained network."""
    task = nodes.make_task(papers)
    model: NodeClassifier = nodes.Run(layers=4, width=64).build(task)[0].eval()
    vectors: Tensor = model.encode(task.graph)[task.anchors]
    return float(rl.relative_projection(vectors, vectors).mean())


def try_images(data: str, architecture: str) -> None:
    """Print weighted F1 of every variant."""
    images = load_images(data, 5_000, 2_000)
    x, labels = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    for name, (k, options, steps) in IMAGES.items():
        anchors = None if k is None else torch.from_numpy(images.anchors(k))
        encoder = partial(ARCHITECTURES[architecture], images.side, LATENT, images.colors)
        build, scores = partial(network, encoder, anchors, options), []
        for seed in range(3):
            model = train(build, x, labels, classification_loss, Training(steps, 5e-3), seed=seed)
            with torch.no_grad():
                predicted = model(torch.from_numpy(images.test)).argmax(dim=1).numpy()
            scores.append(weighted_f1(images.test_labels, predicted))
        report(f"{data}: {name}", scores)


def network(build: Callable[[], nn.Module], anchors: Tensor | None, options: dict[str, Any]) -> nn.Sequential:
    """Return an encoder and its head, with options of the relative layer between them."""
    encoder = build()
    if anchors is None:
        return nn.Sequential(OrderedDict(encoder=encoder, decoder=norm_head(LATENT, 10)))
    relative = nn.Sequential(encoder, rl.nn.RelativeProjection(anchors, encoder=encoder, **options))
    return nn.Sequential(OrderedDict(encoder=relative, decoder=norm_head(len(anchors), 10)))


def report(name: str, scores: list[float]) -> None:
    """Print one line."""
    print(f"{name}: {np.mean(scores):.3f} ± {np.std(scores):.3f}, worst seed {min(scores):.3f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    attempts = {
        "cora": try_cora,
        "fashion": partial(try_images, "Fashion-MNIST", "residual"),
        "cifar": partial(try_images, "CIFAR-10", "plain"),
    }
    for part in sys.argv[1:] or attempts:
        attempts[part]()
