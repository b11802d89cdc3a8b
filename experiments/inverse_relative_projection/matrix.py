"""Reconstruction within and across spaces: the similarity matrix of Maiorca et al. (2024).

Held-out rows of every encoder are decoded into every encoder, their own included, and compared by cosine with what the
target's encoder makes of them. δ is chosen on validation rows, by the mean over pairs of different encoders. The mean
of the target's anchors is what a decoder reaches that knows nothing of the sample, shuffled pairs what one reaches
whose anchors are not parallel. The relative similarity compares the two spaces before anything is decoded.

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
from experiments.relative_representations.stitched import ShuffledPairs
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = BySource(packages=("trec", "fashion"), hub=("cifar100 fine",))
PICTURES = "pictures through EfficientNet-lite0 to 2 and Inception-v3"
DELTAS, OMEGA = (0.7, 0.8, 0.85, 0.9, 0.95), 8
INVERSE, OURS = "inverse relative projection", "dual codes (ours)"
SHUFFLED, MEAN, RELATIVE = "shuffled pairs", "mean of the anchors", "relative similarity, nothing decoded"


def run(setting: Setting) -> Result:
    """Fill the matrices of every task, over seeds."""
    seeds, max_rows = setting.pick(quick=(5, 1_000), full=(5, None))
    found: dict[str, dict[str, np.ndarray]] = {}
    chosen: dict[str, float] = {}
    names = NAMES if setting.images is None else (setting.images.name,)
    encoders, titles, anchors = {}, {}, {}
    for name in names:
        tasks = [load(name, setting, seed, max_rows) for seed in range(seeds)]
        encoders[name], titles[name] = list(tasks[0].spaces), tasks[0].title
        spaces, anchors[titles[name]] = tasks[0].spaces, len(tasks[0].anchors(ANCHORS))
        pairs = [(spaces[source], spaces[target]) for source, target in neighbors(list(spaces))]
        chosen[name] = choose_delta(pairs, tasks[0].anchors(ANCHORS), tasks[0].choice, DELTAS, OMEGA)
        filled = [matrices(task, chosen[name], seed) for seed, task in enumerate(tasks)]
        found[name] = {way: np.stack([one[way] for one in filled]) for way in filled[0]}
    found = {titles[name]: by_way for name, by_way in found.items()}
    return Result(
        [table(found, {titles[name]: delta for name, delta in chosen.items()})],
        findings(found, {titles[name]: encoders[name] for name in names}),
        seeds=seeds,
        data=[
            f"{title}: {n} anchors, ω = {OMEGA}, δ of {DELTAS[0]} to {DELTAS[-1]} by validation rows, test rows"
            for title, n in anchors.items()
        ],
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
    inverse = rl.RelativeTranslator("cosine", delta=delta, omega=OMEGA, seed=seed)
    ways = {INVERSE: inverse, OURS: rl.RelativeTranslator(), SHUFFLED: ShuffledPairs(inverse, seed)}
    scores: dict[str, list[float]] = {way: [] for way in (*ways, MEAN, RELATIVE)}
    for x, y in product(task.spaces.values(), repeat=2):
        for way, translator in ways.items():
            decoded = translator.fit(x[anchors], y[anchors]).transform(x[test])
            scores[way].append(float(rl.evaluate.mean_cosine(decoded, y[test])))
        mean = np.broadcast_to(y[anchors].mean(axis=0), y[test].shape)
        scores[MEAN].append(float(rl.evaluate.mean_cosine(mean, y[test])))
        relative = [rl.RelativeProjection().fit(z[anchors]).transform(z[test]) for z in (x, y)]
        scores[RELATIVE].append(float(rl.evaluate.mean_cosine(*relative)))
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


def findings(found: dict[str, dict[str, np.ndarray]], encoders: dict[str, list[str]]) -> list[Finding]:
    """Judge the range cell by cell, against what knows nothing of the sample, and dual codes."""
    low, high = published("irp-reconstruction", "range")
    cells = {name: m[INVERSE].mean(axis=0) for name, m in found.items()}
    ahead = {name: np.mean(between(m[OURS]) > between(m[INVERSE])) for name, m in found.items()}
    return [
        Finding(
            f"similarities are medium to high across all combinations, {low} to {high}",
            all(m.min() >= low for m in cells.values()),
            "; ".join(
                f"{name}: {np.sum(m >= low)} of {m.size} cells reach {low}, the mean is {m.mean():.2f}, the lowest "
                f"{lowest(m, encoders[name])}"
                for name, m in cells.items()
            )
            + ".",
            headline=True,
        ),
        beats_controls(found, encoders),
        Finding(
            "dual codes reconstruct better between spaces (ours)",
            all(share == 1 for share in ahead.values()),
            ", ".join(f"{name} better for {share:.0%} of pairs and seeds" for name, share in ahead.items()) + ".",
        ),
    ]


def beats_controls(found: dict[str, dict[str, np.ndarray]], encoders: dict[str, list[str]]) -> Finding:
    """Judge pairs of different encoders against what knows nothing of the sample, and what knows no true pairs."""
    worse = {name: below(m[INVERSE].mean(axis=0), m[MEAN].mean(axis=0), encoders[name]) for name, m in found.items()}
    true_pairs = all(np.all(between(m[INVERSE]) > between(m[SHUFFLED])) for m in found.values())
    evidence = (
        f"{name}: {between(m[INVERSE]).mean():.2f}, "
        + ", ".join(f"{way} {between(m[way]).mean():.2f}" for way in (MEAN, SHUFFLED))
        + worse[name]
        for name, m in found.items()
    )
    return Finding(
        f"between spaces decoding is everywhere above the {MEAN} and {SHUFFLED} (our question)",
        true_pairs and not any(worse.values()),
        "; ".join(evidence) + ".",
    )


def lowest(m: np.ndarray, names: list[str]) -> str:
    """Return the lowest cell in words."""
    i, j = np.unravel_index(np.argmin(m), m.shape)
    return f"{m[i, j]:.2f}, {names[i]} → {names[j]}"


def below(decoded: np.ndarray, mean: np.ndarray, names: list[str]) -> str:
    """Return in words the spaces into which some encoders are decoded worse than the mean of the anchors."""
    worse = {name: int(np.sum(np.delete((decoded < mean)[:, j], j))) for j, name in enumerate(names)}
    said = ", ".join(f"into {name} from {n} of {len(names) - 1}" for name, n in worse.items() if n)
    return f" (below the mean {said})" if said else ""


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
