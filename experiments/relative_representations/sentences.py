"""Heads under text encoders that they were not trained on: table 5 of Moschella et al., ICLR 2023.

Questions of TREC through five encoders (in the quick size three), newsgroup posts through three (two), tweets through
two, and sentences of Amazon reviews through three, in two classes and in five, which have an order: these are scored by
the mean absolute error, too, as the paper's tables 4, 15 and 16 are. A head is trained on each encoder and reads all
others: as they are (filled up with zeros where the widths differ), relative to 768 anchors, and translated.

    python -m experiments rr-table5
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from experiments.data.groups import inputs, load_group
from experiments.data.source import BySource
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
    control_findings,
    guessing,
    mean_error,
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

COARSE, FINE = ORDERED = ("reviews, two classes", "reviews, five in order")
# Encoders of each data set, and how many of them the quick size takes.
PAPERS_ENCODERS = ("BERT-c", "BERT-u", "Electra", "RoBERTa", "XLM-R")
ENCODERS = BySource(
    packages={
        "trec": ("usem3", "minilm6", "potion128", "para3", "glove"),
        "newsgroups": ("use-lite", "wordllama", "lsa"),
        "tweets": ("minilm-layer-3", "glove-100"),
    }
    | dict.fromkeys(ORDERED, ("use-lite", "minilm-layer-3", "wordllama")),
    hub=dict.fromkeys(("trec", "dbpedia", *ORDERED), PAPERS_ENCODERS),
)
QUICK = BySource(packages={"trec": 3, "newsgroups": 2, "tweets": 2}, hub={})
# Each data set, and the one of the paper that stands beside it with its key, where there is one.
GROUPS = BySource(
    packages={"trec": "trec", "newsgroups": "newsgroups", "tweets": "tweets"}
    | dict.fromkeys(ORDERED, "scored reviews"),
    hub={"trec": "TREC", "dbpedia": "DBpedia"} | dict.fromkeys(ORDERED, "Amazon reviews, en"),
)
DBPEDIA = ("DBpedia", "dbpedia")
BESIDE = {
    "trec": ("TREC", "trec"),
    "newsgroups": DBPEDIA,
    "dbpedia": DBPEDIA,
    FINE: ("Amazon reviews, 5 stars", "reviews"),
}
PAIRED, PAPER = "trec", (OWN, OWN_RELATIVE, ABSOLUTE, "relative")
Runs = Mapping[str, list[StitchingMatrix]]


def run(setting: Setting) -> Result:
    """Stitch all pairs of encoders on every data set, over seeds."""
    sizes, seeds = setting.pick(quick=(1_500, 500), full=(10_000, 2_000)), setting.pick(quick=5, full=5)
    runs: dict[str, list[StitchingMatrix]] = {}
    errors: dict[str, list[StitchingMatrix]] = {}
    chance = {}
    for name in GROUPS:
        spaces, labels, first, samples = task(name, setting.pick(quick=QUICK.get(name), full=None))
        train, test = split(len(labels), first, sizes)
        chance[name] = guessing(labels, train, test)
        options = {"train": train, "test": test, "epochs": setting.pick(quick=EPOCHS, full=10), "samples": samples}
        runs[name] = [stitch_all(spaces, labels, seed, **options) for seed in range(seeds)]
        if name in ORDERED:
            options |= {"metric": mean_error, "controls": False}
            errors[name] = [stitch_all(spaces, labels, seed, **options) for seed in range(seeds)]
    return Result(
        [mean_table(runs, errors, chance), pair_table(runs[PAIRED])],
        list(findings({name: means(found) for name, found in runs.items()}, means(errors[FINE]), chance)),
        seeds=seeds,
        data=[
            "TREC, newsgroup openings, disaster tweets, sentences of Amazon reviews with the mean score of twenty "
            f"people: {sizes[0]:,} rows to train on and up to {sizes[1]:,} to test"
        ],
        stand_ins={
            "BERT (cased, uncased), ELECTRA, RoBERTa": "Universal Sentence Encoder, MiniLM-L6, potion, and in full "
            "size MiniLM-L3 and GloVe (TREC); USE lite, wordllama, and in full size LSA (newsgroups); MiniLM's third "
            "layer and GloVe (tweets); USE lite, MiniLM's third layer and wordllama (reviews)",
            "DBpedia": "20 newsgroups; disaster tweets, too",
            "Amazon reviews and their stars": "sentences of Amazon reviews, scored by people (vaderSentiment)",
        },
        series={
            "encoders": list(runs[PAIRED][0].encoders),
            "values": {method: pair_values(runs[PAIRED], method).round(3) for method in METHODS},
        },
    )


class Task(NamedTuple):
    """Spaces of a data set, labels, how many of the first rows are to train on, and what a random encoder reads."""

    spaces: dict[str, np.ndarray]
    labels: np.ndarray
    first: int | None
    samples: np.ndarray | None


def task(name: str, encoders: int | None) -> Task:
    """Return a data set. Reviews in two classes leave out the middle one of the five, as in the paper."""
    group, read = load_group(GROUPS[name], ENCODERS[name]), inputs(GROUPS[name])
    assert group.labels is not None
    labels = group.labels
    kept = np.flatnonzero(labels != 2) if name == COARSE else np.arange(len(labels))
    return Task(
        {one: group.spaces[one][kept] for one in ENCODERS[name][:encoders]},
        (labels[kept] > 2).astype(int) if name == COARSE else labels,
        None if group.train is None else int((kept < group.train).sum()),
        None if read is None else read[kept],
    )


def mean_table(runs: Runs, errors: Runs, chance: Mapping[str, float]) -> Table:
    """Lay table 5 out: the mean over all pairs of encoders, with the absolute error where classes have an order."""
    rows = []
    for name, found in runs.items():
        wrong = mean_rows(errors[name]) if name in errors else {}
        for row, cell in mean_rows(found).items():
            title, key = BESIDE.get(name, ("", "")) if row in PAPER else ("", "")
            rows.append([name, row, cell, wrong.get(row), title, paper(row, key) if key else "", chance[name]])
    columns = ("data", "head reads", "weighted F1", "MAE", "published on", "published F1", "guessing")
    return Table(f"All pairs of encoders, {ANCHORS} anchors", columns, rows)


def paper(row: str, key: str) -> str:
    """Return the published mean over pairs of encoders, with its deviation."""
    return f"{published('rr-table5', row, key):.3f} ± {published('rr-table5', 'deviation', row, key):.3f}"


def papers(*rows: str) -> str:
    """Say published means on the paper's three data sets, one row of them or one of another."""
    keys = published("rr-table5", rows[0])
    return ", ".join(" of ".join(f"{published('rr-table5', row, key):.2f}" for row in rows) for key in keys)


def pair_table(runs: list[StitchingMatrix]) -> Table:
    """Lay every pair of encoders of one data set out."""
    return Table("TREC, weighted F1", ("encoder", "head of", OWN, *METHODS), pair_rows(runs, METHODS))


def findings(
    mean: Mapping[str, Mapping[str, float]], errors: Mapping[str, float], chance: Mapping[str, float]
) -> Iterator[Finding]:
    """Judge what the paper says of its table; ``mean`` is by data and by what the head reads, ``errors`` of FINE."""
    yield Finding(
        "relative heads misjudge scores by less than absolute ones under another encoder",
        errors["relative"] < errors[ABSOLUTE],
        f"mean absolute error of five classes {errors[ABSOLUTE]:.2f} absolute, {errors['relative']:.2f} relative, "
        f"{errors[CENTERED]:.2f} centered, {errors[TRANSLATED]:.2f} translated; on its own encoder {errors[OWN]:.2f}",
    )
    yield Finding(
        "a head cannot read the absolute vectors of another text encoder: it is no better than guessing",
        all(mean[name][ABSOLUTE] < chance[name] + 0.1 for name in mean),
        "; ".join(f"{name}: {mean[name][ABSOLUTE]:.2f}, guessing {chance[name]:.2f}" for name in mean)
        + f" (paper {papers(ABSOLUTE)})",
        headline=True,
    )
    kept = {name: mean[name]["relative"] / mean[name][OWN_RELATIVE] for name in mean}
    yield Finding(
        "a head that reads relative vectors keeps most of its score under another text encoder",
        min(kept.values()) > 0.75,
        "; ".join(f"{name}: {mean[name]['relative']:.2f} of {mean[name][OWN_RELATIVE]:.2f}" for name in mean)
        + f" with raw cosines (paper {papers('relative', OWN_RELATIVE)}); "
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
        + f" (paper {papers(OWN_RELATIVE, OWN)})",
    )
    yield from control_findings(mean, chance)


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
