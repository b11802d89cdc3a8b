"""Heads under image encoders that they were not trained on: tables 6 and 18 of Moschella et al., ICLR 2023.

Photos of groceries through two EfficientNets, in full size through four ImageNet networks of which one is wider, two
ResNets that were trained on CIFAR-10 from different seeds, and in full size CIFAR-10 through two ImageNet networks. A
head is trained on each encoder and reads the others. ``--images`` takes a folder of classes instead, such as Tiny
ImageNet, through the four ImageNet networks. One table has heads that were trained on few labels, with the same
anchors; another, in full size, more anchors than some of the encoders have coordinates.

    python -m experiments rr-table6 [--images FOLDER]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from experiments.data.groups import Group, folder_inputs, folder_of_pictures, inputs, load_group
from experiments.data.source import BySource
from experiments.figures import COLORS, heat_map, panels
from experiments.published import published
from experiments.relative_representations.stitched import (
    ABSOLUTE,
    BATCH,
    CENTERED,
    EPOCHS,
    METHODS,
    OWN,
    OWN_RELATIVE,
    TRANSLATED,
    control_findings,
    guessing,
    mean_rows,
    means,
    own_and_stitched,
    pair_rows,
    pair_values,
    split,
    stitch_all,
)
from experiments.results import Finding, Result, Setting, Table, spread

from relatent.stitching import StitchingMatrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS, MANY_ANCHORS = 500, 1_500  # more than some encoders have coordinates, and fewer than others
LABELS, STEPS = (5, 20, 100), 130  # of each class, and for how many steps at least heads are trained
FOUR = "groceries, four encoders"
QUICK = BySource(packages=("groceries", "resnets"), hub=("CIFAR-100 coarse",))
# Large networks take long to encode the photos of packages.
FULL = BySource(packages=(FOUR, "resnets", "cifar photos"), hub=("CIFAR-100 coarse", "CIFAR-100", "ImageNet1k"))
ENCODERS = BySource(packages=(), hub=("RexNet", "ViT-base", "ViT-ResNet", "ViT-small"))
RELATIVE = {"relative": METHODS["relative"]}
SCARCE = (OWN, OWN_RELATIVE, "relative")
WIDEST = "RexNet"
PAPER = (OWN, OWN_RELATIVE, ABSOLUTE, "relative")
PUBLISHED = ("CIFAR-100 coarse", "ImageNet1k")
STAND_INS = {
    "RexNet and three ViTs (ImageNet)": "EfficientNet-lite0 and lite1 (ImageNet), in full size lite2 and Inception-v3, "
    "too; two ResNets trained on CIFAR-10",
    "CIFAR-100 coarse, ImageNet1k": "photos of groceries (14 classes), CIFAR-10",
}
Runs = Mapping[str, list[StitchingMatrix]]


def run(setting: Setting) -> Result:
    """Stitch all pairs of encoders on every set of images, over seeds."""
    sizes, seeds = setting.pick(quick=(1_500, 500), full=(10_000, 5_000)), range(setting.pick(quick=5, full=5))
    epochs = setting.pick(quick=EPOCHS, full=20)
    runs: dict[str, list[StitchingMatrix]] = {}
    scarce: dict[tuple[str, int], list[StitchingMatrix]] = {}
    wide: dict[str, list[StitchingMatrix]] = {}
    chance, widths = {}, {}
    names = setting.pick(quick=QUICK, full=FULL) if setting.images is None else (setting.images.name,)
    for name in names:
        group, samples = pictures_of(name, setting.images)
        labels = np.asarray(group.labels)
        train, test = split(len(labels), group.train, sizes)
        chance[name], widths[name] = guessing(labels, train, test), {k: x.shape[1] for k, x in group.spaces.items()}
        options = {"train": train, "test": test, "anchors": ANCHORS, "samples": samples}
        options["epochs"] = enough(len(train), epochs)
        runs[name] = [stitch_all(group.spaces, labels, seed, **options) for seed in seeds]
        few = [n for n in LABELS if n < np.bincount(labels[train]).max()]
        scarce |= {(name, n): [few_labels(group, n, seed, train, test) for seed in seeds] for n in few}
        if min(widths[name].values()) < MANY_ANCHORS < min(len(train), max(widths[name].values())):
            options |= {"anchors": MANY_ANCHORS, "methods": RELATIVE, "controls": False}
            wide[name] = [stitch_all(group.spaces, labels, seed, **options) for seed in seeds]
    mean = {name: means(found) for name, found in runs.items()}
    return Result(
        [
            mean_table(runs, chance),
            pair_table(runs),
            scarce_table(scarce),
            *(wide_table(name, widths[name], runs[name], found) for name, found in wide.items()),
        ],
        [
            *findings(mean, chance),
            *control_findings(mean, chance),
            *([paper_finding()] if setting.images is None else []),
            *(wide_finding(name, widths[name], found) for name, found in wide.items()),
        ],
        seeds=len(seeds),
        data=[f"{name}: up to {sizes[0]:,} images to train on, {runs[name][0].n_test} to test" for name in runs],
        stand_ins=STAND_INS if setting.images is None else {},
        notes=["Table 18, CIFAR-100 with its 100 fine classes, needs data that no package carries: it was not run."]
        if setting.images is None
        else [],
        series={
            name: {
                "rows": {row: [cell["mean"], cell["std"]] for row, cell in mean_rows(found).items()},
                "encoders": list(found[0].encoders),
                "relative": pair_values(found, "relative").round(3),
            }
            for name, found in runs.items()
        },
        smaller=f"at most {sizes[0]:,} images to train heads on",
    )


def pictures_of(name: str, folder: Path | None) -> tuple[Group, np.ndarray | None]:
    """Return a group, or a user's folder, and what a random encoder reads of it."""
    if folder is None:
        return load_group(name, ENCODERS), inputs(name)
    return folder_of_pictures(folder), folder_inputs(folder)


