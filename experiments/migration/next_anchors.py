"""Which items to embed next: a plan against uniform draws, at equal budget, on every pair at hand.

A hundred items are known in both spaces; two hundred more are bought, by ``rl.anchors.plan`` or at random (the mean of
two draws). Printed: the reconstruction error of goal vectors and the MRR of goal retrieval on items that were in
neither. How the plan chooses was decided on pairs of the development groups; the others confirm it.

    python -m experiments.migration.next_anchors
"""

from __future__ import annotations

import argparse
from itertools import permutations

import numpy as np
from experiments.data.groups import load_group

import relatent as rl
from relatent._terminal import working

DEVELOPMENT = ("trec", "vocabulary")
CONFIRMATION = ("newsgroups", "tweets", "languages", "frequent words", "resnets")
LEFT_OUT = "glove"  # eight more pairs of TREC, to keep the run short
KNOWN, BUDGET, POOL, TEST, DRAWS = 100, 200, 4_000, 1_500, 2


def main() -> None:
    """Print one line per pair of spaces, and how often the plan won."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--groups", nargs="+", default=[*DEVELOPMENT, *CONFIRMATION])
    args = parser.parse_args()
    print(f"{'pair':<34} error: uniform   plan    MRR: uniform   plan")
    for block, groups in (("development", DEVELOPMENT), ("confirmation", CONFIRMATION)):
        wins = [win for group in groups if group in args.groups for win in compared(group, args.seeds)]
        if wins:
            error, mrr = np.sum(wins, axis=0)
            print(f"{block}: the plan is better on {error} of {len(wins)} pairs by error, on {mrr} by MRR.", flush=True)


def compared(group: str, seeds: int) -> list[tuple[bool, bool]]:
    """Print the pairs of a group, and return for each whether the plan won by error and by MRR."""
    spaces = {name: rows[: POOL + TEST] for name, rows in load_group(group).spaces.items() if name != LEFT_OUT}
    wins = []
    for source, target in permutations(spaces, 2):
        found = [measure(spaces[source], spaces[target], seed) for seed in range(seeds)]
        error, planned_error, mrr, planned_mrr = np.mean(found, axis=0)
        shown = f"{error:14.3f} {planned_error:6.3f} {mrr:15.3f} {planned_mrr:6.3f}"
        print(f"{f'{source} → {target}':<34} {shown}", flush=True)
        wins.append((planned_error < error, planned_mrr > mrr))
    return wins


def measure(x: np.ndarray, y: np.ndarray, seed: int) -> list[float]:
    """Return the errors and MRRs after uniform draws and after a plan."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(x))
    pool, test = np.split(order, [len(x) * POOL // (POOL + TEST)])
    known, free = np.arange(KNOWN), KNOWN + rng.permutation(len(pool) - KNOWN)
    draws = [free[i * BUDGET : (i + 1) * BUDGET] for i in range(DRAWS)]
    rows = [pool[np.concatenate([known, more])] for more in (*draws, rl.anchors.plan(x[pool], BUDGET, known, seed))]
    errors, ranks = ([score(x, y, fitted, test) for fitted in rows] for score in (_error, _mrr))
    return [float(np.mean(errors[:-1])), errors[-1], float(np.mean(ranks[:-1])), ranks[-1]]


def _error(x: np.ndarray, y: np.ndarray, fitted: np.ndarray, test: np.ndarray) -> float:
    t = rl.Translator().fit(x[fitted], y[fitted])
    return 1 - float(rl.evaluate.r2(t.transform(x[test]), y[test]))


def _mrr(x: np.ndarray, y: np.ndarray, fitted: np.ndarray, test: np.ndarray) -> float:
    t = rl.Translator("retrieval").fit(x[fitted], y[fitted])
    return float(rl.evaluate.mrr(t.transform(x[test]), t.transform_target(y[test]), 100, t.metric_))


if __name__ == "__main__":
    with working("next_anchors"):
        main()
