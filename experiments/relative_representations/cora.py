"""Latent similarity as a performance proxy on Cora: figures 3 and 9 of Moschella et al., ICLR 2023.

Node classifiers of the grid of table 10 are trained on absolute representations. After every epoch, two numbers: the
validation accuracy, and the similarity of the latent space to that of a well trained reference, which is the mean
cosine between the relative representations of the same node (300 anchors, all nodes, no centering). Their Pearson
correlation over the epochs of a model, averaged over the models whose best validation accuracy exceeds 0.5, is 0.955
in the paper.

The grid has 5 seeds × 3 numbers of epochs × 2⁷ settings = 1,920 models. Training follows no schedule, so the models of
10 and 30 epochs are the beginnings of the one of 50: 640 trainings give them all. Each is kept in a file of its own in
the folder of models, and a second call resumes from there, in an order in which all pairs of two settings occur equally
often from the beginning. ``--full`` trains all at the paper's width of 300, which takes half a day of one core, or less
where several processes share the folder; ``--hours`` stops earlier and reports the trainings done so far. Such a record
holds their curves; once it is committed, a run on any machine resumes from it. The quick size takes layers of width 64
and the first 24 trainings.

10 % of the nodes validate and the rest train: Cora's public split has only 140 training nodes, fewer than anchors. The
reference is taken at its best epoch. Many models fail by design: SGD hardly moves in 50 steps, and sums over neighbors
(GIN with ReLU) overflow. Once a loss is not a number nothing can change any more, and the training is cut short.

    python -m experiments rr-figure3 [--full [--hours 2]]
"""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import combinations, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data.cache import made_once
from experiments.data.graphs import load_citations
from experiments.figures import COLORS, panels
from experiments.published import published
from experiments.relative_representations.nodes import Run, Task, accuracy, make_task, train
from experiments.results import COMMITTED, Finding, Result, Setting, Table, read_record, spread
from filelock import FileLock, Timeout
from torch import Tensor

import relatent as rl
from experiments import sources
from relatent._terminal import tracked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOOD, EPOCHS, SHOWN = 0.5, (10, 30, 50), 700
ROWS, COLUMNS = 3, 4  # of the models that are drawn over time
CURVES, STEPS, ABSENT = ("accuracy", "similarity", "centered"), 32_767, 2**16 - 1
TRAINED_BY = (
    "experiments.data.graphs",
    "experiments.models.graph",
    "experiments.relative_representations.nodes",
)
VARIANTS = {"similarity": "raw cosines, as published", "centered": "centered by the anchors (ours)"}
Record = dict[str, Any]  # of one training: its run, and per epoch its accuracy and its similarities

GRID = [
    Run(*levels)
    for levels in product(
        range(5),
        (32, 64),
        (0.1, 0.5),
        ("relu", "tanh"),
        ("relu", "tanh"),
        ("Adam", "SGD"),
        (0.01, 0.02),
        ("GCN2Conv", "GINConv"),
    )
]


def run(setting: Setting) -> Result:
    """Train the reference, then as many models as there is time for."""
    torch.set_num_threads(1)
    width, epochs, count = setting.pick(quick=(64, 150, 24), full=(300, 500, len(GRID)))
    task, folder = make_task(load_citations("cora")), setting.models / f"cora-{width}"
    space, best = reference_space(task, replace(Run(), width=width), epochs, folder)
    grid = [replace(one, width=width) for one in GRID]
    restore(folder, setting.size)
    records = complete(folder, grid, task, torch.from_numpy(space), count, setting.hours)
    every = {name: [m for record in records for m in models(record, name)] for name in VARIANTS}
    smaller = "" if len(records) == len(GRID) else f"{len(every['similarity']):,} of the 1,920 models"
    kept = {} if len(records) == count else {name_of(Run(**record["run"])): packed(record) for record in records}
    return Result(
        [table(every, best)],
        findings(every["similarity"]),
        seeds=5,
        data=["Cora: 2,708 papers, 5,278 citations, 7 classes"],
        stand_ins={"1,920 models of width 300": f"{len(every['similarity']):,} models of width {width}"},
        notes=[f"{len(records)} of the {len(GRID)} trainings of the grid, three models each."],
        series={"points": points(every["similarity"]), "over_time": over_time(records), "trainings": kept},
        smaller=smaller,
    )


def reference_space(task: Task, model: Run, epochs: int, folder: Path) -> tuple[np.ndarray, float]:
    """Train the reference, or read it again; its space and validation accuracy at its best epoch."""

    def make(path: Path) -> None:
        best, space = -1.0, np.empty(0)
        for epoch in train(*model.build(task), task, epochs):
            if (score := accuracy(epoch, task, task.validation)) > best:
                best, space = score, epoch.embedding.numpy()
        np.savez(path, space=space, accuracy=best)

    with np.load(made_once(folder / f"reference-{epochs}.npz", make)) as file:
        return file["space"], float(file["accuracy"])


