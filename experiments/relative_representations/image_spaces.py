"""Images in two spaces, absolute and relative: table 8 and figure 11 of Moschella et al., ICLR 2023.

The lookup of table 1 with images in place of words: 500 anchors, drawn uniformly, as farthest points or by k-means,
in pairs of networks that were trained apart. Figure 11 sees the images of the four largest classes.

    python -m experiments rr-table8
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.groups import Group, load_group
from experiments.data.source import BySource
from experiments.published import mean, published
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
HOWS, SEEN = ("PCA", "t-SNE", "first two"), ("absolute", "relative", "relative, centered (ours)")
TOWARD = ("small → base", "base → small")
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
    counts = {name: len(next(iter(group.spaces.values()))) for name, group in groups.items()}
    smallest, largest = min(counts.values()), max(counts.values())
    scores: dict[Case, np.ndarray] = {}
    for name, group in groups.items():
        queries = sample(counts[name], setting.pick(quick=500, full=20_000))
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
        data=[f"{name}: {n:,} images" for name, n in counts.items()],
        stand_ins={
            "ViT-base and ViT-small (ImageNet) on CIFAR-10": "EfficientNet-lite0 and lite1 (ImageNet) on photos of "
            "groceries; two ResNets trained on CIFAR-10; in full size EfficientNet-lite2 and Inception-v3 on CIFAR-10",
        },
        series={name: pictured(groups[name], PAIRS[name]) for name in PICTURED},
        smaller=" to ".join(f"{n:,}" for n in sorted({smallest, largest})) + " of 20,000 images"
        if smallest < 20_000
        else "",
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
    toward = TOWARD[way.startswith(PAIRS[images][1])]
    key = f"relative, {choice}, {toward}" if kind == "relative" else "absolute"
    return f"ViT-{toward.replace('→ ', '→ ViT-')}", " / ".join(published("rr-table8", key, one) for one in MEASURES)


def findings(scores: Scores) -> Iterator[Finding]:
    """Judge what the paper says of its table, in every direction."""
    ways = list(dict.fromkeys(case[:2] for case in scores))
    mrr = {choice: {way: mean_of(scores, "mrr", [(*way, "relative", choice)])[0] for way in ways} for choice in CHOICES}
    theirs = {choice: [mean("rr-table8", f"relative, {choice}, {way}", "mrr") for way in TOWARD] for choice in CHOICES}
    told = {choice: " and ".join(f"{one:.2f}" for one in found) for choice, found in theirs.items()}
    absolute = max(mean_of(scores, "mrr", [case for case in scores if case[2] == "absolute"]))
    uniform, wanted = mrr["uniform"], min(theirs["uniform"]) / 2
    yield Finding(
        "image spaces share neighbors relative to anchors and none as they are",
        absolute < 0.01 and min(uniform.values()) > wanted,
        f"MRR {absolute:.3f} at most absolute; relative "
        + ", ".join(f"{uniform[way]:.2f} {' '.join(way)}" for way in ways)
        + f" (paper {told['uniform']}, of which half is asked for)",
    )
    yield Finding(
        "farthest points find more images than uniform anchors, in every direction",
        all(mrr["fps"][way] > uniform[way] for way in ways),
        "; ".join(f"{way[1]}: fps {mrr['fps'][way]:.2f}, uniform {uniform[way]:.2f}" for way in ways)
        + f" (paper: fps {told['fps']}, uniform {told['uniform']})",
    )
    raw, centered = (
        mean_of(scores, "cosine", [(*way, kind, "uniform") for way in ways])
        for kind in ("relative", "relative, centered (ours)")
    )
    yield Finding(
        "the cosine is high while few images are found",
        min(raw) > 0.8 and max(uniform.values()) < 0.5,
        f"cosine {min(raw):.2f} to {max(raw):.2f}, MRR {min(uniform.values()):.2f} to {max(uniform.values()):.2f} "
        f"(paper {mean('rr-table8', f'relative, uniform, {TOWARD[0]}', 'cosine')} and {min(theirs['uniform']):.2f} to "
        f"{max(theirs['uniform']):.2f}); cosine {min(centered):.2f} to {max(centered):.2f} centered (ours)",
    )


def pictured(group: Group, pair: tuple[str, str]) -> dict[str, Any]:
    """Return figure 11's points: images of four classes in both spaces, three ways to see them, and their classes."""
    x, y = (group.spaces[name] for name in pair)
    assert group.labels is not None
    largest = np.argsort(-np.bincount(group.labels), kind="stable")[:CLASSES]
    chosen = [np.flatnonzero(group.labels == label)[:SHOWN] for label in largest]
    rows = np.concatenate(chosen)
    anchors = rl.anchors.uniform(x, ANCHORS, seed=0)
    both = {kind: [a[rows] for a in described(kind, x, y, anchors)] for kind in SEEN}
    shown = {kind: {how: list(map(pack, planes(*two, how))) for how in HOWS} for kind, two in both.items()}
    return {"planes": shown, "images": [len(one) for one in chosen]}


def draw(result: Result) -> Figure:
    """Draw both spaces of every pair side by side, absolute above relative."""
    rows = {}
    for name in PICTURED:
        clusters = np.repeat(np.arange(CLASSES), result.series[name]["images"]).tolist()
        for kind, hows in result.series[name]["planes"].items():
            rows["\n".join((name, *kind.split(", ")))] = [
                (f"{how}, {space}", points, clusters)
                for how in HOWS
                for space, points in zip(PAIRS[name], hows[how], strict=True)
            ]
    return draw_planes(rows, [f"class {i + 1}" for i in range(CLASSES)], size=(1.6, 1.6))
