"""Does a classifier care for the norm of its input? Figures 4 and 5 of Maiorca et al., NeurIPS 2023 (supplement 1.1).

Rescale injection: every vector is scaled to the norm α, and what follows reads it. Figure 5 injects at the input of
MLPs of two hidden layers without any normalization, with cos, tanh or ReLU between them. Figure 4 injects at each layer
of a transformer; a residual network, which the text names beside it, is here as well. Norms are given in mean norms of
the place of injection. The paper shows curves without figures: ReLU and tanh flat at positive α, cos good only at the
mean norm, at its opposite, and where its period returns.

Equation 1: behind a linear layer, αWx + b, the norm is a temperature of the softmax. A linear head stands beside the
MLPs, and a table has the confidence, the mean probability of the answer. Another asks what carries the classes, the
angles of the vectors or their norms.

    python -m experiments lst-figure4
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data import pictures, texts
from experiments.data.source import BySource, on_hub
from experiments.data.tasks import STAND_INS, TASKS, load_task
from experiments.figures import COLORS, panels
from experiments.inverse_relative_projection import layers
from experiments.latent_space_translation.inner_scale import (
    reading_finding,
    reading_table,
    readings,
    resnet_curves,
    resnet_table,
    threshold_finding,
)
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
SHOWN = (-1.0, 0.1, 0.5, 1.0, 1.5, 2.0, 4.0)
# The norms, in mean norms, over which a scale-invariant classifier should not change.
SPAN = (0.5, REACH)
FLAT, WIDE = 0.05, 0.3
# From this α on, the periods of cos are beyond the first.
NEXT_CYCLE = 2.0
NAMES = BySource(packages={"emoji": "google", "cifar10": "resnet8"}, hub={"cifar100 fine": "CLIP"})
CORPUS = BySource(packages="disaster tweets", hub="TREC")
CORPUS_TITLE = BySource(packages="tweets: layers of MiniLM", hub="TREC: layers of RoBERTa")


class Cos(nn.Module):
    """The cosine as an activation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return cos(x)."""
        return torch.cos(x)


Activation = Callable[[], nn.Module] | None
ACTIVATIONS: dict[str, Activation] = {"ReLU": nn.ReLU, "tanh": nn.Tanh, "cos": Cos}
LINEAR = "linear head"
# ReLU and tanh lie on each other: the lower one is drawn broader.
BREADTHS = {"ReLU": 4.5, "tanh": 1.6, "cos": 1.6, LINEAR: 1.0}

# Of one activation: accuracy and confidence by seed and α, and the accuracy without injection.
Curve = dict[str, list[Any]]


def run(setting: Setting) -> Result:
    """Inject at the input of MLPs, then at the layers of a transformer."""
    seeds, max_rows = setting.pick(quick=(5, 1_200), full=(5, 5_000))
    curves, read = {}, {}
    for name, space in NAMES.items():
        task = load_task(name)
        rows = np.concatenate([task.fit, task.choice, task.test])[:max_rows]
        x = task.spaces[space]
        read[TASKS[name].title, space] = readings(x[rows], task.labels[rows], seeds)
        curves[TASKS[name].title] = activation_curves(x[rows], task.labels[rows], seeds, {**ACTIVATIONS, LINEAR: None})
    corpus = texts.trec()[0] if on_hub() else texts.tweets()
    assert corpus.labels is not None
    depth = layers.layer_curves(corpus.texts, corpus.labels, *setting.pick(quick=(600, 400), full=(3_000, 500)))
    residual = {} if on_hub() else resnet_curves(setting.pick(quick=400, full=2_000))
    tables = [activation_table(curves), confidence_table(curves), reading_table(read)]
    tables.append(layers.layer_table(CORPUS.value, depth))
    judged = [activation_finding(curves, "lst-figure4"), *cos_findings(curves), temperature_finding(curves)]
    judged.append(reading_finding(read))
    judged.append(threshold_finding("above a threshold, rescaling a layer of a transformer is negligible", depth))
    if residual:
        tables.append(resnet_table(residual))
        judged.append(threshold_finding("above a threshold, so is rescaling a layer of a residual network", residual))
    return Result(
        tables,
        judged,
        seeds=seeds,
        data=["figure 5: emoji pictures and CIFAR-10; figure 4: tweets through all-MiniLM-L6-v2"],
        stand_ins={
            "figure 5: CLIP encodings of CIFAR-100": "; ".join(STAND_INS[name] for name in NAMES),
            "figure 4: RoBERTa, 12 layers": "all-MiniLM-L6-v2, 6 layers; irp-layers has it on TREC",
            "residual networks, pre-trained": f"ResNet-14, trained here on {pictures.CIFAR_BATCH:,} photos of CIFAR-10",
        },
        series={"activations": curves, "layers": depth, "resnet": residual},
    )


def activation_curves(
    x: np.ndarray, labels: np.ndarray, seeds: int, models: Mapping[str, Activation] = ACTIVATIONS
) -> dict[str, Curve]:
    """Return the accuracy and the confidence of MLPs of each activation as a function of the norm at their input."""
    given = torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(labels, dtype=torch.int64)
    found: dict[str, Curve] = {name: {"unchanged": [], "accuracies": [], "confidences": []} for name in models}
    for name, activation in models.items():
        for seed in range(seeds):
            curve, confidences = one_curve(*given, activation, seed)
            found[name]["unchanged"].append(curve.unchanged)
            found[name]["accuracies"].append(curve.accuracies)
            found[name]["confidences"].append(confidences)
    return found


def one_curve(x: torch.Tensor, y: torch.Tensor, activation: Activation, seed: int) -> tuple[Any, list[float]]:
    """Train on one half, and measure accuracy and confidence on the other."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(x)))
    known, unseen = order[: len(x) // 2], order[len(x) // 2 :]
    model = train(x[known], y[known], activation, seed)
    alphas = [ratio * float(x[known].norm(dim=1).mean()) for ratio in RATIOS]
    with torch.no_grad():
        confidences = [confidence(model(rl.evaluate.rescale(x[unseen], alpha))) for alpha in alphas]
        return rl.evaluate.scale_curve(model, x[unseen], y[unseen], alphas), confidences


def confidence(scores: torch.Tensor) -> float:
    """Return the mean probability of the answer."""
    return float(scores.softmax(dim=1).amax(dim=1).mean())


def train(x: torch.Tensor, y: torch.Tensor, activation: Activation, seed: int) -> nn.Module:
    """Train an MLP of two hidden layers, without any normalization; without an activation, a linear head."""
    torch.manual_seed(seed)
    hidden: list[nn.Module] = []
    if activation is not None:
        hidden = [nn.Linear(x.shape[1], WIDTH), activation(), nn.Linear(WIDTH, WIDTH), activation()]
    model = nn.Sequential(*hidden, nn.Linear(WIDTH if hidden else x.shape[1], int(y.max()) + 1))
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
            columns = [spread(at(curve, ratio)) for ratio in SHOWN]
            rows.append([title, name, spread(curve["unchanged"]), *columns, kind(curve)[0]])
    head = ("data", "activation", "unchanged", *(f"α = {ratio:g}" for ratio in SHOWN), "curve")
    return Table("Accuracy with every input scaled to α mean norms", head, rows)


def confidence_table(curves: Mapping[str, dict[str, Curve]]) -> Table:
    """Return confidences at the positive norms."""
    ratios = [ratio for ratio in SHOWN if ratio > 0]
    rows = [
        [title, name, *(spread(at(curve, ratio, "confidences")) for ratio in ratios)]
        for title, by_activation in curves.items()
        for name, curve in by_activation.items()
    ]
    head = ("data", "activation", *(f"α = {ratio:g}" for ratio in ratios))
    return Table("Confidence, the mean probability of the answer, with every input scaled to α mean norms", head, rows)


def at(curve: Curve, ratio: float, measure: str = "accuracies") -> np.ndarray:
    """Return what was measured at a norm, by seed."""
    return np.asarray(curve[measure])[:, RATIOS.index(ratio)]


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
    found = [(name, *kind(by_activation[name])) for by_activation in curves.values() for name in ACTIVATIONS]
    words = (f"{name} {what}, spread {across:.3f}" for name, what, across in found)
    return Finding(
        "monotone activations do not care for the norm, cos does",
        all(what == published(item, name) for name, what, _ in found),
        f"From α = {SPAN[0]:g} to {SPAN[1]:g} mean norms: {'; '.join(words)}.",
    )


def cos_findings(curves: Mapping[str, dict[str, Curve]]) -> list[Finding]:
    """Judge where cos comes back to its accuracy: at the opposite of the mean norm, and with its period."""
    opposite, cycles = {}, {}
    far = [abs(ratio) >= NEXT_CYCLE for ratio in RATIOS]
    for title, by_activation in curves.items():
        curve, unchanged = by_activation["cos"], np.mean(by_activation["cos"]["unchanged"])
        opposite[title] = [float(one) for one in (at(curve, -1.0).mean(), at(curve, 1.0).mean(), unchanged)]
        cycles[title] = float(np.mean(curve["accuracies"], axis=0)[far].max()), float(unchanged)
    return [
        Finding(
            "cos is as good at the mean norm and at its opposite as without rescaling, within .05",
            all(min(two) >= unchanged - FLAT for *two, unchanged in opposite.values()),
            "; ".join(f"{title} {b:.2f} and {a:.2f}, unchanged {c:.2f}" for title, (a, b, c) in opposite.items()),
        ),
        Finding(
            "cos is as good again in its periodic cycles, within .05",
            all(best >= unchanged - FLAT for best, unchanged in cycles.values()),
            f"The best from ±{NEXT_CYCLE:g} to ±{REACH:g} mean norms: "
            + "; ".join(
                f"{title} {best:.2f}, unchanged {unchanged:.2f}" for title, (best, unchanged) in cycles.items()
            ),
        ),
    ]


def temperature_finding(curves: Mapping[str, dict[str, Curve]]) -> Finding:
    """Judge whether the norm sets the confidence and leaves the answers as they are."""
    inside = [i for i, ratio in enumerate(RATIOS) if SPAN[0] <= ratio <= SPAN[1]]
    held, words = [], []
    for title, by_activation in curves.items():
        for name in (name for name in by_activation if name != "cos"):
            curve = by_activation[name]
            confidence = np.mean(curve["confidences"], axis=0)[inside]
            grows = np.diff(confidence).min() > -0.01 and confidence[-1] > confidence[0] + FLAT
            held.append(bool(grows and kind(curve)[1] < FLAT))
            small = at(curve, 0.1).mean() - np.mean(curve["unchanged"])
            words.append(
                f"{title}, {name} {confidence[0]:.2f} to {confidence[-1]:.2f} (accuracy at α = .1 {small:+.2f})"
            )
    return Finding(
        "the norm of the input acts as a temperature: confidence grows with it, answers stay as right as they are",
        all(held),
        f"Confidence from α = {SPAN[0]:g} to {SPAN[1]:g}: {'; '.join(words)}.",
    )


def draw_activations(axes: Axes, curves: dict[str, Curve], title: str) -> None:
    """Draw accuracy against α, one line per activation."""
    for (name, curve), color in zip(curves.items(), (COLORS[4], COLORS[2], COLORS[0], COLORS[6]), strict=False):
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
    """Draw figure 5's panels, then the layers of figure 4, of a transformer and of a residual network."""
    by_data, depth = result.series["activations"], {CORPUS_TITLE.value: result.series["layers"]}
    if result.series["resnet"]:
        depth["CIFAR-10: layers of ResNet-14"] = result.series["resnet"]
    figure, axes = panels((len(by_data) + len(depth) + 1) // 2, 2, size=(4.2, 3.0))
    for panel, (title, curves) in zip(axes.flat, by_data.items(), strict=False):
        draw_activations(panel, curves, f"{title}: MLPs")
    marks = axes[0, 0].get_legend_handles_labels()
    figure.legend(*marks, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    for panel, (title, found) in zip(axes.flat[len(by_data) :], depth.items(), strict=True):
        layers.draw_layers(panel, found, title)
        if found is result.series["resnet"]:  # whose curves are low
            panel.legend(fontsize=7, loc="upper right", ncols=4, frameon=False)
    return figure
