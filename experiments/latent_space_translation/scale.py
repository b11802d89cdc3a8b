"""Does a classifier care how long its input is? Figure 5 of Maiorca et al., NeurIPS 2023 (supplement 1.1).

Rescale injection: every encoding is given the length α, and a trained MLP reads it. As in the paper the MLPs have two
hidden layers and no normalisation, with cos, tanh or ReLU between them, and the injection is at their input; α is
shown in units of the mean length of the training encodings. The paper has CLIP encodings of CIFAR-100; here are pixels
of digits (no data file needed), EfficientNet encodings of emoji and ResNet-20 encodings of CIFAR-10. It shows curves
without figures: ReLU and tanh flat at positive α, cos good only at the mean length, at its opposite, and at
further returns of its period.

    python -m experiments.latent_space_translation.scale [--seeds 5] [--sets digits] [--quick]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiments.data.files import locate
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from torch import nn

import relatent as rl

WIDTH, EPOCHS, BATCH = 128, 40, 64
REACH = 4.0
RATIOS = [round(r, 2) for r in np.arange(-REACH, REACH + 0.01, 0.1) if abs(r) > 0.01]
SHOWN = (-2.0, -1.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
SPAN = (0.5, REACH)
"""The lengths, in mean lengths, over which a scale-invariant classifier should not change."""
FLAT, WIDE = 0.05, 0.3
PAPER = {"ReLU": "flat", "tanh": "flat", "cos": "oscillating"}
COLOURS = {"cos": "#1c7ed6", "ReLU": "#f08c00", "tanh": "#2f9e44"}
# ReLU and tanh lie on each other: the lower one is drawn broader.
BREADTHS = {"cos": 1.8, "ReLU": 4.5, "tanh": 1.6}


class Cos(nn.Module):
    """The cosine as an activation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give cos(x)."""
        return torch.cos(x)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"ReLU": nn.ReLU, "tanh": nn.Tanh, "cos": Cos}
SETS = {
    "digits": ("Digits, pixels", None, None),
    "emoji": ("Emoji, EfficientNet encodings", "emoji_1906_image_text_embeddings.npz", "google"),
    "cifar10": ("CIFAR-10, ResNet-20 encodings", "cifar10_test_resnet20_resnet32_features.npz", "resnet20"),
}


def main() -> None:
    """Train, inject, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data files (default: $RELATENT_DATA, else data/)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--quick", action="store_true", help="digits with two seeds")
    parser.add_argument("--out", type=Path, default=Path("out/scale.json"))
    parser.add_argument("--picture", type=Path, default=Path("out/scale.png"))
    args = parser.parse_args()
    names, seeds = (["digits"], 2) if args.quick else (args.sets, args.seeds)
    console = Console(width=150)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        x, y = read(name, args.data)
        curves = results[name] = {activation: [] for activation in ACTIVATIONS}
        jobs = [(activation, seed) for activation in ACTIVATIONS for seed in range(seeds)]
        for activation, seed in track(jobs, SETS[name][0], transient=True):
            curve = run(x, y, activation, seed)
            curves[activation].append({"unchanged": curve.unchanged, "accuracies": curve.accuracies})
            args.out.write_text(json.dumps({"ratios": RATIOS, "curves": results}))
        show(name, curves, console)
    draw(args.picture, results)
    console.print(f"{args.picture} shows it, {args.out} holds it.")