def complete(
    folder: Path, grid: list[Run], task: Task, reference: Tensor, count: int, hours: float | None = None
) -> list[Record]:
    """Train those of the first runs of the grid that the folder does not hold; return the records of all it does.

    Trainings that another process is running are skipped.
    """
    chosen = list(islice(balanced(grid), count))
    end = np.inf if hours is None else time.monotonic() + 3_600 * hours
    for one in tracked(chosen, "trainings"):
        path = folder / name_of(one)
        with suppress(Timeout), FileLock(f"{path}.lock", timeout=0):
            if not path.is_file() and time.monotonic() < end:
                write(path, packed(follow(one, task, reference, max(EPOCHS))))
    done = (one for one in grid if one in chosen and (folder / name_of(one)).is_file())
    return [unpacked(one, (folder / name_of(one)).read_text()) for one in done]


def restore(folder: Path, size: str) -> None:
    """Put the trainings of a committed part into the folder, unless what they depend on has changed since."""
    record = read_record(COMMITTED, "rr-figure3", size)
    if record is None or sources.changed({name: record.sources.get(name, "") for name in TRAINED_BY}):
        return
    for name, text in record.result.series.get("trainings", {}).items():
        if not (folder / name).is_file():
            write(folder / name, text)


def name_of(one: Run) -> str:
    """Return the name under which a training is kept: its settings."""
    return "-".join(map(str, vars(one).values()))


def write(path: Path, text: str) -> None:
    """Write a file atomically."""
    tmp = path.with_name(f"{path.name}.part")
    tmp.write_text(text)
    tmp.replace(path)


def packed(record: Record) -> str:
    """Return the curves of a training as one short text, in steps of 3e-5."""
    curves = np.asarray([record[name] for name in CURVES], dtype=float)
    steps = np.where(np.isnan(curves), ABSENT, np.rint((curves + 1) * STEPS))
    return base64.b64encode(steps.astype("<u2").tobytes()).decode()


def unpacked(one: Run, text: str) -> Record:
    """Return the record of a training from the text of its curves."""
    steps = np.frombuffer(base64.b64decode(text), dtype="<u2").reshape(len(CURVES), -1)
    curves = [[None if step == ABSENT else step / STEPS - 1 for step in curve] for curve in steps.tolist()]
    return {"run": asdict(one), **dict(zip(CURVES, curves, strict=True))}


def follow(one: Run, task: Task, reference: Tensor, epochs: int) -> Record:
    """Train one model and write down its accuracy and similarities after every epoch."""
    record: Record = {"run": asdict(one), **{name: [] for name in CURVES}}
    for epoch in train(*one.build(task), task, epochs):
        record["accuracy"].append(accuracy(epoch, task, task.validation))
        for name in VARIANTS:
            record[name].append(similarity(epoch.embedding, reference, task.anchors, center=name == "centered"))
        if not np.isfinite(epoch.loss):
            break
    return record


def similarity(space: Tensor, reference: Tensor, anchors: np.ndarray, *, center: bool) -> float | None:
    """Return the relative similarity to the reference; None for a space that overflowed or collapsed to a point."""
    if not torch.isfinite(space).all() or (space == space[0]).all():
        return None
    return float(rl.evaluate.relative_similarity(space, reference, anchors, center=center))


def balanced(runs: Iterable[Run], seed: int = 0) -> Iterator[Run]:
    """Yield runs one by one, always one whose pairs of settings are the rarest so far: a beginning is balanced too."""
    pairs = {one: list(combinations(vars(one).items(), 2)) for one in runs}
    waiting = list(pairs)
    np.random.default_rng(seed).shuffle(waiting)
    seen: Counter[Any] = Counter()
    while waiting:
        rarest = min(waiting, key=lambda one: sum(seen[pair] for pair in pairs[one]))
        waiting.remove(rarest)
        seen.update(pairs[rarest])
        yield rarest


@dataclass(frozen=True)
class Model:
    """A model of the grid: its first epochs. ``correlation`` is None where it is not defined."""

    run: Run
    epochs: int
    best_accuracy: float
    similarity_at_best: float | None
    correlation: float | None


def models(record: Record, name: str = "similarity", lengths: tuple[int, ...] = EPOCHS) -> Iterator[Model]:
    """Yield the models of 10, 30 and 50 epochs that one training holds."""
    for epochs in lengths:
        scores, similar = record["accuracy"][:epochs], record[name][:epochs]
        best = int(np.argmax(scores))
        yield Model(Run(**record["run"]), epochs, scores[best], similar[best], pearson(scores, similar))


def pearson(scores: list[float], similar: list[float | None]) -> float | None:
    """Return the correlation over the epochs that have a similarity; None when one of the two never changes."""
    x, y = np.asarray([(a, b) for a, b in zip(scores, similar, strict=True) if b is not None]).reshape(-1, 2).T
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def good(found: Iterable[Model]) -> list[Model]:
    """Keep the models that the paper's mean is over."""
    return [m for m in found if m.best_accuracy > GOOD and m.correlation is not None]


