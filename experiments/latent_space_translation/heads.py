"""MLP heads stitched to other encoders: tables 2 and 3 of Maiorca et al., NeurIPS 2023 (supplement).

Each encoder has a head of three linear layers, trained for five epochs. Every head then reads every other encoder,
translated by least squares (LSS), the nearest orthogonal matrix to it (OLSS) or orthogonal Procrustes (SVD), with
standard scaling (table 2) and with unit norms (table 3). Ours is the default for stitching, kept to one affine map.

    python -m experiments lst-table2
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data.source import BySource, on_hub
from experiments.data.tasks import STAND_INS, TASKS, Task, load_task
from experiments.figures import COLORS, panels
from experiments.models.heads import tanh_head
from experiments.published import MISSING, published
from experiments.relative_representations.stitched import RANDOM, SHUFFLED, controls
from experiments.results import Cell, Finding, Result, Setting, Table, spread
from torch import nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Each task, and the data set of the paper that it is or stands for.
NAMES = BySource(
    packages={
        "cifar10": "cifar10",
        "fashion": "fashion",
        "mnist": "mnist",
        "emoji": "n24news images",
        "emoji texts": "n24news texts",
        "trec": "trec",
        "newsgroups": "dbpedia",
    },
    hub={f"{name}, all encoders": name for name in published("lst-table2", "l2")},
)
SCALINGS = {"standard": "Table 2: standard scaling", "l2": "Table 3: L2 normalization"}
MAPS = {"LSS": "least_squares", "OLSS": "orthogonal_least_squares", "SVD": "orthogonal"}
SIX = {f"{name}, {one}": rl.Translator(map=rule, normalize=one) for one in SCALINGS for name, rule in MAPS.items()}
OWN, ABSOLUTE, OURS = "own", "absolute", "stitching (ours)"
NOTE = (
    "Where this falls short of the paper: own heads see a thousand training rows here, and one of the three "
    "encoders of Fashion-MNIST and MNIST is principal axes, which pulls the means down; between the two networks SVD "
    "is close to the own heads (lst-svm tells why standard scaling suffers there). 20 Newsgroups stands in the place "
    "of DBpedia and is the harder task. Least squares is at its worst on the emoji pictures, where there are "
    "fewer anchors than coordinates."
)
EPOCHS, BATCH, ANCHORS = 5, 32, 1_000

# Of one task: accuracies by method, over pairs and seeds.
Scores = dict[str, list[float]]


def run(setting: Setting) -> Result:
    """Stitch every pair of every task by every map, over seeds."""
    seeds, encoders, max_rows = setting.pick(quick=(5, 3, 1_000), full=(5, None, None))
    ours = rl.Translator("stitching", max_cost="affine")
    methods = {ABSOLUTE: None, OURS: ours} | controls(ours) | SIX
    scores = {}
    for name in NAMES:
        tasks = (load_task(name, seed, max_rows, encoders) for seed in range(seeds))
        scores[name] = stitched(tasks, fit_mlp, methods)
    return Result(
        [table(scores, scaling) for scaling in SCALINGS],
        [*findings(scores)],
        seeds=seeds,
        data=[f"{ANCHORS:,} anchors, or all training rows where there are fewer; at most {encoders or 'all'} encoders"],
        notes=[NOTE],
        stand_ins={published("lst-table2", "l2", of, "on"): STAND_INS[name] for name, of in NAMES.items()},
        series={TASKS[name].title: found for name, found in scores.items()},
    )


def fit_mlp(x: np.ndarray, labels: np.ndarray) -> nn.Module:
    """Train the head of the paper: Adam at 1e-3, five epochs."""
    vectors, classes = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(labels)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head = tanh_head(vectors.shape[1], int(classes.max()) + 1)
        optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(vectors)).split(BATCH):
                optimizer.zero_grad()
                nn.functional.cross_entropy(head(vectors[rows]), classes[rows]).backward()
                optimizer.step()
    return head.eval()


def stitched(tasks: Iterable[Task], head: Any, methods: dict[str, Any]) -> Scores:
    """Return the accuracies of heads on their own encoder, and of every pair by every method, all seeds together."""
    found: Scores = {OWN: [], **{method: [] for method in methods}}
    for seed, task in enumerate(tasks):
        rows = {"anchors": task.anchors(ANCHORS), "train": task.fit, "test": task.test}
        matrix = rl.stitching_matrix(task.spaces, head, task.labels, methods=methods, seed=seed, **rows)
        for pair in matrix:
            method = OWN if pair.encoder == pair.decoder else pair.method
            found[method] += [] if pair.value is None else [pair.value]
    return found


def table(scores: dict[str, Scores], scaling: str) -> Table:
    """Lay out one scaling beside its published figures."""
    columns = [OWN, ABSOLUTE, *MAPS]
    rows = []
    for name, found in scores.items():
        scaled = (f"{rule}, {scaling}" for rule in MAPS)
        ours = [found[column] for column in (OWN, ABSOLUTE, *scaled, OURS, SHUFFLED, RANDOM)]
        theirs = [published("lst-table2", scaling, NAMES[name], column) for column in columns]
        rows.append([TASKS[name].title, *map(cell, ours), published("lst-table2", scaling, NAMES[name], "on"), *theirs])
    head = ("data", *columns, OURS, SHUFFLED, RANDOM, "published on", *(f"published: {column}" for column in columns))
    return Table(f"{SCALINGS[scaling]}, accuracy, mean ± std over pairs and seeds", head, rows)


def cell(values: list[float]) -> Cell:
    """Return the mean with its deviation, or that there is nothing to average."""
    return spread(values) if values else MISSING


def findings(scores: dict[str, Scores]) -> Iterable[Finding]:
    """Judge the order of the maps, and absolute stitching."""
    mean = {n: {m: float(np.mean(v)) if v else np.nan for m, v in found.items()} for n, found in scores.items()}
    ordered, told = [], []
    for scaling, title in SCALINGS.items():
        by_map = {rule: [m[f"{rule}, {scaling}"] for m in mean.values()] for rule in ("SVD", "LSS", "OLSS")}
        svd, lss, olss = (float(np.mean(values)) for values in by_map.values())
        wins = np.sum(np.asarray(by_map["SVD"]) >= np.asarray(by_map["LSS"]) - 0.005)
        ordered.append(svd >= lss >= olss)
        told.append(f"{title}: means {svd:.2f}, {lss:.2f}, {olss:.2f}; SVD ≥ LSS on {wins} of {len(mean)} data sets.")
    yield Finding("SVD ≥ LSS ≥ OLSS with either scaling", all(ordered), " ".join(told), headline=True)
    absolute = {n: m[ABSOLUTE] for n, m in mean.items() if np.isfinite(m[ABSOLUTE])}
    yield Finding(
        "absolute stitching is at chance",
        all(value < chance(n) + 0.1 for n, value in absolute.items()),
        ", ".join(f"{TASKS[n].title} {value:.2f} (guessing {chance(n):.2f})" for n, value in absolute.items())
        + "."
        + " High where the spaces were not made apart: two MiniLMs of TREC share an ancestor, and one network sees the "
        "emoji of both vendors." * (not on_hub()),
        headline=True,
    )
    best = {n: max(found[one] for one in SIX) for n, found in mean.items()}
    yield Finding(
        "our default is at least the best of the six, chosen on the test rows, within .01",
        all(mean[n][OURS] >= best[n] - 0.01 for n in mean),
        "; ".join(f"{TASKS[n].title} {mean[n][OURS]:.2f} against {best[n]:.2f}" for n in mean),
    )


def chance(name: str) -> float:
    """Return the share of the most frequent class: the accuracy of always guessing it."""
    labels = load_task(name).labels
    return float(np.bincount(labels).max() / len(labels))


def draw(result: Result) -> Figure:
    """Draw the accuracy of every map as a share of the head's own, one panel per scaling."""
    figure, axes = panels(1, 2, size=(4.3, 3.2), sharey=True)
    for panel, (scaling, title) in zip(axes[0], SCALINGS.items(), strict=True):
        ways = {ABSOLUTE: ABSOLUTE, **{rule: f"{rule}, {scaling}" for rule in MAPS}, OURS: OURS}
        for (label, method), color, marker in zip(ways.items(), (5, 1, 3, 0, 2), "xv^sD", strict=True):
            shares = [np.mean(f[method]) / np.mean(f[OWN]) if f[method] else np.nan for f in result.series.values()]
            panel.scatter(shares, range(len(shares)), color=COLORS[color], marker=marker, s=42, label=label, zorder=3)
        panel.axvline(1, color="#bbbbbb", linewidth=1)
        panel.set_title(title)
        panel.set_xlim(0, 1.1)
        panel.set_xlabel("accuracy as a share of the head's own")
        panel.grid(axis="y", color="#eeeeee")
    axes[0, 0].set_yticks(range(len(result.series)), result.series)
    axes[0, 0].invert_yaxis()
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8, frameon=False
    )
    return figure
