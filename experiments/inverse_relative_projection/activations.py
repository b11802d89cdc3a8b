"""Activations and scale: MLPs whose input is rescaled (Maiorca et al., 2024), on the digits of scikit-learn.

The paper has CLIP encodings of CIFAR-100; lst-figure4 has encodings of pictures. Here are bare pixels, so that nothing
but the MLPs themselves is at work.

    python -m experiments irp-activations
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from experiments.data.source import BySource, on_hub
from experiments.data.tasks import load_task
from experiments.figures import panels
from experiments.latent_space_translation.scale import (
    activation_curves,
    activation_finding,
    activation_table,
    draw_activations,
)
from experiments.results import Result, Setting
from sklearn.datasets import load_digits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = BySource(packages="Digits, 8×8 pixels", hub="CIFAR-100, CLIP")


def run(setting: Setting) -> Result:
    """Inject at the input of MLPs of every activation, over seeds."""
    x, labels = vectors()
    rows = setting.pick(quick=5_000, full=len(x), smoke=600)
    seeds = setting.pick(quick=5, full=5, smoke=1)
    curves = activation_curves(x[:rows], labels[:rows], seeds)
    return Result(
        [activation_table({str(TITLE): curves})],
        [activation_finding({str(TITLE): curves}, "irp-activations")],
        seeds=seeds,
        data=["digits of scikit-learn"],
        stand_ins={"CLIP encodings of CIFAR-100": "pixels of 1,797 digits"},
        series=curves,
    )


def vectors() -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors that are rescaled, and their classes."""
    if on_hub():
        task = load_task("cifar100 fine")
        return task.spaces["CLIP"], task.labels
    pixels, labels = load_digits(return_X_y=True)
    return pixels / 16, labels


def draw(result: Result) -> Figure:
    """Draw accuracy against α."""
    figure, axes = panels(size=(5.0, 3.2))
    draw_activations(axes[0, 0], dict(result.series), f"{TITLE}: only cos cares for the norm")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure
