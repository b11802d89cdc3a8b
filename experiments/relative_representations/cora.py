"""Latent similarity as a performance proxy on Cora: figure 3 of Moschella et al., ICLR 2023.

Reads ``cora.npz``. Node classifiers of the grid of table 10 are trained on absolute representations. After every epoch,
two numbers: the validation accuracy, and the similarity of the latent space to that of a well trained reference, which
is the mean cosine between the relative representations of the same node (300 anchors, all nodes, no centring). Their
Pearson correlation over the epochs of a model, averaged over the models whose best validation accuracy exceeds 0.5, is
0.955 in the paper.

The grid has 5 seeds × 3 numbers of epochs × 2⁷ settings = 1,920 models. Training follows no schedule, so the models of
10 and 30 epochs are the beginnings of the one of 50: 640 trainings give them all. By default a seeded subset of 34
trainings, 102 models, in which all pairs of two settings occur equally often; ``--full`` trains all. What is done is
kept in ``--out``, and a second start goes on from there.

10 % of the nodes validate and the rest train: Cora's public split has only 140 training nodes, fewer than anchors. The
reference is taken at its best epoch. Many models fail by design: SGD hardly moves in 50 steps, and sums over neighbours
(GIN with ReLU) overflow. Once a loss is not a number nothing can change any more, and the training is cut short.

    python -m experiments.relative_representations.cora --data DIR [--runs 34 | --full] [--quick]
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import torch
from experiments.relative_representations.cora_task import Run, Task, accuracy, load, train, write_whole
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

import relatent as rl

PAPER = 0.955
GOOD = 0.5
EPOCHS, REFERENCE_EPOCHS = (10, 30, 50), 500
VARIANTS = {"similarity": "as in the paper", "centered": "centred by the anchors"}


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


def reference_space(task: Task, run: Run, epochs: int, cache: Path) -> tuple[np.ndarray, float]:
    """Train the reference, or read it again; its space and validation accuracy at its best epoch."""
    if not cache.is_file():
        best, space = -1.0, None
        for epoch in track(train(*run.build(task), task, epochs), "reference", epochs):
            if (score := accuracy(epoch, task, task.validation)) > best:
                best, space = score, epoch.embedding.numpy()
        cache.parent.mkdir(parents=True, exist_ok=True)
        beside = cache.with_suffix(".part.npz")
        np.savez(beside, space=space, accuracy=best)
        beside.replace(cache)
    with np.load(cache) as file:
        return file["space"], float(file["accuracy"])


def follow(run: Run, task: Task, reference: Tensor, epochs: int) -> dict:
    """Train one model and write down its accuracy and similarities after every epoch."""
    record: dict = {"run": asdict(run), "accuracy": []} | {name: [] for name in VARIANTS}
    for epoch in train(*run.build(task), task, epochs):
        record["accuracy"].append(accuracy(epoch, task, task.validation))
        for name in VARIANTS:
            record[name].append(similarity(epoch.embedding, reference, task.anchors, center=name == "centered"))
        if not np.isfinite(epoch.loss):
            break
    return record


def similarity(space: Tensor, reference: Tensor, anchors: np.ndarray, *, center: bool) -> float | None:
    """Relative similarity to the reference; None for a space that overflowed or collapsed to a point."""
    if not torch.isfinite(space).all() or (space == space[0]).all():
        return None
    return float(rl.evaluate.relative_similarity(space, reference, anchors, center=center))


def balanced(runs: Iterable[Run], count: int, seed: int = 0) -> list[Run]:
    """Choose runs one by one, always one whose pairs of settings are the rarest so far: a beginning is balanced too."""
    pairs = {run: list(combinations(vars(run).items(), 2)) for run in runs}
    waiting = list(pairs)
    np.random.default_rng(seed).shuffle(waiting)
    seen: Counter = Counter()
    chosen = []
    for _ in range(min(count, len(waiting))):
        rarest = min(waiting, key=lambda run: sum(seen[pair] for pair in pairs[run]))
        waiting.remove(rarest)
        seen.update(pairs[rarest])
        chosen.append(rarest)
    return chosen


@dataclass(frozen=True)
class Model:
    """A model of the grid: its first epochs. ``correlation`` is None where it is not defined."""

    run: Run
    epochs: int
    best_accuracy: float
    similarity_at_best: float | None
    correlation: float | None


def models(record: dict, name: str = "similarity", lengths: tuple[int, ...] = EPOCHS) -> Iterator[Model]:
    """Give the models of 10, 30 and 50 epochs that one training holds."""
    for epochs in lengths:
        scores, similar = record["accuracy"][:epochs], record[name][:epochs]
        best = int(np.argmax(scores))
        yield Model(Run(**record["run"]), epochs, scores[best], similar[best], pearson(scores, similar))


def pearson(scores: list[float], similar: list[float | None]) -> float | None:
    """Pearson correlation over the epochs that have a similarity; None when one of the two never changes."""
    x, y = np.asarray([(a, b) for a, b in zip(scores, similar, strict=True) if b is not None]).reshape(-1, 2).T
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def good(found: Iterable[Model]) -> list[Model]:
    """Keep the models that the paper's mean is over."""
    return [m for m in found if m.best_accuracy > GOOD and m.correlation is not None]


