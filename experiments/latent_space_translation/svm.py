"""SVM heads stitched to other encoders: the classification tables of Maiorca et al., NeurIPS 2023.

scikit-learn's SVC with its defaults reads every other encoder, translated by an affine map or by orthogonal Procrustes
(SVD), both after standard scaling, and as relative representations on the same anchors. The affine map is fitted in
closed form and, as in the paper's code, by 300 steps of Adam. Two more scalings of SVD were tried. Controls of SVD and
of ours: anchors that are paired at random, and a layer with random weights in place of an encoder.

    python -m experiments lst-svm
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from experiments.data.source import BySource, on_hub
from experiments.data.tasks import STAND_INS, TASKS
from experiments.figures import COLORS, panels
from experiments.latent_space_translation.pairs import (
    ABSOLUTE,
    ANCHORS,
    NOTE,
    OURS,
    OWN,
    Scores,
    cell,
    chosen,
    control_findings,
    control_table,
    mean,
    of,
    pair_table,
    series,
    stitched,
    tasks_of,
)
from experiments.published import MISSING, published
from experiments.results import Finding, Result, Setting, Table
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Each task, and the data set of the paper that it is or stands for; then those that nothing stands for.
NAMES = BySource(
    packages={
        "cifar10": "cifar10",
        "cifar photos": "cifar10",
        "fashion": "fashion",
        "trec": "trec",
        "newsgroups": "ag news",
        "reviews": "imdb",
    },
    hub={f"{name}, all encoders": name for name in ("cifar10", "trec", "ag news", "dbpedia", "imdb")},
)
LACKING = BySource(packages=("dbpedia",), hub=())
# The task one of whose spaces is principal axes, for which pairs are shown one by one.
PRINCIPAL, AXES = BySource(packages=("fashion",), hub=()), "principal axes"
BY_ADAM, UNIT, ONE_SCALE = "affine, 300 steps of Adam", "SVD, unit norms", "SVD, one scale"


class AffineByAdam(BaseEstimator):
    """An affine map between standardized spaces, trained by full-batch Adam from random weights."""

    def __init__(self, steps: int = 300, rate: float = 1e-3, seed: int = 0) -> None:
        self.steps, self.rate, self.seed = steps, rate, seed

    def fit(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Run Adam on the mean squared error of all pairs."""
        self.source_, self.target_ = StandardScaler().fit(x), StandardScaler().fit(y)
        given = (torch.from_numpy(part).float() for part in (self.source_.transform(x), self.target_.transform(y)))
        (source, target), loss = given, nn.MSELoss()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.map_ = nn.Linear(source.shape[1], target.shape[1])
        optimizer = torch.optim.Adam(self.map_.parameters(), lr=self.rate)
        for _ in range(self.steps):
            optimizer.zero_grad()
            loss(self.map_(source), target).backward()
            optimizer.step()
        return self

    @torch.no_grad()
    def transform(self, x: np.ndarray) -> np.ndarray:
        """Translate."""
        moved = self.map_(torch.from_numpy(self.source_.transform(x)).float())
        return np.asarray(self.target_.inverse_transform(moved.numpy()))


METHODS = {
    ABSOLUTE: None,
    "relative": rl.RelativeProjection(normalize="none"),
    "affine": rl.Translator(map="affine", normalize="standard"),
    BY_ADAM: AffineByAdam(),
    "SVD": rl.Translator(map="orthogonal", normalize="standard"),
    UNIT: rl.Translator(map="orthogonal", normalize="l2"),
    ONE_SCALE: rl.Translator(map="orthogonal", normalize="iso"),
    OURS: rl.Translator("stitching", max_cost="affine"),
}
COLUMNS = (OWN, *METHODS)
PUBLISHED = (OWN, ABSOLUTE, "relative", "affine", "SVD")
CONTROLLED = ("SVD", OURS)


def run(setting: Setting) -> Result:
    """Stitch every pair of every task, over seeds."""
    seeds, encoders, max_rows = setting.pick(quick=(5, 3, 1_000), full=(5, None, 2_000))
    scores = {}
    for name in chosen(NAMES, setting):
        tasks = tasks_of(name, seeds, max_rows, encoders)
        scores[name] = stitched(tasks, fit_svm, METHODS, CONTROLLED)
    pairs = {name: scores[name] for name in PRINCIPAL}
    return Result(
        [
            table(scores),
            control_table(scores, CONTROLLED),
            *([pair_table(pairs, list(METHODS)[2:])] if pairs else []),
        ],
        [*findings(scores), *control_findings(scores, CONTROLLED)],
        seeds=seeds,
        data=[
            f"{ANCHORS:,} anchors, or all training rows where there are fewer; at most {max_rows:,} rows to train and "
            f"to test, and {encoders or 'all'} encoders"
        ],
        notes=[] if on_hub() else [note(scores), NOTE],
        stand_ins={TASKS[name].title: STAND_INS[name] for name in scores},
        series=series(scores),
    )


def fit_svm(x: np.ndarray, labels: np.ndarray) -> Any:
    """Train the head of the paper."""
    return SVC().fit(x, labels)