def enough(rows: int, epochs: int) -> int:
    """Return for how many epochs a head is trained: longer where there are so few rows that an epoch has few steps."""
    return max(epochs, -(-STEPS // max(1, rows // BATCH)))


def few_labels(group: Group, n: int, seed: int, train: np.ndarray, test: np.ndarray) -> StitchingMatrix:
    """Stitch heads that are trained on n rows of each class at most; anchors need no labels and stay as many."""
    labels, rng = np.asarray(group.labels), np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(train[labels[train] == one])[:n] for one in np.unique(labels[train])])
    anchors = rng.choice(train, min(ANCHORS, len(train)), replace=False)
    options = {"methods": RELATIVE, "controls": False, "epochs": enough(len(rows), EPOCHS)}
    return stitch_all(group.spaces, labels, seed, train=rows, test=test, anchors=anchors, **options)


def mean_table(runs: Runs, chance: Mapping[str, float]) -> Table:
    """Lay the means over all pairs out, with the paper's range over its encoders."""
    rows = [
        [name, row, cell, *([paper(row, data) for data in PUBLISHED] if row in PAPER else ["", ""]), chance[name]]
        for name, found in runs.items()
        for row, cell in mean_rows(found).items()
    ]
    columns = ("images", "head reads", "weighted F1", *(f"published ({data})" for data in PUBLISHED), "guessing")
    return Table(f"All pairs of encoders, up to {ANCHORS} anchors", columns, rows)


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
    return f"{min(found):.2g} to {max(found):.2g}"


def pair_table(runs: Runs) -> Table:
    """Lay every direction out."""
    rows = [[name, *row] for name, found in runs.items() for row in pair_rows(found, METHODS)]
    return Table("Every direction, weighted F1", ("images", "encoder", "head of", OWN, *METHODS), rows)


def scarce_table(found: Mapping[tuple[str, int], list[StitchingMatrix]]) -> Table:
    """Lay heads that were trained on few labels out."""
    rows = [
        [name, str(n), *(spread(one[row] for one in map(own_and_stitched, runs)) for row in SCARCE)]
        for (name, n), runs in found.items()
    ]
    return Table(
        f"Few labels, up to {ANCHORS} anchors without any", ("images", "labels of each class, at most", *SCARCE), rows
    )


def kept(runs: list[StitchingMatrix]) -> dict[str, float]:
    """Return the share of its own score that each relative head keeps, the mean over all other encoders."""
    values, names = pair_values(runs, "relative"), runs[0].decoders
    apart = np.mean(values, axis=0, where=~np.eye(len(names), dtype=bool))
    return dict(zip(names, (apart / np.diag(values)).tolist(), strict=True))


def kept_in_paper(data: str) -> dict[str, float]:
    """Return the same of a published matrix."""
    heads = {name: cells for name, cells in published("rr-table6", data).items() if name != OWN}
    return {
        name: float(np.mean([value for encoder, value in cells.items() if encoder != name]) / cells[name])
        for name, cells in heads.items()
    }


