"""What the tables with MLP heads and with SVM heads share: every pair of every task, and its controls."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from experiments.data.tasks import TASKS, Task, load_task
from experiments.published import MISSING
from experiments.results import Cell, Finding, Setting, Table, spread
from sklearn.base import clone

import relatent as rl

ANCHORS = 1_000
OWN, ABSOLUTE, OURS, GUESS = "own", "absolute", "stitching (ours)", "guessing"
CONTROLS = ("shuffled pairs", "random encoder")
# Wide spaces that take minutes to encode and to translate: in full size only, and with fewer seeds.
LARGE, FEWER_SEEDS = ("cifar photos",), 2
NOTE = (
    "The random encoder is a layer with random weights over counted words or small pixels, and its map is fitted on "
    "true pairs: it shows what these give without training. Shuffled pairs leave a trained encoder and nothing to fit."
)

# Accuracies over seeds by method, encoder and head, of one task.
Scores = Mapping[tuple[str, str, str], list[float]]
Fit = Callable[[np.ndarray, np.ndarray], Any]


def stitched(tasks: Iterable[Task], fit: Fit, methods: Mapping[str, Any], controlled: Sequence[str]) -> Scores:
    """Return the accuracies of heads on their own encoder, of every pair by every method, and controls of some."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    others = {name: one for name, one in methods.items() if name not in controlled}
    for seed, task in enumerate(tasks):
        rows = {"anchors": task.anchors(ANCHORS), "train": task.fit, "test": task.test, "seed": seed, "progress": False}
        checked = {"methods": {name: methods[name] for name in controlled}, "controls": True, "samples": task.inputs}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # raw cosines of an off-center space: the paper's
            heads = fitted_heads(task, fit, methods)
            first = rl.stitching_matrix(task.spaces, heads, task.labels, methods=others, **rows)
            second = rl.stitching_matrix(task.spaces, heads, task.labels, **checked, **rows)
        own = {(OWN, name, name): first.own(name) for name in task.spaces}
        pairs = {(p.method, p.encoder, p.decoder): p.value for p in (*first, *second) if p.encoder != p.decoder}
        wrong = {(control_of(c.method, c.control), c.encoder or "", c.decoder): c.value for c in second.controls}
        for key, value in (own | pairs | wrong).items():
            if value is not None:
                found[key].append(value)
    return found


def control_of(method: str | None, control: str) -> str:
    """Name the scores of a control of one method; what is guessed belongs to none."""
    return GUESS if method is None else f"{method}, {control}"


def fitted_heads(task: Task, fit: Fit, methods: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the heads of each space: on its vectors, and on what each projection among the methods makes of them."""
    anchors, heads = task.anchors(ANCHORS), {}
    projections = {name: one for name, one in methods.items() if isinstance(one, rl.RelativeProjection)}
    for name, x in task.spaces.items():
        kinds = {"absolute": x} | {kind: clone(one).fit(x[anchors]).transform(x) for kind, one in projections.items()}
        heads[name] = {kind: fit(vectors[task.fit], task.labels[task.fit]) for kind, vectors in kinds.items()}
    return heads


def of(found: Scores, method: str) -> list[float]:
    """Return all accuracies of one method."""
    return [value for (name, _, _), values in found.items() if name == method for value in values]


def mean(found: Scores, method: str) -> float:
    """Return the mean accuracy of one method; NaN where it is not available."""
    return float(np.mean(of(found, method) or np.nan))


def cell(values: list[float]) -> Cell:
    """Return the mean with its deviation, or that there is nothing to average."""
    return spread(values) if values else MISSING


def series(scores: Mapping[str, Scores]) -> dict[str, dict[str, list[float]]]:
    """Return all accuracies by data set and method."""
    return {
        TASKS[name].title: {method: of(found, method) for method in dict.fromkeys(key[0] for key in found)}
        for name, found in scores.items()
    }


def control_table(scores: Mapping[str, Scores], methods: Sequence[str]) -> Table:
    """Return what heads reach without true pairs, without a trained encoder, and without reading anything."""
    columns = [one for m in methods for one in (m, *(control_of(m, control) for control in CONTROLS))]
    rows = [[TASKS[n].title, *(cell(of(found, c)) for c in (GUESS, *columns))] for n, found in scores.items()]
    return Table("Controls: accuracy of the same heads", ("data", GUESS, *columns), rows)


def pair_table(scores: Mapping[str, Scores], methods: Sequence[str]) -> Table:
    """Return each pair of encoder and head."""
    rows = [
        [TASKS[name].title, encoder, head, *(cell(found.get((m, encoder, head), [])) for m in methods)]
        for name, found in scores.items()
        for encoder, head in dict.fromkeys(key[1:] for key in found if key[0] in methods)
    ]
    return Table("Pairs of some data sets", ("data", "encoder", "head of", *methods), rows)


def control_findings(scores: Mapping[str, Scores], methods: Sequence[str]) -> Iterator[Finding]:
    """Judge whether the controls keep less than half of what a method gains over guessing."""
    for control in CONTROLS:
        kept = {
            m: {n: gained(found, control_of(m, control)) / (gained(found, m) or np.nan) for n, found in scores.items()}
            for m in methods
        }
        yield Finding(
            f"{control} (control): of what stitching gains over guessing, less than half is left",
            all(share < 0.5 for shares in kept.values() for share in shares.values()),
            "; ".join(
                f"{m}: " + ", ".join(f"{TASKS[n].title} {share:.0%}" for n, share in shares.items())
                for m, shares in kept.items()
            ),
        )


def gained(found: Scores, method: str) -> float:
    """Return how much more accurate a method is than always giving the most frequent answer."""
    return mean(found, method) - mean(found, GUESS)


def tasks_of(name: str, seeds: int, max_rows: int | None, encoders: int | None) -> Iterator[Task]:
    """Yield a task as each seed draws it."""
    for seed in range(min(seeds, FEWER_SEEDS) if name in LARGE else seeds):
        yield load_task(name, seed, max_rows, encoders)


def chosen(names: Iterable[str], setting: Setting) -> list[str]:
    """Return the tasks of this size."""
    return [name for name in names if name not in LARGE or setting.size == "full"]
