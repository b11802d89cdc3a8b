"""Does a classifier care for the norm of its input? Figures 4 and 5 of Maiorca et al., NeurIPS 2023 (supplement 1.1).

Rescale injection: every vector is scaled to the norm α, and what follows reads it. Figure 5 injects at the input of
MLPs of two hidden layers without any normalization, with cos, tanh or ReLU between them. Figure 4 injects at each layer
of a transformer. Norms are given in mean norms of the place of injection. The paper shows curves without figures: ReLU
and tanh flat at positive α, cos good only at the mean norm, at its opposite, and where its period returns.

    python -m experiments lst-figure4
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data import texts
from experiments.data.source import BySource, on_hub
from experiments.data.tasks import STAND_INS, TASKS, load_task
from experiments.figures import COLORS, panels
from experiments.inverse_relative_projection import layers
from experiments.published import published
from experiments.results import Finding, Result, Setting, Table, spread
from torch import nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, EPOCHS, BATCH = 128, 30, 64
REACH = 4.0
RATIOS = [round(float(r), 2) for r in np.arange(-REACH, REACH + 0.01, 0.1) if abs(r) > 0.01]
SHOWN = (-1.0, 0.5, 1.0, 1.5, 2.0, 4.0)
# The norms, in mean norms, over which a scale-invariant classifier should not change.
SPAN = (0.5, REACH)
FLAT, WIDE = 0.05, 0.3
NAMES = BySource(packages={"emoji": "google", "cifar10": "resnet8"}, hub={"cifar100 coarse": "CLIP"})


CORPUS = BySource(packages="disaster tweets", hub="TREC")


class Cos(nn.Module):
    """The cosine as an activation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return cos(x)."""
        return torch.cos(x)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"ReLU": nn.ReLU, "tanh": nn.Tanh, "cos": Cos}
# ReLU and tanh lie on each other: the lower one is drawn broader.
BREADTHS = {"ReLU": 4.5, "tanh": 1.6, "cos": 1.6}

# Of one activation: accuracy by seed and α, and without injection.
Curve = dict[str, list[Any]]


def run(setting: Setting) -> Result:
    """Inject at the input of MLPs, then at the layers of a transformer."""
    seeds, max_rows = setting.pick(quick=(5, 1_200), full=(5, 5_000))
    curves = {}
    for name, space in NAMES.items():
        task = load_task(name)
        rows = np.concatenate([task.fit, task.choice, task.test])[:max_rows]
        x = task.spaces[space]
        curves[TASKS[name].title] = activation_curves(x[rows], task.labels[rows], seeds)
    corpus = texts.trec()[0] if on_hub() else texts.tweets()
    assert corpus.labels is not None
    depth = layers.layer_curves(corpus.texts, corpus.labels, *setting.pick(quick=(600, 150), full=(3_000, 500)))
    tables = [activation_table(curves), layers.layer_table(CORPUS.value, depth)]
    return Result(
        tables,
        [activation_finding(curves, "lst-figure4"), layers.layer_finding(depth)],
        seeds=seeds,
        data=["figure 5: emoji pictures and CIFAR-10; figure 4: tweets through all-MiniLM-L6-v2"],
        stand_ins={
            "figure 5: CLIP encodings of CIFAR-100": "; ".join(STAND_INS[name] for name in NAMES),
            "figure 4: RoBERTa, 12 layers": "all-MiniLM-L6-v2, 6 layers; irp-layers has it on TREC",
        },
        series={"activations": curves, "layers": depth},
    )


def activation_curves(x: np.ndarray, labels: np.ndarray, seeds: int) -> dict[str, Curve]:
    """Return the accuracy of MLPs of each activation as a function of the norm at their input."""
    given = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(labels, dtype=torch.int64)
    found: dict[str, Curve] = {name: {"unchanged": [], "accuracies": []} for name in ACTIVATIONS}
    for name, activation in ACTIVATIONS.items():
        for seed in range(seeds):
            curve = one_curve(*given, activation, seed)
            found[name]["unchanged"].append(curve.unchanged)
            found[name]["accuracies"].append(curve.accuracies)
    return found


def one_curve(x: torch.Tensor, y: torch.Tensor, activation: Callable[[], nn.Module], seed: int) -> Any:
    """Train on one half, and measure accuracy on the other."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(x)))
    known, unseen = order[: len(x) // 2], order[len(x) // 2 :]
    model = train(x[known], y[known], activation, seed)
    alphas = [ratio * float(x[known].norm(dim=1).mean()) for ratio in RATIOS]
    with torch.no_grad():
        return rl.evaluate.scale_curve(model, x[unseen], y[unseen], alphas)


def train(x: torch.Tensor, y: torch.Tensor, activation: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Train an MLP of two hidden layers, without any normalization."""
    torch.manual_seed(seed)
    hidden = [nn.Linear(x.shape[1], WIDTH), activation(), nn.Linear(WIDTH, WIDTH), activation()]
    model = nn.Sequential(*hidden, nn.Linear(WIDTH, int(y.max()) + 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model.eval()


def activation_table(curves: Mapping[str, dict[str, Curve]]) -> Table:
    """Return accuracies at some norms."""
    rows = []
    for title, by_activation in curves.items():
        for name, curve in by_activation.items():
            columns = np.asarray(curve["accuracies"])[:, [RATIOS.index(ratio) for ratio in SHOWN]].T
            rows.append([title, name, spread(curve["unchanged"]), *map(spread, columns), kind(curve)[0]])
    head = ("data", "activation", "unchanged", *(f"α = {ratio:g}" for ratio in SHOWN), "curve")
    return Table("Accuracy with every input scaled to α mean norms", head, rows)


def kind(curve: Curve) -> tuple[str, float]:
    """Return what a curve looks like, and its spread over the norms that should not matter."""
    accuracy = np.mean(curve["accuracies"], axis=0)
    inside = [a for ratio, a in zip(RATIOS, accuracy, strict=True) if SPAN[0] <= ratio <= SPAN[1]]
    across = float(max(inside) - min(inside))
    high = accuracy > (max(accuracy) + min(accuracy)) / 2
    peaks = int(np.sum(np.diff(np.concatenate([[False], high]).astype(int)) == 1))
    return "flat" if across < FLAT else "oscillating" if across > WIDE and peaks > 1 else "neither", across


def activation_finding(curves: Mapping[str, dict[str, Curve]], item: str) -> Finding:
    """Judge the kinds of curves."""
    found = [(name, *kind(curve)) for by_activation in curves.values() for name, curve in by_activation.items()]
    words = (f"{name} {what}, spread {across:.3f}" for name, what, across in found)
    return Finding(
        "monotone activations do not care for the norm, cos oscillates with it",
        all(what == published(item, name) for name, what, _ in found),
        f"From α = {SPAN[0]:g} to {SPAN[1]:g} mean norms: {'; '.join(words)}.",
    )


def draw_activations(axes: Axes, curves: dict[str, Curve], title: str) -> None:
    """Draw accuracy against α, one line per activation."""
    for (name, curve), color in zip(curves.items(), (COLORS[4], COLORS[2], COLORS[0]), strict=True):
        accuracies = np.asarray(curve["accuracies"])
        mean, std = accuracies.mean(axis=0), accuracies.std(axis=0)
        axes.plot(RATIOS, mean, color=color, label=name, linewidth=BREADTHS[name])
        axes.fill_between(RATIOS, mean - std, mean + std, color=color, alpha=0.2, linewidth=0)
    axes.axvline(1, color=COLORS[1], linewidth=1, linestyle="--", label="mean norm")
    axes.set_title(title)
    axes.set_xlabel("α, in mean norms")
    axes.set_ylim(0, 1)
    axes.set_ylabel("accuracy")


def draw(result: Result) -> Figure:
    """Draw figure 5's panels, then figure 4's."""
    figure, axes = panels(1, len(result.series["activations"]) + 1, size=(3.3, 3.0))
    for panel, (title, curves) in zip(axes[0], result.series["activations"].items(), strict=False):
        draw_activations(panel, curves, f"{title}: MLPs")
    marks = axes[0, 0].get_legend_handles_labels()
    figure.legend(*marks, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    layers.draw_layers(
        axes[0, -1],
        result.series["layers"],
        BySource(packages="tweets: layers of MiniLM", hub="TREC: layers of RoBERTa").value,
    )
    return figure
