"""Training with relative representations is not detrimental: Cora in table 2 of Moschella et al., ICLR 2023.

The reference network of ``cora.py`` (GCN2 layers of width 300, Adam, lr 0.02), twice from the same seed: its head reads
the embedding of a node (absolute), or its cosines to 300 anchor nodes (relative). The graph is embedded whole at every
step, so the anchors are rows of the very embedding, and no gradient flows through them. Both have the same number of
parameters. Each seed draws its own 80 / 10 / 10 % of the nodes to train, validate and test, and its own anchors.

The accuracy on the test nodes is taken at the epoch with the best validation accuracy, which is what the paper's code
reports. Training ends once that has not improved for ``--patience`` epochs; the paper always trains 500.

    python -m experiments.relative_representations.cora_training --data DIR [--seeds 5] [--quick]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from experiments.relative_representations.cora_task import Run, Task, accuracy, load, train, write_whole
from rich.console import Console
from rich.progress import track
from rich.table import Table

KINDS = ("absolute", "relative")
MARGIN = 0.02


def fit(task: Task, run: Run, kind: str, epochs: int, patience: int) -> dict:
    """Train one network; accuracies at its best epoch on validation."""
    anchors = task.anchors if kind == "relative" else None
    best = {"validation": -1.0}
    for number, epoch in enumerate(train(*run.build(task, anchors), task, epochs), 1):
        score = accuracy(epoch, task, task.validation)
        if score > best["validation"]:
            best = {"validation": score, "test": accuracy(epoch, task, task.test), "epoch": number}
        if number - best["epoch"] >= patience:
            break
    return {"seed": run.seed, "kind": kind, "layers": run.layers, **best}


def show(results: list[dict], console: Console) -> None:
    """Print both kinds, and whether they are within two points."""
    table = Table(title=f"Cora: accuracy, mean ± std over {len(results) // 2} seeds")
    for column in ("representations", "test", "best validation", "best epoch"):
        table.add_column(column, justify="left" if column == "representations" else "right")
    for kind in KINDS:
        of_kind = [r for r in results if r["kind"] == kind]
        cells = [spread([r[name] for r in of_kind]) for name in ("test", "validation")]
        table.add_row(kind, *cells, f"{np.mean([r['epoch'] for r in of_kind]):.0f}")
    console.print(table)
    absolute, relative = ([r["test"] for r in results if r["kind"] == kind] for kind in KINDS)
    loss = np.subtract(absolute, relative)
    met = "YES" if loss.mean() <= MARGIN else "NO"
    console.print(
        f"Relative costs {100 * loss.mean():.1f} ± {100 * loss.std():.1f} points of test accuracy; at most 2: {met}"
    )


def spread(values: list[float]) -> str:
    """Mean ± std."""
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"


def main() -> None:
    """Train what is missing, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of cora.npz (default: $RELATENT_DATA, else data/)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--patience", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="4 layers for 32")
    parser.add_argument("--out", type=Path, default=Path("out/cora-training.json"))
    options = parser.parse_args()
    layers = 4 if options.quick else 32
    wanted = [(seed, kind) for seed in range(options.seeds) for kind in KINDS]
    results = json.loads(options.out.read_text()) if options.out.is_file() else []
    done = {(r["seed"], r["kind"]) for r in results if r["layers"] == layers}
    for seed, kind in track([job for job in wanted if job not in done], "training"):
        task = load(options.data, seed=seed, test=0.1)
        results.append(fit(task, Run(seed=seed, layers=layers), kind, options.epochs, options.patience))
        write_whole(options.out, results)
    show([r for r in results if r["layers"] == layers and (r["seed"], r["kind"]) in wanted], Console(width=110))


if __name__ == "__main__":
    main()
