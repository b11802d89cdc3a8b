"""Zero-shot stitching by inverse relative projection: the table over data sets of Maiorca et al. (2024).

Each encoder has a head of its own, and every head reads every other encoder. First as published: a support vector
machine with the defaults of scikit-learn, and the paper's ω and δ. Then a logistic regression that is chosen together
with ω and δ on validation rows reads vectors that were decoded with the paper's ω and δ, with the chosen ones, and by
relatent's dual codes, which keep the two halves as independent; beside them heads that were trained on relative
vectors, and orthogonal maps (SVD), for which both spaces have to be at hand.

    python -m experiments irp-stitching
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.source import BySource
from experiments.data.tasks import STAND_INS, TASKS, Task, load_task
from experiments.figures import COLORS, panels
from experiments.inverse_relative_projection.decoding import Choice, choose, fit_heads
from experiments.inverse_relative_projection.stitching_findings import (
    ABSOLUTE,
    CHOSEN,
    CONTROLS,
    DIRECT,
    MAJORITY,
    OURS,
    OWN,
    PAPER,
    RELATIVE,
    UNTUNED,
    Found,
    apart,
    by_encoder,
    findings,
    own,
    setting_of,
)
from experiments.published import MISSING, published
from experiments.results import Cell, Result, Setting, Table, spread
from sklearn.svm import SVC

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = BySource(
    packages=("cifar10", "fashion", "mnist", "groceries", "emoji", "trec", "newsgroups", "tweets"),
    hub=("mnist", "fashion", "cifar10", "cifar100 coarse", "cifar100 fine", "trec", "newsgroups"),
)
# Data sets of the paper that are not here with two encoders.
LACKING = BySource(packages=("cifar100 coarse", "cifar100 fine"), hub=())
PUBLISHED = ("own", "stitched", "absolute", "available", "available, absolute")
NOTE = (
    "The last table shows which encoders the losses of a data set come from: the share of the heads' own accuracy that "
    "is kept, over the pairs that an encoder is the source of, and over those it is the target of."
)


def run(setting: Setting) -> Result:
    """Stitch every pair of every task, over seeds."""
    seeds = setting.pick(quick=5, full=5)
    max_rows, anchors = setting.pick(quick=(1_500, 500), full=(None, 768))
    choices: dict[str, Choice] = {}
    encoders: dict[str, list[str]] = {}
    found: dict[str, Found] = {}
    for name in NAMES:
        for seed in range(seeds):
            task = load_task(name, seed, max_rows)
            if name not in found:
                choices[name], encoders[name], found[name] = choose(task, anchors=anchors), list(task.spaces), {}
            for column, values in stitched(task, name, choices[name], anchors, seed).items():
                found[name].setdefault(column, []).append(values)
    return Result(
        [as_published(found), with_choice(found, choices), by_encoder(found, encoders)],
        findings(found),
        seeds=seeds,
        data=[
            f"{anchors} anchors; head, ω and δ by validation rows of the first seed; the same test rows for all "
            "seeds; controls of the paper's setting and heads of relative vectors are those of the first seed"
        ],
        stand_ins={TASKS[name].title: STAND_INS[name] for name in NAMES},
        notes=[NOTE],
        series={TASKS[name].title: means(one) for name, one in found.items()},
    )


def stitched(task: Task, name: str, chosen: Choice, anchors: int, seed: int) -> dict[Any, Any]:
    """Return what one seed gives: matrices, encoders × heads, with the heads' own on the diagonal, and controls."""
    omega, delta = setting_of(name)
    paper = rl.RelativeTranslator("cosine", omega=omega, delta=delta, seed=seed)
    ours = rl.RelativeTranslator("cosine", omega=chosen.omega, delta=chosen.delta, seed=seed)
    direct, heads = rl.Translator(map="orthogonal", seed=seed), fit_heads(task, chosen.head)
    untuned = matrix(task, SVC(), {ABSOLUTE: None, PAPER: paper}, anchors, seed, controls=seed == 0)
    decoded = matrix(task, heads, {DIRECT: direct, PAPER: paper, CHOSEN: ours}, anchors, seed)
    dual = matrix(task, heads, {OURS: rl.RelativeTranslator()}, anchors, seed, controls=True)
    found = {
        UNTUNED: untuned.values(PAPER),
        ABSOLUTE: untuned.values(ABSOLUTE),
        **{method: decoded.values(method) for method in (DIRECT, PAPER, CHOSEN)},
        OURS: dual.values(OURS),
        **{(OURS, control): dual.control(control, OURS) for control in CONTROLS},
        MAJORITY: dual.control(MAJORITY),
    }
    if seed == 0:  # the rest takes long
        found |= {(UNTUNED, control): untuned.control(control, PAPER) for control in CONTROLS}
        found[RELATIVE] = matrix(task, chosen.head, {RELATIVE: rl.RelativeProjection()}, anchors, seed).values(RELATIVE)
    return found


