"""Zero-shot stitching by inverse relative projection: the table over data sets of Maiorca et al. (2024).

Each encoder has a head of its own, logistic regression on unit or on standardized vectors. Every head then reads every
other encoder, whose vectors are decoded into the head's space with the paper's ω and δ, with ω and δ chosen on
validation rows, and by relatent's dual codes, which keep the two halves as independent. The head is chosen together
with ω and δ; the paper's setting is run with the authors' untuned head as well, a support vector machine with the
defaults of scikit-learn.

    python -m experiments irp-stitching
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.source import BySource
from experiments.data.tasks import STAND_INS, TASKS, Task, load_task
from experiments.figures import COLORS, panels
from experiments.inverse_relative_projection.decoding import Choice, choose
from experiments.published import MISSING, published
from experiments.relative_representations.stitched import RANDOM, SHUFFLED, controls
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = BySource(
    packages=("cifar10", "fashion", "mnist", "groceries", "emoji", "trec", "newsgroups", "tweets"),
    hub=("mnist", "fashion", "cifar10", "cifar100 coarse", "cifar100 fine", "trec", "newsgroups"),
)
OWN, ABSOLUTE, PAPER, CHOSEN, OURS = "own", "absolute", "paper's ω, δ", "chosen ω, δ", "dual codes (ours)"
SVM_OWN, SVM = "own, SVM", "paper's ω, δ, SVM"
COLUMNS = (OWN, ABSOLUTE, PAPER, CHOSEN, OURS, SHUFFLED, RANDOM, SVM_OWN, SVM)
# The paper's ω and δ of TREC, for data that it does not have.
OMEGA, DELTA = 8, 0.7
PUBLISHED = ("own", "absolute", "stitched", "available")
# Ordered pairs of encoders that can be stitched, by nothing at all (where widths agree) and by a decoded vector.
AVAILABLE = ("available: absolute", "available: decoded")
# Data sets of the paper that are not here with two encoders.
LACKING = BySource(packages=("cifar100 coarse", "cifar100 fine"), hub=())

Scores = dict[str, list[float]]

NOTES = (
    "Why the paper's setting falls short on TREC: in these encoders δ = .7 leaves hundreds of anchors, of the order of "
    "the target's coordinates, which is where a pseudo-inverse is worst (irp-heatmaps). The number of anchors that are "
    "left carries over from encoder to encoder, δ does not. irp-sensitivity shows what was tried: more and fewer "
    "anchors, more subspaces, stronger pruning, no centering, completion, a damped inverse, heads that standardize and "
    "heads that do not. With ω and δ chosen on validation rows, heads keep as large a share of their own accuracy as "
    "in the paper (.73 of .87). What remains is the encoders: the paper stitches transformers of one size, here two of "
    "five spaces are averages of static vectors, whose own heads are the weakest.",
    "20 Newsgroups falls short as well, in the own heads and in the share that is kept. The texts here are openings of "
    "at most 16 words, and one of the three encoders is latent semantic analysis; choosing ω and δ and dual codes were "
    "tried, and each gains, but the three spaces agree on less than the paper's transformers of whole posts.",
    "CIFAR-10 and Fashion-MNIST: the networks are small and were trained here on ten thousand images, so that their "
    "own heads are below the paper's. Tried: two ResNets that were trained on all of CIFAR-10, which no package "
    "carries; there stitched heads reached their own accuracy. On Fashion-MNIST the pairs with principal axes pull the "
    "mean down.",
)


def run(setting: Setting) -> Result:
    """Stitch every pair of every task, over seeds."""
    seeds = setting.pick(quick=5, full=5)
    max_rows, anchors = setting.pick(quick=(1_500, 500), full=(None, 768))
    scores: dict[str, Scores] = {}
    settings: dict[str, Choice] = {}
    for name in NAMES:
        scores[name] = {column: [] for column in COLUMNS}
        for seed in range(seeds):
            task = load_task(name, seed, max_rows)
            if name not in settings:
                settings[name] = choose(task, anchors=anchors)
            ways = methods(name, settings[name], seed)
            found = stitched(task, settings[name].head, ways, anchors, seed)
            untuned = stitched(task, SVC(), {PAPER: ways[PAPER]}, anchors, seed)
            for column, values in (found | {SVM_OWN: untuned[OWN], SVM: untuned[PAPER]}).items():
                scores[name][column] += values
    return Result(
        [table(scores, settings, seeds)],
        findings(scores),
        seeds=seeds,
        data=[
            f"{anchors} anchors; head, ω and δ by validation rows of the first seed; the same test rows for all seeds"
        ],
        stand_ins={TASKS[name].title: STAND_INS[name] for name in NAMES},
        notes=NOTES,
        series={TASKS[name].title: found for name, found in scores.items()},
    )


def methods(name: str, chosen: Choice, seed: int) -> dict[str, Any]:
    """Return what translates: nothing, the paper's setting, ours of its steps, and dual codes."""
    found = published("irp-stitching", name)
    given = found if isinstance(found, dict) else {"omega": OMEGA, "delta": DELTA}
    paper = {key: given[key] for key in ("omega", "delta")}
    return {
        ABSOLUTE: None,
        PAPER: rl.RelativeTranslator("cosine", **paper, seed=seed),
        CHOSEN: rl.RelativeTranslator("cosine", delta=chosen.delta, omega=chosen.omega, seed=seed),
        OURS: rl.RelativeTranslator(),
        **controls(rl.RelativeTranslator(), seed),
    }


