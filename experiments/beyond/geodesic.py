"""Geodesic similarity, which Moschella et al. (ICLR 2023, section 6) name as future work.

A relative space can measure along the data: by the shortest path from a sample to each anchor in the graph of nearest
neighbors. First on a sheet that is rolled up and on the same sheet bent into an S: paths along it are the same in both,
straight distances and angles are not. Then on digits, in the latent spaces of networks that were trained apart, where
it is not known beforehand. Items of one space are looked up in the other, by every similarity.

    python -m experiments geodesic
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.figures import COLORS, panels
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEIGHBORS, SHOWN = 12, 250
SIMILARITIES: dict[str, dict[str, Any]] = {
    "cosine": {"normalize": "none"},
    "cosine, centered (ours)": {},
    "euclidean": {"similarity": "euclidean", "normalize": "iso"},
    "geodesic": {"similarity": partial(rl.project.similarity.geodesic, n_neighbors=NEIGHBORS), "normalize": "iso"},
}
MEASURES = ("mrr", "top1", "relative similarity")
Pair = tuple[np.ndarray, np.ndarray]
Scores = Mapping[tuple[str, str], np.ndarray]


def run(setting: Setting) -> Result:
    """Look items up in another space by every similarity, over seeds."""
    n, seeds = setting.pick(quick=1_000, full=4_000, smoke=600), setting.pick(quick=5, full=10, smoke=1)
    anchors = setting.pick(quick=100, full=300, smoke=60)
    scores: dict[tuple[str, str], np.ndarray] = {}
    for name, make in PAIRS.items():
        drawn = [make(n, seed) for seed in range(seeds)]
        for similarity in SIMILARITIES:
            scores[name, similarity] = np.asarray(
                [score(*pair, similarity, anchors, seed) for seed, pair in enumerate(drawn)]
            )
    rows = [[*key, *map(spread, found.T)] for key, found in scores.items()]
    return Result(
        [Table(f"One space looked up in the other, {anchors} anchors", ("spaces", "similarity", *MEASURES), rows)],
        list(findings(scores)),
        seeds=seeds,
        data=[f"{n:,} points of a sheet; the digits of scikit-learn"],
        notes=[
            "Vectors are centered and divided by one number before distances are taken, because the scale of a latent "
            "space is arbitrary. The geodesic needs all samples at once and a graph in one piece, which raw cosines do "
            "not. Where windings lie nearer than neighbors, paths jump across: a roll of 0.18 in place of 0.25 per "
            "radian cost one seed of five a third of its MRR. On digits it does not pay: paths forget the directions "
            "in which a cluster of digits differs within itself."
        ],
        series=pictured(setting.pick(quick=1_000, full=1_000, smoke=600)),
    )


def sheets(n: int, seed: int) -> Pair:
    """Return a sheet rolled up, and the same sheet bent into an S: two isometric surfaces, turned at random."""
    rng = np.random.default_rng(seed)
    along, across = 4 * np.pi * rng.random(n), 6 * rng.random(n)
    rolled = np.stack([*spiral(along), across], axis=1)
    bent = np.stack([*s_curve(along), across], axis=1)
    return rolled @ turn(rng), bent @ turn(rng)


def spiral(along: np.ndarray) -> np.ndarray:
    """Return points of Archimedes' spiral at given lengths of arc, so that rolling stretches nothing."""
    angle = np.linspace(0, 12, 4_000)
    radius = 0.6 + 0.25 * angle  # windings lie farther apart than neighbors do
    curve = np.stack([radius * np.cos(angle), radius * np.sin(angle)])
    arc = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve), axis=0))])
    return np.stack([np.interp(along, arc, one) for one in curve])


def s_curve(along: np.ndarray) -> np.ndarray:
    """Return points of two half circles that form an S, at given lengths of arc."""
    angle = along / 2 - np.pi  # radius 2, from -π to π
    return np.stack([2 * np.sin(angle), 2 * np.sign(angle) * (np.cos(angle) - 1)])


def turn(rng: np.random.Generator) -> np.ndarray:
    """Return a random rotation or reflection of space."""
    return np.asarray(np.linalg.qr(rng.normal(size=(3, 3)))[0])