def wide_table(name: str, widths: Mapping[str, int], few: list[StitchingMatrix], many: list[StitchingMatrix]) -> Table:
    """Lay out what each head keeps with fewer anchors than coordinates, and with more."""
    shares = kept(few), kept(many)
    rows = [[head, str(width), *(share[head] for share in shares)] for head, width in widths.items()]
    columns = ("head of", "coordinates", f"{ANCHORS} anchors", f"{MANY_ANCHORS:,} anchors")
    return Table(f"{name}: share of its score that a relative head keeps under other encoders", columns, rows)


def paper_finding() -> Finding:
    """Judge on the published matrices what the paper says of its widest encoder."""
    shares = {data: kept_in_paper(data) for data in PUBLISHED}
    return Finding(
        f"the head of {WIDEST}, which has more coordinates than there are anchors, loses most (published matrices)",
        all(min(share, key=lambda head: share[head]) == WIDEST for share in shares.values()),
        f"kept under other encoders: {told(shares)}",
    )


def wide_finding(name: str, widths: Mapping[str, int], runs: list[StitchingMatrix]) -> Finding:
    """Judge the same here: whether the heads lose most whose encoders have more coordinates than there are anchors."""
    share, beyond = kept(runs), [head for head, width in widths.items() if width > MANY_ANCHORS]
    return Finding(
        f"heads of encoders with more coordinates than there are anchors lose most ({name})",
        max(share[head] for head in beyond) < min(share[head] for head in share if head not in beyond),
        f"{MANY_ANCHORS:,} anchors, wider {', '.join(beyond)}; kept under other encoders: {told({name: share})}",
    )


def told(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Say what each head keeps."""
    return "; ".join(
        f"{name}: " + ", ".join(f"{head} {share:.2f}" for head, share in of.items()) for name, of in shares.items()
    )


def findings(mean: Mapping[str, Mapping[str, float]], chance: Mapping[str, float]) -> Iterator[Finding]:
    """Judge what the paper says of its table; ``mean`` is by images and by what the head reads."""
    yield Finding(
        "a head cannot read the absolute vectors of another image encoder: it is no better than guessing",
        all(mean[name][ABSOLUTE] < chance[name] + 0.1 for name in mean),
        "; ".join(f"{name}: {mean[name][ABSOLUTE]:.2f}, guessing {chance[name]:.2f}" for name in mean)
        + f" (paper {paper(ABSOLUTE, PUBLISHED[0])} of {published('rr-table6', 'classes', PUBLISHED[0])} classes)",
    )
    yield Finding(
        "a head that reads relative vectors works under an image encoder that it never saw",
        all(mean[name]["relative"] > 0.6 * mean[name][OWN_RELATIVE] for name in mean),
        "; ".join(f"{name}: {mean[name]['relative']:.2f} of {mean[name][OWN_RELATIVE]:.2f}" for name in mean)
        + f" with raw cosines (paper {paper('relative', PUBLISHED[0])} of {paper(OWN_RELATIVE, PUBLISHED[0])}); "
        + ", ".join(f"{mean[name][CENTERED]:.2f}" for name in mean)
        + " centered, "
        + ", ".join(f"{mean[name][TRANSLATED]:.2f}" for name in mean)
        + " translated",
    )


def draw(result: Result) -> Figure:
    """Draw what heads reach by what they read, and where there are many encoders, each relative head under each."""
    many = {name: found for name, found in result.series.items() if len(found["encoders"]) > 2}
    figure, axes = panels(1, len(result.series) + len(many), size=(3.2, 3.4))
    for panel, (name, found) in zip(axes[0], result.series.items(), strict=False):
        rows = found["rows"]
        scores, deviations = np.asarray(list(rows.values())).T
        of_method = dict(zip(METHODS, COLORS, strict=False))
        colors = [COLORS[6] if row.startswith(OWN) else of_method.get(row, "0.7") for row in rows]
        panel.bar(range(len(rows)), scores, yerr=deviations, color=colors)
        panel.set_xticks(range(len(rows)), list(rows), rotation=50, ha="right", rotation_mode="anchor", fontsize=7)
        panel.set(title=name, ylim=(0, 1), ylabel="weighted F1")
    for panel, (name, found) in zip(axes[0][len(result.series) :], many.items(), strict=True):
        heat_map(panel, np.asarray(found["relative"]), found["encoders"], found["encoders"], vmin=0, vmax=1)
        panel.set(title=f"{name}: relative", xlabel="head trained on", ylabel="encoder")
    figure.suptitle("Black: on its own encoder. Colors: under another. Gray: controls", fontsize=10)
    return figure
