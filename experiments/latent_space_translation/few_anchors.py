"""Few pairs and no pair: what is gained, and whether the gate tells the truth.

1. ``grow_pairs`` from 10, 20 and 50 known pairs over items that are present on one side only, half, or on both sides:
   MRR of fresh items with the known pairs alone, grown, and with 1,000 pairs. The gate is wrong if it says yes where
   growing made search worse, or no where growing would have gained .05.
2. ``align_unpaired`` with no pair at all, and what its detector says.

Settings were chosen on sentences (TREC) alone. The confirmation pairs are other encoders on other data: words, photos,
pictures and names of emoji.

    python -m experiments.latent_space_translation.few_anchors
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from experiments.data.groups import load_group

import relatent as rl
from relatent._terminal import working
from relatent.translate import few_pairs as growing

DEVELOPMENT = [
    ("trec", "minilm6", "para3"),
    ("trec", "usem3", "minilm6"),
    ("trec", "para3", "usem3"),
    ("trec", "potion128", "usem3"),
    ("trec", "minilm6", "potion128"),
    ("trec", "usem3", "glove"),
]
CONFIRMATION = [
    ("vocabulary", "spacy-300", "glove-50"),
    ("vocabulary", "glove-50", "spacy-300"),
    ("resnets", "resnet8", "resnet14"),
    ("resnets", "resnet14", "resnet8"),
    ("groceries", "lite0", "lite1"),
    ("groceries", "lite1", "lite0"),
    ("emoji", "google", "twitter"),
    ("emoji", "google", "usem3"),
]
PLANS = ((20, 0.0), (20, 1.0), (10, 0.5), (50, 0.5))
GAIN, CEILING, REACHED, TARGET_PAIRS = 0.05, 0.9, 0.7, 20

Pair = tuple[str, str, str]


@dataclass(frozen=True)
class Task:
    """Two pools of which the first ``known`` rows are paired, and fresh pairs to measure with."""

    x: np.ndarray
    y: np.ndarray
    known: int
    fresh: tuple[np.ndarray, np.ndarray]
    ceiling: tuple[np.ndarray, np.ndarray]

    @staticmethod
    def drawn(x: np.ndarray, y: np.ndarray, known: int, overlap: float, size: int, seed: int) -> Task:
        """Draw the pools; ``overlap`` is the share of the items that is present on both sides."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(x))
        fresh, rest = np.split(order, [min(1_000, len(x) // 4)])
        pairs, others = np.split(rest, [known])
        m = int(min(size - known, len(others) / (2 - overlap)))
        common = int(overlap * m)
        rows_x, rows_y = others[:m], np.concatenate([others[:common], others[m : 2 * m - common]])
        rows_x, rows_y = (np.concatenate([pairs, rng.permutation(r)]) for r in (rows_x, rows_y))
        paired = rest[:1_000]
        return Task(x[rows_x], y[rows_y], known, (x[fresh], y[fresh]), (x[paired], y[paired]))

    def score(self, x: np.ndarray, y: np.ndarray) -> float:
        """Return the MRR of the fresh pairs, with a translator fitted on the given pairs."""
        return rl.Translator("retrieval").fit(x, y).score(*self.fresh)


@dataclass(frozen=True)
class Outcome:
    """MRR of fresh items with the known pairs, with those grown whatever the gate says, and with 1,000 pairs."""

    pairs: int
    known: float
    grown: float
    ceiling: float
    said: bool
    seconds: float

    @property
    def lied(self) -> bool:
        """Tell whether the gate said yes to a failure."""
        return self.said and self.grown < self.known

    @property
    def missed(self) -> bool:
        """Tell whether the gate said no to a success."""
        return not self.said and self.gained

    @property
    def verdict(self) -> str:
        """Return what the gate said, or how it was wrong."""
        return "LIE" if self.lied else "missed" if self.missed else "yes" if self.said else "no"

    @property
    def gained(self) -> bool:
        """Tell whether growing is a success."""
        return self.grown >= self.known + GAIN


def grow(task: Task) -> Outcome:
    """Grow, and grow again with the gate held open where it said no."""
    rows = np.arange(task.known)
    start = time.process_time()
    found = rl.grow_pairs(task.x, task.y, (rows, rows))
    seconds = time.process_time() - start
    forced = found
    if not found.succeeded:  # what a gate refuses can only be seen behind it
        with patch.object(growing, "_is_safe", return_value=True):
            forced = rl.grow_pairs(task.x, task.y, (rows, rows))
    before, ceiling = task.score(task.x[rows], task.y[rows]), task.score(*task.ceiling)
    return Outcome(task.known, before, forced.translator.score(*task.fresh), ceiling, found.succeeded, seconds)


def run(pairs: list[Pair], size: int, seed: int) -> list[Outcome]:
    """Grow by every plan for every pair of spaces, and print a line for each."""
    print(f"{'pair':44} known shared   alone   grown   1,000   gate   CPU s")
    outcomes = []
    for group, a, b in pairs:
        spaces = load_group(group).spaces
        for known, overlap in PLANS:
            o = grow(Task.drawn(spaces[a], spaces[b], known, overlap, size, seed))
            figures = f"{o.known:7.3f} {o.grown:7.3f} {o.ceiling:7.3f} {o.verdict:>6} {o.seconds:7.0f}"
            print(f"{group + ': ' + a + ' → ' + b:44} {known:5} {overlap:6.0%} {figures}", flush=True)
            outcomes.append(o)
    missed, gained = sum(o.missed for o in outcomes), sum(o.gained for o in outcomes)
    print(f"gate: {sum(o.lied for o in outcomes)} lies in {len(outcomes)} tries, {missed} of {gained} successes missed")
    return outcomes


def align(pairs: list[Pair], size: int, seed: int) -> bool:
    """Align without a pair, items on both sides, and return whether the detector told the truth each time."""
    print(f"{'pair':44}   right  agreement  detector")
    honest = True
    for group, a, b in pairs:
        spaces = load_group(group).spaces
        rng = np.random.default_rng(seed)
        rows_x = rng.permutation(len(spaces[a]))[:size]
        rows_y = rng.permutation(rows_x)
        found = rl.translate.align_unpaired(spaces[a][rows_x], spaces[b][rows_y])
        right = float(np.mean(rows_x[found.rows_x] == rows_y[found.rows_y]))
        honest &= not found.succeeded or right > 0.5
        name, says = f"{group}: {a} → {b}", "yes" if found.succeeded else "no"
        print(f"{name:44} {right:7.3f} {found.agreement:10.2f}  {says:>8}", flush=True)
    return honest


def main() -> None:
    """Read, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2_500, help="rows a side, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("development", "confirmation"))
    parser.add_argument("--parts", default="12", help="which parts to run")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    honest = True
    for title, pairs in (("development", DEVELOPMENT), ("confirmation", CONFIRMATION)):
        if options.only in (None, title) and "1" in options.parts:
            print(f"grow_pairs, {title}")
            outcomes += run(pairs, options.size, options.seed)
        if options.only in (None, title) and "2" in options.parts:
            print(f"align_unpaired, {title}")
            honest &= align(pairs, options.size, options.seed)
    strong = [o for o in outcomes if o.pairs == TARGET_PAIRS and o.ceiling >= CEILING]
    reached = sum(o.grown >= REACHED for o in strong)
    print(f"20 pairs reach {REACHED} in {reached} of {len(strong)} tries where 1,000 pairs reach {CEILING}")
    claims = {
        "the gate never says yes to a failure": not any(o.lied for o in outcomes),
        "at most a fifth of the successes is missed": sum(o.missed for o in outcomes)
        <= 0.2 * sum(o.gained for o in outcomes),
        "the detector never says yes where most matches are wrong": honest,
        "20 pairs are enough for at least half of the strong pairs": reached >= len(strong) / 2,
    }
    for claim, holds in claims.items():
        print(f"{claim}: {'YES' if holds else 'NO'}")
    sys.exit(0 if all(claims.values()) else 1)


if __name__ == "__main__":
    with working("few_anchors"):
        main()
