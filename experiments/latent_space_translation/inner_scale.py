"""Rescaling inside networks: the norm above which a layer keeps its accuracy, and what carries the classes.

The text of Maiorca et al., NeurIPS 2023 (supplement 1.1), names transformers and residual networks, and a threshold. It
suspects that classes are linearly separable by the angles of the vectors and not by their norms: a linear head reads
vectors as they are, unit vectors, and norms alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from experiments.data import pictures
from experiments.inverse_relative_projection import layers
from experiments.models.resnet import Block
from experiments.results import Finding, Table, spread
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from torch import nn

import relatent as rl

NEGLIGIBLE = 0.05
READ = ("vectors", "unit vectors", "norms alone", "guessing")
Readings = Mapping[tuple[str, str], np.ndarray]  # by data and encoder, a row per seed


def resnet_curves(count: int) -> dict[str, Any]:
    """Rescale what each block of a residual network passes on, while it tells photos of CIFAR-10 that it never saw."""
    learn, (images, labels) = (pictures.cifar(pictures.CIFAR_BATCH, batch) for batch in (1, 2))
    model, x = pictures.trained_resnet(14, 1, *learn).eval(), torch.from_numpy(images[:count])
    found: dict[str, Any] = {"norms": [], "accuracies": []}
    with torch.inference_mode():
        passed = x
        for i, layer in enumerate(model[0]):
            passed = layer(passed)
            if isinstance(layer, Block | nn.ReLU):
                norm = float(passed.flatten(1).norm(dim=1).mean())
                alphas = [ratio * norm for ratio in layers.RATIOS]
                curve = rl.evaluate.scale_curve(model, x, labels[:count], alphas, layer=f"0.{i}")
                found["norms"].append(norm)
                found["accuracies"].append(curve.accuracies)
    return found | {"unchanged": curve.unchanged}


def resnet_table(found: dict[str, Any]) -> Table:
    """Return accuracies by block and α."""
    places = ["convolution", *(f"block {i + 1}" for i in range(len(found["norms"]) - 1))]
    rows = [[*row[:2], *row[2]] for row in zip(places, found["norms"], found["accuracies"], strict=True)]
    title = f"ResNet-14, CIFAR-10: accuracy with the output of one layer scaled; {found['unchanged']:.3f} without"
    return Table(title, ("layer", "mean norm", *(f"α = {ratio:g}" for ratio in layers.RATIOS)), rows)


def threshold_finding(claim: str, found: dict[str, Any]) -> Finding:
    """Judge whether every layer keeps its accuracy, within .05, from some norm up to the mean norm on."""
    share = np.asarray(found["accuracies"]) / found["unchanged"]
    thresholds = [threshold(row) for row in share]
    layer, worst = np.unravel_index(np.argmin(share), share.shape)
    return Finding(
        claim,
        max(thresholds) <= 1,
        f"{sum(one <= 1 for one in thresholds)} of {len(share)} layers keep {1 - NEGLIGIBLE:.0%} of the accuracy from "
        "the mean norm on or earlier. From how many mean norms, layer by layer: "
        f"{', '.join(f'{one:g}' if np.isfinite(one) else 'none' for one in thresholds)}. "
        f"The least is {share[layer, worst]:.0%}, at layer {layer}, α = {layers.RATIOS[worst]:g}.",
    )


def threshold(share: np.ndarray) -> float:
    """Return from which norm on a layer keeps its accuracy; infinity if from none."""
    lost = np.flatnonzero(share < 1 - NEGLIGIBLE)
    above = layers.RATIOS[lost[-1] + 1 :] if len(lost) else layers.RATIOS
    return float(above[0]) if above else float("inf")


def readings(x: np.ndarray, labels: np.ndarray, seeds: int) -> np.ndarray:
    """Return the accuracy of a linear head by what it reads of the vectors, a row per seed."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    found = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(x))
        known, unseen = order[: len(x) // 2], order[len(x) // 2 :]
        heads = [make_pipeline(StandardScaler(), LogisticRegression(max_iter=2_000)) for _ in READ[:-1]]
        scores = [
            head.fit(part[known], labels[known]).score(part[unseen], labels[unseen])
            for head, part in zip(heads, (x, normalize(x), norms), strict=True)
        ]
        found.append([*scores, np.mean(labels[unseen] == np.bincount(labels[known]).argmax())])
    return np.asarray(found)


def reading_table(found: Readings) -> Table:
    """Return the accuracy of linear heads by what they read."""
    rows = [[*names, *map(spread, scores.T)] for names, scores in found.items()]
    return Table("Accuracy of a linear head by what it reads", ("data", "encoder", *READ), rows)


def reading_finding(found: Readings) -> Finding:
    """Judge whether angles carry the classes, and norms less than a fifth of what vectors gain over guessing."""
    means = {" ".join(names): scores.mean(axis=0) for names, scores in found.items()}
    return Finding(
        "classes are linearly separable by the angles of the vectors, within .05, and hardly by their norms",
        all(
            unit >= whole - NEGLIGIBLE and norm - guessed < 0.2 * (whole - guessed)
            for whole, unit, norm, guessed in means.values()
        ),
        "; ".join(
            f"{name} {unit:.2f} by unit vectors, {whole:.2f} by vectors, {norm:.2f} by norms, guessing {guessed:.2f}"
            for name, (whole, unit, norm, guessed) in means.items()
        ),
    )
