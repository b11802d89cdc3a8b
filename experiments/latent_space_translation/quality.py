"""The defaults against the strongest simple baselines, on development pairs and on pairs that were not tuned on.

Development pairs are those that settings were chosen on, confirmation pairs are other encoders on other corpora; both
are built from packages by ``experiments.data.groups``. For each ordered pair of spaces, anchor count and seed:

- vectors: reconstruction error beside best6 and a kernel ridge tuned by cross-validation (scikit-learn)
- retrieval: MRR beside best6, best6 with CSLS, and regularized CCA with CSLS, from anchors alone, with other rows of
  the source or of both sides, and with the test queries as bank, which is transductive, as CSLS is
- frozen: MRR beside best6, both with and without CSLS, from anchors alone and with other rows of the target as index
- stitching: accuracy of SVC, logistic and MLP heads beside best6
- expected: what ``expected_quality`` foretells against what is found
- few: 20 known pairs, grown

best6 is the best of {SVD, LSS, OLSS} × {standard, L2} *chosen on the test data*, which no user could do. Baselines are
computed without the library. Cells that are in the output file already are not run again.

    python -m experiments.latent_space_translation.quality [--only retrieval --seeds 1 --anchors 50 300]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
from experiments.data.groups import load_group
from experiments.latent_space_translation.quality_parts import PARTS, Split, train_heads
from experiments.latent_space_translation.quality_report import Cell, Key, read_cells, report, write_cells
from rich.console import Console
from sklearn.pipeline import Pipeline

from relatent._terminal import tracked, working

ANCHORS = (50, 100, 300, 1000, 3000)
TEST = 1_000
DEVELOPMENT = ("trec", "words", "vocabulary", "groceries", "emoji", "resnets")
CONFIRMATION = (
    "newsgroups",
    "reviews",
    "tweets",
    "encyclopedia",
    "languages",
    "frequent words",
    "fashion",
    "cifar photos",
)
BLOCKS = {"development": DEVELOPMENT, "confirmation": CONFIRMATION}


def main() -> None:
    """Run what is missing in the output file, and print both blocks and the list of what must be shown."""
    args = options()
    cells = read_cells(args.out)
    groups = [(b, g) for b in args.blocks for g in BLOCKS[b] if not args.groups or g in args.groups]
    jobs = [] if args.report else [(*job, seed) for seed in range(args.seeds) for job in groups]
    for block, group, seed in tracked(jobs, "groups"):
        for cell in run_group(block, group, seed, args, {c.key for c in cells}):
            cells.append(cell)
            write_cells(args.out, cells)
    for block in args.blocks:
        report(block, [c for c in cells if c.key.block == block], Console(width=130))


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", nargs="+", default=list(BLOCKS), choices=list(BLOCKS))
    parser.add_argument("--groups", nargs="+", choices=[*DEVELOPMENT, *CONFIRMATION], help="default: all of the blocks")
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS), metavar="PART")
    parser.add_argument("--anchors", nargs="+", type=int, default=list(ANCHORS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pairs", type=int, help="maximum number of ordered pairs of each group")
    parser.add_argument("--report", action="store_true", help="print what the output file holds, and run nothing")
    parser.add_argument("--out", type=Path, default=Path("out/quality.json"))
    return parser.parse_args()


def run_group(block: str, group: str, seed: int, args: argparse.Namespace, done: set[Key]) -> Iterator[Cell]:
    """Run the missing cells of every ordered pair of a group, on one split into rows to learn from and test rows."""
    found = load_group(group)
    n = len(next(iter(found.spaces.values())))
    order = np.random.default_rng(seed).permutation(n)
    test, rest = np.split(order, [min(TEST, n // 3)])
    heads: dict[str, dict[str, Pipeline]] = {}
    for source, target in list(permutations(found.spaces, 2))[: args.pairs]:
        x, y = found.spaces[source], found.spaces[target]
        for key in keys(block, f"{group}: {source} → {target}", seed, len(rest), args):
            if key in done:
                continue
            if key.part == "stitching" and found.labels is not None and target not in heads:
                heads[target] = train_heads(y[rest], found.labels[rest])
            labels = np.zeros(0) if found.labels is None else found.labels[test]
            rows, everything = rest[: key.anchors], (x[rest], y[rest])
            split = Split(x[rows], y[rows], x[test], y[test], heads.get(target, {}), labels, seed, everything)
            start = time.process_time()
            values = PARTS[key.part](split)
            yield Cell(key, values, time.process_time() - start)


def keys(block: str, pair: str, seed: int, available: int, args: argparse.Namespace) -> Iterator[Key]:
    """Name the cells of one pair of spaces. Few anchors are always 20."""
    for part in args.only:
        for k in (20,) if part == "few" else args.anchors:
            if k <= available:
                yield Key(block, pair, k, seed, part)


if __name__ == "__main__":
    with working("quality"):
        main()
