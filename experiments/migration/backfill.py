"""Which items to re-embed first: how well the error of a translation is predicted, and what that order is worth.

For each pair of spaces: the rank correlation of expected and true error on items that were no anchors, and the share
of the whole error that the fifth of the items of largest expected error holds, beside the best possible share.

    python -m experiments.migration.backfill
"""

from __future__ import annotations

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

import relatent as rl
from relatent.decide import ExpectedError

GROUPS = {
    "trec": ("minilm6", "para3", "usem3", "potion128"),
    "vocabulary": ("spacy-300", "glove-50"),
    "resnets": ("resnet8", "resnet14"),
}
ANCHORS, ITEMS = 1_000, 3_000


def main() -> None:
    """Print one line per pair of spaces."""
    table = Table("pair", "rank correlation", "error in the first fifth", "at best", "at random")
    for group, names in GROUPS.items():
        spaces = {name: load_group(group).spaces[name][: ANCHORS + ITEMS] for name in names}
        for source, target in ((a, b) for a in names for b in names if a != b):
            row = measure(spaces[source], spaces[target])
            table.add_row(f"{source} → {target}", *(f"{value:.3f}" for value in row), "0.200")
    Console(width=120).print(table)


def measure(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the rank correlation and the two shares."""
    order = np.random.default_rng(0).permutation(len(x))
    anchors, items = order[:ANCHORS], order[ANCHORS:]
    ridge = rl.Translator(map="ridge")
    expected = ExpectedError.fit(x[anchors], y[anchors], ridge).predict(x[items])
    translated = ridge.fit(x[anchors], y[anchors]).transform(x[items])
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (translated, y[items])]
    error = 1 - np.sum(unit[0] * unit[1], axis=1)
    fifth = len(items) // 5
    shares = [float(error[np.argsort(-by)[:fifth]].sum() / error.sum()) for by in (expected, error)]
    return [float(spearmanr(expected, error)[0]), *shares]


if __name__ == "__main__":
    main()
