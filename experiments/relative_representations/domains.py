"""Anchors of another domain: sections 3.1 and 5 of Moschella et al., ICLR 2023.

Newsgroup posts in twenty classes, through two encoders. A head that reads relative vectors is trained on one and reads
the other; the 768 anchors are other posts, or sentences of a domain that has nothing to do with the task.

A second table asks what decides: fewer anchors among the posts, sentences of all domains together, and three measures
of a set of anchors. Breadth is the effective number of their principal axes; coverage the share of the posts' variance
along the axes that hold 95 % of the anchors' own; agreement the correlation of the cosines between anchors in the two
encoders, which says whether both see the same among them.

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
from experiments.results import Cell, Finding, Result, Setting, Table, spread

import relatent as rl
from relatent.stitching import StitchingMatrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = BySource(packages="newsgroups", hub="Amazon reviews, en")
INSIDE, FEW = "the same (in domain)", (25, 50, 100, 200, 400)
NOTE = (
    "On its own encoder a head reads vectors relative to any anchors. Across encoders, anchors of other domains keep "
    "less than anchors among the posts keep, and less than the paper's. Raw cosines, centered cosines and a translator "
    "fall alike, so that it is not the description but the anchors. The second table says what decides."
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
    everything = np.concatenate([pools[domain] for domain in DOMAINS])
    sets = {(domain, ANCHORS): pool for domain, pool in pools.items()}
    sets |= {("all other domains", k): everything for k in (ANCHORS, len(everything))}
    sets |= {(INSIDE, k): train for k in FEW}
    causes = {key: cause(group, beside, pool, key[1], train, len(seeds), **options) for key, pool in sets.items()}
    return Result(
        [table(rows), cause_table(causes)],
        [*findings(rows), cause_finding(causes)],
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


def cause(
    group: Group, beside: Group, pool: np.ndarray, k: int, posts: np.ndarray, seeds: int, **options: Any
) -> dict[str, dict[str, float]]:
    """Return breadth, coverage and agreement of k anchors from a pool, and the scores with them, over seeds."""
    spaces = joined(group, beside)
    measures = [measured(spaces, drawn(pool, k, seed), posts) for seed in range(seeds)]
    scores = mean_rows([stitched(group, beside, pool, seed, k, **options) for seed in range(seeds)])
    names = ("breadth", "coverage", "agreement")
    return {name: spread(one[i] for one in measures) for i, name in enumerate(names)} | {m: scores[m] for m in READ}


def measured(spaces: Mapping[str, np.ndarray], anchors: np.ndarray, posts: np.ndarray) -> list[float]:
    """Return breadth and coverage, the mean of both encoders, and agreement."""
    breadth, coverage, cosines = [], [], []
    for x in spaces.values():
        a, b = (x[rows] - x[rows].mean(axis=0) for rows in (anchors, posts))
        values, axes = np.linalg.eigh(a.T.astype(np.float64) @ a)
        shares = np.clip(values[::-1], 0, None) / values.clip(0).sum()
        kept = axes[:, ::-1][:, : 1 + int(np.searchsorted(np.cumsum(shares), 0.95))]
        breadth.append(float(np.exp(-np.sum(shares * np.log(shares + 1e-12)))))
        coverage.append(float(np.sum((b @ kept) ** 2) / np.sum(b**2)))
        cosines.append(rl.relative_projection(a, a)[np.triu_indices(len(a), 1)])
    return [float(np.mean(breadth)), float(np.mean(coverage)), float(np.corrcoef(cosines)[0, 1])]


def cause_table(causes: Mapping[tuple[str, int], dict[str, dict[str, float]]]) -> Table:
    """Lay sets of anchors out with what they are like and what they serve."""
    rows = [[domain, f"{k:,}", *found.values()] for (domain, k), found in causes.items()]
    columns = ("anchors from", "anchors", *next(iter(causes.values())))
    return Table("What decides: measures of the anchors, and weighted F1 with them", columns, rows)


def cause_finding(causes: Mapping[tuple[str, int], dict[str, dict[str, float]]]) -> Finding:
    """Judge which measure the score of domains follows: over sets of as many anchors, so that number plays no part."""
    equal = [found for (_, k), found in causes.items() if k == ANCHORS]
    score = [found[CENTERED]["mean"] for found in equal]
    follows = {
        name: float(np.corrcoef([found[name]["mean"] for found in equal], score)[0, 1])
        for name in ("breadth", "coverage", "agreement")
    }
    inside = {k: found[CENTERED]["mean"] for (domain, k), found in causes.items() if domain == INSIDE}
    outside = max(found[CENTERED]["mean"] for (domain, k), found in causes.items() if domain != INSIDE and k == ANCHORS)
    match = [k for k in sorted(inside) if inside[k] >= outside]
    return Finding(
        "how well anchors of a domain serve follows how much of the task's variance they cover (our question)",
        follows["coverage"] > 0.8 and follows["coverage"] >= max(follows.values()) - 1e-9,
        f"correlation with the F1 of centered cosines over {len(equal)} sets of {ANCHORS} anchors: "
        + ", ".join(f"{name} {value:.2f}" for name, value in follows.items())
        + f"; {match[0] if match else 'more than ' + str(ANCHORS)} anchors in domain serve as well as {ANCHORS} of the "
        "best other domain",
    )


def joined(group: Group, beside: Group) -> dict[str, np.ndarray]:
    """Return the spaces of the posts with those of the sentences below them."""
    return {name: np.concatenate([group.spaces[name], beside.spaces[name]]) for name in ENCODERS}


def drawn(pool: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Draw k rows of a pool."""
    return np.random.default_rng(seed).choice(pool, min(k, len(pool)), replace=False)


def stitched(
    group: Group, beside: Group, pool: np.ndarray, seed: int, k: int = ANCHORS, **options: Any
) -> StitchingMatrix:
    """Stitch both encoders, with anchors drawn from some rows of the posts and the sentences below them."""
    assert group.labels is not None
    spaces = joined(group, beside)
    n = len(spaces[ENCODERS[0]])
    labels = np.concatenate([group.labels, np.zeros(n - len(group.labels), dtype=int)])  # sentences have no class
    return stitch_all(spaces, labels, seed, anchors=drawn(pool, k, seed), methods=READ, **options)


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
