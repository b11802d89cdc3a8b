"""Self-similarities in absolute and relative spaces: figure 8 of Moschella et al., ICLR 2023.

The cosines between all pairs of some words are taken in two spaces, absolute and relative to 300 anchors. How far do
they correlate: within a space (what the projection keeps of its geometry), and, which the paper does not ask, across
spaces (what they share)?

    python -m experiments rr-figure8
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from experiments.data.groups import load_group
from experiments.data.source import BySource
from experiments.figures import SEQUENTIAL, heat_map, panels
from experiments.relative_representations.lookup import described, sample
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPACES = BySource(packages=("spacy-300", "glove-100"), hub=("fastText", "word2vec"))
KINDS = ("absolute", "relative", "relative, centered (ours)")
ANCHORS, BINS = 300, 48
Cosines = dict[str, np.ndarray]


def run(setting: Setting) -> Result:
    """Correlate the self-similarities of all descriptions, over seeds of the anchors."""
    spaces = load_group("words").spaces
    x, y = (spaces[name] for name in SPACES)
    rows, seeds = sample(len(x), setting.pick(quick=600, full=4_000)), setting.pick(quick=5, full=10)
    runs = [self_similarities(x, y, rows, seed) for seed in range(seeds)]
    names = list(runs[0])
    matrices = np.stack([np.corrcoef(list(run.values())) for run in runs])
    pairs = {
        (a, b): [float(one[names.index(a), names.index(b)]) for one in matrices] for a, b in combinations(names, 2)
    }
    table = [[a, b, spread(found)] for (a, b), found in pairs.items()]
    return Result(
        [Table("Pearson correlation of self-similarities", ("in", "and in", "correlation"), table)],
        list(findings(pairs)),
        seeds=seeds,
        data=[f"all pairs of {len(rows):,} words"],
        stand_ins={"fastText, 300-d": "spaCy's English vectors, 300-d", "word2vec, 300-d": "GloVe, 100-d"},
        series={
            "names": names,
            "correlations": matrices.mean(axis=0).round(3),
            "densities": [density(runs[0][a], runs[0][b]) for a, b in pictured()],
        },
    )


def self_similarities(x: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int) -> Cosines:
    """Return the cosine of every pair of rows in each description of each space."""
    anchors, pairs = rl.anchors.uniform(x, ANCHORS, seed=seed), np.triu_indices(len(rows), 1)
    found = {}
    for kind in KINDS:
        for name, space in zip(SPACES, described(kind, x, y, anchors), strict=True):
            found[f"{kind}, {name}"] = rl.relative_projection(space[rows], space[rows])[pairs]
    return found


def findings(pairs: Mapping[tuple[str, str], list[float]]) -> Iterator[Finding]:
    """Judge what the paper says of its figure."""

    def mean(a: str, b: str) -> float:
        return float(np.mean(pairs[a, b]))

    for kind in KINDS[1:]:
        kept = [mean(f"absolute, {name}", f"{kind}, {name}") for name in SPACES]
        yield Finding(
            f"the metric of the absolute space is kept up to a certain degree: {kind}",
            min(kept) > 0.5,
            "correlation of absolute and relative self-similarities "
            + ", ".join(f"{value:.2f} ({name})" for value, name in zip(kept, SPACES, strict=True)),
        )
    across = {kind: mean(*(f"{kind}, {name}" for name in SPACES)) for kind in KINDS}
    yield Finding(
        "relative spaces agree on who is similar to whom more than absolute ones (our question)",
        min(across[kind] for kind in KINDS[1:]) > across["absolute"],
        "correlation across spaces: " + ", ".join(f"{kind} {value:.2f}" for kind, value in across.items()),
    )


def pictured() -> list[tuple[str, str]]:
    """Return the descriptions whose similarities are drawn against each other."""
    a, b = SPACES
    return [(f"{one}, {a}", f"{two}, {c}") for one, two, c in (("absolute",) * 2 + (b,), ("relative",) * 2 + (b,))] + [
        (f"absolute, {a}", f"relative, {a}")
    ]


def density(a: np.ndarray, b: np.ndarray) -> dict[str, object]:
    """Return how the pairs lie in the plane of two similarities: logarithmic counts, as one short text."""
    counts, *edges = np.histogram2d(a, b, bins=BINS)
    shades = np.rint(255 * np.log1p(counts) / np.log1p(counts.max())).astype(np.uint8)
    return {
        "shades": base64.b64encode(shades.tobytes()).decode(),
        "extent": [float(end) for edge in edges for end in (edge[0], edge[-1])],
    }


def draw(result: Result) -> Figure:
    """Draw three planes of similarities, and all correlations."""
    figure, axes = panels(1, 4, size=(3.1, 3.2), width_ratios=[1, 1, 1, 1.5])
    for panel, (a, b), found in zip(axes[0], pictured(), result.series["densities"], strict=False):
        shades = np.frombuffer(base64.b64decode(found["shades"]), dtype=np.uint8).reshape(BINS, BINS)
        panel.imshow(shades.T, origin="lower", extent=found["extent"], aspect="auto", cmap=SEQUENTIAL)
        panel.set(xlabel=f"cosine: {a}", ylabel=f"cosine: {b}")
    for panel, title in zip(
        axes[0], ("across spaces, absolute", "across spaces, relative", "within one space"), strict=False
    ):
        panel.set_title(title)
    names = [name.replace("relative, centered (ours)", "centered") for name in result.series["names"]]
    heat_map(axes[0][3], result.series["correlations"], names, names)
    axes[0][3].set_title("correlation of self-similarities")
    return figure
