"""Heads under image encoders that they were not trained on: tables 6 and 18 of Moschella et al., ICLR 2023.

Photos of groceries through two EfficientNets, two ResNets that were trained on CIFAR-10 from different seeds, and in
full size CIFAR-10 through two ImageNet networks of different width. A head is trained on each encoder and reads the
others. ``--images`` takes a folder of classes instead, such as Tiny ImageNet, through four ImageNet networks.

    python -m experiments rr-table6 [--images FOLDER]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from experiments.data.groups import folder_of_pictures, load_group
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.published import published
from experiments.relative_representations.stitched import (
    ABSOLUTE,
    CENTERED,
    EPOCHS,
    METHODS,
    OWN,
    OWN_RELATIVE,
    TRANSLATED,
    guessing,
    mean_rows,
    means,
    pair_rows,
    split,
    stitch_all,
)
from experiments.results import Finding, Result, Setting, Table

from relatent.stitching import StitchingMatrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS = 500
QUICK = BySource(packages=("groceries", "resnets"), hub=("CIFAR-100 coarse",))
# Large networks take long to encode the last of packages.
FULL = BySource(packages=("groceries", "resnets", "cifar photos"), hub=("CIFAR-100 coarse", "CIFAR-100", "ImageNet1k"))
ENCODERS = BySource(packages=(), hub=("RexNet", "ViT-base", "ViT-ResNet", "ViT-small"))
PAPER = (OWN, OWN_RELATIVE, ABSOLUTE, "relative")
PUBLISHED = ("CIFAR-100 coarse", "ImageNet1k")
STAND_INS = {
    "RexNet and three ViTs (ImageNet)": "EfficientNet-lite0 and lite1 (ImageNet); two ResNets trained on CIFAR-10; in "
    "full size EfficientNet-lite2 and Inception-v3, too",
    "CIFAR-100 coarse, ImageNet1k": "photos of groceries (14 classes), CIFAR-10",
}
Runs = Mapping[str, list[StitchingMatrix]]


def run(setting: Setting) -> Result:
    """Stitch all pairs of encoders on every set of images, over seeds."""
    sizes, seeds = setting.pick(quick=(1_500, 500), full=(10_000, 5_000)), setting.pick(quick=5, full=5)
    epochs = setting.pick(quick=EPOCHS, full=20)
    runs: dict[str, list[StitchingMatrix]] = {}
    chance = {}
    names = setting.pick(quick=QUICK, full=FULL) if setting.images is None else (setting.images.name,)
    for name in names:
        group = load_group(name, ENCODERS) if setting.images is None else folder_of_pictures(setting.images)
        assert group.labels is not None
        train, test = split(len(group.labels), group.train, sizes)
        chance[name] = guessing(group.labels, train, test)
        runs[name] = [
            stitch_all(group.spaces, group.labels, seed, train=train, test=test, anchors=ANCHORS, epochs=epochs)
            for seed in range(seeds)
        ]
    return Result(
        [mean_table(runs, chance), pair_table(runs)],
        list(findings({name: means(found) for name, found in runs.items()}, chance)),
        seeds=seeds,
        data=[f"{name}: up to {sizes[0]:,} images to train on, {runs[name][0].n_test} to test" for name in runs],
        stand_ins=STAND_INS if setting.images is None else {},
        notes=["Table 18, CIFAR-100 with its 100 fine classes, needs data that no package carries: it was not run."],
        series={
            name: {row: [cell["mean"], cell["std"]] for row, cell in mean_rows(found).items()}
            for name, found in runs.items()
        },
    )


def mean_table(runs: Runs, chance: Mapping[str, float]) -> Table:
    """Lay the means over both directions out, with the paper's range over its encoders."""
    rows = [
        [name, row, cell, *([paper(row, data) for data in PUBLISHED] if row in PAPER else ["", ""]), chance[name]]
        for name, found in runs.items()
        for row, cell in mean_rows(found).items()
    ]
    columns = ("images", "head reads", "weighted F1", *(f"published ({data})" for data in PUBLISHED), "guessing")
    return Table(f"Both directions, {ANCHORS} anchors", columns, rows)


def paper(row: str, data: str) -> str:
    """Return the paper's range over encoders, or pairs of them, in one cell."""
    if row == ABSOLUTE:
        found = published("rr-table6", row, data)
    elif row == OWN:
        found = published("rr-table6", data, OWN).values()
    else:
        heads = {name: cells for name, cells in published("rr-table6", data).items() if name != OWN}
        found = [
            value
            for head, cells in heads.items()
            for name, value in cells.items()
            if (name == head) is (row == OWN_RELATIVE)
        ]
    return f"{min(found)} to {max(found)}"


def pair_table(runs: Runs) -> Table:
    """Lay every direction out."""
    rows = [[name, *row] for name, found in runs.items() for row in pair_rows(found, METHODS)]
    return Table("Every direction, weighted F1", ("images", "encoder", "head of", OWN, *METHODS), rows)


def findings(mean: Mapping[str, Mapping[str, float]], chance: Mapping[str, float]) -> Iterator[Finding]:
    """Judge what the paper says of its table; ``mean`` is by images and by what the head reads."""
    yield Finding(
        "a head cannot read the absolute vectors of another image encoder: it is no better than guessing",
        all(mean[name][ABSOLUTE] < chance[name] + 0.1 for name in mean),
        "; ".join(f"{name}: {mean[name][ABSOLUTE]:.2f}, guessing {chance[name]:.2f}" for name in mean)
        + " (paper .05 to .06 of 20 classes)",
    )
    yield Finding(
        "a head that reads relative vectors works under an image encoder that it never saw",
        all(mean[name]["relative"] > 0.6 * mean[name][OWN_RELATIVE] for name in mean),
        "; ".join(f"{name}: {mean[name]['relative']:.2f} of {mean[name][OWN_RELATIVE]:.2f}" for name in mean)
        + " with raw cosines (paper .53 to .85 of .80 to .92); "
        + ", ".join(f"{mean[name][CENTERED]:.2f}" for name in mean)
        + " centered, "
        + ", ".join(f"{mean[name][TRANSLATED]:.2f}" for name in mean)
        + " translated",
    )


def draw(result: Result) -> Figure:
    """Draw what a head reaches on its own encoder and under the other, by method."""
    figure, axes = panels(1, len(result.series), size=(2.7, 2.9), sharey=True)
    for panel, (name, rows) in zip(axes[0], result.series.items(), strict=True):
        means, deviations = np.asarray(list(rows.values())).T
        colors = [COLORS[6] if row.startswith(OWN) else COLORS[i - 2] for i, row in enumerate(rows)]
        panel.bar(range(len(rows)), means, yerr=deviations, color=colors, alpha=0.85)
        panel.set_xticks(range(len(rows)), list(rows), rotation=40, ha="right", rotation_mode="anchor")
        panel.set_title(name)
    axes[0][0].set_ylabel("weighted F1")
    figure.suptitle("Black: on its own encoder. Colors: under another encoder", fontsize=10)
    return figure