def read(name: str, folder: str | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Load encodings and their classes."""
    _, file, space = SETS[name]
    if file is None:
        x, labels = load_digits(return_X_y=True)
        x = x / 16
    else:
        with np.load(locate(file, folder), allow_pickle=False) as data:
            x, labels = data[space], data["y"]
    classes = np.unique(labels, return_inverse=True)[1]
    return torch.tensor(x, dtype=torch.float32), torch.tensor(classes, dtype=torch.int64)


def run(x: torch.Tensor, y: torch.Tensor, activation: str, seed: int) -> rl.evaluate.ScaleCurve:
    """Train on one half, and measure accuracy on the other as a function of the length at the input."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(x)))
    known, unseen = order[: len(x) // 2], order[len(x) // 2 :]
    model = train(x[known], y[known], int(y.max()) + 1, ACTIVATIONS[activation], seed)
    alphas = [ratio * float(x[known].norm(dim=1).mean()) for ratio in RATIOS]
    with torch.no_grad():
        return rl.evaluate.scale_curve(model, x[unseen], y[unseen], alphas)


def train(x: torch.Tensor, y: torch.Tensor, classes: int, activation: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Train an MLP of two hidden layers, without any normalisation."""
    torch.manual_seed(seed)
    layers = [nn.Linear(x.shape[1], WIDTH), activation(), nn.Linear(WIDTH, WIDTH), activation()]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model.eval()


def show(name: str, curves: dict[str, list[dict[str, Any]]], console: Console) -> None:
    """Print accuracies at some lengths, and one verdict per activation."""
    seeds = len(next(iter(curves.values())))
    table = Table(title=f"{SETS[name][0]}: accuracy at length α, in mean lengths, mean ± std over {seeds} seeds")
    for column in ("activation", "unchanged", *(f"α = {ratio:g}" for ratio in SHOWN)):
        table.add_column(column, justify="left" if column == "activation" else "right")
    for activation, runs in curves.items():
        accuracies = np.asarray([r["accuracies"] for r in runs])
        columns = [np.asarray([r["unchanged"] for r in runs])] + [accuracies[:, RATIOS.index(r)] for r in SHOWN]
        table.add_row(activation, *(f"{c.mean():.2f} ± {c.std():.2f}" for c in columns))
    console.print(table)
    for activation, runs in curves.items():
        found, words = verdict(np.mean([r["accuracies"] for r in runs], axis=0))
        met = "as the paper" if found == PAPER[activation] else f"NOT as the paper ({PAPER[activation]})"
        console.print(f"  {activation}: {found}, {met}; {words}")


def verdict(accuracy: np.ndarray) -> tuple[str, str]:
    """Judge a curve by its spread over the lengths that should not matter, and by how often it rises again."""
    inside = [a for ratio, a in zip(RATIOS, accuracy, strict=True) if SPAN[0] <= ratio <= SPAN[1]]
    spread = max(inside) - min(inside)
    high = accuracy > (max(accuracy) + min(accuracy)) / 2
    peaks = int(np.sum(np.diff(np.concatenate([[False], high]).astype(int)) == 1))
    kind = "flat" if spread < FLAT else "oscillating" if spread > WIDE and peaks > 1 else "neither"
    words = (
        f"spread {spread:.3f} over α of {SPAN[0]:g} to {SPAN[1]:g} mean lengths; "
        f"{peaks} peak{'s' if peaks > 1 else ''} above half of its range from {-REACH:g} to {REACH:g}"
    )
    return kind, words


def draw(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """Draw accuracy against α, one panel per set, in the colours of the paper."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.4 + 3.9 * len(results), 3.9), dpi=130, layout="constrained")
    figure.suptitle("Rescale injection: monotone activations do not care about length", fontsize=13, fontweight="bold")
    panels = figure.subplots(1, len(results), squeeze=False, sharey=True)[0]
    for axes, (name, curves) in zip(panels, results.items(), strict=True):
        for activation, runs in curves.items():
            accuracies = np.asarray([r["accuracies"] for r in runs])
            mean, std = accuracies.mean(axis=0), accuracies.std(axis=0)
            axes.plot(RATIOS, mean, color=COLOURS[activation], label=activation, linewidth=BREADTHS[activation])
            axes.fill_between(RATIOS, mean - std, mean + std, color=COLOURS[activation], alpha=0.15, linewidth=0)
        axes.axvline(1, color="#e03131", linewidth=1, label="mean length")
        axes.axvline(0, color="#ced4da", linewidth=0.8, zorder=0)
        axes.set_title(SETS[name][0], fontsize=11)
        axes.set_xlabel("α, in mean lengths")
        axes.set_xlim(-REACH, REACH)
        axes.set_ylim(0, 1)
        axes.grid(axis="y", color="#e9ecef")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    main()
