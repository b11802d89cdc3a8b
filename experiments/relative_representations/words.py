"""Two English word spaces, absolute and relative: the structure of table 1 of Moschella et al., ICLR 2023.

Reads ``words_15558_explosion300_glove50.npz``: 15,558 words in a 300-dimensional and a 50-dimensional space that were
trained apart. Each word is looked up, as the source describes it, among all words as the target describes them:
Jaccard and MRR with K = 10, and the cosine between the two descriptions of a word; mean ± std over seeds, each seed
drawing 300 anchors. The paper used FastText and Word2Vec, 300-dimensional both, over about 20,000 words; its figures
stand beside ours in the same order. Absolute spaces of different width are compared with zeros in the missing
coordinates. "relative" is the paper's raw cosine; "centred" subtracts the mean of the anchors first, the library's
default; "whitened" replaces the cosine by the Mahalanobis similarity.

    python -m experiments.relative_representations.words --data DIR
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial

import numpy as np
from experiments.data import load_spaces
from rich.console import Console
from rich.table import Table

import relatent as rl

FILE, SPACES = "words_15558_explosion300_glove50.npz", ["explosion300", "glove50"]
K, ANCHORS = 10, 300
MEASURES = ["Jaccard", "MRR", "cosine"]
KINDS = ["absolute", "relative", "relative, centred", "relative, whitened"]
PROJECTIONS = {
    "relative": {"normalize": "none"},
    "relative, centred": {"normalize": "center"},
    "relative, whitened": {"similarity": partial(rl.similarity.mahalanobis, ridge=1.0), "normalize": "none"},
}
PAPER = {
    ("absolute", 0, 0): "1.00 / 1.00 / 1.00",
    ("absolute", 0, 1): "0.00 / 0.00 / 0.01",
    ("absolute", 1, 0): "0.00 / 0.00 / 0.01",
    ("absolute", 1, 1): "1.00 / 1.00 / 1.00",
    ("relative", 0, 0): "1.00 / 1.00 / 1.00",
    ("relative", 0, 1): "0.34 / 0.94 / 0.86",
    ("relative", 1, 0): "0.39 / 0.98 / 0.86",
    ("relative", 1, 1): "1.00 / 1.00 / 1.00",
}


def described(kind: str, spaces: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """Give both spaces in one description, so that their rows can be compared."""
    if kind == "absolute":
        width = max(x.shape[1] for x in spaces)
        return [np.pad(x, ((0, 0), (0, width - x.shape[1]))) for x in spaces]
    rows = rl.anchors.uniform(spaces[0], ANCHORS, seed=seed)
    return [rl.RelativeProjection(**PROJECTIONS[kind]).fit(x[rows]).transform(x) for x in spaces]


def score(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Jaccard, MRR and cosine of x looked up in y."""
    found = rl.evaluate.retrieval_report(x, y, k=K)
    return [found["jaccard"].value, found["mrr"].value, float(rl.evaluate.cosine(x, y))]


def run(spaces: list[np.ndarray], seeds: int) -> dict[tuple[str, int, int], np.ndarray]:
    """Score each kind and direction: seeds × measures. Absolute spaces, and a space with itself, need one seed."""
    scores: dict[tuple[str, int, int], np.ndarray] = {}
    for kind in KINDS:
        for seed in range(1 if kind == "absolute" else seeds):
            pair = described(kind, spaces, seed)
            for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
                if a != b or seed == 0:
                    fresh = np.asarray([score(pair[a], pair[b])])
                    scores[kind, a, b] = np.concatenate([scores.get((kind, a, b), fresh[:0]), fresh])
    return scores


def show(scores: dict[tuple[str, int, int], np.ndarray], n: int, console: Console) -> None:
    """Print ours beside the paper's."""
    table = Table(title=f"{n:,} words, K = {K}, {ANCHORS} anchors")
    for column in ("description", "source", "target", *MEASURES, "seeds", "paper: Jaccard / MRR / cosine"):
        table.add_column(column, justify="left" if column in ("description", "source", "target") else "right")
    for (kind, a, b), values in scores.items():
        cells = [f"{v.mean():.3f} ± {v.std():.3f}" for v in values.T]
        table.add_row(kind, SPACES[a], SPACES[b], *cells, str(len(values)), PAPER.get((kind, a, b), ""))
    console.print(table)


def judge(scores: dict[tuple[str, int, int], np.ndarray], console: Console) -> bool:
    """Say of each part of the table's structure whether it holds."""
    mean = {key: dict(zip(MEASURES, values.mean(axis=0), strict=True)) for key, values in scores.items()}
    ways = ((0, 1), (1, 0))
    claims = {
        "a space looked up in itself scores 1": all(
            min(mean[kind, i, i].values()) > 0.999 for kind in KINDS for i in (0, 1)
        ),
        "absolute Jaccard and MRR below 0.01": all(
            mean["absolute", a, b][m] < 0.01 for a, b in ways for m in ("Jaccard", "MRR")
        ),
        "relative Jaccard and MRR at least 20 × absolute": all(
            mean[kind, a, b][m] > 20 * mean["absolute", a, b][m]
            for kind in KINDS[1:]
            for a, b in ways
            for m in MEASURES[:2]
        ),
        "relative MRR above Jaccard": all(
            mean[k, a, b]["MRR"] > mean[k, a, b]["Jaccard"] for k in KINDS[1:] for a, b in ways
        ),
        "the two directions differ": all(
            abs(mean[k, 0, 1]["Jaccard"] - mean[k, 1, 0]["Jaccard"]) > 0.01 for k in KINDS[1:]
        ),
    }
    for claim, holds in claims.items():
        console.print(f"{claim}: {'YES' if holds else 'NO'}")
    return all(claims.values())


def main() -> None:
    """Read, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data file (default: $RELATENT_DATA, else data/)")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    start = time.perf_counter()
    spaces = list(load_spaces(FILE, SPACES, options.data).values())
    scores = run(spaces, options.seeds)
    console = Console(width=140)
    show(scores, len(spaces[0]), console)
    met = judge(scores, console)
    console.print(f"{time.perf_counter() - start:.0f} s")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