def table(scores: Mapping[str, Scores]) -> Table:
    """Lay out ours beside the published figures, those of lacking data sets too."""
    rows = []
    for name in (*scores, *LACKING):
        data = NAMES[name] if name in scores else name
        theirs = [str(published("lst-svm", data, key)) for key in ("on", *PUBLISHED)]
        ours = [cell(of(scores[name], c)) for c in COLUMNS] if name in scores else [MISSING] * len(COLUMNS)
        rows.append([TASKS[name].title if name in scores else theirs[0], *ours, *theirs])
    head = ("data", *COLUMNS, "published on", *(f"published: {key}" for key in PUBLISHED))
    return Table("SVM heads, accuracy, mean ± std over pairs and seeds", head, rows)


def findings(scores: Mapping[str, Scores]) -> list[Finding]:
    """Judge what translation recovers."""
    means = {n: {m: mean(found, m) for m in COLUMNS} for n, found in scores.items()}
    gaps = {n: abs(m["SVD"] - m["affine"]) for n, m in means.items()}
    return [
        Finding(
            "translated heads come close to their own encoder",
            all(m["SVD"] > 0.75 * m[OWN] for m in means.values()),
            "; ".join(f"{TASKS[n].title} SVD {m['SVD']:.2f}, own {m[OWN]:.2f}" for n, m in means.items()),
        ),
        Finding(
            "an orthogonal map is as good as an affine one, within .05",
            max(gaps.values()) <= 0.05,
            "; ".join(f"{TASKS[n].title} SVD {m['SVD']:.2f}, affine {m['affine']:.2f}" for n, m in means.items()),
        ),
        Finding(
            "an affine map in closed form is at least as good as one by 300 steps of Adam, within .01 (ours)",
            all(m["affine"] >= m[BY_ADAM] - 0.01 for m in means.values()),
            "; ".join(
                f"{TASKS[n].title} {m['affine']:.2f} in closed form, {m[BY_ADAM]:.2f} by Adam" for n, m in means.items()
            ),
        ),
        Finding(
            "on pictures of CIFAR-10 an orthogonal map keeps more than relative representations",
            all(m["SVD"] > m["relative"] for n, m in means.items() if NAMES[n] == "cifar10"),
            "; ".join(
                f"{TASKS[n].title} SVD {m['SVD']:.2f}, relative {m['relative']:.2f} (paper "
                f"{published('lst-svm', NAMES[n], 'SVD')}, {published('lst-svm', NAMES[n], 'relative')})"
                for n, m in means.items()
                if NAMES[n] == "cifar10"
            ),
        ),
    ]


def note(scores: Mapping[str, Scores]) -> str:
    """Return on which pairs SVD falls short, and what other scalings change."""
    (name,) = PRINCIPAL
    by = {"between networks": (False, False), f"from {AXES}": (True, False), f"into {AXES}": (False, True)}
    told = (f"{where} {', '.join(along(scores[name], m, *ends) for m in TRIED)}" for where, ends in by.items())
    gain = {n: mean(found, OURS) - mean(found, "SVD") for n, found in scores.items()}
    most = max(gain, key=lambda n: gain[n])
    return (
        f"SVD falls short on the pairs of {TASKS[name].title} with {AXES}: {'; '.join(told)}. Standard scaling gives "
        "the weakest axes the weight of the strongest, which an orthogonal map cannot undo and an affine one can; one "
        "scale for all coordinates leaves the weights as they are. "
        f"Our default gains most over SVD on {TASKS[most].title} ({gain[most]:+.2f})."
    )


TRIED = ("affine", "SVD", UNIT, ONE_SCALE)


def along(found: Scores, method: str, from_axes: bool, into_axes: bool) -> str:
    """Return the mean of a method over the pairs that lead from principal axes or not, into them or not."""
    ends = (from_axes, into_axes)
    values = [v for (m, x, y), vs in found.items() if m == method and (x == AXES, y == AXES) == ends for v in vs]
    return f"{method} {np.mean(values):.2f}"


def draw(result: Result) -> Figure:
    """Draw the mean of each way per data set."""
    figure, axes = panels(size=(6.4, 3.2))
    shown = {
        OWN: (6, "|"),
        ABSOLUTE: (5, "x"),
        "relative": (4, "v"),
        "affine": (3, "^"),
        "SVD": (0, "s"),
        OURS: (2, "D"),
    }
    for column, (color, marker) in shown.items():
        means = [np.mean(found.get(column) or np.nan) for found in result.series.values()]
        axes[0, 0].scatter(means, range(len(means)), color=COLORS[color], marker=marker, s=50, label=column, zorder=3)
    axes[0, 0].set_yticks(range(len(result.series)), result.series)
    axes[0, 0].invert_yaxis()
    axes[0, 0].set_xlim(0, 1)
    axes[0, 0].set_xlabel("accuracy")
    axes[0, 0].set_title("SVM heads on other encoders")
    axes[0, 0].grid(axis="y", color="#eeeeee")
    figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return figure
