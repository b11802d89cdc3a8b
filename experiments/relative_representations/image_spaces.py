"""Images in two spaces, absolute and relative: table 8 and figure 11 of Moschella et al., ICLR 2023.

The lookup of table 1 with images in place of words: 500 anchors, drawn uniformly, as farthest points or by k-means,
in pairs of networks that were trained apart.

    python -m experiments rr-table8
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.groups import Group, load_group
from experiments.data.source import BySource
from experiments.published import published
from experiments.relative_representations.lookup import MEASURES, TRANSLATED, K, compared, described, mean_of, sample
from experiments.relative_representations.points import draw_planes, pack, planes
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS, CLASSES, SHOWN = 500, 4, 200
# The second of each pair is the larger network.
PAIRS = BySource(
    packages={
        "groceries": ("lite0", "lite1"),
        "resnets": ("resnet8", "resnet14"),
        "cifar photos": ("lite2", "inception"),
    },
    hub={"CIFAR-10": ("ViT-small", "ViT-base")},
)
PICTURED = BySource(packages=("groceries", "resnets"), hub=("CIFAR-10",))
SEEN = ("absolute", "relative", "relative, centered (ours)")
CHOICES: dict[str, Callable[..., np.ndarray]] = {
    "uniform": rl.anchors.uniform,
    "fps": rl.anchors.farthest_point,
    "kmeans": rl.anchors.kmeans,
}
# Every description with uniform anchors, and raw cosines with the other choices.
CASES = [
    ("absolute", "uniform"),
    *(("relative", choice) for choice in CHOICES),
    ("relative, centered (ours)", "uniform"),
    ("relative, centered (ours)", "fps"),
    (TRANSLATED, "uniform"),
]
Case = tuple[str, str, str, str]
Scores = Mapping[Case, np.ndarray]


def run(setting: Setting) -> Result:
    """Look images up in the other space, over seeds."""
    names = setting.pick(quick=PICTURED, full=tuple(PAIRS))  # large networks take long to encode the photos of CIFAR
    groups, seeds = {name: load_group(name, PAIRS[name]) for name in names}, setting.pick(quick=5, full=10)
    scores: dict[Case, np.ndarray] = {}
    for name, group in groups.items():
        queries = sample(len(group.spaces[PAIRS[name][0]]), setting.pick(quick=500, full=20_000))
        for source, target in (PAIRS[name], PAIRS[name][::-1]):
            x, y = group.spaces[source], group.spaces[target]
            drawn = {
                choice: [choose(x, ANCHORS, seed=seed) for seed in range(seeds)] for choice, choose in CHOICES.items()
            }
            for kind, choice in CASES:
                found = [compared(kind, x, y, rows, queries) for rows in drawn[choice]]
                scores[name, f"{source} → {target}", kind, choice] = np.asarray(found)
    return Result(
        [table(scores)],
        list(findings(scores)),
        seeds=seeds,
        data=[f"{name}: {len(next(iter(group.spaces.values()))):,} images" for name, group in groups.items()],
        stand_ins={
            "ViT-base and ViT-small (ImageNet) on CIFAR-10": "EfficientNet-lite0 and lite1 (ImageNet) on photos of "
            "groceries; two ResNets trained on CIFAR-10; in full size EfficientNet-lite2 and Inception-v3 on CIFAR-10",
        },
        series={name: pictured(groups[name], PAIRS[name]) for name in PICTURED},
    )


def table(scores: Scores) -> Table:
    """Lay table 8 out; each direction stands beside that of the paper, by which network is the larger."""
    rows = [[*case[:2], *case[2:], *map(spread, found.T), *paper(*case)] for case, found in scores.items()]
    columns = ("images", "spaces", "description", "anchors", *MEASURES, "published between", "published")
    return Table(f"Images: {K} neighbors, {ANCHORS} anchors", columns, rows)


def paper(images: str, way: str, kind: str, choice: str) -> tuple[str, str]:
    """Return between which of its networks the paper's figures are, and the three of them in one cell."""
    if images == "resnets" or kind not in ("absolute", "relative"):
        return "", ""
    toward = "base → small" if way.startswith(PAIRS[images][1]) else "small → base"
    key = f"relative, {choice}, {toward}" if kind == "relative" else "absolute"
    return f"ViT-{toward.replace('→ ', '→ ViT-')}", " / ".join(published("rr-table8", key, one) for one in MEASURES)


def findings(scores: Scores) -> Iterator[Finding]:
    """Judge what the paper says of its table."""
    raw = {choice: [case for case in scores if case[2:] == ("relative", choice)] for choice in CHOICES}
    absolute = mean_of(scores, "mrr", [case for case in scores if case[2] == "absolute"])
    mrr = {choice: mean_of(scores, "mrr", cases) for choice, cases in raw.items()}
    yield Finding(
        "image spaces share neighbors relative to anchors and none as they are",
        min(mrr["uniform"]) > 5 * max(absolute),
        f"MRR {max(absolute):.3f} at most absolute, {min(mrr['uniform']):.2f} to {max(mrr['uniform']):.2f} relative "
        "(paper .27 and .30)",
    )
    yield Finding(
        "farthest points find more images than uniform anchors",
        float(np.mean(mrr["fps"])) > float(np.mean(mrr["uniform"])) + 0.01,
        ", ".join(f"{choice} {np.mean(found):.3f}" for choice, found in mrr.items())
        + " in the mean MRR (paper: uniform .285, fps .38, kmeans .26)",
    )
    cosines = mean_of(scores, "cosine", raw["uniform"])
    yield Finding(
        "the cosine is high while few neighbors are shared",
        min(cosines) > 0.8 and float(np.mean(mrr["uniform"])) < 0.5,
        f"cosine {min(cosines):.2f} to {max(cosines):.2f} (paper .97): raw cosines share their mean, which says little",
    )


def pictured(group: Group, pair: tuple[str, str]) -> dict[str, Any]:
    """Return figure 11's points: images of four classes on two principal axes, in both spaces, and their classes."""
    x, y = (group.spaces[name] for name in pair)
    assert group.labels is not None
    largest = np.argsort(-np.bincount(group.labels), kind="stable")[:CLASSES]
    chosen = [np.flatnonzero(group.labels == label)[:SHOWN] for label in largest]
    rows = np.concatenate(chosen)
    anchors = rl.anchors.uniform(x, ANCHORS, seed=0)
    both = {kind: [a[rows] for a in described(kind, x, y, anchors)] for kind in SEEN}
    shown = {kind: [pack(points) for points in planes(*spaces, "PCA")] for kind, spaces in both.items()}
    return {"planes": shown, "images": [len(one) for one in chosen]}


def draw(result: Result) -> Figure:
    """Draw both spaces of two pairs side by side, absolute above relative."""
    clusters = {name: np.repeat(np.arange(CLASSES), result.series[name]["images"]).tolist() for name in PICTURED}
    rows = {
        kind: [
            (title, points, clusters[name])
            for name in PICTURED
            for title, points in zip(PAIRS[name], result.series[name]["planes"][kind], strict=True)
        ]
        for kind in SEEN
    }
    return draw_planes(rows, [f"class {i + 1}" for i in range(CLASSES)])