def matrix(
    task: Task, heads: Any, methods: Mapping[str, Any], anchors: int, seed: int, controls: bool = False
) -> rl.stitching.StitchingMatrix:
    """Stitch one task by some methods, with or without the controls."""
    return rl.stitching_matrix(
        task.spaces,
        heads,
        task.labels,
        samples=task.inputs if controls else None,
        anchors=task.anchors(anchors),
        train=task.fit,
        test=task.test,
        methods=methods,
        controls=controls,
        seed=seed,
    )


def as_published(found: Mapping[str, Found]) -> Table:
    """Lay out the paper's setting beside its figures."""
    rows: list[list[Cell]] = []
    for name in (*found, *LACKING):
        theirs = [str(published("irp-stitching", name, key)) for key in PUBLISHED]
        cells: list[Cell] = [name, *[MISSING] * 8]
        if name in found:
            scores = [spread(own(found[name][UNTUNED])), *(cell(found[name], one) for one in (UNTUNED, ABSOLUTE))]
            controls = [spread(found[name][UNTUNED, control]) for control in CONTROLS]
            pairs = [str(len(apart(found[name][one][:1]))) for one in (UNTUNED, ABSOLUTE)]
            cells = [TASKS[name].title, "{}, {}".format(*setting_of(name)), *scores, *controls, *pairs]
        rows.append([*cells, *theirs])
    available = ("available", "available, absolute")
    columns = (
        "data",
        "paper's ω, δ",
        OWN,
        "stitched",
        ABSOLUTE,
        *CONTROLS,
        *available,
        *(f"published: {k}" for k in PUBLISHED),
    )
    return Table("As published: paper's ω and δ, SVM heads; accuracy, mean ± std over pairs and seeds", columns, rows)


def with_choice(found: Mapping[str, Found], choices: Mapping[str, Choice]) -> Table:
    """Lay out what a head reads that is chosen together with ω and δ."""
    methods = (RELATIVE, DIRECT, PAPER, CHOSEN, OURS)
    rows: list[list[Cell]] = []
    for name, one in found.items():
        scores = [cell(one, method) for method in methods]
        controls = [spread(one[OURS, control]) for control in CONTROLS]
        chosen = f"{choices[name].omega}, {choices[name].delta}"
        rows.append([TASKS[name].title, chosen, spread(own(one[OURS])), *scores, *controls])
    columns = ("data", "chosen ω, δ", OWN, *methods, *(f"{OURS}: {control}" for control in CONTROLS))
    return Table("With chosen heads; accuracy, mean ± std over pairs and seeds", columns, rows)


def cell(found: Found, method: str) -> Cell:
    """Return the mean and deviation over pairs, where there are any."""
    values = apart(found[method])
    return spread(values) if len(values) else MISSING


def means(found: Found) -> dict[str, float | None]:
    """Return what is drawn: the mean of each method over pairs, None where no pair can be stitched."""
    by_method = {method: apart(found[method]) for method in (ABSOLUTE, UNTUNED, PAPER, CHOSEN, OURS)}
    return {OWN: float(own(found[OURS]).mean())} | {
        method: float(values.mean()) if len(values) else None for method, values in by_method.items()
    }


def draw(result: Result) -> Figure:
    """Draw the mean of each way per data set, as points on a line."""
    figure, axes = panels(size=(6.4, 3.4))
    ways = (OWN, ABSOLUTE, UNTUNED, PAPER, CHOSEN, OURS)
    for way, color, marker in zip(ways, (6, 5, 4, 1, 0, 2), "|x^osD", strict=True):
        x = [np.nan if found[way] is None else found[way] for found in result.series.values()]
        axes[0, 0].scatter(x, range(len(x)), color=COLORS[color], marker=marker, s=50, label=way, zorder=3)
    for row, found in enumerate(result.series.values()):
        axes[0, 0].hlines(row, 0, found[OWN], color="#dddddd", linewidth=1, zorder=1)
    axes[0, 0].set_yticks(range(len(result.series)), result.series)
    axes[0, 0].invert_yaxis()
    axes[0, 0].set_xlim(0, 1)
    axes[0, 0].set_xlabel("accuracy")
    axes[0, 0].set_title("Heads on encoders they were not trained on")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure
