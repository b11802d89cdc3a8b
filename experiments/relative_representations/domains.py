"""Anchors of another domain: sections 3.1 and 5 of Moschella et al., ICLR 2023.

Newsgroup posts in twenty classes, through two encoders. A head that reads relative vectors is trained on one and reads
the other; the 768 anchors are other posts, or sentences of a domain that has nothing to do with the task.

    python -m experiments rr-domains
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.groups import Group, load_group
from experiments.data.sentences import DOMAINS, ENCODERS, anchor_sentences
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.relative_representations.stitched import (
    ANCHORS,
    CENTERED,
    EPOCHS,
    METHODS,
    OWN,
    OWN_RELATIVE,
    TRANSLATED,
    guessing,
    mean_rows,
    split,
    stitch_all,
)
from experiments.results import Cell, Finding, Result, Setting, Table

from relatent.stitching import StitchingMatrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = BySource(packages="newsgroups", hub="Amazon reviews, en")
INSIDE = "the same (in domain)"
NOTE = (
    "On its own encoder a head reads vectors relative to any anchors. Across encoders, anchors of other domains keep "
    "about half of what anchors among the posts keep, and less than the paper's. Tried: four domains; raw cosines, "
    "centered cosines, and a translator. All fall alike, so that it is not the description but the anchors: the words "
    "that tell twenty newsgroups apart (hardware, cryptography, hockey) hardly occur in other domains, and one of the "
    "two encoders is an average of word vectors. The paper's task, good or bad reviews, asks for less."
)
READ = {name: METHODS[name] for name in ("relative", CENTERED, TRANSLATED)}
SHOWN = (OWN, OWN_RELATIVE, *READ)
Rows = Mapping[str, Mapping[str, dict[str, float]]]


def run(setting: Setting) -> Result:
    """Stitch both directions with anchors of every domain, over seeds."""
    group, beside = load_group(str(DATA), ENCODERS), anchor_sentences()
    assert group.labels is not None
    assert beside.keys is not None
    n, seeds = len(group.labels), range(setting.pick(quick=5, full=5))
    train, test = split(n, None, setting.pick(quick=(1_500, 400), full=(3_200, 800)))
    pools = {INSIDE: train} | {domain: n + np.flatnonzero(beside.keys == domain) for domain in DOMAINS}
    options = {"train": train, "test": test, "epochs": setting.pick(quick=EPOCHS, full=20)}
    rows = {
        domain: mean_rows([stitched(group, beside, pool, s, **options) for s in seeds])
        for domain, pool in pools.items()
    }
    return Result(
        [table(rows)],
        list(findings(rows)),
        seeds=len(seeds),
        data=[f"{len(train):,} newsgroup posts to train on and {len(test)} to test; {ANCHORS} anchors"],
        stand_ins={
            "Amazon reviews and ImageNet with anchors of Wikipedia and CIFAR-100": "newsgroup posts with anchors of "
            "tweets, film reviews, Wikipedia and Tatoeba",
            "language models": "Universal Sentence Encoder lite and wordllama",
        },
        notes=[NOTE, f"Guessing scores {guessing(group.labels, train, test):.2f}."],
        series={domain: {name: cell["mean"] for name, cell in found.items()} for domain, found in rows.items()},
    )


def stitched(group: Group, beside: Group, pool: np.ndarray, seed: int, **options: Any) -> StitchingMatrix:
    """Stitch both encoders, with anchors drawn from some rows of the posts and the sentences below them."""
    assert group.labels is not None
    spaces = {name: np.concatenate([group.spaces[name], beside.spaces[name]]) for name in ENCODERS}
    n = len(spaces[ENCODERS[0]])
    labels = np.concatenate([group.labels, np.zeros(n - len(group.labels), dtype=int)])  # sentences have no class
    anchors = np.random.default_rng(seed).choice(pool, min(ANCHORS, len(pool)), replace=False)
    return stitch_all(spaces, labels, seed, anchors=anchors, methods=READ, **options)


def table(rows: Rows) -> Table:
    """Lay the domains out, one per row."""
    lines: list[list[Cell]] = [[domain, *(found[name] for name in SHOWN)] for domain, found in rows.items()]
    return Table(f"{DATA}, weighted F1, mean of both directions", ("anchors from", *SHOWN), lines)


def findings(rows: Rows) -> Iterator[Finding]:
    """Judge whether anchors of another domain serve."""
    for method in ("relative", CENTERED):
        inside = rows[INSIDE][method]["mean"]
        outside = {domain: rows[domain][method]["mean"] for domain in DOMAINS}
        yield Finding(
            f"anchors of another domain serve: {method}",
            min(outside.values()) > 0.8 * inside,
            f"{inside:.2f} in domain; "
            + ", ".join(f"{domain} {value:.2f}" for domain, value in outside.items())
            + " (paper, across languages: .76 in domain, .72 with Wikipedia)",
        )


def draw(result: Result) -> Figure:
    """Draw one group of bars per domain of the anchors."""
    figure, axes = panels(1, 1, size=(7.2, 3.0))
    panel, domains = axes[0][0], list(result.series)
    for i, name in enumerate(SHOWN[1:]):
        values = [result.series[domain][name] for domain in domains]
        panel.bar(np.arange(len(domains)) + 0.2 * i, values, 0.19, color=COLORS[(6, 1, 0, 2)[i]], label=name)
    panel.set_xticks(np.arange(len(domains)) + 0.3, domains)
    panel.set(ylabel="weighted F1", title=f"{DATA}: read by another encoder's head, by where the anchors come from")
    panel.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return figure