def stitched(task: Task, head: Pipeline, methods: dict[str, Any], anchors: int, seed: int) -> Scores:
    """Return the accuracies of one seed: of heads on their own encoder, and of every pair by every method."""
    matrix = rl.stitching_matrix(
        task.spaces,
        head,
        task.labels,
        anchors=task.anchors(anchors),
        train=task.fit,
        test=task.test,
        methods=methods,
        seed=seed,
    )
    pairs = [pair for pair in matrix if pair.encoder != pair.decoder and pair.value is not None]
    by_method = {method: [pair.value for pair in pairs if pair.method == method] for method in methods}
    return {OWN: [matrix.own(name) for name in task.spaces], **by_method}


def table(scores: dict[str, Scores], settings: dict[str, Choice], seeds: int) -> Table:
    """Lay out ours beside the published figures."""
    rows = []
    for name in (*scores, *LACKING):
        theirs = [str(published("irp-stitching", name, key)) for key in PUBLISHED]
        cells: list[Any] = [name, *[MISSING] * (len(COLUMNS) + 1 + len(AVAILABLE))]
        if name in scores:
            found = [spread(scores[name][c]) if scores[name][c] else MISSING for c in COLUMNS]
            pairs = [str(len(scores[name][column]) // seeds) for column in (ABSOLUTE, PAPER)]
            cells = [TASKS[name].title, f"{settings[name].omega}, {settings[name].delta}", *found, *pairs]
        rows.append([*cells, *theirs])
    columns = ("data", "chosen ω, δ", *COLUMNS, *AVAILABLE, *(f"published: {key}" for key in PUBLISHED))
    return Table("Accuracy of heads on other encoders, mean ± std over pairs and seeds", columns, rows)


def findings(scores: dict[str, Scores]) -> list[Finding]:
    """Judge the table."""
    mean = {name: {c: float(np.mean(v)) if v else np.nan for c, v in found.items()} for name, found in scores.items()}
    kept = {column: {n: m[column] / m[OWN] for n, m in mean.items()} for column in (PAPER, CHOSEN, OURS)}
    untuned = {name: m[SVM] / m[SVM_OWN] for name, m in mean.items()}
    return [
        Finding(
            "with the paper's ω, δ and head inverse relative projection keeps what it keeps in the paper (76 to 97 %)",
            min(untuned.values()) >= 0.76,
            ", ".join(
                f"{TASKS[n].title} {share:.0%}, with the chosen head {kept[PAPER][n]:.0%}"
                for n, share in untuned.items()
            ),
            headline=True,
        ),
        Finding(
            "inverse relative projection keeps 60 to 90 % of what heads reach on their own encoder",
            min(kept[CHOSEN].values()) >= 0.6,
            "With chosen ω and δ: " + ", ".join(f"{TASKS[n].title} {share:.0%}" for n, share in kept[CHOSEN].items()),
            headline=True,
        ),
        Finding(
            "choosing ω and δ on validation rows beats the paper's setting",
            all(m[CHOSEN] >= m[PAPER] - 0.005 for m in mean.values()),
            "; ".join(f"{TASKS[n].title} {m[PAPER]:.2f} → {m[CHOSEN]:.2f}" for n, m in mean.items()),
        ),
        Finding(
            "dual codes (ours) beat the paper's method at its best",
            all(m[OURS] >= m[CHOSEN] - 0.005 for m in mean.values()),
            "; ".join(f"{TASKS[n].title} {m[CHOSEN]:.2f} → {m[OURS]:.2f}" for n, m in mean.items()),
        ),
    ]


def draw(result: Result) -> Figure:
    """Draw the mean of each way per data set, as points on a line."""
    figure, axes = panels(size=(6.4, 3.2))
    for column, color, marker in zip(COLUMNS[:5], (6, 5, 1, 0, 2), "|xosD", strict=True):
        means = [np.mean(found[column]) if found[column] else np.nan for found in result.series.values()]
        axes[0, 0].scatter(means, range(len(means)), color=COLORS[color], marker=marker, s=60, label=column, zorder=3)
    for row, found in enumerate(result.series.values()):
        axes[0, 0].hlines(row, 0, np.mean(found[OWN]), color="#dddddd", linewidth=1, zorder=1)
    axes[0, 0].set_yticks(range(len(result.series)), result.series)
    axes[0, 0].invert_yaxis()
    axes[0, 0].set_xlim(0, 1)
    axes[0, 0].set_xlabel("accuracy")
    axes[0, 0].set_title("Heads on encoders they were not trained on")
    figure.legend(loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return figure