def networks(n: int, seed: int) -> Pair:
    """Return test digits in the hidden layers of two classifiers that were trained from different seeds."""
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    x, labels = load_digits(return_X_y=True)
    learn, test, learn_labels, _ = train_test_split(x / 16, labels, train_size=700, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # sixty epochs are enough, and not all there is
        models = [MLPClassifier((64,), max_iter=60, random_state=2 * seed + i).fit(learn, learn_labels) for i in (0, 1)]
    a, b = (np.maximum(test @ model.coefs_[0] + model.intercepts_[0], 0)[:n] for model in models)
    return a, b


def pixels(n: int, seed: int) -> Pair:
    """Return test digits as pixels, and in the hidden layer of a classifier."""
    from sklearn.model_selection import train_test_split

    x, labels = load_digits(return_X_y=True)
    _, test, _, _ = train_test_split(x / 16, labels, train_size=700, random_state=0)
    return test[:n], networks(n, seed)[0]


PAIRS = {"a sheet, rolled and bent": sheets, "digits, two networks": networks, "digits, pixels and network": pixels}


def score(x: np.ndarray, y: np.ndarray, similarity: str, anchors: int, seed: int) -> list[float]:
    """Return how often a row of x finds its own in y, both relative, and how alike the two relative spaces are."""
    rows = rl.anchors.farthest_point(x - x.mean(axis=0), anchors, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # raw cosines of an off-center space: that is what is measured
        projections = [rl.RelativeProjection(**SIMILARITIES[similarity]).fit(a[rows]) for a in (x, y)]
    a, b = (p.transform(space) for p, space in zip(projections, (x, y), strict=True))
    rest = np.setdiff1d(np.arange(len(x)), rows)
    a, b = (one[rest] - one[rest].mean(axis=0) for one in (a, b))  # distances share a mean that says nothing
    found = rl.evaluate.retrieval_report(a, b, k=10)
    return [found["mrr"].value, found["top1"].value, float(rl.evaluate.mean_cosine(a, b))]


def findings(scores: Scores) -> Iterator[Finding]:
    """Judge where the geodesic pays."""
    mrr = {key: float(found[:, 0].mean()) for key, found in scores.items()}
    for name in PAIRS:
        straight = max((one for one in SIMILARITIES if one != "geodesic"), key=lambda one, n=name: mrr[n, one])  # type: ignore[misc]
        yield Finding(
            f"geodesic similarity matches the spaces better than straight ones: {name}",
            mrr[name, "geodesic"] > mrr[name, straight],
            f"MRR {mrr[name, 'geodesic']:.2f}, {straight} {mrr[name, straight]:.2f}",
        )


def pictured(n: int) -> dict[str, Any]:
    """Return points of both sheets with their distance to one anchor, straight and along the sheet."""
    x, y = sheets(n, 0)
    functions = {"straight": rl.project.similarity.euclidean, "geodesic": SIMILARITIES["geodesic"]["similarity"]}
    anchor, shown = [int(np.argmin(x @ x[0]))], np.arange(min(SHOWN, n))
    far = {
        name: [-np.asarray(function(space, space[anchor]))[shown, 0] for space in (x, y)]
        for name, function in functions.items()
    }
    return {name: np.round(both, 2) for name, both in far.items()}


def draw(result: Result) -> Figure:
    """Draw the distance to one anchor in both sheets, straight and along the sheet, and MRR of all similarities."""
    figure, axes = panels(1, 3, size=(3.2, 2.8), width_ratios=[1, 1, 1.6])
    titles = {"straight": "straight distances disagree", "geodesic": "distances along the sheet agree"}
    for panel, (name, both) in zip(axes[0], result.series.items(), strict=False):
        panel.plot(*both, ".", color=COLORS[0], markersize=3)
        panel.set(title=titles[name], xlabel="to an anchor, rolled", ylabel="to the same anchor, bent")
    names, similarities = list(PAIRS), list(SIMILARITIES)
    values = {(row[0], row[1]): row[2]["mean"] for row in result.tables[0].rows}  # type: ignore[index,call-overload]
    for i, similarity in enumerate(similarities):
        heights = [values[name, similarity] for name in names]
        axes[0][2].bar(np.arange(len(names)) + 0.2 * i, heights, 0.19, color=COLORS[i], label=similarity)
    axes[0][2].set_xticks(np.arange(len(names)) + 0.3, [name.replace(", ", ",\n") for name in names])
    axes[0][2].set(title="own item found (MRR)", ylim=(0, 1.15))
    axes[0][2].legend(fontsize=7, ncols=2, loc="upper center")
    return figure
