"""Whether the confidence of a translation is calibrated, and falls where anchors do not reach.

For each goal and number of anchors: the calibration error (10 bins) of the confidence that an item which was no anchor
is found in the first ten, among as many items as there are anchors, and among ten times as many (at most those left);
and the share that is found. Settings were chosen on the pairs of ``TUNED``; the others confirm. With
``--without-class``, the anchors leave out one class, and its items are compared with those of the other classes.

    python -m experiments.migration.confidence [--seeds 3] [--groups trec vocabulary emoji] [--without-class]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.progress import track
from rich.table import Table

import relatent as rl
from relatent._terminal import working

GROUPS = ("trec", "vocabulary", "emoji")
TUNED = {
    *(("minilm6", "usem3"), ("minilm6", "potion128"), ("potion128", "minilm6"), ("potion128", "usem3")),
    *(("potion128", "para3"), ("potion128", "glove"), ("usem3", "minilm6"), ("usem3", "para3"), ("usem3", "potion128")),
    *(("para3", "glove"), ("glove", "minilm6"), ("glove", "para3"), ("google", "twitter")),
    *(("spacy-300", "glove-50"), ("glove-50", "spacy-300")),
}
GOALS: dict[str, dict[str, Any]] = {
    "vectors": {},
    "vectors, affine": {"max_cost": "affine"},
    "stitching": {"goal": "stitching"},
    "retrieval": {"goal": "retrieval"},
    "frozen target": {"goal": "retrieval", "frozen_target": True},
}
ANCHORS, ITEMS, DEPTH, BINS = (100, 300, 1_000), 3_000, 10, 10


def main() -> None:
    """Print one line per goal and number of anchors, for the pairs that were tuned on and for the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--groups", nargs="+", default=GROUPS)
    parser.add_argument("--without-class", action="store_true")
    args = parser.parse_args()
    Console(width=140).print(without_class() if args.without_class else calibration(args.groups, args.seeds))


def calibration(groups: Sequence[str], seeds: int) -> Table:
    """Table the calibration errors, averaged over pairs and seeds."""
    columns = ("pairs", "found", "ECE: mean", "largest", "≤ .05", "ten times the items: found", "ECE: mean", "largest")
    table = Table("goal", "anchors", "tuned on", *columns)
    for (goal, options), anchors, tuned in product(GOALS.items(), ANCHORS, (True, False)):
        cells = [(*spaces, seed) for spaces in pairs(groups, anchors, tuned) for seed in range(seeds)]
        rows = [measure(x, y, anchors, seed, options) for x, y, seed in track(cells, goal, transient=True)]
        if rows:
            table.add_row(goal, f"{anchors:,}", "yes" if tuned else "no", str(len(rows)), *cells_of(np.stack(rows)))
    return table


def cells_of(rows: np.ndarray) -> list[str]:
    """Return what is shown of (found, error) among as many items as anchors, and among ten times as many."""
    near, far = rows[:, :2], rows[:, 2:]
    shown = [near[:, 0].mean(), near[:, 1].mean(), near[:, 1].max(), np.mean(near[:, 1] <= 0.05)]
    return [f"{value:.3f}" for value in (*shown, far[:, 0].mean(), far[:, 1].mean(), far[:, 1].max())]


def pairs(groups: Sequence[str], anchors: int, tuned: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Go through ordered pairs of the spaces of a group that has enough rows."""
    for spaces in (load_group(group).spaces for group in groups):
        for a, b in permutations(spaces, 2):
            if ((a, b) in TUNED) is tuned and len(spaces[a]) > 2 * anchors:
                yield spaces[a], spaces[b]


def measure(x: np.ndarray, y: np.ndarray, anchors: int, seed: int, options: dict[str, Any]) -> np.ndarray:
    """Return the share found and the calibration error, among as many items as anchors and among more."""
    order = np.random.default_rng(seed).permutation(len(x))
    fitted, items = order[:anchors], order[anchors : anchors + ITEMS]
    t = rl.Translator(**options).fit(x[fitted], y[fitted])
    result = []
    for size in (min(anchors, len(items)), min(10 * anchors, len(items))):
        asked = items[: len(items) // size * size]
        galleries = np.split(asked, len(asked) // size)
        found = np.concatenate([in_first_ten(t, x[rows], y[rows]) for rows in galleries])
        result += [np.mean(found), calibration_error(t.confidence(x[asked], items=size), found)]
    return np.asarray(result)


def in_first_ten(t: rl.Translator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return whether each row finds its own item among all of these."""
    queries, targets = np.asarray(t.transform(x)), np.asarray(t.transform_target(y))
    scores = (
        queries @ (targets / np.linalg.norm(targets, axis=1, keepdims=True) if t.metric_ == "cosine" else targets).T
    )
    return np.asarray(np.sum(scores > np.diagonal(scores)[:, None], axis=1) < DEPTH)


def calibration_error(confidence: np.ndarray, found: np.ndarray) -> float:
    """Return the expected calibration error: mean gap of confidence and truth in bins, by how many rows are in each."""
    bins = np.minimum((BINS * confidence).astype(int), BINS - 1)
    return sum(abs(float(np.sum((confidence - found)[bins == b]))) for b in range(BINS)) / len(found)


def without_class() -> Table:
    """Table what is found of a class without anchors and of the others, and what confidence says."""
    table = Table("pair", "classes", "seen: found", "confidence", "unseen: found", "confidence")
    data = load_group("trec")
    assert data.labels is not None
    for source, target in permutations(data.spaces, 2):
        x, y = data.spaces[source], data.spaces[target]
        rows = [held_class(x, y, data.labels, unseen) for unseen in np.unique(data.labels)]
        table.add_row(f"{source} → {target}", str(len(rows)), *(f"{value:.3f}" for value in np.mean(rows, axis=0)))
    return table


def held_class(x: np.ndarray, y: np.ndarray, labels: np.ndarray, unseen: int) -> list[float]:
    """Fit on 300 anchors of other classes; search among unseen items and as many seen ones."""
    order = np.random.default_rng(0).permutation(len(x))
    known, new = order[labels[order] != unseen], order[labels[order] == unseen][: ITEMS // 2]
    t = rl.Translator().fit(x[known[:300]], y[known[:300]])
    items = np.concatenate([known[300 : 300 + len(new)], new])
    both = zip(in_first_ten(t, x[items], y[items]), t.confidence(x[items], items=len(items)), strict=True)
    halves = np.split(np.asarray(list(both)), 2)
    return [float(value) for half in halves for value in np.mean(half, axis=0)]


if __name__ == "__main__":
    with working("confidence"):
        main()
