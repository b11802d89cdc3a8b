"""Words in two spaces, absolute and relative: table 1 and figure 10 of Moschella et al., ICLR 2023.

Each word is looked up, as the source describes it, among all words as the target describes them: Jaccard and MRR with
K = 10, and the cosine between the two descriptions of a word; each seed draws 300 anchors. Absolute spaces of different
width are compared with zeros in the missing coordinates. "relative" is the paper's raw cosine; "centered" subtracts the
mean of the anchors first, the library's default; "whitened" replaces the cosine by the Mahalanobis similarity.

    python -m experiments rr-table1
"""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from experiments.data.groups import load_group
from experiments.figures import panels
from experiments.published import published
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K, ANCHORS, SHOWN = 10, 300, 200
MEASURES = ("jaccard", "mrr", "cosine")
KINDS = {
    "absolute": None,
    "relative": {"normalize": "none"},
    "relative, centered (ours)": {"normalize": "center"},
    "relative, whitened": {"similarity": partial(rl.similarity.mahalanobis, ridge=1.0), "normalize": "none"},
}
PUBLISHED = {0: "FT → W2V", 1: "W2V → FT"}


def run(setting: Setting) -> Result:
    """Look every word up in the other space, over seeds."""
    spaces, seeds = load_group("words").spaces, setting.pick(quick=5, full=10)
    scores = {
        (kind, pair): np.asarray([score(*described(kind, [spaces[p] for p in pair], seed)) for seed in range(seeds)])
        for kind in KINDS
        for pair in permutations(spaces, 2)
    }
    rows = [
        [kind, " → ".join(pair), *map(spread, found.T), beside_published(kind, i % 2)]
        for i, ((kind, pair), found) in enumerate(scores.items())
    ]
    table = Table(f"{K} neighbors, {ANCHORS} anchors", ("description", "spaces", *MEASURES, "published"), rows)
    return Result([table], findings(scores), seeds=seeds, series=pictured(list(spaces.values())))


def described(kind: str, spaces: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """Return both spaces in one description, so that their rows can be compared."""
    options = KINDS[kind]
    if options is None:
        width = max(x.shape[1] for x in spaces)
        return [np.pad(x, ((0, 0), (0, width - x.shape[1]))) for x in spaces]
    rows = rl.anchors.uniform(spaces[0], ANCHORS, seed=seed)
    return [rl.RelativeProjection(**options).fit(x[rows]).transform(x) for x in spaces]


def score(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Return Jaccard, MRR and cosine of x looked up in y."""
    found = rl.evaluate.retrieval_report(x, y, k=K)
    return [found["jaccard"].value, found["mrr"].value, float(rl.evaluate.cosine(x, y))]


def beside_published(kind: str, way: int) -> str:
    """Return the paper's three figures in one cell."""
    found = [published("rr-table1", f"{kind}, {PUBLISHED[way]}", measure) for measure in MEASURES]
    return " / ".join(map(str, found)) if kind in ("absolute", "relative") else ""


def findings(scores: dict[tuple[str, tuple[str, ...]], np.ndarray]) -> list[Finding]:
    """Judge the structure of the table."""
    mean = {key: dict(zip(MEASURES, found.mean(axis=0), strict=True)) for key, found in scores.items()}
    absolute = max(m["mrr"] for (kind, _), m in mean.items() if kind == "absolute")
    relative = min(m["mrr"] for (kind, _), m in mean.items() if kind == "relative")
    jaccards = [m["jaccard"] for (kind, _), m in mean.items() if kind == "relative"]
    return [
        Finding(
            "absolute spaces share no neighbors, relative ones do",
            absolute < 0.01 and relative > 20 * absolute,
            f"MRR {absolute:.4f} at most, relative {relative:.2f} at least (paper .94)",
            headline=True,
        ),
        Finding(
            "MRR is above Jaccard, and the two directions differ",
            all(m["mrr"] > m["jaccard"] for m in mean.values()) and float(np.ptp(jaccards)) > 0.01,
            f"Jaccard {min(jaccards):.2f} and {max(jaccards):.2f} (paper .34 and .39)",
        ),
    ]


def pictured(spaces: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Return figure 10's points: a sample of words on the first two principal axes, each space with its own."""
    from sklearn.decomposition import PCA

    sample = np.random.default_rng(0).choice(len(spaces[0]), SHOWN, replace=False)
    kinds = {"absolute": spaces, "relative": described("relative", spaces, seed=0)}
    return {
        kind: np.stack([PCA(2, random_state=0).fit_transform(x - x.mean(axis=0))[sample] for x in both])
        for kind, both in kinds.items()
    }


def draw(result: Result) -> Figure:
    """Draw both spaces side by side, absolute above relative."""
    figure, axes = panels(len(result.series), 2)
    for row, (kind, both) in zip(axes, result.series.items(), strict=True):
        for panel, points, name in zip(row, np.asarray(both), ("source", "target"), strict=True):
            panel.scatter(*points.T, c=np.arange(len(points)), cmap="cividis", s=8)
            panel.set_title(f"{kind}, {name}")
            panel.set_xticks([])
            panel.set_yticks([])
    return figure
