"""Anchors of another domain: sections 3.1 and 5 of Moschella et al., ICLR 2023.

Newsgroup posts in twenty classes, through two encoders. A head that reads relative vectors is trained on one and reads
the other; the 768 anchors are other posts, or sentences of a domain that has nothing to do with the task.

A second table asks what decides: fewer anchors among the posts, sentences of all domains together, and four measures
of a set of anchors. Breadth is the effective number of their principal axes; coverage the share of the posts' variance
along the axes that hold 95 % of the anchors' own. Agreement is the correlation between the encoders of the cosines
between anchors; agreement on posts that of the cosines of test posts to anchors, each anchor's mean taken out.

    python -m experiments rr-domains
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.groups import Group, inputs, load_group
from experiments.data.sentences import DOMAINS, ENCODERS, anchor_inputs, anchor_sentences
from experiments.data.source import BySource
from experiments.figures import COLORS, panels
from experiments.relative_representations.stitched import (
    ANCHORS,
    CENTERED,
    CONTROLS,
    EPOCHS,
    METHODS,
    OWN,
    OWN_RELATIVE,
    TRANSLATED,
    guessing,
    mean_rows,
    paper_abroad,
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
MEASURES = ("breadth", "coverage", "agreement", "agreement on posts")
READ = {name: METHODS[name] for name in ("relative", CENTERED, TRANSLATED)}
SHOWN = (OWN, OWN_RELATIVE, *READ, *(f"relative, {control}" for control in CONTROLS))
Row = dict[str, dict[str, float]]  # measures of a set of anchors, and scores with them
Rows = Mapping[str, Row]
Sets = Mapping[tuple[str, int], Row]  # by where anchors come from and how many they are


def run(setting: Setting) -> Result:
    """Stitch both directions with anchors of every domain, over seeds."""
    group, beside = load_group(str(DATA), ENCODERS), anchor_sentences()
    assert group.labels is not None
    assert beside.keys is not None
    n, seeds = len(group.labels), range(setting.pick(quick=5, full=5))
    train, test = split(n, None, setting.pick(quick=(1_500, 400), full=(3_200, 800)))
    pools = {INSIDE: train} | {domain: n + np.flatnonzero(beside.keys == domain) for domain in DOMAINS}
    options = {"train": train, "test": test, "epochs": setting.pick(quick=EPOCHS, full=20)}
    samples = None if (read := inputs(str(DATA))) is None else np.concatenate([read, anchor_inputs()])
    everything = np.concatenate([pools[domain] for domain in DOMAINS])
    drawn_from = {(domain, ANCHORS): pool for domain, pool in pools.items()}
    drawn_from |= {("all other domains", k): everything for k in (ANCHORS, len(everything))}
    drawn_from |= {(INSIDE, k): train for k in FEW}
    shown = {(domain, ANCHORS) for domain in pools}  # with controls
    sets = {
        key: row(group, beside, pool, key[1], test, seeds, samples=samples, controls=key in shown, **options)
        for key, pool in drawn_from.items()
    }
    rows = {domain: sets[domain, ANCHORS] for domain in pools}
    return Result(
        [table(rows), cause_table(sets)],
        [*findings(rows), coverage_finding(sets), agreement_finding(sets)],
        seeds=len(seeds),
        data=[f"{len(train):,} newsgroup posts to train on and {len(test)} to test; {ANCHORS} anchors"],
        stand_ins={
            "Amazon reviews and ImageNet with anchors of Wikipedia and CIFAR-100": "newsgroup posts with anchors of "
            "tweets, film reviews, Wikipedia and Tatoeba",
            "language models": "Universal Sentence Encoder lite and wordllama",
        },
        notes=[note(rows), f"Guessing scores {guessing(group.labels, train, test):.2f}."],
        series={domain: {name: found[name]["mean"] for name in SHOWN} for domain, found in rows.items()},
    )


def row(
    group: Group, beside: Group, pool: np.ndarray, k: int, posts: np.ndarray, seeds: Sequence[int], **options: Any
) -> Row:
    """Return the measures of k anchors from a pool, and the scores with them, over seeds."""
    spaces = joined(group, beside)
    measures = [measured(spaces, drawn(pool, k, seed), posts) for seed in seeds]
    scores = mean_rows([stitched(group, beside, pool, seed, k, **options) for seed in seeds])
    return {name: spread(one[i] for one in measures) for i, name in enumerate(MEASURES)} | scores


def measured(spaces: Mapping[str, np.ndarray], anchors: np.ndarray, posts: np.ndarray) -> list[float]:
    """Return breadth and coverage, the mean of both encoders, and both agreements."""
    breadth, coverage, between, of_posts = [], [], [], []
    for x in spaces.values():
        a, b = (x[rows] - x[rows].mean(axis=0) for rows in (anchors, posts))
        values, axes = np.linalg.eigh(a.T.astype(np.float64) @ a)
        shares = np.clip(values[::-1], 0, None) / values.clip(0).sum()
        kept = axes[:, ::-1][:, : 1 + int(np.searchsorted(np.cumsum(shares), 0.95))]
        breadth.append(float(np.exp(-np.sum(shares * np.log(shares + 1e-12)))))
        coverage.append(float(np.sum((b @ kept) ** 2) / np.sum(b**2)))
        between.append(rl.relative_projection(a, a)[np.triu_indices(len(a), 1)])
        described = rl.relative_projection(x[posts], x[anchors])
        of_posts.append((described - described.mean(axis=0)).ravel())
    agreements = [float(np.corrcoef(cosines)[0, 1]) for cosines in (between, of_posts)]
    return [float(np.mean(breadth)), float(np.mean(coverage)), *agreements]


def cause_table(sets: Sets) -> Table:
    """Lay sets of anchors out with what they are like and what they serve."""
    columns = (*MEASURES, *READ)
    rows = [[domain, f"{k:,}", *(found[name] for name in columns)] for (domain, k), found in sets.items()]
    return Table(
        "What decides: measures of the anchors, and weighted F1 with them", ("anchors from", "anchors", *columns), rows
    )


def coverage_finding(sets: Sets) -> Finding:
    """Judge whether F1 follows coverage: over sets of as many anchors, with those in domain and without them."""
    every, foreign = (correlations(sets, among) for among in ((INSIDE,), ()))
    inside, widest = (
        sets[INSIDE, ANCHORS],
        max(
            (found for (domain, _), found in sets.items() if domain != INSIDE),
            key=lambda found: found["coverage"]["mean"],
        ),
    )
    return Finding(
        "how well anchors of a domain serve follows how much of the task's variance they cover (our question)",
        min(every["coverage"], foreign["coverage"]) > 0.8,
        f"correlation with the F1 of raw cosines over sets of {ANCHORS} anchors, without those in domain in brackets: "
        + ", ".join(f"{name} {every[name]:.2f} ({foreign[name]:.2f})" for name in MEASURES)
        + f"; the set of other domains that covers most, {widest['coverage']['mean']:.2f} (in domain "
        f"{inside['coverage']['mean']:.2f}), reaches {widest['relative']['mean']:.2f} of "
        f"{inside['relative']['mean']:.2f}",
    )


def agreement_finding(sets: Sets) -> Finding:
    """Judge whether both encoders see posts alike from anchors of their own domain only."""
    inside, outside = (
        [found["agreement on posts"]["mean"] for (domain, _), found in sets.items() if (domain == INSIDE) is within]
        for within in (True, False)
    )
    return Finding(
        "two encoders agree more on the cosines of posts to posts than to sentences of any other domain (our question)",
        min(inside) > max(outside),
        f"correlation of the cosines {min(inside):.2f} to {max(inside):.2f} over sets of posts, {min(outside):.2f} to "
        f"{max(outside):.2f} over sets of other domains",
    )


def correlations(sets: Sets, among: Sequence[str]) -> dict[str, float]:
    """Return how each measure correlates with F1 over sets of as many anchors: of other domains, and those among."""
    equal = [found for (domain, k), found in sets.items() if k == ANCHORS and (domain != INSIDE or domain in among)]
    score = [found["relative"]["mean"] for found in equal]
    return {name: float(np.corrcoef([one[name]["mean"] for one in equal], score)[0, 1]) for name in MEASURES}


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


def note(rows: Rows) -> str:
    """Say what other domains keep, on a head's own encoder and under the other."""
    own = [found[OWN_RELATIVE]["mean"] for found in rows.values()]
    kept = {
        method: [rows[domain][method]["mean"] / rows[INSIDE][method]["mean"] for domain in DOMAINS] for method in READ
    }
    return (
        f"On its own encoder a head scores {min(own):.2f} to {max(own):.2f} whatever the anchors are. Under the other "
        "encoder, anchors of other domains keep, of what anchors in domain keep, "
        + ", ".join(f"{min(shares):.2f} to {max(shares):.2f} ({method})" for method, shares in kept.items())
        + "."
    )