def show(records: list[dict], reference_accuracy: float, console: Console) -> None:
    """Print the mean correlation beside the paper's, and where it comes from."""
    table = Table(title=f"Cora: correlation of validation accuracy with similarity, models above {GOOD}")
    for column in ("models", "similarity", "counted", "Pearson, mean ± std", "median", "paper"):
        table.add_column(column, justify="left" if column in ("models", "similarity") else "right")
    every = {name: [m for record in records for m in models(record, name)] for name in VARIANTS}
    for name, found in every.items():
        add_row(table, "all", VARIANTS[name], found, f"{PAPER}")
    found = every["similarity"]
    for epochs in EPOCHS:
        add_row(table, f"{epochs} epochs", VARIANTS["similarity"], [m for m in found if m.epochs == epochs])
    for setting in ("conv", "conv_activation", "layers"):
        for level in dict.fromkeys(getattr(m.run, setting) for m in found):
            matching = [m for m in found if getattr(m.run, setting) == level]
            add_row(table, f"{setting} {level}", VARIANTS["similarity"], matching)
    console.print(table)
    shown = [m for m in found if m.similarity_at_best is not None]
    across = np.corrcoef([(m.best_accuracy, m.similarity_at_best) for m in shown], rowvar=False)[0, 1]
    console.print(
        f"Reference accuracy {reference_accuracy:.3f}. Across {len(shown)} models, best accuracy against similarity at "
        f"that epoch: Pearson {across:.3f}; {len(found) - len(shown)} models overflowed and have none."
    )


def add_row(table: Table, title: str, name: str, found: list[Model], paper: str = "") -> None:
    """Summarise the good ones among some models."""
    values = [m.correlation for m in good(found)]
    cells = (f"{np.mean(values):.3f} ± {np.std(values):.3f}", f"{np.median(values):.3f}") if values else ("–", "–")
    table.add_row(title, name, f"{len(values)} of {len(found)}", *cells, paper)


def draw(records: list[dict], path: Path) -> None:
    """Draw both halves of figure 3: all models, and the median one of the good ones over its epochs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    found = [m for record in records for m in models(record) if m.similarity_at_best is not None]
    for conv, optimizer in product(("GCN2Conv", "GINConv"), ("Adam", "SGD")):
        points = [
            (m.similarity_at_best, m.best_accuracy) for m in found if (m.run.conv, m.run.optimizer) == (conv, optimizer)
        ]
        if points:
            left.scatter(*zip(*points, strict=True), s=16, alpha=0.7, label=f"{conv}, {optimizer}")
    left.axhline(GOOD, color="grey", linewidth=0.8, linestyle=":")
    left.set(xlabel="similarity to the reference", ylabel="best validation accuracy", title=f"{len(found)} models")
    left.legend(frameon=False)
    whole = [(m, record) for record in records for m in good(models(record)) if m.epochs == max(EPOCHS)]
    if whole:
        model, record = sorted(whole, key=lambda pair: pair[0].correlation)[len(whole) // 2]
        twin = right.twinx()
        right.plot(range(1, max(EPOCHS) + 1), record["accuracy"], color="C0")
        twin.plot(range(1, max(EPOCHS) + 1), record["similarity"], color="C1")
        right.set(xlabel="epoch", title=f"the median model over time: Pearson {model.correlation:.3f}")
        right.set_ylabel("validation accuracy", color="C0")
        twin.set_ylabel("similarity to the reference", color="C1")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def complete(out: Path, runs: list[Run], task: Task, reference: Tensor, console: Console) -> list[dict]:
    """Train the runs that the file does not hold yet, writing after each, and give the records of all."""
    records = json.loads(out.read_text()) if out.is_file() else []
    done = [Run(**record["run"]) for record in records]
    missing = [run for run in runs if run not in done]
    if missing:
        minutes = estimate(missing, task)
        console.print(f"{len(missing)} of {len(runs)} trainings to do, three models each: about {minutes:.0f} min.")
    for run in track(missing, "training", console=console):
        records.append(follow(run, task, reference, max(EPOCHS)))
        write_whole(out, records)
    return [record for record in records if Run(**record["run"]) in runs]


def estimate(runs: list[Run], task: Task) -> float:
    """Minutes that the trainings take if none is cut short, from one epoch of the first of them."""
    start = time.perf_counter()
    next(train(*runs[0].build(task), task, 1))
    return (time.perf_counter() - start) / runs[0].layers * sum(run.layers for run in runs) * max(EPOCHS) / 60


def main() -> None:
    """Train what is missing, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of cora.npz (default: $RELATENT_DATA, else data/)")
    parser.add_argument("--runs", type=int, default=34, help="trainings; each gives three models")
    parser.add_argument("--full", action="store_true", help="all 640 trainings, 1,920 models")
    parser.add_argument("--quick", action="store_true", help="depth 4 and 8 for 32 and 64: minutes, not the figure")
    parser.add_argument("--seed", type=int, default=0, help="of the subset")
    parser.add_argument("--out", type=Path, help="results; the picture goes beside them (default: out/cora.json)")
    options = parser.parse_args()
    console = Console(width=130)
    shrink, epochs, name = (8, 100, "cora-quick") if options.quick else (1, REFERENCE_EPOCHS, "cora")
    out = options.out or Path("out") / f"{name}.json"
    grid = [replace(run, layers=run.layers // shrink) for run in GRID]
    runs = balanced(grid, len(grid) if options.full else options.runs, options.seed)
    task = load(options.data)
    cache = out.with_name(f"{name}-reference.npz")
    space, best = reference_space(task, replace(Run(), layers=Run.layers // shrink), epochs, cache)
    records = complete(out, runs, task, torch.from_numpy(space), console)
    show(records, best, console)
    draw(records, out.with_suffix(".png"))
    console.print(f"Picture: {out.with_suffix('.png')}")


if __name__ == "__main__":
    main()
