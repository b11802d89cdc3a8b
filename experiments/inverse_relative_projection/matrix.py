"""Reconstruction within and across spaces: the similarity matrix of Maiorca et al. (2024).

Held-out rows of every encoder are decoded into every encoder, their own included, and compared by cosine with what the
target's encoder makes of them. δ is chosen on validation rows, by the mean over pairs of different encoders. The mean
of the target's anchors is what a decoder reaches that knows nothing of the sample.

``--images`` takes a folder of classes, as the paper took CIFAR-100, through four ImageNet networks.

    python -m experiments irp-reconstruction [--images FOLDER]
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from experiments.data.groups import folder_of_pictures
from experiments.data.source import BySource
from experiments.data.tasks import STAND_INS, Task, load_task, task_of
from experiments.figures import heat_map, panels
from experiments.inverse_relative_projection.decoding import ANCHORS, choose_delta, neighbors
from experiments.published import published
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = BySource(packages=("trec", "fashion"), hub=("cifar100 fine",))
PICTURES = "pictures through EfficientNet-lite0 to 2 and Inception-v3"
DELTAS, OMEGA = (0.7, 0.8, 0.85, 0.9, 0.95), 8
NOTE = (
    "Where this falls below the published range: within a space it lies in the range, between spaces it does not. "
    "Between TREC's encoders the mean of the anchors alone comes close to it: the inverse adds nearly as much noise as "
    "it adds knowledge of the sample. Tried: δ from .7 to .95 on validation rows, two kinds of data, and more "
    "subspaces, which help (irp-heatmaps). Dual codes, from the same anchors, stay clear of that in both."
)
INVERSE, OURS, MEAN = "inverse relative projection", "dual codes (ours)", "mean of the anchors"


def run(setting: Setting) -> Result:
    """Fill the matrices of every task, over seeds."""
    seeds, max_rows = setting.pick(quick=(5, 1_000), full=(5, None))
    found: dict[str, dict[str, np.ndarray]] = {}
    chosen: dict[str, float] = {}
    names = NAMES if setting.images is None else (setting.images.name,)
    encoders, titles = {}, {}
    for name in names:
        tasks = [load(name, setting, seed, max_rows) for seed in range(seeds)]
        encoders[name], titles[name] = list(tasks[0].spaces), tasks[0].title
        spaces = tasks[0].spaces
        pairs = [(spaces[source], spaces[target]) for source, target in neighbors(list(spaces))]
        chosen[name] = choose_delta(pairs, tasks[0].anchors(ANCHORS), tasks[0].choice, DELTAS, OMEGA)
        filled = [matrices(task, chosen[name], seed) for seed, task in enumerate(tasks)]
        found[name] = {way: np.stack([one[way] for one in filled]) for way in filled[0]}
    found = {titles[name]: by_way for name, by_way in found.items()}
    return Result(
        [table(found, {titles[name]: delta for name, delta in chosen.items()})],
        findings(found),
        seeds=seeds,
        data=[f"{ANCHORS} anchors, ω = {OMEGA}, test rows"],
        notes=[NOTE] if setting.images is None else [],
        stand_ins={
            "CIFAR-100 through three ViTs, RexNet and CLIP": "; ".join(STAND_INS.get(name, PICTURES) for name in names)
        },
        series={
            titles[name]: {"encoders": encoders[name]} | {way: m.mean(axis=0) for way, m in found[titles[name]].items()}
            for name in names
        },
    )


def load(name: str, setting: Setting, seed: int, max_rows: int | None) -> Task:
    """Return a task, or the user's folder of pictures as one."""
    if setting.images is None:
        return load_task(name, seed, max_rows)
    return task_of(name, folder_of_pictures(setting.images), seed, max_rows)


def matrices(task: Task, delta: float, seed: int) -> dict[str, np.ndarray]:
    """Return the cosines of every way, sources × targets."""
    test, anchors, n = task.test, task.anchors(ANCHORS), len(task.spaces)
    ways = {
        INVERSE: rl.RelativeTranslator("cosine", delta=delta, omega=OMEGA, seed=seed),
        OURS: rl.RelativeTranslator(),
    }
    scores: dict[str, list[float]] = {way: [] for way in (*ways, MEAN)}
    for x, y in product(task.spaces.values(), repeat=2):
        for way, translator in ways.items():
            decoded = translator.fit(x[anchors], y[anchors]).transform(x[test])
            scores[way].append(float(rl.evaluate.mean_cosine(decoded, y[test])))
        mean = np.broadcast_to(y[anchors].mean(axis=0), y[test].shape)
        scores[MEAN].append(float(rl.evaluate.mean_cosine(mean, y[test])))
    return {way: np.reshape(values, (n, n)) for way, values in scores.items()}


def table(found: dict[str, dict[str, np.ndarray]], chosen: dict[str, float]) -> Table:
    """Average what lies on the diagonals and off them."""
    low, high = published("irp-reconstruction", "range")
    rows = []
    for name, by_way in found.items():
        for way, m in by_way.items():
            label = f"{way}, δ = {chosen[name]}" if way == INVERSE else way
            theirs = f"{low} to {high}" if way == INVERSE else ""
            rows.append([name, label, spread(within(m)), spread(between(m)), theirs])
    return Table(
        "Cosine of decoded to true vectors, mean ± std over pairs and seeds",
        ("data", "decoded by", "within a space", "between spaces", "published"),
        rows,
    )


def within(m: np.ndarray) -> np.ndarray:
    """Return the values of encoders with themselves; m is seeds × encoders × encoders."""
    return np.diagonal(m, axis1=1, axis2=2).ravel()


def between(m: np.ndarray) -> np.ndarray:
    """Return the values of different encoders."""
    return m[:, ~np.eye(m.shape[1], dtype=bool)].ravel()


def findings(found: dict[str, dict[str, np.ndarray]]) -> list[Finding]:
    """Judge the range, and dual codes."""
    low, high = published("irp-reconstruction", "range")
    everywhere = {
        name: float(np.concatenate([within(m[INVERSE]), between(m[INVERSE])]).mean()) for name, m in found.items()
    }
    ahead = [float((between(m[OURS]) > between(m[INVERSE])).mean()) for m in found.values()]
    lifts = [float(between(m[INVERSE]).mean() - between(m[MEAN]).mean()) for m in found.values()]
    return [
        Finding(
            f"similarities are medium to high, {low} to {high}",
            min(everywhere.values()) >= low,
            "Mean of the matrix: "
            + ", ".join(f"{name} {value:.2f}" for name, value in everywhere.items())
            + f". Between spaces it is {min(lifts):.2f} to {max(lifts):.2f} above the mean of the anchors.",
        ),
        Finding(
            "dual codes (ours) reconstruct better between spaces",
            min(ahead) > 0.9,
            "Better for " + " and ".join(f"{share:.0%}" for share in ahead) + " of the pairs.",
        ),
    ]


def draw(result: Result) -> Figure:
    """Draw one row of matrices per data set: as published, and ours."""
    figure, axes = panels(len(result.series), 2, size=(3.9, 2.9))
    for row, (name, found) in zip(axes, result.series.items(), strict=True):
        for panel, way in zip(row, (INVERSE, OURS), strict=True):
            heat_map(panel, found[way], found["encoders"], found["encoders"], vmin=0, vmax=1)
            panel.set_title(f"{name}: {way}")
            panel.set_xlabel("decoded into")
        row[0].set_ylabel("encoded by")
    return figure