def findings(rows: Rows) -> Iterator[Finding]:
    """Judge whether anchors of another domain serve."""
    paper = [paper_abroad(f"relative, {anchors} anchors") for anchors in ("translated", "Wikipedia")]
    for method in ("relative", CENTERED):
        inside = rows[INSIDE][method]["mean"]
        outside = {domain: rows[domain][method]["mean"] for domain in DOMAINS}
        yield Finding(
            f"anchors of another domain serve: {method}",
            min(outside.values()) > 0.8 * inside,
            f"{inside:.2f} in domain; "
            + ", ".join(f"{domain} {value:.2f}" for domain, value in outside.items())
            + f" (paper, across languages: {paper[0]:.2f} in domain, {paper[1]:.2f} with Wikipedia)",
        )


def draw(result: Result) -> Figure:
    """Draw one group of bars per domain of the anchors."""
    figure, axes = panels(1, 1, size=(7.2, 3.2))
    panel, domains = axes[0][0], list(result.series)
    for i, (name, color) in enumerate(zip(SHOWN[1:], (6, 1, 0, 2, 3, 4), strict=True)):
        values = [result.series[domain][name] for domain in domains]
        panel.bar(np.arange(len(domains)) + 0.14 * i, values, 0.13, color=COLORS[color], label=name)
    panel.set_xticks(np.arange(len(domains)) + 0.35, domains)
    panel.set(ylabel="weighted F1", title=f"{DATA}: read by another encoder's head, by where the anchors come from")
    panel.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return figure