def table(every: dict[str, list[Model]], reference_accuracy: float) -> Table:
    """Return the mean correlation beside the paper's, and where it comes from."""
    found = every["similarity"]
    rows = [row("all", title, every[name], published("rr-figure3", name)) for name, title in VARIANTS.items()]
    for field in ("epochs", "conv", "optimizer", "conv_activation", "layers"):
        level_of = {m: m.epochs if field == "epochs" else getattr(m.run, field) for m in found}
        for level in sorted(set(level_of.values())):
            some = [m for m in found if level_of[m] == level]
            rows.append(row(f"{level} epochs" if field == "epochs" else f"{field} {level}", "raw cosines", some))
    title = (
        f"Validation accuracy against similarity to a reference of accuracy {reference_accuracy:.3f} "
        f"(paper {published('rr-figure3', 'reference', 'accuracy')}): Pearson"
    )
    return Table(title, ("models", "similarity", f"above {GOOD}", "mean over them", "median", "published"), rows)


def row(title: str, name: str, found: list[Model], beside: Any = "") -> list[Any]:
    """Summarize the good ones among some models."""
    values = [m.correlation for m in good(found) if m.correlation is not None]
    cells = [spread(values), float(np.median(values))] if values else ["none", "none"]
    return [title, name, f"{len(values)} of {len(found)}", *cells, beside]


def findings(found: list[Model]) -> list[Finding]:
    """Check both claims of figure 3."""
    correlations = [m.correlation for m in good(found) if m.correlation is not None]
    shown = [(m.best_accuracy, m.similarity_at_best) for m in found if m.similarity_at_best is not None]
    over_time, across = float(np.mean(correlations)), float(np.corrcoef(np.asarray(shown, dtype=float).T)[0, 1])
    share = float(np.mean([m.run.conv == "GCN2Conv" and m.run.optimizer == "Adam" for m in good(found)]))
    return [
        Finding(
            "over training, similarity to a good model follows accuracy",
            over_time > 0.9,
            f"mean Pearson {over_time:.3f} over {len(correlations)} of {len(found)} models "
            f"(paper {published('rr-figure3', 'similarity')})",
            headline=True,
        ),
        Finding(
            "across models, those more similar to the reference perform better",
            across > 0.7,
            f"Pearson {across:.3f} over the {len(shown)} models that did not overflow; "
            f"{share:.0%} of those above {GOOD} are GCN2 trained by Adam",
        ),
    ]


def points(found: list[Model]) -> list[list[Any]]:
    """Return the left half: similarity, best accuracy and kind of a sample of models."""
    shown = [m for m in found if m.similarity_at_best is not None]
    rows = np.random.default_rng(0).permutation(len(shown))[:SHOWN]
    return [
        [f"{m.run.conv}, {m.run.optimizer}", m.similarity_at_best, m.best_accuracy] for m in (shown[i] for i in rows)
    ]


def over_time(records: list[Record]) -> list[dict[str, Any]]:
    """Return the right half and figure 9: good models epoch by epoch, from the weakest correlation to the strongest."""
    whole = [(m.correlation, record) for record in records for m in good(models(record)) if m.epochs == max(EPOCHS)]
    ranked = sorted(whole, key=lambda pair: pair[0])
    places = np.unique(np.linspace(0, len(ranked) - 1, ROWS * COLUMNS).round().astype(int)) if ranked else []
    return [
        {"correlation": ranked[i][0]} | {key: ranked[i][1][key] for key in ("accuracy", "similarity")} for i in places
    ]


def draw(result: Result) -> Figure:
    """Draw all models, and beside them some of the good ones over time."""
    followed, found = result.series["over_time"], result.series["points"]
    figure, axes = panels(ROWS, 3 + -(-len(followed) // ROWS), size=(1.6, 1.5))
    left, small = figure.add_subplot(axes[0, 0].get_gridspec()[:, :3]), axes[:, 3:].flat
    for panel in (*axes[:, :3].flat, *small[len(followed) :]):
        panel.remove()
    for color, kind in zip(COLORS, sorted({one[0] for one in found}), strict=False):
        x, y = zip(*(one[1:] for one in found if one[0] == kind), strict=True)
        left.scatter(x, y, s=10, alpha=0.6, label=kind, color=color)
    left.axhline(GOOD, color="gray", linewidth=0.8, linestyle=":")
    left.set(xlabel="similarity to the reference", ylabel="best validation accuracy")
    left.set_title(f"{len(found)} models: the similar ones are accurate", fontsize=9)
    left.legend(loc="lower right", fontsize=7)
    for panel, model in zip(small, followed, strict=False):
        epochs = range(1, len(model["accuracy"]) + 1)
        panel.plot(epochs, model["accuracy"], label="validation accuracy")
        panel.plot(epochs, model["similarity"], label="similarity to the reference")
        panel.set(ylim=(0, 1.02), xticks=[1, 25, 50], yticks=[0, 0.5, 1])
        panel.tick_params(labelsize=6)
        panel.set_title(f"Pearson {model['correlation']:.3f}", fontsize=7)
    figure.legend(*axes[0, 3].get_legend_handles_labels(), loc="outside lower right", ncols=2, fontsize=8)
    return figure
